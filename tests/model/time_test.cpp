#include "model/time.hpp"

#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <vector>

namespace gf {
namespace {

TEST_CASE("an instant is written in UTC with milliseconds and read back the same") {
    CHECK(rfc3339(instant_of(0)) == "1970-01-01T00:00:00.000Z");
    CHECK(rfc3339(instant_of(951'782'400'123)) == "2000-02-29T00:00:00.123Z");
    for (const std::int64_t ms : {0LL, 1'732'957'964'000LL, 1'732'957'964'999LL, 253'402'300'799'999LL})
        CHECK(parse_rfc3339(rfc3339(instant_of(ms))) == instant_of(ms));
    // The far ends of time are told as the ends of the form.
    CHECK(rfc3339(instant_of(INT64_MAX)) == "9999-12-31T23:59:59.999Z");
    CHECK(rfc3339(instant_of(253'402'300'800'000)) == "9999-12-31T23:59:59.999Z");
    CHECK(rfc3339(instant_of(INT64_MIN)) == "0000-01-01T00:00:00.000Z");
    CHECK(rfc3339(instant_of(-1)) == "1969-12-31T23:59:59.999Z");
}

TEST_CASE("RFC 3339 texts are read with their offset, others are refused") {
    struct Row {
        std::string text;
        std::optional<std::int64_t> ms;
    };
    const std::vector<Row> rows{
        {"2026-12-01T08:00:00Z", 1'796'112'000'000},
        {"2026-12-01T09:00:00+01:00", 1'796'112'000'000},
        {"2026-12-01t07:30:00.5-00:30", 1'796'112'000'500},
        {"1970-01-01T00:00:00.123456Z", 123},
        {"2026-02-29T00:00:00Z", std::nullopt},
        {"2026-12-01T24:00:00Z", std::nullopt},
        {"2026-12-01T08:00:00", std::nullopt},
        {"2026-12-01T08:00:00.Z", std::nullopt},
        {"2026-12-01T08:00:00Zz", std::nullopt},
        {"2026-12-01T08:00:00+25:00", std::nullopt},
        {"2026-12-01", std::nullopt},
        {"1969-12-31T23:59:59Z", std::nullopt},
        {"", std::nullopt},
    };
    for (const auto& row : rows) {
        CAPTURE(row.text);
        const auto read = parse_rfc3339(row.text);
        CHECK(read.has_value() == row.ms.has_value());
        if (read && row.ms) CHECK(unix_millis(*read) == *row.ms);
    }
}

TEST_CASE("durations need a unit, and only whole ones") {
    struct Row {
        std::string text;
        std::optional<std::int64_t> ms;
    };
    const std::vector<Row> rows{
        {"250ms", 250},
        {"60s", 60'000},
        {"5m", 300'000},
        {"12h", 43'200'000},
        {"7d", 604'800'000},
        {"1h30m", 5'400'000},
        {"0s", 0},
        {"", std::nullopt},
        {"60", std::nullopt},
        {"-5s", std::nullopt},
        {"1.5h", std::nullopt},
        {"5 m", std::nullopt},
        {"5min", std::nullopt},
        {"4000d", std::nullopt},
        {"99999999999999999999s", std::nullopt},
    };
    for (const auto& row : rows) {
        CAPTURE(row.text);
        const auto read = parse_duration(row.text);
        CHECK(read.has_value() == row.ms.has_value());
        if (read && row.ms) CHECK(read->count() == *row.ms);
    }
}

TEST_CASE("a duration text is read back as the same duration") {
    CHECK(duration_text(Seconds{90}) == "1m30s");
    CHECK(duration_text(Millis{0}) == "0s");
    for (const std::int64_t ms : {1LL, 999LL, 60'000LL, 5'400'001LL, 604'800'000LL})
        CHECK(parse_duration(duration_text(Millis{ms})) == Millis{ms});
}

}  // namespace
}  // namespace gf
