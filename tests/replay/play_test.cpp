#include "replay/play.hpp"

#include <doctest/doctest.h>

#include <deque>

#include "market.hpp"
#include "replay/baselines.hpp"
#include "replay/ferry.hpp"

using namespace gf;
using namespace gf::replay;
using std::chrono::minutes;

namespace {

/// Says what it was told to, then waits on demand.
class Script final : public Policy {
 public:
    explicit Script(std::deque<Place> places) : places_(std::move(places)) {}
    Place decide(const Look&) override {
        if (places_.empty()) return {Mode::on_demand, 0};
        const Place next = places_.front();
        if (places_.size() > 1) places_.pop_front();
        return next;
    }

 private:
    std::deque<Place> places_;
};

constexpr Place kIdle{};
constexpr Place kSpot{Mode::spot, 0};
constexpr Place kSure{Mode::on_demand, 0};

}  // namespace

TEST_CASE("what a run costs is counted by the rule of the papers") {
    struct Row {
        const char* what;
        const char* up;
        std::deque<Place> places;
        std::int64_t work_min, deadline_min, every_min;
        std::int64_t ticks_spot, ticks_sure;
        std::int64_t finished_min;
        int interruptions, starts;
        bool missed;
    };
    // Ten-minute ticks, a changeover of 12 minutes.
    const Row rows[] = {
        {"on-demand alone: the last tick is paid in full",
         "00000000",
         {kSure},
         20,
         60,
         0,
         0,
         4,
         32,
         0,
         1,
         false},
        {"spot alone", "11111111", {kSpot}, 20, 60, 0, 4, 0, 32, 0, 1, false},
        {"waiting costs nothing", "00111111", {kIdle, kIdle, kSpot}, 20, 60, 0, 4, 0, 52, 0, 1, false},
        {"taken at the start of a tick; the tick before counts",
         "11100000",
         {kSpot, kSpot, kSpot, kSure},
         20,
         120,
         0,
         3,
         2,
         44,
         1,
         2,
         false},
        {"a start that is taken was for nothing",
         "10000000",
         {kSpot, kSure},
         10,
         120,
         0,
         1,
         3,
         32,
         1,
         2,
         false},
        {"spot in a zone that is down is nothing",
         "00000000",
         {kSpot, kSpot, kSure},
         10,
         60,
         0,
         0,
         3,
         42,
         0,
         1,
         false},
        {"the same place again is no start",
         "11111111",
         {kSpot, kSpot, kSpot},
         10,
         60,
         0,
         3,
         0,
         22,
         0,
         1,
         false},
        {"from spot to on-demand and back",
         "11111111",
         {kSpot, kSure, kSpot},
         10,
         120,
         0,
         4,
         1,
         42,
         0,
         3,
         false},
        {"work since the last checkpoint is lost",
         "11111000",
         {kSpot, kSpot, kSpot, kSpot, kSpot, kSure},
         48,
         240,
         30,
         5,
         3,
         80,
         1,
         2,
         false},
        {"late by a minute", "00000000", {kSure}, 20, 31, 0, 0, 4, 32, 0, 1, true},
        {"just in time", "00000000", {kSure}, 20, 32, 0, 0, 4, 32, 0, 1, false},
        {"whoever waits too long ends on demand", "00000000", {kIdle}, 10, 20, 0, 0, 3, 42, 0, 1, true},
    };
    for (const auto& row : rows) {
        CAPTURE(row.what);
        const auto trace = drawn({row.up});
        const Setting setting{.work = minutes{row.work_min},
                              .deadline = minutes{row.deadline_min},
                              .changeover = minutes{12},
                              .checkpoint_every = minutes{row.every_min},
                              .egress = {}};
        Script script(row.places);
        const auto out = play(trace, setting, 0, script);
        CHECK(out.spot == minutes{10 * row.ticks_spot});
        CHECK(out.on_demand == minutes{10 * row.ticks_sure});
        CHECK(out.cost.micros == row.ticks_spot * 166'667 + row.ticks_sure * 500'000);
        CHECK(out.finished == minutes{row.finished_min});
        CHECK(out.interruptions == row.interruptions);
        CHECK(out.starts == row.starts);
        CHECK(out.missed == row.missed);
    }
}

TEST_CASE("moving a checkpoint to another zone is paid at the start there") {
    const auto trace = drawn({"1111", "1111"});
    Setting setting{.work = minutes{20},
                    .deadline = minutes{90},
                    .changeover = minutes{0},
                    .egress = {{Usd{0}, Usd{7}}, {Usd{9}, Usd{0}}}};
    Script script({{Mode::spot, 0}, {Mode::spot, 1}});
    const auto out = play(trace, setting, 0, script);
    CHECK(out.cost.micros == 2 * 166'667 + 7);
    CHECK(out.moves == 1);
}

TEST_CASE("no policy misses a deadline that on-demand alone makes, and none beats what it pays at least") {
    Entropy chance(2);
    int runs = 0;
    for (int round = 0; round < 40; ++round) {
        const auto zones = 1 + chance.below(4);
        const auto trace = random_market(chance, zones, 400);
        Setting setting{.work = minutes{60 + chance.below(900)},
                        .deadline = {},
                        .changeover = minutes{chance.below(45)},
                        .checkpoint_every = minutes{chance.below(3) * 10},
                        .egress = {}};
        setting.deadline = setting.work + setting.changeover + minutes{chance.below(600)};
        // The papers' policies count in whole ticks and know nothing of lost work.
        const bool plain = setting.checkpoint_every == minutes{0};
        for (const char* name :
             {"gpuferry", "uniform_progress", "uniform_progress_loose", "greedy", "on_demand"}) {
            auto policy = make_baseline(name);
            if (!policy) policy = make_ferry(name);
            REQUIRE(policy);
            if (!plain && std::string_view(name) != "gpuferry" && std::string_view(name) != "on_demand")
                continue;
            const auto out = play(trace, setting, chance.below(200), *policy);
            CAPTURE(round);
            CAPTURE(std::string(name));
            CHECK_FALSE(out.missed);
            CHECK(out.spot + out.on_demand >= setting.work);
            ++runs;
        }
    }
    CHECK(runs > 100);
}

TEST_CASE("the same run twice is the same, with a policy that was used before") {
    Entropy chance(4);
    const auto trace = random_market(chance, 3, 500);
    const Setting setting{.work = std::chrono::hours{20},
                          .deadline = std::chrono::hours{30},
                          .changeover = minutes{12},
                          .egress = {}};
    auto fresh = make_ferry("gpuferry");
    auto used = make_ferry("gpuferry");
    (void)play(trace, setting, 100, *used);
    CHECK(play(trace, setting, 0, *fresh) == play(trace, setting, 0, *used));
    CHECK(make_ferry("other") == nullptr);
    CHECK(make_baseline("gpuferry") == nullptr);
}
