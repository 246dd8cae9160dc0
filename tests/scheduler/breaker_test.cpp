#include "scheduler/breaker.hpp"

#include <doctest/doctest.h>

using namespace gf;

namespace {

constexpr Instant kNow = instant_of(1'790'000'000'000);
constexpr BreakerRule kRule{.failures = 3, .first = Seconds{600}, .most = Seconds{3600}};

struct Line {
    Breaker breaker;
    Instant now{kNow};
    int next{0};
    /// One create that comes to nothing. True if launches pause from then on.
    bool fail(const std::string& offer) {
        const std::string machine = "m" + std::to_string(next++);
        breaker_launched(breaker, machine);
        return breaker_failed(breaker, kRule, machine, offer, now);
    }
    [[nodiscard]] BreakerState state() const { return breaker_state(breaker, now); }
};

}  // namespace

TEST_CASE("as many different offers in a row as the rule says pause the provider") {
    struct Row {
        const char* what;
        std::vector<std::string> offers;  // "+" = one that worked
        bool paused;
    };
    for (const Row& row : {Row{"none", {}, false}, Row{"two", {"a", "b"}, false}, Row{"three", {"a", "b", "c"}, true},
                           Row{"the same offer again and again", {"a", "a", "a", "a", "b"}, false},
                           Row{"a success between", {"a", "b", "+", "c", "d"}, false},
                           Row{"a success before", {"+", "a", "b", "c"}, true}}) {
        CAPTURE(row.what);
        Line line;
        for (const auto& offer : row.offers) {
            if (offer == "+") breaker_worked(line.breaker);
            else line.fail(offer);
        }
        CHECK((line.state() == BreakerState::paused) == row.paused);
    }
}

TEST_CASE("after the pause one launch is tried, and it alone decides") {
    Line line;
    line.fail("a");
    line.fail("b");
    // What is still under way when the pause begins.
    breaker_launched(line.breaker, "under way");
    CHECK(line.fail("c"));
    CHECK(line.state() == BreakerState::paused);
    CHECK(!breaker_failed(line.breaker, kRule, "under way", "d", line.now));
    line.now += Seconds{599};
    CHECK(line.state() == BreakerState::paused);
    line.now += Seconds{1};
    CHECK(line.state() == BreakerState::closed);
    breaker_launched(line.breaker, "trial");
    CHECK(line.state() == BreakerState::trial);
    SUBCASE("it works") {
        breaker_worked(line.breaker);
        CHECK(line.state() == BreakerState::closed);
        CHECK(!line.fail("a"));
    }
    SUBCASE("it fails: a longer pause, up to the longest") {
        Millis last = kRule.first;
        for (int i = 0; i < 6; ++i) {
            CHECK(breaker_failed(line.breaker, kRule, line.breaker.trial, "x", line.now));
            const Millis pause = line.breaker.paused_until - line.now;
            CHECK(pause == std::min(2 * last, kRule.most));
            last = pause;
            line.now = line.breaker.paused_until;
            breaker_launched(line.breaker, "trial" + std::to_string(i));
        }
        CHECK(last == kRule.most);
    }
    SUBCASE("it says nothing: the next one is tried") {
        breaker_undecided(line.breaker, "somebody else");
        CHECK(line.state() == BreakerState::trial);
        breaker_undecided(line.breaker, "trial");
        CHECK(line.state() == BreakerState::closed);
        breaker_launched(line.breaker, "second");
        CHECK(line.state() == BreakerState::trial);
    }
}
