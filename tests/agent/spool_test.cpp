#include "agent/spool.hpp"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/resource.h>

#include <filesystem>

#include "agent_process.hpp"

namespace gf::agent {
namespace {

std::string numbers(int from, int to) {
    std::string text;
    for (int i = from; i < to; ++i) text += std::to_string(i) + "\n";
    return text;
}

std::string read_all(const SpoolReader& reader, std::vector<std::pair<std::int64_t, std::int64_t>>* holes = nullptr) {
    std::string all;
    std::int64_t at = 0;
    while (auto piece = reader.read(at, 1000)) {
        if (piece->offset > at && holes) holes->emplace_back(at, piece->offset - at);
        all += piece->bytes;
        at = piece->offset + static_cast<std::int64_t>(piece->bytes.size());
    }
    return all;
}

TEST_CASE("what was appended is read back at its offsets") {
    const agent_test::TemporaryFolder folder;
    SpoolWriter writer(folder.path(), {.head_max = 100'000, .tail_max = 1000, .segment_max = 300});
    const SpoolReader reader(folder.path());
    CHECK(reader.end() == 0);
    CHECK_FALSE(reader.read(0, 10).has_value());
    const auto text = numbers(0, 2000);
    for (std::size_t at = 0; at < text.size(); at += 77) writer.append(std::string_view(text).substr(at, 77));
    CHECK(writer.size() == static_cast<std::int64_t>(text.size()));
    CHECK(reader.end() == writer.size());
    CHECK(read_all(reader) == text);
    CHECK(reader.read(5, 3)->bytes == text.substr(5, 3));
    CHECK(reader.last_bytes(10) == text.substr(text.size() - 10));
    CHECK_FALSE(reader.read(writer.size(), 10).has_value());
}

TEST_CASE("a disk that takes nothing leaves a hole and no files without a byte") {
    const agent_test::TemporaryFolder folder;
    SpoolWriter writer(folder.path(), {.head_max = 50, .tail_max = 1000, .segment_max = 100});
    rlimit before{};
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
    const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
    const auto handler = ::signal(SIGXFSZ, SIG_IGN);
    ::setrlimit(RLIMIT_FSIZE, &none);
    for (int line = 0; line < 20; ++line) writer.append("0123456789");
    ::setrlimit(RLIMIT_FSIZE, &before);
    ::signal(SIGXFSZ, handler);
    CHECK(std::filesystem::is_empty(folder.path()));
    CHECK(writer.size() == 200);
    writer.append("after");
    const auto piece = SpoolReader(folder.path()).read(0, 100);
    REQUIRE(piece.has_value());
    CHECK(piece->offset == 200);
    CHECK(piece->bytes == "after");
}

TEST_CASE("beyond the head only the newest tail is kept, and the rest is a hole") {
    const agent_test::TemporaryFolder folder;
    SpoolWriter writer(folder.path(), {.head_max = 1000, .tail_max = 1000, .segment_max = 100});
    const auto text = numbers(0, 5000);
    for (std::size_t at = 0; at < text.size(); at += 333) writer.append(std::string_view(text).substr(at, 333));
    const SpoolReader reader(folder.path());
    std::vector<std::pair<std::int64_t, std::int64_t>> holes;
    const auto kept = read_all(reader, &holes);
    REQUIRE(holes.size() == 1);
    CHECK(holes[0].first == 1000);
    CHECK(kept.size() <= 2000);
    CHECK(kept.size() >= 1700);
    CHECK(kept.substr(0, 1000) == text.substr(0, 1000));
    CHECK(kept.substr(1000) == text.substr(static_cast<std::size_t>(holes[0].first + holes[0].second)));
    CHECK(reader.end() == static_cast<std::int64_t>(text.size()));
}

TEST_CASE("discarding keeps the newest two segments") {
    const agent_test::TemporaryFolder folder;
    SpoolWriter writer(folder.path(), {.head_max = 100'000, .tail_max = 1000, .segment_max = 100});
    writer.append(std::string(1050, 'x'));
    const SpoolReader reader(folder.path());
    reader.discard_before(550);
    CHECK(reader.read(0, 10)->offset == 500);
    reader.discard_before(2000);
    CHECK(reader.read(0, 10)->offset == 900);
    CHECK(reader.end() == 1050);
    CHECK(reader.last_bytes(150).size() == 150);
}

TEST_CASE("a disk that takes nothing makes holes and never a failure") {
    SpoolWriter writer("/nonexistent/folder", {.head_max = 1000, .tail_max = 1000, .segment_max = 100});
    writer.append("lost");
    writer.append("lost too");
    CHECK(writer.size() == 12);
}

TEST_CASE("a quota is split so that live following goes on for long") {
    const auto big = spool_limits(1LL << 30);
    CHECK(big.tail_max == 64 << 20);
    CHECK(big.head_max + big.tail_max == 1LL << 30);
    const auto small = spool_limits(64 * 1024);
    CHECK(small.head_max + small.tail_max == 64 * 1024);
    CHECK(small.segment_max <= small.tail_max);
    CHECK(spool_limits(0).head_max > 0);
}

}  // namespace
}  // namespace gf::agent
