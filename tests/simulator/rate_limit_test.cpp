#include "simulator/rate_limit.hpp"

#include <doctest/doctest.h>

using namespace gf;
using namespace gf::sim;

namespace {
Instant at(std::int64_t ms) {
    return instant_of(1'000'000 + ms);
}
}  // namespace

TEST_CASE("a quota refuses the call after the last and says when to come back") {
    Settings settings;
    settings.runpod_per_minute = 3;
    Quotas quotas;
    for (int i = 0; i < 3; ++i) CHECK_FALSE(quotas.count("a", settings, at(0)).retry_after_s);
    const auto refused = quotas.count("a", settings, at(48'000));
    CHECK(refused.retry_after_s == 12);
    CHECK(refused.window == "minute");
    CHECK(refused.policy.starts_with("\"minute\";q=3;w=60"));
    CHECK_FALSE(quotas.count("b", settings, at(48'000)).retry_after_s);
    CHECK_FALSE(quotas.count("a", settings, at(60'000)).retry_after_s);
}

TEST_CASE("an interval lets a call pass only after its time, and a penalty makes the next wait longer") {
    Intervals intervals;
    CHECK_FALSE(intervals.refuse("me", "create", 4.5, 12, at(0)));
    CHECK(intervals.refuse("me", "create", 4.5, 12, at(4'000)) == 4.5);
    CHECK(intervals.refuse("me", "create", 4.5, 12, at(5'000)) == 4.5);  // punished: 12 s now
    CHECK_FALSE(intervals.refuse("me", "create", 4.5, 12, at(12'000)));
    CHECK_FALSE(intervals.refuse("other", "create", 4.5, 12, at(12'100)));
    CHECK_FALSE(intervals.refuse("me", "destroy", 3, 3, at(12'100)));
}

TEST_CASE("searches are counted per minute") {
    Intervals intervals;
    for (int i = 0; i < 10; ++i) CHECK_FALSE(intervals.over_per_minute("me", "search", 10, at(i)));
    CHECK(intervals.over_per_minute("me", "search", 10, at(59'000)));
    CHECK_FALSE(intervals.over_per_minute("me", "search", 10, at(60'001)));
}

TEST_CASE("a bucket lets a burst through, refills, and takes nothing from a refused call") {
    TokenBuckets buckets;
    const auto at = [](std::int64_t ms) { return gf::instant_of(1'000'000 + ms); };
    CHECK_FALSE(buckets.refuse("a", 2.0, 3.0, at(0)));
    CHECK_FALSE(buckets.refuse("a", 2.0, 3.0, at(0)));
    CHECK_FALSE(buckets.refuse("a", 2.0, 3.0, at(0)));
    CHECK(buckets.refuse("a", 2.0, 3.0, at(0)) == gf::Millis{500});
    CHECK(buckets.refuse("a", 2.0, 3.0, at(400)) == gf::Millis{100});
    CHECK_FALSE(buckets.look("a", 2.0, 3.0, at(500)));
    CHECK_FALSE(buckets.refuse("a", 2.0, 3.0, at(500)));
    CHECK_FALSE(buckets.refuse("b", 2.0, 3.0, at(500)));
    CHECK(buckets.refuse("a", 2.0, 3.0, at(500)));
    for (int i = 0; i < 3; ++i) CHECK_FALSE(buckets.refuse("a", 2.0, 3.0, at(60'000)));
    CHECK(buckets.refuse("a", 2.0, 3.0, at(60'000)));  // never more than its capacity
}
