#include "checkpoints/pack.hpp"

#include "support.hpp"

using namespace gf;
using namespace gf::checkpoints;
using namespace gf::checkpoints::test;

namespace {

struct Made {
    std::string bytes;
    PackEntry entry;
    std::vector<std::string> plain;
};

Made make_pack(Entropy& entropy, int chunks) {
    Made made;
    ChunkCodec codec;
    PackBuilder builder{[&](std::string_view b) -> Result<void> {
        made.bytes += b;
        return {};
    }};
    for (int i = 0; i < chunks; ++i) {
        std::string plain = i % 2 == 0 ? random_bytes(entropy, 1 + entropy.below(900))
                                       : std::string(1 + entropy.below(50'000), 'z');
        std::string packed;
        const bool zstd = codec.compress(plain, packed);
        const ChunkRef ref{.sha256 = sha256(plain), .size = static_cast<std::int64_t>(plain.size())};
        REQUIRE(builder.add(ref, zstd ? packed : plain, zstd));
        made.plain.push_back(std::move(plain));
    }
    auto entry = builder.finish();
    REQUIRE(entry);
    made.entry = *std::move(entry);
    return made;
}

PackRead reader_of(const std::string& bytes) {
    return [&bytes](std::int64_t offset, std::int64_t length, std::string& out) -> Result<void> {
        REQUIRE(offset >= 0);
        REQUIRE(length >= 0);
        if (offset + length > static_cast<std::int64_t>(bytes.size()))
            return fail(ErrorKind::malformed, "past the end");
        out = bytes.substr(static_cast<std::size_t>(offset), static_cast<std::size_t>(length));
        return {};
    };
}
Result<std::vector<PackedChunk>> verify(const std::string& bytes, const Digest& id) {
    return verify_pack(id, static_cast<std::int64_t>(bytes.size()), reader_of(bytes));
}

}  // namespace

TEST_CASE("a pack says by itself what is in it, and its chunks come back") {
    Entropy entropy{1};
    for (int chunks : {1, 2, 7}) {
        const Made made = make_pack(entropy, chunks);
        CHECK(made.entry.id == sha256(made.bytes));
        CHECK(made.entry.size == static_cast<std::int64_t>(made.bytes.size()));
        const auto index = verify(made.bytes, made.entry.id);
        REQUIRE(index);
        CHECK(*index == made.entry.chunks);
        ChunkCodec codec;
        std::string plain;
        for (std::size_t i = 0; i < index->size(); ++i) {
            const PackedChunk& c = (*index)[i];
            const auto stored = made.bytes.substr(static_cast<std::size_t>(c.offset),
                                                  static_cast<std::size_t>(c.stored_size));
            REQUIRE(codec.unpack(c, stored, plain));
            CHECK(plain == made.plain[i]);
            CHECK(c.zstd == (i % 2 == 1 && c.size > 30));
        }
    }
}

TEST_CASE("chunks that do not compress are stored as they are") {
    Entropy entropy{2};
    ChunkCodec codec;
    std::string out;
    CHECK_FALSE(codec.compress(random_bytes(entropy, 100'000), out));
    CHECK_FALSE(codec.compress("a", out));
    CHECK(codec.compress(std::string(100'000, 'a'), out));
    CHECK(out.size() < 1000);
}

TEST_CASE("a pack that was cut at any place is refused") {
    Entropy entropy{3};
    const Made made = make_pack(entropy, 3);
    for (std::size_t length = 0; length < made.bytes.size();
         length += length < 200 || length + 400 > made.bytes.size() ? 1 : 37) {
        const std::string cut = made.bytes.substr(0, length);
        const auto index = read_pack_index(static_cast<std::int64_t>(length), reader_of(cut));
        REQUIRE_FALSE(index);
        CHECK(index.error().kind == ErrorKind::malformed);
    }
}

TEST_CASE(
    "one flipped bit anywhere in a pack is found, in header, index and trailer without reading a chunk") {
    Entropy entropy{4};
    const Made made = make_pack(entropy, 3);
    const auto index_at =
        static_cast<std::size_t>(made.entry.chunks.back().offset + made.entry.chunks.back().stored_size);
    for (std::size_t at = 0; at < made.bytes.size(); ++at) {
        const bool in_chunks = at >= 16 && at < index_at;
        if (in_chunks && at % 11 != 0) continue;
        std::string bytes = made.bytes;
        bytes[at] = static_cast<char>(static_cast<unsigned char>(bytes[at]) ^ (1U << entropy.below(8)));
        CAPTURE(at);
        const auto whole = verify(bytes, made.entry.id);
        REQUIRE_FALSE(whole);
        CHECK(whole.error().kind == ErrorKind::malformed);
        CHECK(read_pack_index(static_cast<std::int64_t>(bytes.size()), reader_of(bytes)).has_value() ==
              in_chunks);
        CHECK_FALSE(verify(bytes, sha256(bytes)));  // also when the name was made to fit
    }
}

TEST_CASE("a pack under another name is refused") {
    Entropy entropy{5};
    const Made made = make_pack(entropy, 2);
    CHECK(verify(made.bytes, sha256("other")).error().message.find("its name") != std::string::npos);
}

TEST_CASE("a chunk that would decompress to more than it says stops at what it says") {
    ChunkCodec codec;
    std::string bomb;
    REQUIRE(codec.compress(std::string(4'000'000, '\0'), bomb));
    std::string out;
    PackedChunk c{.sha256 = sha256("x"),
                  .offset = 16,
                  .stored_size = static_cast<std::int64_t>(bomb.size()),
                  .size = 1000,
                  .zstd = true};
    CHECK(codec.unpack(c, bomb, out).error().kind == ErrorKind::malformed);
    CHECK(out.size() <= 1000);
    c.size = kChunkBytes + 1;
    CHECK_FALSE(codec.unpack(c, bomb, out));
    c.size = 4'000'000;
    CHECK(codec.unpack(c, bomb, out).error().message.find("other content") != std::string::npos);
    c.stored_size -= 1;
    CHECK_FALSE(codec.unpack(c, bomb, out));
}

TEST_CASE("packs end before 64 MiB") {
    PackBuilder builder{[](std::string_view) -> Result<void> { return {}; }};
    const std::string stored(static_cast<std::size_t>(kChunkBytes), 'x');
    CHECK(builder.empty());
    CHECK(builder.fits(kPackBytesMax));  // an empty one takes any chunk
    int count = 0;
    for (; builder.fits(kChunkBytes); ++count)
        REQUIRE(builder.add({sha256(std::to_string(count)), kChunkBytes}, stored, false));
    CHECK(count == 15);
    const auto entry = builder.finish();
    REQUIRE(entry);
    CHECK(entry->size <= kPackBytesMax);
}

TEST_CASE("an error of the writer comes out of the builder") {
    PackBuilder builder{[](std::string_view) -> Result<void> { return fail(ErrorKind::full, "no space"); }};
    CHECK(builder.add({sha256("x"), 1}, "x", false).error().kind == ErrorKind::full);
}

TEST_CASE("random bytes with the right magic are never a pack") {
    Entropy entropy{6};
    const Made made = make_pack(entropy, 2);
    for (int i = 0; i < 3000; ++i) {
        std::string bytes = random_bytes(entropy, entropy.below(600));
        if (bytes.size() > 100 && i % 2 == 0) {
            bytes.replace(0, 16, made.bytes.substr(0, 16));
            bytes.replace(bytes.size() - 64, 64, made.bytes.substr(made.bytes.size() - 64));
        }
        CHECK_FALSE(read_pack_index(static_cast<std::int64_t>(bytes.size()), reader_of(bytes)));
    }
}
