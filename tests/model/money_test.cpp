#include "model/money.hpp"

#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <vector>

namespace gf {
namespace {

TEST_CASE("a price text becomes exact micro-dollars or nothing") {
    struct Row {
        std::string text;
        std::optional<std::int64_t> micros;
    };
    const std::vector<Row> rows{
        {"0.39", 390'000},      {"0", 0},
        {"2", 2'000'000},       {"1e-3", 1'000},
        {"1.5E2", 150'000'000}, {".5", 500'000},
        {"0.0000004", 0},       {"0.0000005", 1},
        {"0.1234567", 123'457}, {"1000000000", 1'000'000'000'000'000},
        {"+0.5", 500'000},      {"1e-999", 0},
        {"", std::nullopt},     {".", std::nullopt},
        {"-1", std::nullopt},   {"NaN", std::nullopt},
        {"inf", std::nullopt},  {"1e309", std::nullopt},
        {"0.39 ", std::nullopt}, {"0,39", std::nullopt},
        {"1e", std::nullopt},   {"0x10", std::nullopt},
        {"1.2.3", std::nullopt}, {"1000000001", std::nullopt},
        {"1e99999999999", std::nullopt}, {std::string(65, '0'), std::nullopt},
    };
    for (const auto& row : rows) {
        CAPTURE(row.text);
        CHECK(parse_decimal_micros(row.text) == row.micros);
    }
}

TEST_CASE("a bill is rounded up, and no span or rate overflows") {
    CHECK(cost(UsdPerHour{360'000}, Seconds{1}).micros == 100);
    CHECK(cost(UsdPerHour{1}, Seconds{1}).micros == 1);
    CHECK(cost(UsdPerHour{0}, std::chrono::hours{100}).micros == 0);
    CHECK(cost(UsdPerHour{40'000'000}, Millis{0}).micros == 0);
    CHECK(cost(UsdPerHour{1'000'000'000}, std::chrono::hours{24 * 365 * 10}).micros == 1'000'000'000LL * 24 * 365 * 10);
}

TEST_CASE("dollars show cents at least and micros where they matter") {
    CHECK(dollars(Usd{390'000}) == "0.39");
    CHECK(dollars(Usd{382'500}) == "0.3825");
    CHECK(dollars(Usd{0}) == "0.00");
    CHECK(dollars(Usd{1}) == "0.000001");
    CHECK(dollars(Usd{12'000'000}) == "12.00");
    CHECK(dollars(Usd{-1'500'000}) == "-1.50");
    CHECK(dollars(INT64_MIN) == "-9223372036854.775808");
}

}  // namespace
}  // namespace gf
