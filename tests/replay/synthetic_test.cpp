#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>

#include "market.hpp"
#include "replay/baselines.hpp"
#include "replay/ferry.hpp"

using namespace gf;
using namespace gf::replay;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

namespace {

/// Whether one zone is up in a tick, drawn or by rule.
using Drawn = std::function<bool(std::size_t zone, std::size_t tick)>;

Trace market_of(std::size_t zones, std::size_t ticks, Millis tick, const Drawn& up, double spot = 0.98) {
    Trace trace{.zones = {}, .tick = tick, .up = {}, .spot = {}, .on_demand = {}};
    for (std::size_t z = 0; z < zones; ++z) {
        trace.zones.push_back("zone-" + std::to_string(z));
        auto& row = trace.up.emplace_back();
        for (std::size_t t = 0; t < ticks; ++t) row.push_back(up(z, t) ? 1 : 0);
        trace.spot.emplace_back(ticks, UsdPerHour{std::llround(spot * 1e6)});
        trace.on_demand.push_back(UsdPerHour{3'060'000});
    }
    return trace;
}

/// A zone that flips by a chance per tick that may depend on how long it has stood.
Drawn flips(Entropy& chance, std::function<double(bool up, std::size_t age)> rate) {
    struct State {
        bool up{false};
        std::size_t age{0};
    };
    return [&chance, rate = std::move(rate), states = std::vector<State>()](std::size_t zone,
                                                                            std::size_t) mutable {
        if (zone >= states.size()) states.push_back({.up = chance.below(2) == 0});
        auto& state = states[zone];
        const auto limit = static_cast<std::uint64_t>(rate(state.up, state.age) * 1e6);
        if (chance.below(1'000'000) < limit) state = {.up = !state.up};
        ++state.age;
        return state.up;
    };
}

struct World {
    const char* what;
    Trace trace;
};

std::vector<World> worlds(Entropy& chance) {
    const auto ten = minutes{10};
    constexpr std::size_t kTicks = 600;
    std::vector<World> all;
    all.push_back({"always up", market_of(1, kTicks, ten, [](auto, auto) { return true; })});
    all.push_back({"never up", market_of(1, kTicks, ten, [](auto, auto) { return false; })});
    all.push_back(
        {"up every second tick", market_of(1, kTicks, ten, [](auto, std::size_t t) { return t % 2 == 0; })});
    all.push_back({"up by day", market_of(1, kTicks, ten, [](auto, std::size_t t) { return t % 144 < 72; })});
    all.push_back(
        {"up, then never again", market_of(1, kTicks, ten, [](auto, std::size_t t) { return t < 100; })});
    all.push_back({"flips by one chance",
                   market_of(1, kTicks, ten, flips(chance, [](bool up, auto) { return up ? 0.05 : 0.1; }))});
    all.push_back({"bathtub", market_of(1, kTicks, ten, flips(chance, [](bool up, std::size_t age) {
                                            return !up ? 0.2 : age < 2 ? 0.4 : age < 140 ? 0.005 : 0.5;
                                        }))});
    all.push_back({"ticks of 195 s", market_of(1, 1'500, seconds{195}, flips(chance, [](bool up, auto) {
                                                   return up ? 0.02 : 0.04;
                                               }))});
    all.push_back({"ticks of 32 s", market_of(1, 3'000, seconds{32}, flips(chance, [](bool up, auto) {
                                                  return up ? 0.004 : 0.01;
                                              }))});
    const auto usual = [&] {
        return flips(chance, [](bool up, std::size_t age) {
            return (up ? 0.3 : 0.35) / std::sqrt(1.0 + static_cast<double>(age));
        });
    };
    all.push_back({"as dear as on-demand", market_of(1, kTicks, ten, usual(), 3.06)});
    all.push_back({"dearer than on-demand", market_of(1, kTicks, ten, usual(), 4.5)});
    all.push_back({"for nothing", market_of(1, kTicks, ten, usual(), 0)});
    all.push_back({"the price triples", market_of(1, kTicks, ten, usual())});
    for (std::size_t t = 50; t < kTicks; ++t) all.back().trace.spot[0][t] = UsdPerHour{2'900'000};
    all.push_back(
        {"one of two flaps", market_of(2, kTicks, ten, [one = usual()](std::size_t z, std::size_t t) mutable {
             return z == 0 ? t % 2 == 0 : one(0, t);
         })});
    all.push_back({"thirty zones", market_of(30, 200, ten, usual())});
    return all;
}

}  // namespace

TEST_CASE("whatever the market does, no deadline is missed that on-demand makes") {
    Entropy chance(11);
    int runs = 0;
    for (auto& world : worlds(chance)) {
        CAPTURE(std::string(world.what));
        auto policy = make_ferry("gpuferry");
        for (const int slack : {105, 130, 250}) {
            for (const auto changeover : {minutes{0}, minutes{3}, minutes{12}, minutes{30}}) {
                const Setting setting{.work = hours{6},
                                      .deadline = minutes{360 * slack / 100},
                                      .changeover = changeover,
                                      .checkpoint_every = minutes{runs % 2 == 0 ? 0 : 15},
                                      .egress = {}};
                if (!feasible(setting)) continue;
                CAPTURE(slack);
                CAPTURE(changeover.count());
                const auto out = play(world.trace, setting, chance.below(40), *policy);
                CHECK_FALSE(out.missed);
                CHECK(out.finished <= setting.deadline);
                ++runs;
            }
        }
    }
    CHECK(runs > 150);
}

TEST_CASE("in one zone it pays less than the better form of Uniform Progress, and in no cell clearly more") {
    Entropy chance(12);
    int cells = 0;
    std::int64_t ours_all = 0;
    std::int64_t better_all = 0;
    for (auto& world : worlds(chance)) {
        if (world.trace.zones.size() > 1) continue;
        CAPTURE(std::string(world.what));
        auto policy = make_ferry("gpuferry");
        for (const int slack : {125, 250}) {
            for (const auto changeover : {minutes{3}, minutes{12}}) {
                CAPTURE(slack);
                CAPTURE(changeover.count());
                const Setting setting{.work = hours{12},
                                      .deadline = minutes{720 * slack / 100},
                                      .changeover = changeover,
                                      .egress = {}};
                std::int64_t better = INT64_MAX;
                const auto over_starts = [&](Policy& one) {
                    std::int64_t sum = 0;
                    for (std::size_t n = 0; n < 12; ++n)
                        sum += play(world.trace, setting, n * world.trace.length() / 30, one).cost.micros;
                    return sum;
                };
                for (const char* name : {"uniform_progress", "uniform_progress_loose"})
                    better = std::min(better, over_starts(*make_baseline(name)));
                const std::int64_t ours = over_starts(*policy);
                // Twelve starts are few: the grid of bench/replay, with eighty, has the limit of 0.5 %.
                CHECK(ours <= better + better / 100);
                ours_all += ours;
                better_all += better;
                ++cells;
            }
        }
    }
    CHECK(cells == 52);
    CHECK(ours_all < better_all);
}
