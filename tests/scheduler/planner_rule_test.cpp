#include <doctest/doctest.h>

#include "naive_plan.hpp"
#include "scheduler/offer_bound.hpp"

using namespace gf;
using gf::test::Dice;
using gf::test::NaivePlan;
using gf::test::PlanCase;
using gf::test::random_case;

namespace {

/// What is decided, without what it took.
std::string decided(Plan plan, const PlanCase& c) {
    plan.evaluations = 0;
    plan.refusals.clear();
    for (auto& w : plan.waiting) {
        w.refusals.reset();
        w.counted_at.reset();
    }
    return plan_json(plan, c.tasks, c.offers, c.world);
}

}  // namespace

TEST_CASE("the planner comes to what the plain rule says, seed by seed") {
    int placed = 0, gangs = 0, kept = 0, warm = 0;
    std::map<std::string, int> waiting;
    for (std::uint64_t seed = 1; seed <= 5'000; ++seed) {
        CAPTURE(seed);
        const PlanCase c = random_case(seed);
        NaivePlan naive(c);
        const Plan plain = naive.run();
        const Plan fast = c.plan();
        REQUIRE_FALSE(naive.grew);
        REQUIRE(decided(fast, c) == decided(plain, c));
        REQUIRE(fast.placements.size() + fast.waiting.size() == c.tasks.size());
        for (const auto& p : fast.placements) {
            ++placed;
            gangs += c.tasks[p.task].gang.empty() ? 0 : 1;
            kept += p.kept ? 1 : 0;
            warm += p.warm ? 1 : 0;
        }
        for (const auto& w : fast.waiting) ++waiting[w.reason];
    }
    // The worlds are such that all of it happens.
    CHECK(placed > 4'000);
    CHECK(gangs > 200);
    CHECK(kept > 100);
    CHECK(warm > 50);
    for (const char* reason : {"quota", "balance", "budget", "turn", "gang", "max_price", "no_offer_fits",
                               "no_offers", "cooling_down", "host_reputation"}) {
        CAPTURE(reason);
        CHECK(waiting[reason] > 10);
    }
}

namespace {

/// Hours that hang on the card, and so do its leases; a start that costs something on top.
std::int64_t hours_of(const Fit& fit) {
    const std::string& card = fit.offer.gpu.canonical;
    return (card.starts_with("A100")   ? 2
            : card.starts_with("L40S") ? 3
            : card == "RTX-4090"       ? 4
                                       : 7) *
           (fit.spec.resources.gpus == 2 ? 2 : 1);
}
const Scoring& by_card() {
    static constexpr Scoring kScoring{
        .score =
            [](const void*, const Fit& fit) {
                return cost(fit.all_in, std::chrono::hours{hours_of(fit)}).micros +
                       (fit.offer.spot ? 30'000 : 0) + 1'000 * fit.standing.handicap_percent;
            },
        .pace =
            [](const void*, const Fit& like) {
                return Pace{.least = Millis{std::chrono::hours{hours_of(like)}}.count(),
                            .expected = std::chrono::hours{hours_of(like)}};
            },
        .warm = [](const void*, const Fit& fit,
                   Millis) { return cost(fit.all_in, std::chrono::hours{hours_of(fit)}).micros; }};
    return kScoring;
}

}  // namespace

TEST_CASE("the same for a score by the hours that each card takes") {
    int placed = 0;
    for (std::uint64_t seed = 10'001; seed <= 13'000; ++seed) {
        CAPTURE(seed);
        const PlanCase c = random_case(seed);
        NaivePlan naive(c, by_card());
        const Plan plain = naive.run();
        const Plan fast = gf::plan(c.tasks, c.offers, c.world, c.rule, by_card());
        REQUIRE_FALSE(naive.grew);
        REQUIRE(decided(fast, c) == decided(plain, c));
        placed += static_cast<int>(fast.placements.size());
    }
    CHECK(placed > 3'000);
}

TEST_CASE("the same snapshot gives the same bytes, whatever the order of its parts") {
    for (std::uint64_t seed = 1; seed <= 1'500; ++seed) {
        CAPTURE(seed);
        PlanCase c = random_case(seed);
        if (seed % 3 == 0) c.rule.evaluations_max = 20;
        if (seed % 5 == 0) c.rule.launches_max = 2;
        if (seed % 7 == 0) c.rule.counts_max = 10;
        const std::string first = plan_json(c.plan(), c.tasks, c.offers, c.world);
        Dice dice(seed);
        for (int i = 0; i < 3; ++i) {
            test::shuffle(c.tasks, dice);
            test::shuffle(c.offers, dice);
            test::shuffle(c.world.warm, dice);
            REQUIRE(plan_json(c.plan(), c.tasks, c.offers, c.world) == first);
        }
    }
}

TEST_CASE("planning again changes nothing: what was chosen stays chosen") {
    int placed = 0;
    for (std::uint64_t seed = 1; seed <= 1'500; ++seed) {
        CAPTURE(seed);
        PlanCase c = random_case(seed);
        for (auto& task : c.tasks) task.kept.reset();
        c.world.warm.clear();
        const Plan first = c.plan();
        for (const auto& p : first.placements) {
            const Offer& o = c.offers[*p.offer];
            c.tasks[p.task].kept = OfferKey{o.provider, o.id, o.spot};
        }
        const Plan second = c.plan();
        REQUIRE(second.placements.size() == first.placements.size());
        for (std::size_t i = 0; i < first.placements.size(); ++i) {
            ++placed;
            CHECK(second.placements[i].task == first.placements[i].task);
            CHECK(second.placements[i].offer == first.placements[i].offer);
        }
    }
    CHECK(placed > 1'500);
}

TEST_CASE("offers and tasks that have nothing to do with a task do not change what it gets") {
    for (std::uint64_t seed = 1; seed <= 1'500; ++seed) {
        CAPTURE(seed);
        PlanCase c = random_case(seed);
        const auto of_old = [&](const Plan& plan) {
            std::map<std::string, std::string> out;
            for (const auto& p : plan.placements) {
                const std::string& id = c.tasks[p.task].row->id.get();
                if (!id.starts_with("new"))
                    out[id] = p.warm ? c.world.warm[*p.warm].id.get()
                                     : c.offers[*p.offer].provider.get() + c.offers[*p.offer].id;
            }
            return out;
        };
        const auto before = of_old(c.plan());
        Dice dice(seed);
        for (int i = 0; i < 6; ++i) {
            Offer o = test::random_offer(dice, 500 + i);
            o.provider = ProviderName{"vastai"};
            o.gpu_count = 8;  // which nobody asks for
            c.offers.push_back(std::move(o));
            JobSpec spec = test::random_spec(dice);
            spec.resources.gpus = 16;  // which nobody offers
            c.add("new" + std::to_string(i), spec);
        }
        test::shuffle(c.offers, dice);
        CHECK(of_old(c.plan()) == before);
    }
}

TEST_CASE("what the filters refuse of the made-up best, they refuse of each") {
    int refused = 0, passed = 0;
    for (std::uint64_t seed = 1; seed <= 4'000; ++seed) {
        CAPTURE(seed);
        Dice dice(seed);
        std::vector<Offer> offers{test::random_offer(dice, 0)};
        for (int i = 1; i < 2 + dice.below(7); ++i) {
            Offer o = test::random_offer(dice, i);
            o.provider = offers[0].provider;
            if (dice.one_in(2)) o.cuda_max = dice.one_in(2) ? "12.10" : "12.9";
            if (dice.one_in(2)) o.driver = dice.one_in(3) ? "not a version" : "570.86";
            if (dice.one_in(2)) o.inet_down_mbps = 100.0 * dice.below(5);
            offers.push_back(std::move(o));
        }
        Offer best = offers[0];
        for (const Offer& o : offers) improve(best, o);
        JobSpec spec = test::random_spec(dice);
        if (dice.one_in(3)) spec.resources.cuda = "12.10";
        if (dice.one_in(3)) spec.resources.driver = "560";
        if (dice.one_in(3)) spec.resources.inet_down_mbps = 250;
        TaskRecord row;
        if (dice.one_in(4)) row.memory_above = Bytes{32 * kGB};
        PlanWorld world;
        test::random_world(dice, world);
        const Fit of_best = make_fit(spec, row, best, world.choice);
        for (const auto group : {demand_filters(), money_filters()})
            for (const auto filter : group) {
                if (filter == region_filter()) continue;
                if (!filter(of_best)) {
                    ++passed;
                    continue;
                }
                ++refused;
                for (const Offer& o : offers) CHECK(filter(make_fit(spec, row, o, world.choice)).has_value());
            }
    }
    CHECK(refused > 500);
    CHECK(passed > 5'000);
}
