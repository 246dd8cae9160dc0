#include "scheduler/spot_policy.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "model/id.hpp"

using namespace gf;
using std::chrono::hours;
using std::chrono::minutes;

namespace {

Instant at(std::int64_t m) {
    return Instant{minutes{m}};
}

struct World {
    SpotJob job{.work_left = hours{20},
                .to_deadline = hours{30},
                .changeover = minutes{10},
                .changeover_worst = minutes{20},
                .lost_worst = minutes{15},
                .look = minutes{5},
                .on = "",
                .startup_left = Millis{0}};
    std::vector<SpotOffer> offers{
        {.key = "east", .spot = true, .up = true, .rate = UsdPerHour{300'000}, .move_fee = Usd{}},
        {.key = "sure", .spot = false, .up = true, .rate = UsdPerHour{1'000'000}, .move_fee = Usd{}},
    };
    bool was_up{true};

    [[nodiscard]] SpotDecision decide() const {
        SpotHistory history;
        std::vector<SpotSeen> seen;
        for (const auto& offer : offers) {
            if (offer.spot) seen.push_back({.key = offer.key, .up = was_up, .rate = offer.rate});
        }
        history.observe(at(0), seen);
        for (auto& one : seen) {
            for (const auto& offer : offers) {
                if (offer.key == one.key) one.up = offer.up;
            }
        }
        history.observe(at(600), seen);
        SpotTables tables;
        return decide_spot(job, offers, history, at(600), tables);
    }
};

}  // namespace

TEST_CASE("where a job is to be, and why") {
    struct Row {
        const char* what;
        void (*change)(World&);
        SpotMove move;
        const char* key;
        SpotWhy why;
    };
    const Row rows[] = {
        {"spot that has stood for hours is taken", [](World&) {}, SpotMove::move, "east", SpotWhy::cheapest},
        {"and kept", [](World& w) { w.job.on = "east"; }, SpotMove::stay, "east", SpotWhy::cheapest},
        {"nothing up and much time: wait", [](World& w) { w.offers[0].up = false; }, SpotMove::idle, "",
         SpotWhy::waits},
        {"less slack than a start and a loss: on-demand",
         [](World& w) { w.job.to_deadline = hours{20} + minutes{24}; }, SpotMove::move, "sure",
         SpotWhy::must_be_sure},
        {"the same, on spot: it is left",
         [](World& w) {
             w.job.to_deadline = hours{20} + minutes{24};
             w.job.on = "east";
         },
         SpotMove::move, "sure", SpotWhy::must_be_sure},
        {"the same, on demand: stays",
         [](World& w) {
             w.job.to_deadline = hours{20};
             w.job.on = "sure";
         },
         SpotMove::stay, "sure", SpotWhy::cheapest},
        {"too late for a start: what runs runs on",
         [](World& w) {
             w.job.to_deadline = hours{20} + minutes{3};
             w.job.on = "east";
         },
         SpotMove::stay, "east", SpotWhy::too_late},
        {"too late and nothing runs: on-demand, the least late",
         [](World& w) { w.job.to_deadline = hours{20}; }, SpotMove::move, "sure", SpotWhy::too_late},
        {"spot as dear as on-demand",
         [](World& w) {
             w.offers[0].rate = UsdPerHour{1'000'000};
             w.job.to_deadline = hours{21};
         },
         SpotMove::move, "sure", SpotWhy::cheapest},
        {"much time, on demand, spot stands: leave it", [](World& w) { w.job.on = "sure"; }, SpotMove::move,
         "east", SpotWhy::cheapest},
        {"no deadline, spot stands", [](World& w) { w.job.to_deadline.reset(); }, SpotMove::move, "east",
         SpotWhy::no_deadline},
        {"no deadline, spot hardly cheaper and just up",
         [](World& w) {
             w.job.to_deadline.reset();
             w.was_up = false;
             w.offers[0].rate = UsdPerHour{960'000};
             w.job.changeover = minutes{40};
         },
         SpotMove::move, "sure", SpotWhy::no_deadline},
        {"no deadline, nothing up",
         [](World& w) {
             w.job.to_deadline.reset();
             w.offers[0].up = false;
             w.offers[1].up = false;
         },
         SpotMove::idle, "", SpotWhy::nothing_offered},
        {"a fee that eats the gain",
         [](World& w) {
             w.offers[0].rate = UsdPerHour{950'000};
             w.offers.push_back({.key = "far",
                                 .spot = true,
                                 .up = true,
                                 .rate = UsdPerHour{940'000},
                                 .move_fee = Usd{30'000'000}});
             w.job.on = "east";
         },
         SpotMove::stay, "east", SpotWhy::cheapest},
        {"of two as good the first by name",
         [](World& w) {
             w.offers.push_back(
                 {.key = "aeast", .spot = true, .up = true, .rate = UsdPerHour{300'000}, .move_fee = Usd{}});
         },
         SpotMove::move, "aeast", SpotWhy::cheapest},
    };
    for (const auto& row : rows) {
        CAPTURE(row.what);
        World world;
        row.change(world);
        const auto decision = world.decide();
        CHECK(text(decision.move) == text(row.move));
        CHECK(decision.key == row.key);
        CHECK(text(decision.why) == text(row.why));
    }
}

TEST_CASE("a decision carries the figures behind it") {
    const auto decision = World{}.decide();
    CHECK(decision.slack == hours{10});
    CHECK(decision.guard == minutes{35});
    REQUIRE(decision.hour_value);
    CHECK(decision.hour_value->micros > 300'000);
    CHECK(decision.hour_value->micros < 1'000'000);
    REQUIRE(decision.lifetime);
    CHECK(*decision.lifetime > hours{4});
    REQUIRE(decision.if_spot);
    REQUIRE(decision.if_sure);
    CHECK(*decision.if_spot <= *decision.if_sure);
    CHECK(decision.if_spot->micros > 20 * 300'000);
    CHECK(decision.if_sure->micros < 21 * 1'000'000);
    CHECK(decision.acceptable == std::vector<std::string>{"east"});
}

TEST_CASE("the order of the offers does not matter, nor what was asked before") {
    Entropy chance(11);
    SpotTables used;
    for (int round = 0; round < 60; ++round) {
        World world;
        world.offers.clear();
        SpotHistory history;
        std::vector<SpotSeen> seen;
        for (int z = 0; z < 5; ++z) {
            const SpotOffer offer{
                .key = "zone" + std::to_string(z),
                .spot = true,
                .up = chance.below(2) == 0,
                .rate = UsdPerHour{static_cast<std::int64_t>(200'000 + 100'000 * chance.below(4))},
                .move_fee = Usd{static_cast<std::int64_t>(chance.below(3) * 100'000)}};
            world.offers.push_back(offer);
        }
        for (const char* name : {"sure1", "sure2"}) {
            world.offers.push_back(
                {.key = name, .spot = false, .up = true, .rate = UsdPerHour{1'000'000}, .move_fee = Usd{}});
        }
        for (int m = 0; m <= 300; m += 20) {
            seen.clear();
            for (const auto& offer : world.offers) {
                if (offer.spot)
                    seen.push_back({.key = offer.key,
                                    .up = m == 300 ? offer.up : chance.below(2) == 0,
                                    .rate = offer.rate});
            }
            history.observe(at(m), seen);
        }
        world.job.to_deadline = hours{20} + minutes{20 + 60 * chance.below(12)};
        SpotTables fresh;
        const auto first = decide_spot(world.job, world.offers, history, at(300), fresh);
        for (std::size_t n = world.offers.size(); n > 1; --n)
            std::swap(world.offers[n - 1], world.offers[chance.below(n)]);
        CHECK(decide_spot(world.job, world.offers, history, at(300), used) == first);
    }
}

TEST_CASE("no deadline is missed while on-demand is there, whatever spot does and whenever one looks") {
    Entropy chance(5);
    SpotTables tables;
    int losses = 0;
    int spot_looks = 0;
    for (int round = 0; round < 150; ++round) {
        const auto millis = [&](std::int64_t least, std::int64_t most) {
            return Millis{least * 60'000 + static_cast<std::int64_t>(chance.below(
                                               static_cast<std::uint64_t>((most - least) * 60'000)))};
        };
        SpotJob job{.work_left = millis(120, 900),
                    .to_deadline = {},
                    .changeover = minutes{5},
                    .changeover_worst = millis(10, 60),
                    .lost_worst = millis(0, 40),
                    .look = millis(1, 20),
                    .on = "",
                    .startup_left = Millis{0}};
        Millis left = job.work_left + job.changeover_worst + millis(0, 600);
        SpotHistory history;
        Instant now{};
        Millis unsaved{0};
        bool missed = false;
        for (int looks = 0; job.work_left > Millis{0} && looks < 4000; ++looks) {
            std::vector<SpotOffer> offers;
            std::vector<SpotSeen> seen;
            for (const char* name : {"a", "b"}) {
                // The machine that it is on is taken at one look in five, at the worst moment for a start:
                // just before it ends.
                const bool up = chance.below(5) != 0;
                offers.push_back(
                    {.key = name, .spot = true, .up = up, .rate = UsdPerHour{200'000}, .move_fee = Usd{}});
                seen.push_back({.key = name, .up = up, .rate = UsdPerHour{200'000}});
                if (job.on == name && !up) {
                    ++losses;
                    job.on.clear();
                    job.startup_left = Millis{0};
                    job.work_left += std::min(unsaved, job.lost_worst);
                    unsaved = Millis{0};
                }
            }
            offers.push_back(
                {.key = "sure", .spot = false, .up = true, .rate = UsdPerHour{1'000'000}, .move_fee = Usd{}});
            history.observe(now, seen);
            job.to_deadline = left;
            const auto decision = decide_spot(job, offers, history, now, tables);
            if (decision.move != SpotMove::stay) {
                job.on = decision.key;
                job.startup_left = decision.key.empty() ? Millis{0} : job.changeover_worst;
                unsaved = Millis{0};
            }
            const Millis pause = Millis{
                1 + static_cast<std::int64_t>(chance.below(static_cast<std::uint64_t>(job.look.count())))};
            if (!job.on.empty()) {
                if (job.on != "sure") ++spot_looks;
                const Millis waits = std::min(job.startup_left, pause);
                job.startup_left -= waits;
                const Millis ran = std::min(pause - waits, job.work_left);
                job.work_left -= ran;
                unsaved += job.on == "sure" ? Millis{0} : ran;
                if (job.work_left <= Millis{0}) missed = waits + ran > left;
            }
            now += pause;
            left -= pause;
        }
        CAPTURE(round);
        CHECK(job.work_left <= Millis{0});
        CHECK_FALSE(missed);
    }
    CHECK(losses > 100);
    CHECK(spot_looks > 1000);
}
