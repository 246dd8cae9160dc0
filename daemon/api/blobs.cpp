#include "daemon/api/blobs.hpp"

#include <sys/stat.h>

#include <filesystem>
#include <vector>

#include "checkpoints/digest.hpp"
#include "daemon/api/handlers.hpp"
#include "daemon/api/json_views.hpp"
#include "daemon/http/files.hpp"
#include "daemon/log.hpp"

namespace gf::api {
namespace {

std::optional<std::int64_t> size_of(const std::string& path) {
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
    return static_cast<std::int64_t>(info.st_size);
}

std::string body_of(const std::string& sha256, std::int64_t bytes) {
    Json out;
    out["sha256"] = sha256;
    out["bytes"] = bytes;
    return dump(out);
}

}  // namespace

std::string blob_path(const std::string& data_dir, const std::string& sha256) { return data_dir + "/blobs/" + sha256; }

bool blob_is_there(const Context& context, const std::string& sha256) {
    return size_of(blob_path(context.options.data_dir, sha256)).has_value();
}

void remove_unfinished_blobs(const std::string& data_dir) {
    std::error_code failed;
    std::vector<std::filesystem::path> unfinished;
    for (std::filesystem::directory_iterator it(data_dir + "/blobs", failed), end; !failed && it != end; it.increment(failed))
        if (it->path().filename().string().find(http::kUnfinished) != std::string::npos) unfinished.push_back(it->path());
    for (const auto& path : unfinished) {
        std::filesystem::remove(path, failed);
        if (failed) log::warn("blobs.not_removed", {{"path", path.string()}, {"reason", failed.message()}});
    }
}

Result<std::unique_ptr<http::BodySink>> begin_blob(const Context& context, const std::string& sha256) {
    if (!checkpoints::Digest::from_hex(sha256))
        return fail(Error{.kind = ErrorKind::malformed,
                          .message = "a blob is named by the SHA-256 of its bytes: 64 lower-case hexadecimal digits",
                          .field = "sha256"});
    return std::make_unique<http::FileUpload>(blob_path(context.options.data_dir, sha256), sha256);
}

void put_blob(Call call) {
    const auto sha256 = call.path.at(0);
    const bool there = blob_is_there(call.context(), sha256);
    const auto sink = std::shared_ptr<http::BodySink>(std::move(call.request.sink));
    in_background(std::move(call), [sink, sha256, there](const Call&, Reader&) {
        auto* upload = dynamic_cast<http::FileUpload*>(sink.get());
        GF_ASSERT(upload != nullptr);
        if (const auto done = upload->finish(); !done) return http::problem(done.error());
        auto response = http::json(there ? 200 : 201, body_of(sha256, upload->size()));
        response.headers.emplace_back("Location", "/v1/blobs/" + sha256);
        return response;
    });
}

void head_blob(Call call) {
    const auto& sha256 = call.path.at(0);
    if (!checkpoints::Digest::from_hex(sha256) || !blob_is_there(call.context(), sha256))
        return call.answer(http::problem(404, "there is no blob " + sha256));
    answer_json(call, 200, body_of(sha256, size_of(blob_path(call.context().options.data_dir, sha256)).value_or(0)));
}

}  // namespace gf::api
