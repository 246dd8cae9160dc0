// The plain chunks of a manifest's files, in the order in which they are restored, read in large pieces and
// checked.
#pragma once
#include <string>
#include <vector>

#include "checkpoints/pack.hpp"
#include "checkpoints/restore.hpp"

namespace gf::checkpoints {

inline constexpr std::int64_t kReadBytesMax = 16LL << 20;  // one call to the source

/// Files in restore order: oldest first, by path where the times are equal.
[[nodiscard]] std::vector<const FileEntry*> restore_order(const Manifest& manifest);

class Contents {
 public:
    /// Both must outlive this. The manifest must be valid.
    Contents(const Manifest& manifest, PackSource& source);
    /// The next chunk's plain bytes, size and hash checked, in `out`. Chunks that follow one another in a
    /// pack come with one read. Called once per chunk of restore_order. Errors: `malformed` = broken or
    /// missing, others from the source.
    Result<void> next(const FileEntry& file, std::string& out);

 private:
    struct Ref {
        const PackEntry* pack{nullptr};
        const PackedChunk* chunk{nullptr};
    };
    Result<void> fetch(const FileEntry& file);
    PackSource& source_;
    ChunkCodec codec_;
    std::vector<Ref> refs_;
    std::size_t at_{0};
    const PackEntry* buffered_{nullptr};
    std::int64_t buffer_offset_{0};
    std::string buffer_;
};

}  // namespace gf::checkpoints
