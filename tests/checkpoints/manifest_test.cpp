#include <nlohmann/json.hpp>

#include "support.hpp"

using namespace gf;
using namespace gf::checkpoints;
using namespace gf::checkpoints::test;

namespace {

Digest digest_of(int n) {
    return sha256("chunk " + std::to_string(n));
}

/// Two folders, a file of two chunks, one of one chunk shared with it, an empty one, a link; two packs of two
/// attempts.
Manifest sample() {
    Manifest m;
    m.job = kJob.get();
    m.task = kTask.get();
    m.attempt = 3;
    m.step = 1200;
    m.created_at_ms = 1'700'000'000'000;
    m.directories = {{.path = "", .mode = 0755, .mtime_ns = 5},
                     {.path = "sub", .mode = 0700, .mtime_ns = -6}};
    m.files = {{.path = "big",
                .mode = 0644,
                .mtime_ns = 1,
                .size = kChunkBytes + 10,
                .sha256 = digest_of(99),
                .chunks = {{digest_of(1), kChunkBytes}, {digest_of(2), 10}}},
               {.path = "empty", .mode = 0600, .mtime_ns = 2, .size = 0, .sha256 = sha256(""), .chunks = {}},
               {.path = "sub/small",
                .mode = 0644,
                .mtime_ns = 3,
                .size = 10,
                .sha256 = digest_of(2),
                .chunks = {{digest_of(2), 10}}}};
    m.symlinks = {{.path = "sub/link", .target = "../big", .mtime_ns = 4}};
    m.packs = {
        {.id = digest_of(10),
         .size = 5000,
         .attempt = 1,
         .chunks = {{digest_of(1), 16, 3000, kChunkBytes, true}}},
        {.id = digest_of(11), .size = 500, .attempt = 3, .chunks = {{digest_of(2), 100, 10, 10, false}}}};
    return m;
}

std::string refusal(const Manifest& m) {
    const auto r = encode_manifest(m);
    return r ? "" : r.error().message;
}
std::string refusal(std::string_view bytes) {
    const auto r = decode_manifest(bytes);
    if (!r) CHECK(r.error().kind == ErrorKind::invalid);
    return r ? "" : r.error().message;
}

}  // namespace

TEST_CASE("a manifest survives the round trip and its bytes are one line of sorted keys") {
    const Manifest m = sample();
    const auto bytes = encode_manifest(m);
    REQUIRE(bytes);
    const auto back = decode_manifest(*bytes);
    REQUIRE(back);
    CHECK(*back == m);
    CHECK(total_bytes(m) == kChunkBytes + 20);
    CHECK(bytes->find('\n') == std::string::npos);
    // An independent writer of sorted, compact JSON agrees byte for byte.
    CHECK(nlohmann::json::parse(*bytes).dump() == *bytes);
}

TEST_CASE("names that are not UTF-8 are kept exactly") {
    Manifest m = sample();
    m.symlinks[0].target = "a\xFF\xFE";
    m.directories[1].path = "sub";
    m.files.push_back(
        {.path = "\xC3(", .mode = 0644, .mtime_ns = 1, .size = 0, .sha256 = sha256(""), .chunks = {}});
    const auto bytes = encode_manifest(m);
    REQUIRE(bytes);
    CHECK(bytes->find("\"path_hex\":\"c328\"") != std::string::npos);
    CHECK(bytes->find("\"target_hex\":\"61fffe\"") != std::string::npos);
    CHECK(*decode_manifest(*bytes) == m);
}

TEST_CASE("every manifest that does not hold together is refused, and the message says where") {
    struct Row {
        const char* what;
        std::function<void(Manifest&)> change;
        const char* message;
    };
    const Row rows[] = {
        {"parent folder", [](Manifest& m) { m.files[0].path = "../big"; }, "is ."},
        {"absolute", [](Manifest& m) { m.files[0].path = "/big"; }, "empty part"},
        {"dot", [](Manifest& m) { m.files[0].path = "./big"; }, "is ."},
        {"double slash", [](Manifest& m) { m.files[2].path = "sub//small"; }, "empty part"},
        {"slash at end", [](Manifest& m) { m.files[2].path = "sub/"; }, "empty part"},
        {"NUL", [](Manifest& m) { m.files[0].path = std::string{"b\0g", 3}; }, "NUL"},
        {"empty name", [](Manifest& m) { m.files[0].path = ""; }, "is empty"},
        {"long part", [](Manifest& m) { m.files[0].path = std::string(256, 'a'); }, "255"},
        {"long path", [](Manifest& m) { m.files[0].path = std::string(5000, 'a'); }, "4096"},
        {"folder not listed", [](Manifest& m) { m.files[2].path = "sud/small"; }, "not listed"},
        {"no root", [](Manifest& m) { m.directories.erase(m.directories.begin()); }, "root"},
        {"below a file", [](Manifest& m) { m.files[1].path = "big/x"; }, "not listed"},
        {"below a link", [](Manifest& m) { m.files[2].path = "sub/link/x"; }, "not listed"},
        {"file and folder", [](Manifest& m) { m.files[2].path = "sub"; }, "directory too"},
        {"file and link", [](Manifest& m) { m.symlinks[0].path = "big"; }, "another entry"},
        {"two of one name", [](Manifest& m) { m.files[1].path = "big"; }, "repeated"},
        {"not in order", [](Manifest& m) { std::swap(m.files[0], m.files[1]); }, "order"},
        {"setuid", [](Manifest& m) { m.files[0].mode = 04755; }, "permission"},
        {"link to nothing", [](Manifest& m) { m.symlinks[0].target = ""; }, "target"},
        {"size and chunks", [](Manifest& m) { m.files[0].size += 1; }, "add up"},
        {"chunk missing in file", [](Manifest& m) { m.files[0].chunks.pop_back(); }, "number of chunks"},
        {"negative size", [](Manifest& m) { m.files[1].size = -1; }, "size"},
        {"huge size", [](Manifest& m) { m.files[1].size = INT64_MAX; }, "size"},
        {"empty file with a hash", [](Manifest& m) { m.files[1].sha256 = digest_of(5); }, "nothing"},
        {"one chunk, two hashes", [](Manifest& m) { m.files[2].sha256 = digest_of(5); }, "another hash"},
        {"chunk in no pack", [](Manifest& m) { m.packs.pop_back(); }, "no listed pack"},
        {"chunk in two packs",
         [](Manifest& m) { m.packs[0].chunks.push_back({digest_of(2), 4000, 10, 10, false}); }, "two places"},
        {"chunk in no file",
         [](Manifest& m) { m.packs[0].chunks.push_back({digest_of(7), 4000, 10, 10, false}); }, "in no file"},
        {"chunk of another size",
         [](Manifest& m) { m.packs[1].chunks[0].size = m.packs[1].chunks[0].stored_size = 11; }, "two sizes"},
        {"overlap with header", [](Manifest& m) { m.packs[0].chunks[0].offset = 15; }, "overlap"},
        {"outside of pack", [](Manifest& m) { m.packs[1].chunks[0].offset = 491; }, "outside"},
        {"offset wraps", [](Manifest& m) { m.packs[1].chunks[0].offset = INT64_MAX; }, "outside"},
        {"stored larger than plain", [](Manifest& m) { m.packs[1].chunks[0].stored_size = 11; },
         "impossible"},
        {"plain of two sizes", [](Manifest& m) { m.packs[0].chunks[0].zstd = false; }, "impossible"},
        {"pack of a later attempt", [](Manifest& m) { m.packs[1].attempt = 4; }, "attempt 4"},
        {"pack of attempt 0", [](Manifest& m) { m.packs[0].attempt = 0; }, "attempt 0"},
        {"pack too large", [](Manifest& m) { m.packs[0].size = (64LL << 20) + 1; }, "size"},
        {"packs not in order", [](Manifest& m) { std::swap(m.packs[0], m.packs[1]); }, "order"},
        {"job", [](Manifest& m) { m.job = "job_../../etc/passwd"; }, "job id"},
        {"task", [](Manifest& m) { m.task = m.job; }, "task id"},
        {"attempt", [](Manifest& m) { m.attempt = 0; }, "attempt"},
        {"step", [](Manifest& m) { m.step = -1; }, "step"},
    };
    for (const Row& row : rows) {
        Manifest m = sample();
        row.change(m);
        CAPTURE(row.what);
        CHECK(refusal(m).find(row.message) != std::string::npos);
        CHECK_FALSE(validate_manifest(m));
    }
}

TEST_CASE("only the canonical text is a manifest") {
    const std::string good = *encode_manifest(sample());
    REQUIRE(refusal(good).empty());
    const auto with = [&](std::string_view from, std::string_view to) {
        std::string out = good;
        const auto at = out.find(from);
        REQUIRE(at != std::string::npos);
        return out.replace(at, from.size(), to);
    };
    const std::string bad[] = {
        "",
        "{}",
        "[]",
        "null",
        "{",
        good + " ",
        " " + good,
        good + good,
        "\xEF\xBB\xBF" + good,
        with("\"format\":1", "\"format\":2"),
        with("\"format\":1,", ""),
        with("\"format\":1", "\"format\":1.0"),
        with("\"format\":1", "\"format\":1,\"format\":1"),
        with("\"attempt\":3", "\"attempt\":3,\"b\":1"),
        with("\"attempt\":3", "\"attempt\":03"),
        with("\"attempt\":3", "\"attempt\":4294967299"),
        with("\"attempt\":3", "\"attempt\":\"3\""),
        with("\"attempt\":3", "\"attempt\":18446744073709551615"),
        with("\"attempt\":3", "\"attempt\":3e0"),
        with("\"step\":1200", "\"step\":null"),
        with("\"zstd\":true", "\"zstd\":1"),
        with("\"mode\":493", "\"mode\":-1"),
        with("\"chunk_bytes\":4194304", "\"chunk_bytes\":1024"),
        with("\"kind\":\"checkpoint\"", "\"kind\":\"thing\""),
        with("\"path\":\"big\"", "\"path_hex\":\"626967\""),
        with("\"path\":\"big\"", "\"path_hex\":\"62696\""),
        with("\"path\":\"big\"", "\"path\":\"\\u0062ig\""),
        with("\"path\":\"big\"", "\"path\":{}"),
        with("\"files\":[", "\"files\":[[],"),
        with("\"symlinks\":[", "\"symlinks\":[1,"),
        with(digest_of(10).hex(), digest_of(10).hex() + "0"),
        std::string(100'000, '['),
        std::string(100'000, '{'),
        "{\"files\":" + std::string(100'000, '['),
    };
    for (const std::string& text : bad) {
        CAPTURE(text.substr(0, 80));
        CHECK_FALSE(refusal(text).empty());
    }
    CHECK(refusal(std::string(kManifestBytesMax + 1, ' ')).find("64 MiB") != std::string::npos);
}

TEST_CASE("a manifest with any one byte changed is refused or says something else, and never crashes") {
    const Manifest m = sample();
    const std::string good = *encode_manifest(m);
    Entropy entropy{11};
    for (std::size_t at = 0; at < good.size(); ++at) {
        std::string text = good;
        text[at] = static_cast<char>(static_cast<unsigned char>(text[at]) ^ (1U << entropy.below(8)));
        if (const auto back = decode_manifest(text)) CHECK_FALSE(*back == m);
    }
    for (std::size_t length = 0; length < good.size(); ++length)
        CHECK_FALSE(decode_manifest(std::string_view{good}.substr(0, length)));
}

TEST_CASE("random bytes are never a manifest") {
    Entropy entropy{12};
    static constexpr std::string_view kTokens[] = {"{",
                                                   "}",
                                                   "[",
                                                   "]",
                                                   ",",
                                                   ":",
                                                   "\"files\"",
                                                   "\"path\"",
                                                   "\"packs\"",
                                                   "\"chunks\"",
                                                   "1",
                                                   "-1",
                                                   "\"\"",
                                                   "true",
                                                   "null",
                                                   "1e9",
                                                   "\"\\ud800\"",
                                                   "\xFF",
                                                   "9223372036854775808"};
    for (int i = 0; i < 3000; ++i) {
        CHECK_FALSE(decode_manifest(random_bytes(entropy, entropy.below(200))));
        std::string text = "{\"attempt\":1,\"files\":[";
        for (auto n = entropy.below(30); n > 0; --n) text += kTokens[entropy.below(std::size(kTokens))];
        CHECK_FALSE(decode_manifest(text));
    }
}
