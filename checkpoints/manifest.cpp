#include "checkpoints/manifest.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "checkpoints/pack.hpp"
#include "model/id.hpp"

namespace gf::checkpoints {

namespace {

using Failed = std::unexpected<Error>;
Failed bad(std::string message) {
    return fail(ErrorKind::invalid, "manifest: " + std::move(message));
}

/// A path for people: control and non-ASCII bytes shown as \xNN, cut at 200 bytes.
std::string shown(std::string_view path) {
    static constexpr std::string_view kDigits = "0123456789abcdef";
    std::string out{"\""};
    for (const char c : path.substr(0, 200)) {
        const auto b = static_cast<std::uint8_t>(c);
        if (b >= 0x20 && b < 0x7F) {
            out += c;
        } else {
            out += "\\x";
            out += kDigits[b >> 4U];
            out += kDigits[b & 15U];
        }
    }
    return out + (path.size() > 200 ? "…\"" : "\"");
}

/// Empty if `path` is safe to create below a folder, otherwise what is wrong with it.
std::string_view path_fault(std::string_view path) {
    if (path.empty()) return "is empty";
    if (path.size() > kPathBytesMax) return "is longer than 4096 bytes";
    if (path.find('\0') != std::string_view::npos) return "contains a NUL";
    std::size_t start = 0;
    while (start <= path.size()) {
        const std::size_t end = std::min(path.find('/', start), path.size());
        const std::string_view part = path.substr(start, end - start);
        if (part.empty()) return "has an empty part or begins or ends with a slash";
        if (part == "." || part == "..") return "has a part that is . or ..";
        if (part.size() > 255) return "has a part longer than 255 bytes";
        start = end + 1;
    }
    return {};
}

std::string_view parent_of(std::string_view path) {
    const std::size_t slash = path.rfind('/');
    return slash == std::string_view::npos ? std::string_view{} : path.substr(0, slash);
}

template <class Entry>
bool has_path(const std::vector<Entry>& sorted, std::string_view path) {
    const auto at = std::ranges::lower_bound(sorted, path, std::less<std::string_view>{},
                                             [](const Entry& e) { return std::string_view{e.path}; });
    return at != sorted.end() && at->path == path;
}

template <class Entry>
Result<void> check_paths(const Manifest& m, const std::vector<Entry>& entries, std::string_view what,
                         bool root_allowed) {
    for (std::size_t i = 0; i < entries.size(); ++i) {
        const std::string& path = entries[i].path;
        const std::string name = std::string{what} + " " + shown(path);
        if (i > 0 && entries[i - 1].path >= path) return bad(name + " is repeated or not in order");
        if (path.empty() && root_allowed) continue;
        if (const auto fault = path_fault(path); !fault.empty()) return bad(name + " " + std::string{fault});
        if (!has_path(m.directories, parent_of(path)))
            return bad(name + " lies in a folder that is not listed");
    }
    return {};
}

Result<void> check_file(const FileEntry& f) {
    const std::string name = "file " + shown(f.path);
    if (f.size < 0 || f.size > kFileBytesMax) return bad(name + " has an impossible size");
    const auto count = static_cast<std::size_t>((f.size + kChunkBytes - 1) / kChunkBytes);
    if (f.chunks.size() != count) return bad(name + " has a wrong number of chunks for its size");
    for (std::size_t i = 0; i < count; ++i) {
        const std::int64_t expected =
            i + 1 < count ? kChunkBytes : f.size - static_cast<std::int64_t>(i) * kChunkBytes;
        if (f.chunks[i].size != expected) return bad(name + " has chunks whose sizes do not add up");
    }
    if (count == 0 && f.sha256 != sha256({}))
        return bad(name + " is empty, but its hash is not that of nothing");
    if (count == 1 && f.sha256 != f.chunks[0].sha256) return bad(name + " has one chunk with another hash");
    return {};
}

Result<void> check_pack(const PackEntry& p, int attempt_max) {
    const std::string name = "pack " + p.id.hex();
    if (p.attempt < 1 || p.attempt > attempt_max)
        return bad(name + " is of attempt " + std::to_string(p.attempt));
    if (p.size < 1 || p.size > kPackBytesMax) return bad(name + " has an impossible size");
    if (p.chunks.empty()) return bad(name + " is listed without a chunk");
    std::int64_t free_from = 16;  // after the header
    for (const PackedChunk& c : p.chunks) {
        if (c.size < 1 || c.size > kChunkBytes || c.stored_size < 1 || c.stored_size > c.size ||
            (!c.zstd && c.stored_size != c.size))
            return bad(name + " has a chunk with impossible sizes");
        if (c.offset < free_from || c.offset > p.size - c.stored_size)
            return bad(name + " has chunks that overlap or lie outside");
        free_from = c.offset + c.stored_size;
    }
    return {};
}

/// Every chunk of a file lies in exactly one pack, and no pack lists a chunk that no file has.
Result<void> check_places(const Manifest& m) {
    std::vector<std::pair<Digest, std::int64_t>> packed;
    for (const PackEntry& p : m.packs)
        for (const PackedChunk& c : p.chunks) packed.emplace_back(c.sha256, c.size);
    std::ranges::sort(packed);
    for (std::size_t i = 1; i < packed.size(); ++i)
        if (packed[i - 1].first == packed[i].first)
            return bad("chunk " + packed[i].first.hex() + " is listed in two places");
    std::vector<bool> used(packed.size(), false);
    for (const FileEntry& f : m.files) {
        for (const ChunkRef& c : f.chunks) {
            const auto at =
                std::ranges::lower_bound(packed, c.sha256, {}, &std::pair<Digest, std::int64_t>::first);
            if (at == packed.end() || at->first != c.sha256)
                return bad("file " + shown(f.path) + " needs chunk " + c.sha256.hex() +
                           ", which is in no listed pack");
            if (at->second != c.size) return bad("chunk " + c.sha256.hex() + " has two sizes");
            used[static_cast<std::size_t>(at - packed.begin())] = true;
        }
    }
    if (const auto unused = std::ranges::find(used, false); unused != used.end())
        return bad("chunk " + packed[static_cast<std::size_t>(unused - used.begin())].first.hex() +
                   " is listed but in no file");
    return {};
}

bool is_id(std::string_view text, std::string_view prefix) {
    return text.starts_with(prefix) && id_body(text).size() == 26;
}

}  // namespace

std::int64_t total_bytes(const Manifest& m) {
    std::int64_t sum = 0;
    for (const FileEntry& f : m.files) sum += f.size;
    return sum;
}

Result<void> validate_manifest(const Manifest& m) {
    if (!is_id(m.job, "job_")) return bad("job " + shown(m.job) + " is not a job id");
    if (!is_id(m.task, "tsk_")) return bad("task " + shown(m.task) + " is not a task id");
    if (m.attempt < 1) return bad("attempt must be 1 or more");
    if (m.step < 0) return bad("step must not be negative");
    if (m.created_at_ms < 0) return bad("created_at_ms must not be negative");
    if (m.files.size() + m.directories.size() + m.symlinks.size() > kEntriesMax)
        return bad("more than 1000000 entries");
    if (m.directories.empty() || !m.directories.front().path.empty())
        return bad("the root folder is not listed");

    if (auto ok = check_paths(m, m.directories, "directory", true); !ok) return ok;
    if (auto ok = check_paths(m, m.files, "file", false); !ok) return ok;
    if (auto ok = check_paths(m, m.symlinks, "symlink", false); !ok) return ok;
    for (const DirectoryEntry& d : m.directories)
        if (d.mode > 0777)
            return bad("directory " + shown(d.path) + " has more than permission bits in its mode");
    std::int64_t total = 0;
    for (const FileEntry& f : m.files) {
        if (f.mode > 0777) return bad("file " + shown(f.path) + " has more than permission bits in its mode");
        if (has_path(m.directories, f.path)) return bad("file " + shown(f.path) + " is a directory too");
        if (auto ok = check_file(f); !ok) return ok;
        total += f.size;
        if (total > kFileBytesMax) return bad("the files are more than 2^50 bytes together");
    }
    for (const SymlinkEntry& s : m.symlinks) {
        if (has_path(m.directories, s.path) || has_path(m.files, s.path))
            return bad("symlink " + shown(s.path) + " is another entry too");
        if (s.target.empty() || s.target.size() > kPathBytesMax || s.target.find('\0') != std::string::npos)
            return bad("symlink " + shown(s.path) + " has an impossible target");
    }
    for (std::size_t i = 0; i < m.packs.size(); ++i) {
        const PackEntry& p = m.packs[i];
        if (i > 0 && std::pair{m.packs[i - 1].attempt, m.packs[i - 1].id} >= std::pair{p.attempt, p.id})
            return bad("pack " + p.id.hex() + " is repeated or not in order");
        if (auto ok = check_pack(p, m.attempt); !ok) return ok;
    }
    return check_places(m);
}

namespace {

/// Appends to one string. The keys come in sorted order because the code names them so; the decoder compares
/// its input with this text byte for byte, which is what makes the form canonical.
class Writer {
 public:
    std::string out;

    void key(std::string_view name) {
        if (out.back() != '{') out += ',';
        out += '"';
        out += name;
        out += "\":";
    }
    void integer(std::string_view name, std::int64_t value) {
        key(name);
        out += std::to_string(value);
    }
    void hash(std::string_view name, const Digest& value) {
        key(name);
        out += '"';
        out += value.hex();
        out += '"';
    }
    /// Under `name` where the bytes are UTF-8, else under `name`_hex.
    void bytes(std::string_view name, const std::string& value) {
        try {
            const std::string quoted = nlohmann::json(value).dump();
            key(name);
            out += quoted;
        } catch (const nlohmann::json::exception&) {
            static constexpr std::string_view kDigits = "0123456789abcdef";
            key(std::string{name} + "_hex");
            out += '"';
            for (const char c : value) {
                out += kDigits[static_cast<std::uint8_t>(c) >> 4U];
                out += kDigits[static_cast<std::uint8_t>(c) & 15U];
            }
            out += '"';
        }
    }
    template <class List, class One>
    void list(std::string_view name, const List& entries, One one) {
        key(name);
        out += '[';
        for (const auto& e : entries) {
            if (out.back() == '}') out += ',';
            out += '{';
            one(e);
            out += '}';
        }
        out += ']';
    }
};

std::string written(const Manifest& m) {
    Writer w;
    w.out = "{";
    w.integer("attempt", m.attempt);
    w.integer("chunk_bytes", kChunkBytes);
    w.integer("created_at_ms", m.created_at_ms);
    w.list("directories", m.directories, [&](const DirectoryEntry& d) {
        w.integer("mode", d.mode);
        w.integer("mtime_ns", d.mtime_ns);
        w.bytes("path", d.path);
    });
    w.list("files", m.files, [&](const FileEntry& f) {
        w.list("chunks", f.chunks, [&](const ChunkRef& c) {
            w.hash("sha256", c.sha256);
            w.integer("size", c.size);
        });
        w.integer("mode", f.mode);
        w.integer("mtime_ns", f.mtime_ns);
        w.bytes("path", f.path);
        w.hash("sha256", f.sha256);
        w.integer("size", f.size);
    });
    w.integer("format", kManifestFormat);
    w.key("job");
    w.out += nlohmann::json(m.job).dump();
    w.key("kind");
    w.out += m.kind == ManifestKind::checkpoint ? "\"checkpoint\"" : "\"output\"";
    w.list("packs", m.packs, [&](const PackEntry& p) {
        w.integer("attempt", p.attempt);
        w.list("chunks", p.chunks, [&](const PackedChunk& c) {
            w.integer("offset", c.offset);
            w.hash("sha256", c.sha256);
            w.integer("size", c.size);
            w.integer("stored_size", c.stored_size);
            w.key("zstd");
            w.out += c.zstd ? "true" : "false";
        });
        w.hash("id", p.id);
        w.integer("size", p.size);
    });
    w.integer("step", m.step);
    w.list("symlinks", m.symlinks, [&](const SymlinkEntry& s) {
        w.integer("mtime_ns", s.mtime_ns);
        w.bytes("path", s.path);
        w.bytes("target", s.target);
    });
    w.key("task");
    w.out += nlohmann::json(m.task).dump();
    w.out += '}';
    return std::move(w.out);
}

}  // namespace

Result<std::string> encode_manifest(const Manifest& m) {
    if (auto ok = validate_manifest(m); !ok) return fail(std::move(ok).error());
    std::string out = written(m);
    if (out.size() > kManifestBytesMax)
        return bad("more than 64 MiB; keep fewer or larger files in the checkpoint");
    return out;
}

}  // namespace gf::checkpoints
