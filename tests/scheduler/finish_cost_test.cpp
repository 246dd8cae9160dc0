#include "scheduler/finish_cost.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "finish_world.hpp"
#include "scheduler/choice.hpp"
#include "scheduler/filters.hpp"
#include "scheduler/finish_scoring.hpp"

using namespace gf;
using test::FinishWorld;
using test::line;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

namespace {

FinishCost reckoned(const JobSpec& spec, const FinishWorld& w, const Offer& offer, const TaskRecord& task = {}) {
    const FinishEstimator estimator(spec, task, w.world.expect, w.world.now);
    return estimator.reckon(offer, 1, disk_rate(offer, disk_gb(spec)), 0, true);
}

Offer priced(const char* provider, const char* id, std::int64_t micros, const char* card = "RTX-4090") {
    Offer o = test::offer(provider, id);
    o.gpu = {.canonical = card, .provider_name = card, .memory = test::gpu_names().card(card)->reported};
    o.gpu_rate = UsdPerHour{micros};
    return o;
}

Usd sum(const FinishCost& cost) {
    Usd out;
    for (const auto& l : cost.lines) out += l.amount;
    return out;
}

std::string chosen(const JobSpec& spec, const FinishWorld& w, std::vector<Offer> offers, const TaskRecord& task = {}) {
    const auto decision = choose(spec, task, offers, w.world);
    return decision.chosen ? decision.chosen->offer.id : "";
}

}  // namespace

TEST_CASE("every line is there, and they add up to the total") {
    FinishWorld w;
    test::add_speed(*w.history, w.family, "RTX-4090", 1'000);
    test::add_start(*w.history, StartPhase::boot, "vastai", minutes{2});
    test::add_start(*w.history, StartPhase::image, "vastai", minutes{4}, "a:1");
    test::add_start(*w.history, StartPhase::restore, "vastai", seconds{30});
    w.world.expect.work.step = 2'000;
    w.world.expect.work.download = Bytes{10 * kGB};
    w.world.expect.work.upload = Bytes{3 * kGB};
    w.world.expect.work.checkpoint = Bytes{2 * kGB};
    JobSpec spec = test::job();
    spec.image = "a:1";
    spec.checkpoint.declared = true;
    spec.checkpoint.every = minutes{30};
    Offer o = priced("vastai", "1", 400'000);
    o.disk_micros_per_gb_month = 360'000;  // 20 GB: 0.01 an hour
    o.traffic_down_micros_per_gb = 2'000;
    o.traffic_up_micros_per_gb = 5'000;
    TaskRecord task;
    task.generation = 3;
    const auto cost = reckoned(spec, w, o, task);
    REQUIRE(cost.known);
    CHECK(cost.run == hours{8});
    CHECK(cost.total == sum(cost));
    CHECK(line(cost, "gpu") == Usd{3'200'000});
    CHECK(line(cost, "disk") == Usd{80'000});
    // 6 minutes at 0.41 an hour, blended a little with the prior of 3 and 3: 2:06.7 and 3:53.3.
    CHECK(line(cost, "start") == Usd{41'000});
    CHECK(cost.start_from.find("seen n=16") != std::string::npos);
    // 2 GB at 30 s per GB, blended with 200 Mbps.
    CHECK(line(cost, "restore").micros == doctest::Approx(410'000 * 62.2 / 3600).epsilon(0.02));
    // A little more than one machine: 10 GB, and 2 GB restored by the first and by each further one.
    CHECK(line(cost, "traffic_down").micros >= 24'000);
    CHECK(line(cost, "traffic_down").micros < 25'000);
    // 3 GB once, and 2 GB for each of 17 checkpoints.
    CHECK(line(cost, "traffic_up") == Usd{185'000});
    CHECK(line(cost, "interruption").micros > 0);
    CHECK(line(cost, "interruption").micros < 10'000);  // on demand, one loss in 720 hours
    CHECK(line(cost, "rounding").micros < 1'000);
    CHECK(cost.speed_from == "observed n=6");
    CHECK(cost.work_from == "total of this task's progress");
    CHECK(cost.losses_from == "prior");
    for (const auto& l : cost.lines) CHECK(!l.note.empty());
}

TEST_CASE("a machine by the hour costs the hour, each of them") {
    struct Row {
        const char* what;
        int run_minutes;
        Millis step, minimum;
        std::int64_t billed;  // micro-dollars at 1 $/h, boot and pull included
    };
    // Start is seen to take 3 minutes: the machine is held for that and the run.
    const Row table[] = {{"a minute on a machine by the hour", 1, hours{1}, hours{1}, 1'000'000},
                         {"57 minutes are the hour", 57, hours{1}, hours{1}, 1'000'000},
                         {"58 are two", 58, hours{1}, hours{1}, 2'000'000},
                         {"by the minute", 57, minutes{1}, Millis{0}, 1'000'000},
                         {"by the second", 27, seconds{1}, Millis{0}, 500'000},
                         {"a minimum of ten minutes", 1, seconds{1}, minutes{10}, 166'667}};
    for (const auto& row : table) {
        CAPTURE(std::string(row.what));
        FinishWorld w(row.run_minutes);
        test::add_speed(*w.history, w.family, "RTX-4090", 60);
        JobSpec spec = test::job();
        Offer o = priced("vultr", "1", 1'000'000);
        o.billing_step = row.step;
        o.billing_minimum = row.minimum;
        // What a loss in 720 hours adds would hide the cents: the market has a good record.
        w.history->losses[loss_market_key(o)] = {.key = loss_market_key(o), .expected = 1'000'000'000, .at = test::kNow};
        const auto cost = reckoned(spec, w, o);
        CHECK(cost.total == sum(cost));
        CHECK(cost.total.micros >= row.billed);
        CHECK(cost.total.micros <= row.billed + row.billed / 500);
    }
}

TEST_CASE("where billing begins when the machine is up, its boot costs nothing") {
    FinishWorld w;
    test::add_speed(*w.history, w.family, "RTX-4090", 1'000);
    JobSpec spec = test::job();
    const Offer o = priced("lambda", "1", 600'000);
    CHECK(line(reckoned(spec, w, o), "start") == Usd{30'000});
    w.world.expect.boot_unbilled = {"lambda"};
    CHECK(line(reckoned(spec, w, o), "start") == Usd{0});
    spec.image = "a:1";
    CHECK(line(reckoned(spec, w, o), "start") == Usd{30'000});  // its pull does
}

TEST_CASE("the faster card wins when it is faster by more than it is dearer") {
    FinishWorld w;
    test::add_speed(*w.history, w.family, "RTX-4090", 1'000);
    test::add_speed(*w.history, w.family, "RTX-3090", 400);
    const JobSpec spec = test::job();
    CHECK(chosen(spec, w, {priced("vastai", "slow", 200'000, "RTX-3090"), priced("vastai", "fast", 400'000)}) == "fast");
    CHECK(chosen(spec, w, {priced("vastai", "slow", 100'000, "RTX-3090"), priced("vastai", "fast", 400'000)}) == "slow");
    // Little is left: start-up counts more than speed.
    w.world.expect.work.step = 9'990;
    CHECK(chosen(spec, w, {priced("vastai", "slow", 200'000, "RTX-3090"), priced("vastai", "fast", 400'000)}) == "slow");
    // A card that was never seen is scaled by the prior from those that were: far faster than both here.
    w.world.expect.work.step = 0;
    CHECK(chosen(spec, w, {priced("vastai", "fast", 400'000), priced("vastai", "h100", 700'000, "H100-SXM-80GB")}) == "h100");
}

TEST_CASE("spot or on demand is decided by the money, losses included") {
    struct Row {
        const char* what;
        double work_hours;
        bool checkpoints;
        Millis every;
        std::int64_t spot, on_demand;
        const char* chosen;
    };
    const Row table[] = {
        {"checkpoints make spot cheap", 10, true, minutes{10}, 200'000, 340'000, "spot"},
        {"a little cheaper is not enough", 10, true, minutes{10}, 320'000, 340'000, "on_demand"},
        {"rare checkpoints cost the gain", 10, true, hours{6}, 200'000, 340'000, "on_demand"},
        {"without checkpoints a long job goes to on-demand", 10, false, {}, 200'000, 340'000, "on_demand"},
        {"without checkpoints a very short one still may not", 0.1, false, {}, 50'000, 340'000, "spot"},
        {"the price of both is the same", 10, true, minutes{10}, 340'000, 340'000, "on_demand"}};
    for (const auto& row : table) {
        CAPTURE(std::string(row.what));
        FinishWorld w(std::llround(row.work_hours * 1'000));
        test::add_speed(*w.history, w.family, "RTX-4090", 1'000);
        JobSpec spec = test::job();
        spec.checkpoint.declared = row.checkpoints;
        if (row.checkpoints) spec.checkpoint.every = row.every;
        Offer spot = priced("vastai", "spot", row.spot), fixed = priced("vastai", "on_demand", row.on_demand);
        spot.spot = true;
        CHECK(chosen(spec, w, {spot, fixed}) == row.chosen);
        CHECK(chosen(spec, w, {fixed, spot}) == row.chosen);
        // spot: never and always are filters, whatever the money says.
        spec.resources.spot = SpotChoice::never;
        CHECK(chosen(spec, w, {spot, fixed}) == "on_demand");
        spec.resources.spot = SpotChoice::always;
        CHECK(chosen(spec, w, {spot, fixed}) == "spot");
    }
}

TEST_CASE("a market that was calm is trusted, one that was wild is not") {
    FinishWorld w;
    test::add_speed(*w.history, w.family, "RTX-4090", 1'000);
    JobSpec spec = test::job();
    Offer spot = priced("vastai", "spot", 200'000), fixed = priced("vastai", "on_demand", 340'000);
    spot.spot = true;
    spot.host_id = "7";
    CHECK(chosen(spec, w, {spot, fixed}) == "on_demand");  // ten hours without checkpoints
    auto& market = w.history->losses[loss_market_key(spot)];
    for (int i = 0; i < 60; ++i) market = observed(std::move(market), true, Millis{0}, hours{24}, false, test::kNow);
    CHECK(chosen(spec, w, {spot, fixed}) == "spot");
    CHECK(reckoned(spec, w, spot).losses_from.find("1.44e+03 machine hours") != std::string::npos);
    // The host itself keeps losing machines in that calm market.
    auto& host = w.history->losses[loss_host_key(spot)];
    for (int i = 0; i < 40; ++i) host = observed(std::move(host), true, Millis{0}, minutes{20}, true, test::kNow);
    CHECK(chosen(spec, w, {spot, fixed}) == "on_demand");
}

TEST_CASE("where the work is not known, the price of throughput decides") {
    FinishWorld w;
    w.world.expect.work = {};
    JobSpec spec = test::job();
    spec.checkpoint.declared = true;
    // 1.98 beside 1.20: the 4090 at 0.40 is 0.202 for one V100's worth, the 3090 at 0.26 is 0.217.
    const Offer fast = priced("vastai", "fast", 400'000), slow = priced("vastai", "slow", 260'000, "RTX-3090");
    CHECK(chosen(spec, w, {slow, fast}) == "fast");
    CHECK(chosen(spec, w, {priced("vastai", "slow", 220'000, "RTX-3090"), fast}) == "slow");
    const auto cost = reckoned(spec, w, fast);
    CHECK(!cost.known);
    CHECK(cost.lines.empty());
    CHECK(cost.work_from == "not known");
    CHECK(cost.speed_from == "prior, measured");
    CHECK(cost.per_unit.micros == doctest::Approx(400'000 / 1.976).epsilon(0.01));
    // For decoding the bandwidth counts, and there they are close.
    spec.kind = JobKind::batch_inference;
    CHECK(chosen(spec, w, {slow, fast}) == "slow");
    // Without the speeds it is the price per hour, as ever.
    spec.kind = JobKind::training;
    w.world.expect.speeds = nullptr;
    CHECK(chosen(spec, w, {slow, fast}) == "slow");
    CHECK(!choose(spec, {}, std::vector<Offer>{slow, fast}, w.world).chosen->finish.has_value());
}

TEST_CASE("steps of the bill and a bad host count where the work is not known, too") {
    FinishWorld w;
    w.world.expect.work = {};
    JobSpec spec = test::job();
    Offer by_hour = priced("vultr", "hour", 300'000), by_second = priced("vastai", "second", 400'000);
    by_hour.billing_step = by_hour.billing_minimum = hours{1};
    CHECK(chosen(spec, w, {by_hour, by_second}) == "hour");
    spec.limits.duration = minutes{10};
    CHECK(chosen(spec, w, {by_hour, by_second}) == "second");
}

TEST_CASE("a card of unknown speed is taken for the slowest, never for the best") {
    const JobSpec spec = test::job();
    for (const bool known : {false, true}) {
        CAPTURE(known);
        FinishWorld w;
        if (known) {
            test::add_speed(*w.history, w.family, "RTX-4090", 1'000);
            test::add_speed(*w.history, w.family, "RTX-3090", 500);
        } else {
            w.world.expect.work = {};
        }
        Offer odd = priced("vastai", "odd", 300'000);
        odd.gpu = {.canonical = "", .provider_name = "NVIDIA", .memory = {}};
        const Offer fast = priced("vastai", "fast", 400'000), slow = priced("vastai", "slow", 350'000, "RTX-3090");
        CHECK(chosen(spec, w, {odd, fast, slow}) == "fast");
        // As cheap as the slowest card of the table would have to be.
        const auto slowest = test::card_speeds().slowest(WorkKind::training);
        const double ratio = test::card_speeds().card(slowest, WorkKind::training)->relative /
                             test::card_speeds().card("RTX-4090", WorkKind::training)->relative;
        odd.gpu_rate = UsdPerHour{std::llround(400'000 * ratio * 1.3)};
        CHECK(chosen(spec, w, {odd, fast, slow}) == "fast");
        odd.gpu_rate = UsdPerHour{std::llround(400'000 * ratio * 0.5)};
        CHECK(chosen(spec, w, {odd, fast, slow}) == "odd");
        const auto decision = choose(spec, {}, std::vector<Offer>{odd, fast, slow}, w.world);
        CHECK(decision.chosen->finish->speed_from == "not known: as a " + slowest + ", the slowest card");
        // Alone it is what there is.
        CHECK(chosen(spec, w, {odd}) == "odd");
    }
}

TEST_CASE("the local machine costs nothing or its electricity, and wins a tie") {
    FinishWorld w;
    test::add_speed(*w.history, w.family, "RTX-4090", 1'000);
    const JobSpec spec = test::job();
    Offer local = priced("local", "this", 0, "RTX-3090");
    CHECK(chosen(spec, w, {local, priced("vastai", "1", 1)}) == "this");
    const auto cost = reckoned(spec, w, local);
    CHECK(cost.total == Usd{0});
    CHECK(cost.lines.empty());
    CHECK(cost.run > hours{10});
    local.gpu_rate = UsdPerHour{300'000};
    CHECK(chosen(spec, w, {local, priced("vastai", "1", 300'000)}) == "1");  // as dear, and faster
    CHECK(line(reckoned(spec, w, local), "start") == Usd{0});
    // Nobody knows how much is left: what costs nothing is taken.
    w.world.expect.work.step = 10'000;
    w.history->starts.clear();
    local.gpu_rate = UsdPerHour{0};
    CHECK(chosen(spec, w, {priced("vastai", "1", 300'000), local}) == "this");
}

TEST_CASE("how much is left is known from the task, else from its family, else in whole runs") {
    const JobSpec spec = test::job();
    const Offer o = priced("vastai", "1", 400'000);
    FinishWorld w;
    test::add_speed(*w.history, w.family, "RTX-4090", 1'000);
    w.history->families[{w.family, WorkUnit::step}] = {.family = w.family, .unit = WorkUnit::step, .total = 4'000'000, .at = test::kNow};
    CHECK(reckoned(spec, w, o).run == hours{10});
    w.world.expect.work.total.reset();
    CHECK(reckoned(spec, w, o).run == hours{4});
    CHECK(reckoned(spec, w, o).work_from == "total of an earlier job of this family");
    w.world.expect.work.step = 1'000;
    CHECK(reckoned(spec, w, o).run == hours{3});
    w.world.expect.work.step = -5;
    CHECK(reckoned(spec, w, o).run == hours{4});
    // Steps are known, a total is not: whole runs, if the family has finished some.
    w.history->families.clear();
    CHECK(!reckoned(spec, w, o).known);
    ThroughputRecord run{.family = w.family, .unit = WorkUnit::run, .place = {.card = "RTX-4090", .gpus = 1}, .at = test::kNow};
    w.history->speeds[{w.family, WorkUnit::run}] = {observed(run, 1'000, hours{6}, test::kNow)};
    CHECK(reckoned(spec, w, o).run == hours{6});
    CHECK(reckoned(spec, w, o).work_from == "whole runs of this family");
    // Another family's history says nothing.
    w.world.expect.work.family = "voices/2";
    CHECK(!reckoned(spec, w, o).known);
    w.world.expect.work.family.clear();
    CHECK(!reckoned(spec, w, o).known);
    // What has faded is not known either.
    w.world.expect.work.family = w.family;
    w.world.now = test::kNow + 12 * kThroughputHalfLife;
    CHECK(!reckoned(spec, w, o).known);
}

TEST_CASE("a total that the steps have reached is none, and never says that nothing is left") {
    struct Row {
        const char* what;
        std::optional<std::int64_t> own, family;  // totals
        std::int64_t step;
        const char* from;
        Millis run;  // where it is known
    };
    const Row table[] = {
        {"a longer run under the same family, at its total", {}, 4'000, 4'000, "not known", {}},
        {"and beyond", {}, 4'000, 9'000, "not known", {}},
        {"just below", {}, 4'000, 3'999, "total of an earlier job of this family", seconds{4}},
        {"a counter of epochs, at the end of one", 1'000, {}, 1'000, "not known", {}},
        {"and its family once told more", 1'000, 4'000, 1'000, "total of an earlier job of this family", hours{3}},
        {"and its family told the same", 1'000, 1'000, 1'000, "not known", {}},
        {"its own is the newer one", 6'000, 4'000, 5'000, "total of this task's progress", hours{1}},
        {"a total of 0 is none", 0, {}, 0, "not known", {}}};
    const JobSpec spec = test::job();
    for (const auto& row : table) {
        CAPTURE(std::string(row.what));
        FinishWorld w;
        test::add_speed(*w.history, w.family, "RTX-4090", 1'000);
        w.world.expect.work.total = row.own;
        w.world.expect.work.step = row.step;
        if (row.family)
            w.history->families[{w.family, WorkUnit::step}] = {.family = w.family, .total = *row.family * 1000, .at = test::kNow};
        // As dear per hour and half as fast: only where nothing was left would it do as well.
        const std::vector<Offer> offers{priced("vastai", "slow", 400'000, "RTX-3090"), priced("vastai", "sure", 400'000)};
        const auto decision = choose(spec, {}, offers, w.world);
        REQUIRE(decision.chosen.has_value());
        CHECK(decision.chosen->offer.id == "sure");
        const FinishCost& cost = *decision.chosen->finish;
        CHECK(cost.work_from == row.from);
        CHECK(cost.known == (row.run > Millis{0}));
        if (cost.known) CHECK(std::abs((cost.run - row.run).count()) <= 500);
    }
}

TEST_CASE("a deadline reckons with limits.duration where only an earlier job has told how long it is") {
    struct Row {
        const char* what;
        bool deadline;
        std::optional<std::int64_t> own;
        std::optional<Millis> limit;
        Millis ran;
        Millis run, on_slow;  // on the card that the family is known from, and on one half as fast
    };
    const Row table[] = {{"no deadline", false, {}, hours{12}, {}, hours{4}, hours{8}},
                         {"no limit", true, {}, {}, {}, hours{4}, hours{8}},
                         {"the limit is longer", true, {}, hours{12}, {}, hours{12}, hours{24}},
                         {"less of it is left", true, {}, hours{12}, hours{6}, hours{6}, hours{12}},
                         {"the limit is shorter", true, {}, hours{3}, {}, hours{4}, hours{8}},
                         {"used up", true, {}, hours{3}, hours{3}, hours{4}, hours{8}},
                         {"the task itself has told", true, 6'000, hours{12}, {}, hours{6}, hours{12}}};
    for (const auto& row : table) {
        CAPTURE(std::string(row.what));
        FinishWorld w;
        test::add_speed(*w.history, w.family, "RTX-4090", 1'000);
        ThroughputRecord once{.family = w.family, .place = {.card = "RTX-3090", .gpus = 1}, .at = test::kNow};
        w.history->speeds[{w.family, WorkUnit::step}].push_back(observed(once, 500'000, hours{1}, test::kNow));
        w.world.expect.work.total = row.own;
        w.history->families[{w.family, WorkUnit::step}] = {.family = w.family, .total = 4'000'000, .at = test::kNow};
        JobSpec spec = test::job();
        spec.limits.duration = row.limit;
        if (row.deadline) spec.limits.deadline = test::kNow + hours{48};
        TaskRecord task;
        task.ran = row.ran;
        const Offer fast = priced("vastai", "1", 400'000), slow = priced("vastai", "2", 400'000, "RTX-3090");
        const auto near = [](Millis a, Millis b) { return std::abs((a - b).count()) < b.count() / 10; };
        CHECK(near(reckoned(spec, w, fast, task).run, row.run));
        CHECK(near(reckoned(spec, w, slow, task).run, row.on_slow));
        const FinishEstimator estimator(spec, task, w.world.expect, w.world.now);
        CHECK(near(*estimator.run(fast, 1), row.run));
        // The money is of the work that is expected.
        JobSpec plain = spec;
        plain.limits.deadline.reset();
        CHECK(reckoned(spec, w, fast, task).total == reckoned(plain, w, fast, task).total);
    }
}

TEST_CASE("where the family's speed is known on no offer that fits, the cards' prior decides") {
    FinishWorld w;
    // Seen on a card that is in no table: nothing follows from that for others.
    test::add_speed(*w.history, w.family, "homemade", 1'000);
    const JobSpec spec = test::job();
    const Offer fast = priced("vastai", "fast", 400'000), slow = priced("vastai", "slow", 260'000, "RTX-3090");
    for (const std::vector<Offer>& offers : {std::vector<Offer>{slow, fast}, {fast, slow}}) {
        const auto decision = choose(spec, {}, offers, w.world);
        REQUIRE(decision.chosen.has_value());
        CHECK(decision.chosen->offer.id == "fast");
        const FinishCost& cost = *decision.chosen->finish;
        CHECK(!cost.known);
        CHECK(cost.lines.empty());
        CHECK(cost.per_unit.micros == doctest::Approx(400'000 / 1.976).epsilon(0.01));
        CHECK(cost.work_from == "not known: nothing tells how fast this family goes on any of the offers");
    }
    // On one offer it is known: then there are hours, and the others are taken for that slow.
    Offer own = priced("vastai", "own", 300'000);
    own.gpu = {.canonical = "homemade", .provider_name = "homemade", .memory = {}};
    const auto decision = choose(spec, {}, std::vector<Offer>{slow, own, fast}, w.world);
    CHECK(decision.chosen->finish->known);
    CHECK(decision.chosen->finish->run == hours{10});
}

TEST_CASE("a job that uses no GPU is measured by its cores, wherever it runs") {
    FinishWorld w;
    JobSpec spec = test::job();
    spec.resources.cpu_only = true;
    spec.resources.gpus = 0;
    const auto machine = [](const char* provider, const char* id, std::optional<double> cpus, std::int64_t micros) {
        Offer o = test::offer(provider, id);
        o.gpu = {};
        o.gpu_count = 0;
        o.cpus = cpus;
        o.gpu_rate = UsdPerHour{micros};
        return o;
    };
    const Offer four = machine("vultr", "four", 4, 100'000), sixteen = machine("vultr", "sixteen", 16, 300'000),
                unknown = machine("vultr", "unknown", {}, 90'000);
    // A card beside the cores is not used, and says nothing.
    Offer local = test::offer("local", "this");
    local.cpus = 8;
    local.gpu_rate = UsdPerHour{190'000};
    w.world.expect.work = {};
    CHECK(chosen(spec, w, {four, sixteen, unknown, local}) == "sixteen");
    const auto cost = reckoned(spec, w, local);
    CHECK(cost.speed == 8);
    CHECK(cost.speed_from == "prior, by the number of cores");
    CHECK(reckoned(spec, w, unknown).speed == 1);
    // What was seen on four cores says something of sixteen, and nothing is said by what ran on a card.
    w.world.expect.work = {.family = w.family, .total = 10'000};
    test::add_speed(*w.history, w.family, "RTX-4090", 50'000);
    CHECK(!choose(spec, {}, std::vector<Offer>{four, sixteen, local}, w.world).chosen->finish->known);
    ThroughputRecord on_four{.family = w.family, .place = place_of(four, 1, true), .at = test::kNow};
    CHECK(on_four.place == RunPlace{.card = {}, .gpus = 0, .share_thousandths = 1000, .cpus = 4});
    CHECK(place_of(local, 1, true).cpus == 8);
    w.history->speeds[{w.family, WorkUnit::step}].push_back(observed(on_four, 1'000'000, hours{1}, test::kNow));
    CHECK(reckoned(spec, w, four).run == hours{10});
    CHECK(std::abs((reckoned(spec, w, sixteen).run - minutes{150}).count()) < 10);
    CHECK(reckoned(spec, w, sixteen).speed_from == "observed n=1 elsewhere, by the number of cores");
}

TEST_CASE("slices that differ by less than a thousandth of a card are one place, whichever is looked at first") {
    FinishWorld w;
    w.world.expect.work = {};
    JobSpec spec = test::job();
    spec.resources.vram = VramDemand{.class_gb = 1};
    const auto slice = [](const char* id, double share) {
        Offer o = priced("vultr", id, 100'000, "A16");
        o.gpu_share = share;
        o.gpu.memory = Bytes{8 * kGiB};
        return o;
    };
    const std::vector<Offer> one{slice("a", 0.4996), slice("b", 0.5004)}, other{one[1], one[0]};
    CHECK(decision_json(choose(spec, {}, one, w.world)) == decision_json(choose(spec, {}, other, w.world)));
    for (const auto& offers : {one, other}) {
        const FinishScoring scoring(w.world.expect, {}, offers, w.world.gpus, w.world.now);
        const Scoring s = scoring.scoring();
        const TaskRecord row;
        CHECK(s.score(s.self, make_fit(spec, row, one[0], w.world)) == s.score(s.self, make_fit(spec, row, one[1], w.world)));
    }
}

TEST_CASE("a lease must outlast the expected run") {
    FinishWorld w;
    test::add_speed(*w.history, w.family, "RTX-4090", 1'000);
    JobSpec spec = test::job();
    Offer ends = priced("vastai", "ends", 200'000), lasts = priced("vastai", "lasts", 290'000);
    ends.lease_end = test::kNow + hours{2};
    lasts.lease_end = test::kNow + hours{24 * 30};
    const std::vector<Offer> offers{ends, lasts};
    const auto decision = choose(spec, {}, offers, w.world);
    CHECK(decision.chosen->offer.id == "lasts");
    CHECK(decision.refused == std::map<std::string, int>{{"lease_ends_too_soon", 1}});
    // One hour is left of the work: two are enough.
    w.world.expect.work.step = 9'000;
    CHECK(chosen(spec, w, offers) == "ends");
}

TEST_CASE("a card on which the work does not end within limits.duration comes last, however cheap") {
    FinishWorld w;
    test::add_speed(*w.history, w.family, "RTX-4090", 1'000);
    test::add_speed(*w.history, w.family, "RTX-3090", 500);
    JobSpec spec = test::job();
    const Offer fast = priced("vastai", "fast", 900'000), slow = priced("vastai", "slow", 50'000, "RTX-3090");
    struct Row {
        Millis limit, ran;
        const char* chosen;
    };
    for (const Row& row : {Row{hours{24}, Millis{0}, "slow"}, {hours{12}, Millis{0}, "fast"}, {hours{24}, hours{10}, "fast"},
                           {hours{5}, Millis{0}, "slow"}}) {  // neither makes it in five hours
        CAPTURE(row.limit.count());
        spec.limits.duration = row.limit;
        TaskRecord task;
        task.ran = row.ran;
        CHECK(chosen(spec, w, {slow, fast}, task) == row.chosen);
        CHECK(chosen(spec, w, {fast, slow}, task) == row.chosen);
    }
    spec.limits.duration = hours{12};
    // A card of unknown speed is no way around it.
    Offer odd = slow;
    odd.id = "odd";
    odd.gpu = {.canonical = "", .provider_name = "NVIDIA", .memory = {}};
    odd.gpu_rate = UsdPerHour{1'000};
    CHECK(chosen(spec, w, {odd, slow, fast}) == "fast");
    CHECK(reckoned(spec, w, slow).cut_off);
    CHECK(!reckoned(spec, w, fast).cut_off);
}

TEST_CASE("a host of bad repute is dearer by its handicap in money to finish, too") {
    FinishWorld w;
    test::add_speed(*w.history, w.family, "RTX-4090", 1'000);
    Offer bad = priced("vastai", "bad", 300'000);
    bad.host_id = "666";
    const Offer good = priced("vastai", "good", 340'000);
    CHECK(chosen(test::job(), w, {bad, good}) == "bad");
    auto marks = std::make_shared<HostMarks>();
    for (auto& mark : note_host(*marks, bad, HostEvent::boot_failure, "no word", test::kNow).put) (*marks)[mark.key] = mark;
    w.world.host_marks = marks;
    CHECK(chosen(test::job(), w, {bad, good}) == "good");
}

TEST_CASE("prices and sizes beyond all sense stay numbers, and the dear stays dear") {
    FinishWorld w(INT64_MAX);
    test::add_speed(*w.history, w.family, "RTX-4090", 1);
    w.world.expect.work.download = w.world.expect.work.upload = w.world.expect.work.checkpoint = Bytes{INT64_MAX};
    JobSpec spec = test::job();
    spec.checkpoint.declared = true;
    spec.checkpoint.every = Millis{1};
    Offer o = priced("vastai", "1", INT64_MAX / 8);
    o.traffic_down_micros_per_gb = o.traffic_up_micros_per_gb = INT64_MAX;
    o.disk_micros_per_gb_month = INT64_MAX;
    o.billing_step = o.billing_minimum = hours{24 * 365};
    const auto cost = reckoned(spec, w, o);
    CHECK(cost.total == sum(cost));
    CHECK(cost.total.micros > 0);
    for (const auto& l : cost.lines) CHECK(l.amount.micros > 0);
    const Offer sane = priced("vastai", "2", 300'000);
    CHECK(chosen(spec, w, {o, sane}) == "2");
    CHECK(chosen(spec, w, {o}) == "1");
}

TEST_CASE("the same snapshot gives the same bytes, in whatever order the offers come") {
    FinishWorld w;
    test::add_speed(*w.history, w.family, "RTX-4090", 1'000);
    test::add_speed(*w.history, w.family, "A100-SXM-80GB", 1'700);
    JobSpec spec = test::job();
    spec.checkpoint.declared = true;
    spec.resources.max_price = UsdPerHour{900'000};
    w.world.list_seen = true;
    std::vector<Offer> offers;
    const char* cards[] = {"RTX-4090", "RTX-3090", "A100-SXM-80GB", "L40S", "T4"};
    for (int i = 0; i < 60; ++i) {
        Offer o = priced(i % 3 == 0 ? "runpod" : "vastai", std::to_string(i).c_str(), 100'000 + 17'321 * (i % 61), cards[i % 5]);
        o.spot = i % 4 == 1;
        o.host_id = std::to_string(i % 7);
        offers.push_back(std::move(o));
    }
    const std::string first = decision_json(choose(spec, {}, offers, w.world));
    CHECK(first.size() > 10'000);
    std::uint32_t state = 12345;
    for (int round = 0; round < 50; ++round) {
        for (std::size_t i = offers.size() - 1; i > 0; --i) {
            state = state * 1664525U + 1013904223U;
            std::swap(offers[i], offers[state % (i + 1)]);
        }
        REQUIRE(decision_json(choose(spec, {}, offers, w.world)) == first);
    }
}

TEST_CASE("the decision as JSON shows the lines, the hours and where each figure came from") {
    FinishWorld w;
    test::add_speed(*w.history, w.family, "RTX-4090", 1'000);
    JobSpec spec = test::job();
    const std::vector<Offer> offers{priced("vastai", "1", 400'000), priced("vastai", "2", 300'000, "RTX-3090")};
    w.world.list_seen = true;
    const auto out = nlohmann::json::parse(decision_json(choose(spec, {}, offers, w.world)));
    const auto& finish = out["chosen"]["finish"];
    CHECK(out["chosen"]["offer"] == "1");
    CHECK(out["chosen"]["rate"] == "0.40");
    CHECK(finish["known"] == true);
    CHECK(finish["run_seconds"] == 36'000);
    CHECK(finish["units_per_hour"] == 1000);
    CHECK(finish["unit"] == "step");
    CHECK(finish["lines"][0]["name"] == "gpu");
    CHECK(finish["lines"][0]["amount"] == "4.00");
    CHECK(finish["lines"][0]["note"] == "0.40 $/h for 10.00 h of work");
    CHECK(finish["from"]["speed"] == "observed n=6");
    CHECK(finish["from"]["work"] == "total of this task's progress");
    CHECK(out["ranked"][1]["finish"]["from"]["speed"] == "observed n=6 elsewhere, by the cards' prior");
    CHECK(out["chosen"]["score"] == finish["total"]);
    CHECK(out["seen"].size() == 2);
    CHECK(out["seen"][0]["score"] == out["chosen"]["score"]);
    w.world.expect.work = {};
    const auto unknown = nlohmann::json::parse(decision_json(choose(spec, {}, offers, w.world)));
    CHECK(unknown["chosen"]["finish"]["known"] == false);
    CHECK(!unknown["chosen"]["finish"].contains("total"));
    CHECK(unknown["chosen"]["finish"]["per_unit"] == unknown["chosen"]["score"]);
    CHECK(unknown["chosen"]["finish"]["from"]["work"] == "not known");
}

TEST_CASE("more or fewer are shown as asked for") {
    FinishWorld w;
    std::vector<Offer> offers;
    for (int i = 0; i < 30; ++i) offers.push_back(priced("vastai", std::to_string(i).c_str(), 100'000 + i));
    w.world.shown = 3;
    CHECK(choose(test::job(), {}, offers, w.world).ranked.size() == 3);
    w.world.shown = 1'000;
    CHECK(choose(test::job(), {}, offers, w.world).ranked.size() == 30);
    CHECK(choose(test::job(), {}, offers, w.world).seen.empty());
}
