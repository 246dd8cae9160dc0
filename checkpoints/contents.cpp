#include "checkpoints/contents.hpp"

#include <algorithm>

namespace gf::checkpoints {

namespace {

Error broken(const PackEntry& pack, const FileEntry& file, const std::string& why) {
    return Error{.kind = ErrorKind::malformed,
                 .message = "pack " + pack.id.hex() + " of attempt " + std::to_string(pack.attempt) +
                            ", needed for file " + file.path + ": " + why};
}

}  // namespace

std::vector<const FileEntry*> restore_order(const Manifest& manifest) {
    std::vector<const FileEntry*> files;
    files.reserve(manifest.files.size());
    for (const FileEntry& f : manifest.files) files.push_back(&f);
    std::ranges::sort(files, {},
                      [](const FileEntry* f) { return std::pair{f->mtime_ns, std::string_view{f->path}}; });
    return files;
}

Contents::Contents(const Manifest& manifest, PackSource& source) : source_(source) {
    struct Place {
        const Digest* digest;
        Ref ref;
    };
    std::vector<Place> places;
    for (const PackEntry& p : manifest.packs)
        for (const PackedChunk& c : p.chunks) places.push_back({&c.sha256, {&p, &c}});
    std::ranges::sort(places, {}, [](const Place& p) -> const Digest& { return *p.digest; });
    for (const FileEntry* f : restore_order(manifest)) {
        for (const ChunkRef& c : f->chunks) {
            const auto at = std::ranges::lower_bound(
                places, c.sha256, {}, [](const Place& p) -> const Digest& { return *p.digest; });
            GF_ASSERT(at != places.end());
            GF_ASSERT(*at->digest == c.sha256);
            refs_.push_back(at->ref);
        }
    }
}

Result<void> Contents::fetch(const FileEntry& file) {
    const Ref& first = refs_[at_];
    const std::int64_t start = first.chunk->offset;
    std::int64_t end = start + first.chunk->stored_size;
    for (std::size_t i = at_ + 1; i < refs_.size() && refs_[i].pack == first.pack; ++i) {
        const PackedChunk& c = *refs_[i].chunk;
        if (c.offset < start || c.offset > end || c.offset + c.stored_size - start > kReadBytesMax) break;
        end = std::max(end, c.offset + c.stored_size);
    }
    buffered_ = nullptr;
    if (auto got = source_.read(*first.pack, start, end - start, buffer_); !got) {
        if (got.error().kind == ErrorKind::not_found) return fail(broken(*first.pack, file, "is not there"));
        return got;
    }
    if (static_cast<std::int64_t>(buffer_.size()) != end - start)
        return fail(broken(*first.pack, file, "is cut short"));
    buffered_ = first.pack;
    buffer_offset_ = start;
    return {};
}

Result<void> Contents::next(const FileEntry& file, std::string& out) {
    GF_ASSERT(at_ < refs_.size());
    const Ref& ref = refs_[at_];
    const auto buffer_end = buffer_offset_ + static_cast<std::int64_t>(buffer_.size());
    const bool have = buffered_ == ref.pack && ref.chunk->offset >= buffer_offset_ &&
                      ref.chunk->offset + ref.chunk->stored_size <= buffer_end;
    if (!have)
        if (auto got = fetch(file); !got) return got;
    const std::string_view stored =
        std::string_view{buffer_}.substr(static_cast<std::size_t>(ref.chunk->offset - buffer_offset_),
                                         static_cast<std::size_t>(ref.chunk->stored_size));
    if (auto good = codec_.unpack(*ref.chunk, stored, out); !good)
        return fail(broken(*ref.pack, file, good.error().message));
    ++at_;
    return {};
}

}  // namespace gf::checkpoints
