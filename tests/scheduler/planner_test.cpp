#include "scheduler/planner.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

#include "plan_world.hpp"

using namespace gf;
using gf::test::kNow;
using gf::test::PlanCase;

namespace {

Offer priced(std::string id, std::int64_t micros, std::string provider = "vastai") {
    Offer o = test::offer(std::move(provider), std::move(id));
    o.gpu_rate = UsdPerHour{micros};
    o.exclusive = true;
    return o;
}

JobSpec of_project(std::string project) {
    JobSpec spec = test::job();
    spec.project = std::move(project);
    return spec;
}

PlanCase roomy() {
    PlanCase c;
    c.world.choice = test::world();
    return c;
}

/// "task>offer" in the order of service, then "task:reason" of those that wait.
std::vector<std::string> told(const Plan& plan, const PlanCase& c) {
    std::vector<std::string> out;
    for (const auto& p : plan.placements)
        out.push_back(c.tasks[p.task].row->id.get() + ">" +
                      (p.warm ? c.world.warm[*p.warm].id.get() : c.offers[*p.offer].id));
    for (const auto& w : plan.waiting)
        out.push_back(c.tasks[w.task].row->id.get() + ":" + w.reason +
                      (w.detail.empty() ? "" : "/" + w.detail));
    return out;
}
std::vector<std::string> told(const PlanCase& c) {
    return told(c.plan(), c);
}
using Told = std::vector<std::string>;

}  // namespace

TEST_CASE("higher priority first, then the project that pays least for its weight, then age") {
    PlanCase c = roomy();
    for (int i = 1; i <= 6; ++i) c.offers.push_back(priced("o" + std::to_string(i), 100'000 * i));
    c.add("t1", of_project("a"));
    c.add("t2", of_project("a"));
    c.add("t3", of_project("b"));
    c.add("t4", of_project("b"));
    c.add("t5", of_project("c"), 60);
    SUBCASE("nothing runs") {
        CHECK(told(c) == Told{"t5>o1", "t1>o2", "t3>o3", "t2>o4", "t4>o5"});
    }
    SUBCASE("a runs a lot") {
        c.world.projects["a"].running = UsdPerHour{5'000'000};
        CHECK(told(c) == Told{"t5>o1", "t3>o2", "t4>o3", "t1>o4", "t2>o5"});
    }
    SUBCASE("a runs a lot and has the weight for it") {
        c.world.projects["a"] = {.weight = 20, .running = UsdPerHour{5'000'000}};
        c.world.projects["b"].running = UsdPerHour{300'000};
        // 0.25 for a weight of one before 0.30, and 0.27 after its first; 0.29 after the next is still less.
        CHECK(told(c) == Told{"t5>o1", "t1>o2", "t2>o3", "t3>o4", "t4>o5"});
    }
}

TEST_CASE("one task gets what choose gives it, and its refusals are counted as there") {
    int placed = 0, counted = 0;
    for (std::uint64_t seed = 1; seed <= 600; ++seed) {
        CAPTURE(seed);
        PlanCase c = test::random_case(seed);
        c.tasks.resize(1);
        c.tasks[0].kept.reset();
        c.tasks[0].gang.clear();
        c.tasks[0].budgets.clear();
        c.tasks[0].barred.clear();
        c.world.warm.clear();
        c.world.provider_quotas.clear();
        c.world.choice.machines = 0;
        c.world.choice.fleet_rate = {};
        ChoiceWorld alone = c.world.choice;
        alone.local_allowed = c.tasks[0].local_allowed;
        const Decision decision = choose(*c.tasks[0].spec, *c.tasks[0].row, c.offers, alone);
        const Plan plan = c.plan();
        REQUIRE(plan.placements.size() == (decision.chosen ? 1U : 0U));
        if (decision.chosen) {
            ++placed;
            const Offer& got = c.offers[*plan.placements[0].offer];
            CHECK(OfferKey{got.provider, got.id, got.spot} == OfferKey{decision.chosen->offer.provider,
                                                                       decision.chosen->offer.id,
                                                                       decision.chosen->offer.spot});
            CHECK(plan.placements[0].score == decision.chosen->ranked_at.micros);
        } else {
            CHECK(plan.waiting[0].reason == decision.wait_reason);
            if (c.offers.empty()) continue;
            REQUIRE(plan.waiting[0].refusals.has_value());
            ++counted;
            CHECK(plan.refusals[*plan.waiting[0].refusals].counts == decision.refused);
            CHECK(plan.refusals[*plan.waiting[0].refusals].considered == decision.considered);
        }
    }
    CHECK(placed > 100);
    CHECK(counted > 100);
}

TEST_CASE("no two tasks on one exclusive offer, under neither of its prices; stock goes by its hint") {
    PlanCase c = roomy();
    c.offers = {priced("twin", 200'000), priced("twin", 100'000)};
    c.offers[1].spot = true;
    c.add("t1");
    c.add("t2");
    CHECK(told(c) == Told{"t1>twin", "t2:turn"});
    c.offers.push_back(priced("stock", 300'000, "runpod"));
    c.offers.back().exclusive = false;
    c.offers.back().stock = 1;
    c.add("t3");
    c.add("t4");
    CHECK(told(c) == Told{"t1>twin", "t2>stock", "t3:turn", "t4:turn"});
    c.offers.back().stock = 3;
    CHECK(told(c) == Told{"t1>twin", "t2>stock", "t3>stock", "t4>stock"});
    c.offers.back().stock = 0;
    CHECK(told(c) == Told{"t1>twin", "t2:turn", "t3:turn", "t4:turn"});
}

TEST_CASE(
    "quotas, balances and budgets are shared out in the order of service, and what lacks room says which") {
    PlanCase c = roomy();
    for (int i = 1; i <= 4; ++i) c.offers.push_back(priced("o" + std::to_string(i), 100'000 * i));
    for (const char* id : {"t1", "t2", "t3"}) c.add(id);
    ChoiceWorld& w = c.world.choice;
    SUBCASE("machines") {
        w.machines = 1;
        w.machines_max = 3;
        CHECK(told(c) == Told{"t1>o1", "t2>o2", "t3:quota/quota_machines"});
    }
    SUBCASE("dollars per hour: a cheaper one may still have room") {
        w.fleet_rate_max = UsdPerHour{450'000};
        c.tasks[0].kept = OfferKey{ProviderName{"vastai"}, "o2", false};
        c.rule.keep_margin_percent = 60;
        CHECK(told(c) == Told{"t1>o2", "t2>o1", "t3:quota/quota_usd_per_hour"});
    }
    SUBCASE("of one provider") {
        c.offers[3].provider = ProviderName{"runpod"};
        c.world.provider_quotas["vastai"] = {.machines_max = 2, .rate_max = {}, .machines = 1, .rate = {}};
        CHECK(told(c) == Told{"t1>o1", "t2>o4", "t3:quota/quota_provider_machines/vastai"});
    }
    SUBCASE("balance: an hour of each") {
        w.balances["vastai"] = Usd{350'000};
        CHECK(told(c) == Told{"t1>o1", "t2>o2", "t3:balance/vastai"});
    }
    SUBCASE("budget: for the time that is reserved") {
        c.world.budgets = {{"month", Usd{400'000}}};
        for (auto& task : c.tasks) {
            task.budgets = {0};
            task.reserve_for = std::chrono::hours{2};
        }
        CHECK(told(c) == Told{"t1>o1", "t2:budget/month", "t3:budget/month"});
    }
}

TEST_CASE("a gang gets a machine for each of its tasks or none, and holds nothing back") {
    PlanCase c = roomy();
    c.offers = {priced("o1", 100'000), priced("o2", 200'000), priced("o3", 300'000)};
    for (const char* id : {"t1", "t2", "t3", "t4"}) c.add(id).gang = "g";
    c.add("t5");
    const Plan plan = c.plan();
    CHECK(told(plan, c) == Told{"t5>o1", "t1:gang", "t2:gang", "t3:gang", "t4:gang"});
    CHECK(plan.waiting[0].found == 3);
    c.offers.push_back(priced("o4", 400'000));
    CHECK(told(c) == Told{"t1>o1", "t2>o2", "t3>o3", "t4>o4", "t5:turn"});
    c.world.choice.machines_max = 3;
    CHECK(told(c) == Told{"t5>o1", "t1:quota/quota_machines", "t2:quota/quota_machines",
                          "t3:quota/quota_machines", "t4:quota/quota_machines"});
}

TEST_CASE("a gang that has waited keeps what it found, for a while and then not for as long") {
    PlanCase c = roomy();
    c.offers = {priced("o1", 100'000), priced("o2", 200'000)};
    for (const char* id : {"t1", "t2", "t3"}) c.add(id).gang = "g";
    c.add("t4");
    struct Row {
        int minutes;
        bool keeps;
    };
    for (const auto& [minutes, keeps] :
         {Row{29, false}, Row{30, true}, Row{44, true}, Row{45, false}, Row{59, false}, Row{60, true}}) {
        CAPTURE(minutes);
        for (auto& row : c.rows) row.waiting_since = kNow - std::chrono::minutes{minutes};
        CHECK(told(c).front() == (keeps ? "t1:gang" : "t4>o1"));
    }
}

TEST_CASE("a dear task that has waited is not starved by cheap ones: the fleet drains towards it") {
    // Each pass one machine comes to its end, and two more cheap tasks come in. 0.40 of quota, the dear one
    // needs 0.35.
    PlanCase c = roomy();
    c.world.choice.fleet_rate_max = UsdPerHour{400'000};
    JobSpec dear = of_project("a");
    dear.resources.gpu = dear.resources.gpu_as_typed = {"A100-SXM-80GB"};
    const auto rounds_until_placed = [&](Millis hold_after) {
        std::vector<std::int64_t> fleet{100'000, 100'000, 100'000};
        for (int round = 0; round < 60; ++round) {
            PlanCase now = roomy();
            now.rule.hold_after = hold_after;
            now.world.choice.fleet_rate_max = c.world.choice.fleet_rate_max;
            now.world.choice.fleet_rate =
                UsdPerHour{std::accumulate(fleet.begin(), fleet.end(), std::int64_t{0})};
            now.add("dear", dear);
            now.rows.back().waiting_since = kNow - std::chrono::minutes{round};
            for (int i = 0; i < 2; ++i)
                now.add("small" + std::to_string(round) + std::to_string(i), of_project("b"));
            Offer big = priced("big", 350'000);
            big.gpu.canonical = "A100-SXM-80GB";
            big.gpu.memory = test::mib(81920);
            now.offers = {big, priced("s1", 100'000), priced("s2", 100'000)};
            const Plan plan = now.plan();
            for (const auto& p : plan.placements) {
                if (now.tasks[p.task].row->id.get() == "dear") return round;
                fleet.push_back(p.all_in.micros);
            }
            if (!fleet.empty()) fleet.erase(fleet.begin());
        }
        return -1;
    };
    CHECK(rounds_until_placed(std::chrono::hours{24}) == -1);  // without holding it never has room
    const int rounds = rounds_until_placed(std::chrono::minutes{30});
    CHECK(rounds >= 30);
    CHECK(rounds <= 35);
}

TEST_CASE("a unit that could never have room holds nothing") {
    PlanCase c = roomy();
    c.world.provider_quotas["vastai"] = {
        .machines_max = {}, .rate_max = UsdPerHour{200'000}, .machines = 0, .rate = {}};
    c.offers = {priced("o1", 150'000), priced("o2", 300'000)};
    c.offers[1].gpu = {.canonical = "L40S", .provider_name = "L40S", .memory = test::mib(46068)};
    JobSpec big = of_project("a");
    big.resources.gpu = big.resources.gpu_as_typed = {"L40S"};
    c.add("t1", big);
    c.rows.back().waiting_since = kNow - std::chrono::hours{5};
    c.add("t2");
    CHECK(told(c) == Told{"t2>o1", "t1:quota/quota_provider_usd_per_hour/vastai"});
}

TEST_CASE("every project has its turn, however long the queue of another is") {
    PlanCase c = roomy();
    c.rule.launches_max = 1;
    std::map<std::string, std::int64_t> running;
    std::map<std::string, int> served;
    for (int round = 0; round < 40; ++round) {
        PlanCase now = roomy();
        now.rule.launches_max = 1;
        now.offers = {priced("o", 100'000)};
        for (int i = 0; i < 20; ++i)
            now.add("a" + std::to_string(round) + "-" + std::to_string(i), of_project("a"));
        now.add("b" + std::to_string(round), of_project("b"));
        for (const auto& [name, rate] : running) now.world.projects[name].running = UsdPerHour{rate};
        now.world.projects["a"].weight = 3;
        const Plan plan = now.plan();
        REQUIRE(plan.placements.size() == 1);
        const std::string& project = now.tasks[plan.placements[0].task].spec->project;
        running[project] += 100'000;
        ++served[project];
    }
    CHECK(served["a"] == 30);
    CHECK(served["b"] == 10);
}

TEST_CASE("a warm machine goes first where it is cheaper, counting what is paid for already") {
    PlanCase c = roomy();
    c.offers = {priced("new", 300'000)};
    WarmMachine warm;
    warm.id = MachineId{"warm"};
    warm.offer = priced("held", 400'000, "runpod");
    warm.rate = UsdPerHour{400'000};
    warm.disk = Bytes{100 * kGB};
    warm.project = "default";
    warm.offer.billing_step = std::chrono::hours{1};
    c.world.warm = {warm};
    c.add("t1");
    const auto chosen = [&] { return told(c).front(); };
    WarmMachine& m = c.world.warm[0];
    CHECK(chosen() == "t1>warm");  // 0.40 less the quarter of an hour that a new one takes to start: 0.30, as
                                   // much as the new one
    m.rate = UsdPerHour{440'000};
    CHECK(chosen() == "t1>new");
    m.billed_from = kNow - std::chrono::minutes{20};  // forty minutes more are paid for
    CHECK(chosen() == "t1>warm");
    m.billed_from = kNow - std::chrono::minutes{59};
    CHECK(chosen() == "t1>new");
    m.rate = UsdPerHour{200'000};
    m.billed_from.reset();
    SUBCASE("not of another project") {
        m.project = "other";
        CHECK(chosen() == "t1>new");
    }
    SUBCASE("not of another image") {
        m.image = "other:1";
        CHECK(chosen() == "t1>new");
    }
    SUBCASE("not with too small a disk") {
        m.disk = Bytes{kGB};
        CHECK(chosen() == "t1>new");
    }
    SUBCASE("not one that is for another task") {
        m.only_for = TaskId{"t9"};
        CHECK(chosen() == "t1>new");
    }
    SUBCASE("in spite of quotas, pauses and cool-downs, which are for launches") {
        c.world.choice.machines = c.world.choice.machines_max;
        c.world.choice.paused_providers["runpod"] = "no_money";
        c.world.choice.cooled_offers["runpod/held"] = "no_capacity";
        c.add("t2");
        CHECK(told(c) == Told{"t1>warm", "t2:quota/quota_machines"});
    }
}

TEST_CASE(
    "a choice that was not rented yet stays unless another is better by the margin, and nobody else gets "
    "it") {
    PlanCase c = roomy();
    c.offers = {priced("kept", 300'000), priced("better", 275'000)};
    c.add("t0");
    c.add("t1").kept = OfferKey{ProviderName{"vastai"}, "kept", false};
    CHECK(told(c) == Told{"t0>better", "t1>kept"});
    c.offers.push_back(priced("best", 260'000));
    CHECK(told(c) == Told{"t0>best", "t1>kept"});
    c.tasks.erase(c.tasks.begin());
    CHECK(told(c) == Told{"t1>best"});
    c.offers.back().gpu_rate = UsdPerHour{270'000};
    CHECK(told(c) == Told{"t1>kept"});
    CHECK(c.plan().placements[0].kept);
    c.world.choice.cooled_offers["vastai/kept"] = "no_capacity";
    CHECK(told(c) == Told{"t1>best"});
}

TEST_CASE("since when a task waits for what it waits for") {
    PlanCase c = roomy();
    PlanTask& task = c.add("t1");
    task.wait_reason = "no_offers";
    task.wait_since = kNow - std::chrono::hours{2};
    CHECK(c.plan().waiting[0].since == kNow - std::chrono::hours{2});
    c.offers = {priced("o", 100'000)};
    c.offers[0].gpu_count = 4;
    CHECK(c.plan().waiting[0].reason == "no_offer_fits");
    CHECK(c.plan().waiting[0].since == kNow);
}

TEST_CASE("launches are bounded, and the passes together place what one would") {
    PlanCase c = roomy();
    for (int i = 0; i < 40; ++i)
        c.offers.push_back(priced("o" + std::to_string(100 + i), 100'000 + 1'000 * i));
    for (int i = 0; i < 30; ++i) c.add("t" + std::to_string(100 + i), of_project(i % 3 == 0 ? "a" : "b"));
    c.rule.launches_max = 7;
    int passes = 0;
    std::size_t placed = 0;
    for (; passes < 10 && !c.tasks.empty(); ++passes) {
        const Plan plan = c.plan();
        placed += plan.placements.size();
        REQUIRE(plan.placements.size() == std::min<std::size_t>(7, c.tasks.size()));
        CHECK(plan.more == (plan.placements.size() < c.tasks.size()));
        for (const auto& w : plan.waiting) CHECK(w.reason == "next_pass");
        std::vector<std::size_t> gone;
        for (const auto& p : plan.placements) {
            c.world.choice.taken_offers.insert("vastai/" + c.offers[*p.offer].id);
            gone.push_back(p.task);
        }
        std::ranges::sort(gone, std::greater{});
        for (const auto t : gone) c.tasks.erase(c.tasks.begin() + static_cast<std::ptrdiff_t>(t));
    }
    CHECK(passes == 5);
    CHECK(placed == 30);
}

TEST_CASE("looks are bounded, and each task has its turn whatever stands before it") {
    // Many shapes of high priority that nothing fits, each of which costs a look at every offer, and one that
    // would fit.
    PlanCase c = roomy();
    for (int i = 0; i < 200; ++i) {
        c.offers.push_back(priced("o" + std::to_string(100 + i), 100'000 + 100 * i));
        c.offers.back().reliability = i % 2 == 0 ? 0.95 : 0.5;
        c.offers.back().cpus = i % 2 == 0 ? 2 : 64;
    }
    for (int i = 0; i < 50; ++i) {
        JobSpec spec = test::job();
        spec.resources.cpus = 8 + i;
        spec.resources.reliability = 0.9;
        c.add("t" + std::to_string(100 + i), spec, 90);
    }
    c.add("t999");
    c.rule.evaluations_max = 3'000;
    bool placed = false;
    int passes = 0;
    for (; passes < 60 && !placed; ++passes) {
        const Plan plan = c.plan();
        CHECK(plan.evaluations <= c.rule.evaluations_max + c.rule.counts_max + 3 * c.offers.size());
        placed = !plan.placements.empty();
        int looked = 0;
        for (const auto& w : plan.waiting) {
            looked += w.looked_at == c.world.choice.now ? 1 : 0;
            c.tasks[w.task].looked_at = w.looked_at;
            c.tasks[w.task].wait_reason = w.reason;
        }
        CHECK(looked > 0);
        c.world.choice.now += Seconds{1};
    }
    CHECK(placed);
    CHECK(passes > 1);
    CHECK(passes <= 51);
}
