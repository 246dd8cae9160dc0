#include "replay/optimum.hpp"

#include <doctest/doctest.h>

#include <limits>

#include "market.hpp"
#include "replay/baselines.hpp"
#include "replay/ferry.hpp"

using namespace gf;
using namespace gf::replay;
using std::chrono::minutes;

namespace {

/// Every way through a short trace, by trying: the place of every tick, by the rules of `play`.
class Exhaustive {
 public:
    Exhaustive(const Trace& trace, const Setting& setting) : trace_(trace), setting_(setting) {}
    std::int64_t least(std::size_t tick, Place at, Millis startup, Millis left, int checkpoint) {
        if (left <= Millis{0}) return 0;
        if (static_cast<std::int64_t>(tick + 1) * trace_.tick > setting_.deadline) return kNever;
        std::int64_t best = least(tick + 1, {}, Millis{0}, left, checkpoint);
        for (int z = 0; z < static_cast<int>(trace_.zones.size()); ++z) {
            for (const Mode mode : {Mode::spot, Mode::on_demand}) {
                const auto zone = static_cast<std::size_t>(z);
                if (mode == Mode::spot && !trace_.is_up(zone, tick)) continue;
                const Place next{mode, z};
                const bool start = next != at;
                Millis wait = start ? setting_.changeover : startup;
                const std::int64_t fee = start ? setting_.move_fee(checkpoint, z).micros : 0;
                const std::int64_t paid =
                    cost(mode == Mode::spot ? trace_.price(zone, tick) : trace_.on_demand[zone], trace_.tick)
                        .micros;
                const Millis waited = std::min(wait, trace_.tick);
                best = std::min(
                    best,
                    fee + paid + least(tick + 1, next, wait - waited, left - (trace_.tick - waited), z));
            }
        }
        return best;
    }
    static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max() / 4;

 private:
    const Trace& trace_;
    const Setting& setting_;
};

}  // namespace

TEST_CASE("the optimum is what trying every way gives") {
    Entropy chance(9);
    int possible = 0;
    for (int round = 0; round < 60; ++round) {
        const auto zones = 1 + chance.below(2);
        const auto trace = random_market(chance, zones, 8);
        Setting setting{.work = minutes{10 + 5 * chance.below(7)},
                        .deadline = minutes{60 + 10 * chance.below(2)},
                        .changeover = minutes{5 * chance.below(5)},
                        .egress = {}};
        if (zones == 2 && chance.below(2) == 0)
            setting.egress = {{Usd{0}, Usd{200'000}}, {Usd{50'000}, Usd{0}}};
        const auto tried = Exhaustive(trace, setting).least(0, {}, Millis{0}, setting.work, -1);
        const auto found = optimum(trace, setting, 0);
        CAPTURE(round);
        if (tried >= Exhaustive::kNever) {
            CHECK_FALSE(found);
        } else {
            REQUIRE(found);
            CHECK(found->micros == tried);
            ++possible;
        }
    }
    CHECK(possible > 30);
}

TEST_CASE("no policy is cheaper than the optimum") {
    Entropy chance(21);
    for (int round = 0; round < 25; ++round) {
        const auto trace = random_market(chance, 1 + chance.below(3), 300);
        const Setting setting{.work = minutes{300 + chance.below(600)},
                              .deadline = minutes{1'200},
                              .changeover = minutes{chance.below(30)},
                              .egress = {}};
        const auto best = optimum(trace, setting, 50);
        REQUIRE(best);
        for (const char* name : {"gpuferry", "uniform_progress", "greedy", "on_demand"}) {
            auto policy = make_baseline(name);
            if (!policy) policy = make_ferry(name);
            CAPTURE(std::string(name));
            CHECK(play(trace, setting, 50, *policy).cost >= *best);
        }
    }
}

TEST_CASE("what cannot be done has no optimum, and nothing to do costs nothing") {
    const auto trace = drawn({"1111"});
    CHECK_FALSE(optimum(
        trace, {.work = minutes{60}, .deadline = minutes{50}, .changeover = minutes{0}, .egress = {}}, 0));
    CHECK_FALSE(optimum(
        trace, {.work = minutes{10}, .deadline = minutes{5}, .changeover = minutes{0}, .egress = {}}, 0));
    CHECK(optimum(trace,
                  {.work = minutes{0}, .deadline = minutes{50}, .changeover = minutes{5}, .egress = {}},
                  0) == Usd{0});
    // Odd lengths that would need too many steps are counted coarser, and stay below what is paid.
    const Setting odd{
        .work = minutes{30}, .deadline = minutes{90}, .changeover = Millis{300'001}, .egress = {}};
    auto policy = make_baseline("greedy");
    const auto found = optimum(trace, odd, 0);
    REQUIRE(found);
    CHECK(*found <= play(trace, odd, 0, *policy).cost);
}
