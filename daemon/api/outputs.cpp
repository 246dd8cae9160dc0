// Published outputs: what files there are, and the bytes of one, put together from its packs with every chunk checked.
#include <algorithm>
#include <map>

#include "checkpoints/pack.hpp"
#include "checkpoints/store.hpp"
#include "daemon/api/handlers.hpp"
#include "daemon/api/json_views.hpp"

namespace gf::api {
namespace {

using checkpoints::Digest;
using checkpoints::FileEntry;
using checkpoints::Manifest;

Result<Manifest> load(checkpoints::CheckpointStore& store, const OutputRecord& row) {
    const auto digest = Digest::from_hex(row.manifest_sha256);
    if (!digest) return fail(ErrorKind::io, "the output's row has no manifest");
    const auto bytes = store.get_manifest(row.job, *digest);
    if (!bytes) return fail(ErrorKind::io, "the manifest of the output: " + bytes.error().message);
    return checkpoints::decode_manifest(*bytes);
}

/// One unreserved character stays, everything else is percent-encoded; '/' separates.
std::string encoded_path(std::string_view path) {
    static constexpr std::string_view digits = "0123456789ABCDEF";
    std::string out;
    for (const char c : path) {
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
                           c == '_' || c == '~' || c == '/';
        if (plain) {
            out += c;
        } else {
            out += '%';
            out += digits[static_cast<unsigned char>(c) >> 4U];
            out += digits[static_cast<unsigned char>(c) & 15U];
        }
    }
    return out;
}

Json file_view(const OutputRecord& row, const FileEntry& file, bool many) {
    Json out;
    out["path"] = file.path;
    out["bytes"] = file.size;
    out["size"] = file.size;
    out["sha256"] = file.sha256.hex();
    out["executable"] = (file.mode & 0100U) != 0;
    out["task"] = row.task.get();
    out["attempt"] = row.attempt;
    out["published_at"] = rfc3339(row.published_at);
    out["url"] = "/v1/jobs/" + row.job.get() + "/outputs/files/" + encoded_path(file.path) +
                 (many ? "?task=" + row.task.get() : std::string());
    return out;
}

class OutputFile final : public http::BodyStream {
 public:
    OutputFile(checkpoints::CheckpointStore& store, JobId job, Manifest manifest, std::size_t file)
        : manifest_(std::move(manifest)), file_(manifest_.files[file]), source_(store, std::move(job)) {
        for (const auto& pack : manifest_.packs)
            for (const auto& chunk : pack.chunks) where_.emplace(chunk.sha256, std::pair(&pack, &chunk));
    }

    State next(std::string& out) override {
        if (at_ == file_.chunks.size()) return State::end;
        const auto found = where_.find(file_.chunks[at_].sha256);
        if (found == where_.end()) return State::broken;  // the manifest was checked: cannot be
        const auto& [pack, chunk] = found->second;
        if (!source_.read(*pack, chunk->offset, chunk->stored_size, stored_)) return State::broken;
        if (!codec_.unpack(*chunk, stored_, plain_)) return State::broken;
        out += plain_;
        return ++at_ == file_.chunks.size() ? State::end : State::more;
    }
    [[nodiscard]] bool blocking() const override { return true; }

 private:
    Manifest manifest_;
    const FileEntry& file_;
    checkpoints::StoreSource source_;
    checkpoints::ChunkCodec codec_;
    std::map<Digest, std::pair<const checkpoints::PackEntry*, const checkpoints::PackedChunk*>> where_;
    std::size_t at_{0};
    std::string stored_;
    std::string plain_;
};

/// The job's outputs, or nothing when it was answered already.
std::optional<std::vector<OutputRecord>> outputs_of(const Call& call) {
    const auto job = find_job(call);
    if (!job) return std::nullopt;
    if (call.context().options.store == nullptr) {
        call.answer(http::problem(503, "the daemon has no store for outputs"));
        return std::nullopt;
    }
    auto rows = call.reader().outputs(job->id);
    if (!rows) {
        fail_with(call, rows.error());
        return std::nullopt;
    }
    return *std::move(rows);
}

}  // namespace

void list_outputs(Call call) {
    const auto page = page_of(call.request);
    if (!page) return fail_with(call, page.error());
    const auto given = number_of_cursor(*page);
    if (!given) return fail_with(call, given.error());
    auto rows = outputs_of(call);
    if (!rows) return;
    in_background(std::move(call), [rows = *std::move(rows), page = *page, from = static_cast<std::size_t>(*given)](const Call& c, Reader&) {
        const auto to = from + static_cast<std::size_t>(page.limit);
        std::vector<Json> items;
        std::size_t seen = 0;
        for (const auto& row : rows) {
            const auto manifest = load(*c.context().options.store, row);
            if (!manifest) return http::problem(500, manifest.error().message);
            for (const auto& file : manifest->files) {
                if (seen >= from && seen < to) items.push_back(file_view(row, file, rows.size() > 1));
                ++seen;
            }
        }
        return http::json(200, dump(list_view(std::move(items), seen > to ? std::to_string(to) : "")));
    });
}

void read_output(Call call) {
    auto rows = outputs_of(call);
    if (!rows) return;
    const auto path = call.path.at(1);
    const auto* task = call.request.query_value("task");
    std::erase_if(*rows, [task](const OutputRecord& row) { return task != nullptr && row.task.get() != *task; });
    in_background(std::move(call), [rows = *std::move(rows), path](const Call& c, Reader&) {
        auto& store = *c.context().options.store;
        for (const auto& row : rows) {
            auto manifest = load(store, row);
            if (!manifest) return http::problem(500, manifest.error().message);
            const auto& files = manifest->files;
            const auto found = std::ranges::find(files, path, &FileEntry::path);
            if (found == files.end()) continue;
            const auto index = static_cast<std::size_t>(found - files.begin());
            http::Response response;
            response.content_type = "application/octet-stream";
            response.headers.emplace_back("ETag", '"' + found->sha256.hex() + '"');
            response.stream_length = found->size;
            response.stream = std::make_unique<OutputFile>(store, row.job, *std::move(manifest), index);
            return response;
        }
        return http::problem(404, "the job has no output file " + path);
    });
}

}  // namespace gf::api
