// The decoder is a SAX handler that fills the structs directly: a document tree of a large manifest would
// need ten times the memory, and the bytes come from machines that nobody vouches for. What the handler
// cannot see (missing and repeated keys, order, white space) shows when the result is written again and
// compared.
#include <nlohmann/json.hpp>
#include <utility>

#include "checkpoints/manifest.hpp"

namespace gf::checkpoints {

namespace {

using json = nlohmann::json;

enum class In : std::uint8_t {
    nothing,
    root,
    directories,
    directory,
    files,
    file,
    file_chunks,
    file_chunk,
    packs,
    pack,
    pack_chunks,
    pack_chunk,
    symlinks,
    symlink
};

class Reader final : public nlohmann::json_sax<json> {
 public:
    Manifest m;
    std::string error;

    bool null() override { return refuse("null"); }
    bool number_float(double /*value*/, const std::string& /*text*/) override {
        return refuse("a fraction or too large a number");
    }
    bool binary(binary_t& /*value*/) override { return refuse("binary data"); }
    bool boolean(bool value) override {
        if (in_ != In::pack_chunk || key_ != "zstd") return refuse("true or false");
        m.packs.back().chunks.back().zstd = value;
        return true;
    }
    bool number_unsigned(std::uint64_t value) override {
        if (value > static_cast<std::uint64_t>(INT64_MAX)) return refuse("too large a number");
        return number_integer(static_cast<std::int64_t>(value));
    }
    bool number_integer(std::int64_t value) override {
        switch (in_) {
            case In::root:
                if (key_ == "attempt") return narrow(value, m.attempt);
                if (key_ == "chunk_bytes")
                    return value == kChunkBytes || refuse("a chunk size that format 1 does not have");
                if (key_ == "created_at_ms") return set(value, m.created_at_ms);
                if (key_ == "format")
                    return value == kManifestFormat || refuse("a format version that is not known");
                if (key_ == "step") return set(value, m.step);
                break;
            case In::directory:
                if (key_ == "mode") return narrow(value, m.directories.back().mode);
                if (key_ == "mtime_ns") return set(value, m.directories.back().mtime_ns);
                break;
            case In::file:
                if (key_ == "mode") return narrow(value, m.files.back().mode);
                if (key_ == "mtime_ns") return set(value, m.files.back().mtime_ns);
                if (key_ == "size") return set(value, m.files.back().size);
                break;
            case In::file_chunk:
                if (key_ == "size") return set(value, m.files.back().chunks.back().size);
                break;
            case In::pack:
                if (key_ == "attempt") return narrow(value, m.packs.back().attempt);
                if (key_ == "size") return set(value, m.packs.back().size);
                break;
            case In::pack_chunk:
                if (key_ == "offset") return set(value, m.packs.back().chunks.back().offset);
                if (key_ == "size") return set(value, m.packs.back().chunks.back().size);
                if (key_ == "stored_size") return set(value, m.packs.back().chunks.back().stored_size);
                break;
            case In::symlink:
                if (key_ == "mtime_ns") return set(value, m.symlinks.back().mtime_ns);
                break;
            case In::nothing:
            case In::directories:
            case In::files:
            case In::file_chunks:
            case In::packs:
            case In::pack_chunks:
            case In::symlinks:
                break;
        }
        return refuse("a number");
    }
    bool string(std::string& value) override {
        switch (in_) {
            case In::root:
                if (key_ == "job") return short_text(value, m.job);
                if (key_ == "task") return short_text(value, m.task);
                if (key_ == "kind") {
                    if (value != "checkpoint" && value != "output") return refuse("an unknown kind");
                    m.kind = value == "output" ? ManifestKind::output : ManifestKind::checkpoint;
                    return true;
                }
                break;
            case In::directory:
                return text(value, "path", m.directories.back().path);
            case In::file:
                if (key_ == "sha256") return hash(value, m.files.back().sha256);
                return text(value, "path", m.files.back().path);
            case In::file_chunk:
                if (key_ == "sha256") return hash(value, m.files.back().chunks.back().sha256);
                break;
            case In::pack:
                if (key_ == "id") return hash(value, m.packs.back().id);
                break;
            case In::pack_chunk:
                if (key_ == "sha256") return hash(value, m.packs.back().chunks.back().sha256);
                break;
            case In::symlink:
                if (key_.starts_with("path")) return text(value, "path", m.symlinks.back().path);
                return text(value, "target", m.symlinks.back().target);
            case In::nothing:
            case In::directories:
            case In::files:
            case In::file_chunks:
            case In::packs:
            case In::pack_chunks:
            case In::symlinks:
                break;
        }
        return refuse("text");
    }
    bool key(std::string& name) override {
        key_ = name;
        return true;
    }
    bool start_object(std::size_t /*count*/) override {
        switch (in_) {
            case In::nothing:
                in_ = In::root;
                return true;
            case In::directories:
                in_ = In::directory;
                return entry(m.directories);
            case In::files:
                in_ = In::file;
                return entry(m.files);
            case In::file_chunks:
                in_ = In::file_chunk;
                m.files.back().chunks.emplace_back();
                return true;
            case In::packs:
                in_ = In::pack;
                m.packs.emplace_back();
                return true;
            case In::pack_chunks:
                in_ = In::pack_chunk;
                m.packs.back().chunks.emplace_back();
                return true;
            case In::symlinks:
                in_ = In::symlink;
                return entry(m.symlinks);
            case In::root:
            case In::directory:
            case In::file:
            case In::file_chunk:
            case In::pack:
            case In::pack_chunk:
            case In::symlink:
                break;
        }
        return refuse("an object");
    }
    bool end_object() override {
        switch (in_) {
            case In::root:
                in_ = In::nothing;
                break;
            case In::directory:
                in_ = In::directories;
                break;
            case In::file:
                in_ = In::files;
                break;
            case In::file_chunk:
                in_ = In::file_chunks;
                break;
            case In::pack:
                in_ = In::packs;
                break;
            case In::pack_chunk:
                in_ = In::pack_chunks;
                break;
            case In::symlink:
                in_ = In::symlinks;
                break;
            case In::nothing:
            case In::directories:
            case In::files:
            case In::file_chunks:
            case In::packs:
            case In::pack_chunks:
            case In::symlinks:
                return refuse("an end");
        }
        return true;
    }
    bool start_array(std::size_t /*count*/) override {
        if (in_ == In::root && key_ == "directories")
            in_ = In::directories;
        else if (in_ == In::root && key_ == "files")
            in_ = In::files;
        else if (in_ == In::root && key_ == "packs")
            in_ = In::packs;
        else if (in_ == In::root && key_ == "symlinks")
            in_ = In::symlinks;
        else if (in_ == In::file && key_ == "chunks")
            in_ = In::file_chunks;
        else if (in_ == In::pack && key_ == "chunks")
            in_ = In::pack_chunks;
        else
            return refuse("a list");
        return true;
    }
    bool end_array() override {
        switch (in_) {
            case In::directories:
            case In::files:
            case In::packs:
            case In::symlinks:
                in_ = In::root;
                return true;
            case In::file_chunks:
                in_ = In::file;
                return true;
            case In::pack_chunks:
                in_ = In::pack;
                return true;
            case In::nothing:
            case In::root:
            case In::directory:
            case In::file:
            case In::file_chunk:
            case In::pack:
            case In::pack_chunk:
            case In::symlink:
                break;
        }
        return refuse("an end");
    }
    bool parse_error(std::size_t position, const std::string& /*token*/,
                     const json::exception& /*why*/) override {
        error = "not JSON at byte " + std::to_string(position);
        return false;
    }

 private:
    bool refuse(std::string_view what) {
        error = "unexpected: ";
        error += what;
        error += " under \"";
        for (const char c : key_.substr(0, 40)) error += c >= 0x20 && c < 0x7F ? c : '?';
        error += '"';
        return false;
    }
    template <class Entry>
    bool entry(std::vector<Entry>& list) {
        if (++entries_ > kEntriesMax) return refuse("more than 1000000 entries");
        list.emplace_back();
        return true;
    }
    static bool set(std::int64_t value, std::int64_t& to) {
        to = value;
        return true;
    }
    template <class Int>
    bool narrow(std::int64_t value, Int& to) {
        if (!std::in_range<Int>(value)) return refuse("a number out of range");
        to = static_cast<Int>(value);
        return true;
    }
    bool short_text(const std::string& value, std::string& to) {
        if (value.size() > 64) return refuse("a long text");
        to = value;
        return true;
    }
    bool hash(const std::string& value, Digest& to) {
        const auto digest = Digest::from_hex(value);
        if (!digest) return refuse("something that is not a SHA-256");
        to = *digest;
        return true;
    }
    bool text(const std::string& value, std::string_view name, std::string& to) {
        if (key_ == name) {
            to = value;
            return true;
        }
        if (key_ != std::string{name} + "_hex" || value.size() % 2 != 0) return refuse("text");
        to.clear();
        for (std::size_t i = 0; i < value.size(); i += 2) {
            unsigned byte = 0;
            for (const char c : {value[i], value[i + 1]}) {
                if (c >= '0' && c <= '9')
                    byte = byte * 16 + static_cast<unsigned>(c - '0');
                else if (c >= 'a' && c <= 'f')
                    byte = byte * 16 + static_cast<unsigned>(c - 'a') + 10;
                else
                    return refuse("something that is not hexadecimal");
            }
            to += static_cast<char>(static_cast<unsigned char>(byte));
        }
        return true;
    }

    In in_{In::nothing};
    std::string key_;
    std::size_t entries_{0};
};

}  // namespace

Result<Manifest> decode_manifest(std::string_view bytes) {
    const auto bad = [](const std::string& message) {
        return fail(ErrorKind::invalid, "manifest: " + message);
    };
    if (bytes.size() > kManifestBytesMax) return bad("more than 64 MiB");
    Reader reader;
    if (!json::sax_parse(bytes.begin(), bytes.end(), &reader)) return bad(reader.error);
    auto again = encode_manifest(reader.m);
    if (!again) return fail(std::move(again).error());
    if (*again != bytes)
        return bad("not in the canonical form (an unknown, missing or repeated key, or white space)");
    return std::move(reader.m);
}

}  // namespace gf::checkpoints
