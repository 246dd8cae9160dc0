// Packs: up to 64 MiB of chunks in one file, with an index at the end, so that a pack can be checked and read
// without any manifest. The byte layout is in docs/checkpoint-format.md.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoints/manifest.hpp"

namespace gf::checkpoints {

inline constexpr std::uint32_t kPackFormat = 1;
inline constexpr std::int64_t kPackBytesMax = 64LL << 20;  // the whole file, header and index included

/// Compresses chunks with zstd where that pays (at least 5 % smaller), otherwise keeps them plain. One
/// context, reused; not for two threads at once.
class ChunkCodec {
 public:
    ChunkCodec();
    ~ChunkCodec();
    ChunkCodec(ChunkCodec&&) noexcept;
    ChunkCodec& operator=(ChunkCodec&&) noexcept;
    /// Compresses into `out`; true if `out` holds the zstd frame, false if the chunk is better stored plain.
    bool compress(std::string_view plain, std::string& out);
    /// The plain bytes of a stored chunk into `out`, with size and SHA-256 checked. Errors: `malformed`.
    Result<void> unpack(const PackedChunk& chunk, std::string_view stored, std::string& out);

 private:
    struct Contexts;
    std::unique_ptr<Contexts> contexts_;
};

/// Lays out one pack piece by piece; the bytes go to `write` in order and are hashed on the way.
class PackBuilder {
 public:
    using Write = std::function<Result<void>(std::string_view)>;
    explicit PackBuilder(Write write);
    /// True if a chunk of that many stored bytes still fits below kPackBytesMax. An empty pack takes any
    /// chunk.
    [[nodiscard]] bool fits(std::int64_t stored_size) const;
    [[nodiscard]] bool empty() const { return chunks_.empty(); }
    /// `stored` is what ChunkCodec made of the chunk. Errors: those of `write`.
    Result<void> add(const ChunkRef& chunk, std::string_view stored, bool zstd);
    /// Writes index and trailer. The entry has attempt 0: the caller sets it.
    Result<PackEntry> finish();

 private:
    Result<void> put(std::string_view bytes);
    Write write_;
    Sha256 all_;
    std::int64_t size_{0};
    std::vector<PackedChunk> chunks_;
};

/// Random access to the bytes of one pack.
using PackRead = std::function<Result<void>(std::int64_t offset, std::int64_t length, std::string& out)>;

/// The index of a pack of `size` bytes: header, trailer and index are read and checked, the chunks' bytes are
/// not. Errors: `malformed` (which region), or those of `read`.
Result<std::vector<PackedChunk>> read_pack_index(std::int64_t size, const PackRead& read);

/// Reads a whole pack: its SHA-256 must be `id` and every chunk must unpack to its own name. Errors:
/// `malformed`, or `read`'s.
Result<std::vector<PackedChunk>> verify_pack(const Digest& id, std::int64_t size, const PackRead& read);

}  // namespace gf::checkpoints
