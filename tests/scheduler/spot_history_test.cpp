#include "scheduler/spot_history.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "model/id.hpp"
#include "scheduler/spot_hazard.hpp"

using namespace gf;

namespace {

Instant minute(std::int64_t m) {
    return Instant{std::chrono::minutes{m}};
}

SpotHistory look(std::vector<std::pair<int, bool>> looks) {
    SpotHistory history;
    for (const auto& [at, up] : looks) {
        const std::vector<SpotSeen> seen{{.key = "a", .up = up, .rate = UsdPerHour{100}}};
        history.observe(minute(at), seen);
    }
    return history;
}

}  // namespace

TEST_CASE("old capacity lasts longer than fresh capacity, and a worse place shorter") {
    double before = 0;
    for (const double age : {0.0, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0, 12.0}) {
        const double life = spell_remaining(Spell::up, age, 1, 24);
        CHECK(life > before);
        CHECK(life < 24);
        CHECK(spell_remaining(Spell::up, age, 2, 24) < life);
        CHECK(spell_remaining(Spell::up, age, 1, 1) < std::min(1.0, life));
        before = life;
    }
    CHECK(spell_hazard(Spell::down, 0, 5) ==
          doctest::Approx(spell_hazard(Spell::down, 0, 0.3) + spell_hazard(Spell::down, 0.3, 5)));
    CHECK(spell_hazard(Spell::up, 0.01, 0.02) == doctest::Approx(0.01 * spell_rate(Spell::up, 0.015)));
    // The first ten minutes as published: about a third is gone.
    CHECK(1 - std::exp(-spell_hazard(Spell::up, 0, 1 / 6.0)) == doctest::Approx(0.33));
}

TEST_CASE("the spells of a key are read off its looks") {
    struct Row {
        const char* what;
        std::vector<std::pair<int, bool>> looks;
        int now;
        bool up;
        double age_h;
    };
    const Row rows[] = {
        {"a spell whose beginning was not seen is old", {{0, true}}, 60, true, 1 + kUnseenAgeHours},
        {"a beginning that was seen counts", {{0, false}, {30, true}}, 90, true, 1},
        {"looks without a change change nothing",
         {{0, false}, {30, true}, {40, true}, {80, true}},
         90,
         true,
         1},
        {"gone", {{0, true}, {30, false}}, 45, false, 0.25},
        {"a blink counts anew", {{0, false}, {30, true}, {60, false}, {60, true}}, 90, true, 1},
    };
    for (const auto& row : rows) {
        CAPTURE(row.what);
        const auto history = look(row.looks);
        const auto stats = spell_stats(history, history.bit("a"), minute(row.now));
        CHECK(stats.known);
        CHECK(stats.up == row.up);
        CHECK(stats.age_h == doctest::Approx(row.age_h));
    }
    const auto history = look({{0, false}, {30, true}, {60, false}});
    const auto stats = spell_stats(history, history.bit("a"), minute(60));
    CHECK(stats.ends == doctest::Approx(1));
    CHECK(stats.returns == doctest::Approx(std::exp(-0.5 / kSpotMemoryHours)));
    CHECK(stats.ends_expected > 0);
    CHECK_FALSE(spell_stats(history, history.bit("b"), minute(60)).known);
}

TEST_CASE("how often one looks does not matter, only what changed") {
    SpotHistory often;
    SpotHistory seldom;
    Entropy chance(7);
    bool up = false;
    for (int at = 0; at < 3000; ++at) {
        const bool turns = chance.below(40) == 0;
        if (turns) up = !up;
        const std::vector<SpotSeen> seen{{.key = "a", .up = up, .rate = UsdPerHour{5}}};
        often.observe(minute(at), seen);
        if (turns || at == 0 || at == 2999) seldom.observe(minute(at), seen);
    }
    CHECK(often == seldom);
    CHECK(often.rows().size() > 20);
}

TEST_CASE("the order of the keys in a look does not matter") {
    Entropy chance(3);
    SpotHistory straight;
    SpotHistory shuffled;
    for (int at = 0; at < 200; ++at) {
        std::vector<SpotSeen> seen;
        for (int k = 0; k < 80; ++k) {  // more than are kept
            if (chance.below(3) != 0) {
                seen.push_back({.key = "zone-" + std::to_string(k),
                                .up = chance.below(2) == 0,
                                .rate = UsdPerHour{static_cast<std::int64_t>(k)}});
            }
        }
        straight.observe(minute(at), seen);
        for (std::size_t n = seen.size(); n > 1; --n) std::swap(seen[n - 1], seen[chance.below(n)]);
        shuffled.observe(minute(at), seen);
    }
    CHECK(straight == shuffled);
    CHECK(straight.keys().size() == kSpotKeysMax);
    CHECK(straight.text() == shuffled.text());
}

TEST_CASE("a history is bounded, and what it forgets is the oldest") {
    SpotHistory history;
    for (int at = 0; at < 5000; ++at) {
        const std::vector<SpotSeen> seen{{.key = "a", .up = at % 2 == 0, .rate = UsdPerHour{5}}};
        history.observe(minute(at), seen);
    }
    CHECK(history.rows().size() == kSpotLooksMax);
    CHECK(history.rows().back().from == minute(4999));
    history.observe(minute(10),
                    std::vector<SpotSeen>{
                        {.key = "b", .up = true, .rate = UsdPerHour{5}}});  // older than the last: dropped
    CHECK(history.keys().size() == 1);
}

TEST_CASE("a history goes into text and back, and nothing else is read as one") {
    SpotHistory history;
    history.observe(minute(1), std::vector<SpotSeen>{{.key = "a b%c", .up = true, .rate = UsdPerHour{123}},
                                                     {.key = "z", .up = false, .rate = UsdPerHour{4}}});
    history.observe(minute(9), std::vector<SpotSeen>{{.key = "z", .up = true, .rate = UsdPerHour{5}}});
    const auto text = history.text();
    const auto back = SpotHistory::parse(text);
    REQUIRE(back);
    CHECK(*back == history);
    CHECK(SpotHistory::parse(SpotHistory{}.text()).value() == SpotHistory{});
    // Every proper prefix that ends within or after a number is another text or none; none of them may crash.
    for (std::size_t n = 0; n < text.size(); ++n) {
        const auto cut = SpotHistory::parse(std::string_view(text).substr(0, n));
        if (cut) CHECK_FALSE(*cut == history);
    }
    for (const char* wrong : {"", "spot2 0 0 0", "spot1 0 99 ", "spot1 0 0 1", "spot1 0 0 2 5 0 0 5 0 0",
                              "spot1 x 0 0", "spot1 0 1 %zz 5 0", "spot1 0 0 0 0"}) {
        CAPTURE(wrong);
        CHECK_FALSE(SpotHistory::parse(wrong));
    }
}
