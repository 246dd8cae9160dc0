// Layout (little endian; docs/checkpoint-format.md):
//
//   header    16   magic "\x89GFPK\r\n\x1a", u32 format, u32 zero
//   chunks         stored bytes, one after the other, no gaps
//   index     56n  sha256[32], u64 offset, u32 stored size, u32 size, u8 codec (0 plain, 1 zstd), 7 zero
//   trailer   64   u64 index offset, u32 n, u32 format, sha256[32] of header + index, 8 zero, end magic
//
// The magic has a byte above 127 and both line ends, as PNG's has: a copy through a text channel shows
// at once.
#include "checkpoints/pack.hpp"

#include <zstd.h>

#include <cstring>

namespace gf::checkpoints {

namespace {

constexpr std::string_view kMagic{"\x89GFPK\r\n\x1a", 8};
constexpr std::string_view kEndMagic{"\x89GFPKEND", 8};
constexpr std::int64_t kHeaderBytes = 16;
constexpr std::int64_t kIndexBytes = 56;
constexpr std::int64_t kTrailerBytes = 64;
// The lowest level: weights compress by their exponents or not at all, and higher levels gained under 1 % at
// a third of the speed. The agent shares its CPU with a data loader.
constexpr int kZstdLevel = 1;

template <class Int>
void put_int(std::string& out, Int value) {
    for (std::size_t i = 0; i < sizeof(Int); ++i) out += static_cast<char>((value >> (8 * i)) & 0xFFU);
}
template <class Int>
Int get_int(std::string_view bytes, std::size_t at) {
    Int value = 0;
    for (std::size_t i = 0; i < sizeof(Int); ++i)
        value |= static_cast<Int>(static_cast<Int>(static_cast<std::uint8_t>(bytes[at + i])) << (8 * i));
    return value;
}
void put_digest(std::string& out, const Digest& d) {
    out.append(reinterpret_cast<const char*>(d.bytes.data()), d.bytes.size());
}
Digest get_digest(std::string_view bytes, std::size_t at) {
    Digest d;
    std::memcpy(d.bytes.data(), bytes.data() + at, d.bytes.size());
    return d;
}
std::string header() {
    std::string out{kMagic};
    put_int<std::uint32_t>(out, kPackFormat);
    put_int<std::uint32_t>(out, 0);
    return out;
}
bool all_zero(std::string_view bytes) {
    return bytes.find_first_not_of('\0') == std::string_view::npos;
}

}  // namespace

struct ChunkCodec::Contexts {
    ZSTD_CCtx* compress{ZSTD_createCCtx()};
    ZSTD_DCtx* decompress{ZSTD_createDCtx()};
    Contexts() {
        GF_ASSERT(compress != nullptr);
        GF_ASSERT(decompress != nullptr);
    }
    Contexts(const Contexts&) = delete;
    Contexts& operator=(const Contexts&) = delete;
    ~Contexts() {
        ZSTD_freeCCtx(compress);
        ZSTD_freeDCtx(decompress);
    }
};

ChunkCodec::ChunkCodec() : contexts_(std::make_unique<Contexts>()) {}
ChunkCodec::~ChunkCodec() = default;
ChunkCodec::ChunkCodec(ChunkCodec&&) noexcept = default;
ChunkCodec& ChunkCodec::operator=(ChunkCodec&&) noexcept = default;

bool ChunkCodec::compress(std::string_view plain, std::string& out) {
    out.resize(ZSTD_compressBound(plain.size()));
    const std::size_t n = ZSTD_compressCCtx(contexts_->compress, out.data(), out.size(), plain.data(),
                                            plain.size(), kZstdLevel);
    if (ZSTD_isError(n) != 0 || n >= plain.size() - plain.size() / 20) return false;
    out.resize(n);
    return true;
}

Result<void> ChunkCodec::unpack(const PackedChunk& chunk, std::string_view stored, std::string& out) {
    const auto broken = [&](std::string_view why) {
        return fail(ErrorKind::malformed, "chunk " + chunk.sha256.hex() + " " + std::string{why});
    };
    if (static_cast<std::int64_t>(stored.size()) != chunk.stored_size)
        return broken("has another stored size");
    if (chunk.size < 1 || chunk.size > kChunkBytes) return broken("has an impossible size");
    const auto size = static_cast<std::size_t>(chunk.size);
    if (chunk.zstd) {
        // The output is bounded by the declared size, so a frame that claims more (a "bomb") ends here as an
        // error.
        out.resize(size);
        const std::size_t n =
            ZSTD_decompressDCtx(contexts_->decompress, out.data(), size, stored.data(), stored.size());
        if (ZSTD_isError(n) != 0) return broken(std::string{"does not decompress: "} + ZSTD_getErrorName(n));
        if (n != size) return broken("decompresses to another size");
    } else {
        if (stored.size() != size) return broken("is plain, but its sizes differ");
        out.assign(stored);
    }
    if (sha256(out) != chunk.sha256) return broken("has other content than its name says");
    return {};
}

PackBuilder::PackBuilder(Write write) : write_(std::move(write)) {}

bool PackBuilder::fits(std::int64_t stored_size) const {
    if (chunks_.empty()) return true;
    const auto index = static_cast<std::int64_t>(chunks_.size() + 1) * kIndexBytes;
    return size_ + stored_size + index + kTrailerBytes <= kPackBytesMax;
}

Result<void> PackBuilder::put(std::string_view bytes) {
    if (auto done = write_(bytes); !done) return done;
    all_.add(bytes);
    size_ += static_cast<std::int64_t>(bytes.size());
    return {};
}

Result<void> PackBuilder::add(const ChunkRef& chunk, std::string_view stored, bool zstd) {
    GF_ASSERT(fits(static_cast<std::int64_t>(stored.size())));
    if (size_ == 0)
        if (auto done = put(header()); !done) return done;
    const std::int64_t offset = size_;
    if (auto done = put(stored); !done) return done;
    chunks_.push_back({.sha256 = chunk.sha256,
                       .offset = offset,
                       .stored_size = static_cast<std::int64_t>(stored.size()),
                       .size = chunk.size,
                       .zstd = zstd});
    return {};
}

Result<PackEntry> PackBuilder::finish() {
    GF_ASSERT(!chunks_.empty());
    const std::int64_t index_offset = size_;
    std::string index;
    for (const PackedChunk& c : chunks_) {
        put_digest(index, c.sha256);
        put_int(index, static_cast<std::uint64_t>(c.offset));
        put_int(index, static_cast<std::uint32_t>(c.stored_size));
        put_int(index, static_cast<std::uint32_t>(c.size));
        index += static_cast<char>(c.zstd ? 1 : 0);
        index.append(7, '\0');
    }
    std::string trailer;
    put_int(trailer, static_cast<std::uint64_t>(index_offset));
    put_int(trailer, static_cast<std::uint32_t>(chunks_.size()));
    put_int(trailer, kPackFormat);
    put_digest(trailer, sha256(header() + index));
    trailer.append(8, '\0');
    trailer += kEndMagic;
    if (auto done = put(index); !done) return fail(std::move(done).error());
    if (auto done = put(trailer); !done) return fail(std::move(done).error());
    return PackEntry{.id = all_.finish(), .size = size_, .attempt = 0, .chunks = std::move(chunks_)};
}

Result<std::vector<PackedChunk>> read_pack_index(std::int64_t size, const PackRead& read) {
    const auto broken = [](std::string_view why) {
        return fail(ErrorKind::malformed, "pack: " + std::string{why});
    };
    if (size < kHeaderBytes + 1 + kIndexBytes + kTrailerBytes) return broken("too short");
    if (size > kPackBytesMax) return broken("too long");

    std::string head;
    if (auto got = read(0, kHeaderBytes, head); !got) return fail(std::move(got).error());
    if (head.size() != kHeaderBytes || head.substr(0, 8) != kMagic)
        return broken("header is not that of a pack");
    if (get_int<std::uint32_t>(head, 8) != kPackFormat) return broken("format version is not known");
    if (head != header()) return broken("header has other bytes than format 1");

    std::string trailer;
    if (auto got = read(size - kTrailerBytes, kTrailerBytes, trailer); !got)
        return fail(std::move(got).error());
    if (trailer.size() != kTrailerBytes || trailer.substr(56) != kEndMagic)
        return broken("trailer is missing (cut short)");
    if (get_int<std::uint32_t>(trailer, 12) != kPackFormat)
        return broken("trailer has another format version");
    if (!all_zero(std::string_view{trailer}.substr(48, 8)))
        return broken("trailer has other bytes than format 1");
    const auto count = get_int<std::uint32_t>(trailer, 8);
    const std::int64_t index_bytes = static_cast<std::int64_t>(count) * kIndexBytes;
    if (count == 0 || index_bytes > size) return broken("impossible number of chunks");
    const std::int64_t index_offset = size - kTrailerBytes - index_bytes;
    if (get_int<std::uint64_t>(trailer, 0) != static_cast<std::uint64_t>(index_offset))
        return broken("index is not where it should be");

    std::string index;
    if (auto got = read(index_offset, index_bytes, index); !got) return fail(std::move(got).error());
    if (static_cast<std::int64_t>(index.size()) != index_bytes) return broken("index cannot be read whole");
    if (sha256(head + index) != get_digest(trailer, 16)) return broken("index does not have its hash");

    std::vector<PackedChunk> chunks;
    chunks.reserve(count);
    std::int64_t expected = kHeaderBytes;
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t at = i * static_cast<std::size_t>(kIndexBytes);
        const auto codec = static_cast<std::uint8_t>(index[at + 48]);
        const PackedChunk c{.sha256 = get_digest(index, at),
                            .offset = static_cast<std::int64_t>(get_int<std::uint64_t>(index, at + 32)),
                            .stored_size = get_int<std::uint32_t>(index, at + 40),
                            .size = get_int<std::uint32_t>(index, at + 44),
                            .zstd = codec == 1};
        if (codec > 1 || !all_zero(std::string_view{index}.substr(at + 49, 7)))
            return broken("index has an unknown codec");
        if (c.size < 1 || c.size > kChunkBytes || c.stored_size < 1 || c.stored_size > c.size)
            return broken("index has an impossible size");
        if (!c.zstd && c.stored_size != c.size) return broken("index has a plain chunk of two sizes");
        if (c.offset != expected) return broken("chunks do not follow one another");
        expected += c.stored_size;
        chunks.push_back(c);
    }
    if (expected != index_offset) return broken("chunks do not fill the pack");
    return chunks;
}

Result<std::vector<PackedChunk>> verify_pack(const Digest& id, std::int64_t size, const PackRead& read) {
    auto index = read_pack_index(size, read);
    if (!index) return index;
    ChunkCodec codec;
    Sha256 all;
    std::string stored;
    std::string plain;
    std::int64_t at = 0;
    const auto take = [&](std::int64_t length) -> Result<void> {
        if (auto got = read(at, length, stored); !got) return got;
        if (static_cast<std::int64_t>(stored.size()) != length)
            return fail(ErrorKind::malformed, "pack: cut short");
        all.add(stored);
        at += length;
        return {};
    };
    if (auto got = take(kHeaderBytes); !got) return fail(std::move(got).error());
    for (const PackedChunk& c : *index) {
        if (auto got = take(c.stored_size); !got) return fail(std::move(got).error());
        if (auto good = codec.unpack(c, stored, plain); !good) return fail(std::move(good).error());
    }
    if (auto got = take(size - at); !got) return fail(std::move(got).error());
    if (all.finish() != id)
        return fail(ErrorKind::malformed, "pack " + id.hex() + " has other content than its name says");
    return index;
}

}  // namespace gf::checkpoints
