#include "model/bytes.hpp"

#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <vector>

namespace gf {
namespace {

TEST_CASE("a size text becomes bytes or nothing") {
    struct Row {
        std::string text;
        std::optional<std::int64_t> bytes;
    };
    const std::vector<Row> rows{
        {"0", 0},
        {"12345", 12'345},
        {"64KB", 64'000},
        {"1.5GiB", 1'610'612'736},
        {"100GB", 100 * kGB},
        {"100 gb", 100 * kGB},
        {"2TiB", 2'048 * kGiB},
        {"7b", 7},
        {"", std::nullopt},
        {"GB", std::nullopt},
        {"-1", std::nullopt},
        {"1.5", std::nullopt},
        {"1.GB", std::nullopt},
        {"1  GB", std::nullopt},
        {"1GBs", std::nullopt},
        {"1e3", std::nullopt},
        {"99999999999TB", std::nullopt},
        {"two", std::nullopt},
    };
    for (const auto& row : rows) {
        CAPTURE(row.text);
        const auto read = parse_bytes(row.text);
        CHECK(read.has_value() == row.bytes.has_value());
        if (read && row.bytes) CHECK(read->count == *row.bytes);
    }
}

TEST_CASE("GB and GiB of vram name the marketing class, anything else is exact") {
    CHECK(parse_vram("24GB") == VramDemand{.class_gb = 24, .exact = {}});
    CHECK(parse_vram("24 GiB") == VramDemand{.class_gb = 24, .exact = {}});
    CHECK(parse_vram("24564MiB") == VramDemand{.class_gb = {}, .exact = Bytes{24'564 * kMiB}});
    CHECK(parse_vram("25769803776") == VramDemand{.class_gb = {}, .exact = Bytes{24 * kGiB}});
    CHECK(parse_vram("1.5GB") == VramDemand{.class_gb = {}, .exact = Bytes{1'500'000'000}});
    CHECK_FALSE(parse_vram("0GB").has_value());
    CHECK_FALSE(parse_vram("much").has_value());
}

TEST_CASE("sizes for people use the largest unit that keeps a whole number in front") {
    CHECK(bytes_text(Bytes{999}) == "999 B");
    CHECK(bytes_text(Bytes{1'500'000'000}) == "1.50 GB");
    CHECK(bytes_text(Bytes{2'000 * kGB}) == "2.00 TB");
}

}  // namespace
}  // namespace gf
