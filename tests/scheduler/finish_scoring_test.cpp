#include "scheduler/finish_scoring.hpp"

#include <doctest/doctest.h>

#include <set>

#include "finish_world.hpp"
#include "scheduler/choice.hpp"
#include "scheduler/planner.hpp"

using namespace gf;
using test::FinishWorld;
using std::chrono::hours;
using std::chrono::minutes;

namespace {

struct Numbers {
    std::uint32_t state{2463534242U};
    int below(int n) {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        return static_cast<int>(state % static_cast<std::uint32_t>(n));
    }
};

std::vector<Offer> market(Numbers& numbers, int count) {
    const char* cards[] = {"RTX-4090", "RTX-3090", "A100-SXM-80GB", "L40S", "T4", "H100-SXM-80GB"};
    const char* providers[] = {"vastai", "runpod", "vultr", "lambda"};
    std::vector<Offer> out;
    for (int i = 0; i < count; ++i) {
        Offer o = test::offer(providers[numbers.below(4)], std::to_string(i));
        const char* name = cards[numbers.below(6)];
        o.gpu = {.canonical = name, .provider_name = name, .memory = test::gpu_names().card(name)->reported};
        if (numbers.below(9) == 0) o.gpu = {.canonical = "", .provider_name = "NVIDIA", .memory = {}};
        o.gpu_rate = UsdPerHour{100'000 + numbers.below(2'000'000)};
        o.spot = numbers.below(3) == 0;
        o.disk_micros_per_gb_month = numbers.below(3) * 100'000;
        o.traffic_up_micros_per_gb = numbers.below(2) * 4'000;
        if (o.provider.get() == "vultr") o.billing_step = o.billing_minimum = hours{1};
        out.push_back(std::move(o));
    }
    return out;
}

JobSpec spec_of(Numbers& numbers) {
    JobSpec spec = test::job();
    if (numbers.below(2) == 0) spec.kind = JobKind::batch_inference;
    spec.checkpoint.declared = numbers.below(3) > 0;
    if (numbers.below(2) == 0) spec.limits.duration = hours{1 + numbers.below(12)};
    if (numbers.below(3) == 0) spec.image = "a:1";
    return spec;
}

}  // namespace

TEST_CASE("the planner gives one task what choose gives it") {
    Numbers numbers;
    FinishWorld w;
    test::add_speed(*w.history, w.family, "RTX-4090", 1'000);
    int placed = 0;
    std::set<std::string> kinds;
    for (int round = 0; round < 150; ++round) {
        CAPTURE(round);
        const auto offers = market(numbers, 1 + numbers.below(25));
        const JobSpec spec = spec_of(numbers);
        TaskRecord row;
        row.id = TaskId{"tsk_1"};
        row.generation = numbers.below(2);
        row.waiting_since = test::kNow;
        ChoiceWorld world = w.world;
        world.expect.work.total = 1 + numbers.below(20'000);
        world.expect.work.checkpoint = Bytes{numbers.below(3) * kGB};
        if (numbers.below(3) == 0) world.expect.work = {};
        const auto decision = choose(spec, row, offers, world);
        const FinishScoring scoring(world.expect, {{row.id, world.expect.work}}, offers, world.gpus, world.now);
        PlanTask task;
        task.spec = &spec;
        task.row = &row;
        task.local_allowed = true;
        const std::vector<PlanTask> tasks{task};
        const Plan made = plan(tasks, offers, PlanWorld{.choice = world}, PlanRule{}, scoring.scoring());
        REQUIRE(made.placements.empty() == !decision.chosen.has_value());
        if (!decision.chosen) continue;
        REQUIRE(made.placements[0].offer.has_value());
        CHECK(offers[*made.placements[0].offer].id == decision.chosen->offer.id);
        const bool cut_off = decision.chosen->finish->cut_off;
        if (!cut_off) CHECK(made.placements[0].score == decision.chosen->score);
        kinds.insert(std::string(decision.chosen->finish->known ? "known" : "unknown") + (cut_off ? " cut off" : ""));
        ++placed;
    }
    CHECK(placed > 100);
    CHECK(kinds.size() == 3);  // each kind of ranking was tried
}

TEST_CASE("no score is under what the least time costs, which the planner's walk relies on") {
    Numbers numbers;
    FinishWorld w;
    test::add_speed(*w.history, w.family, "RTX-4090", 1'000);
    const auto offers = market(numbers, 200);
    for (int round = 0; round < 40; ++round) {
        const JobSpec spec = spec_of(numbers);
        TaskRecord row;
        row.id = TaskId{"tsk_1"};
        TaskWork work = w.world.expect.work;
        work.total = numbers.below(30'000);
        if (round % 3 == 0) work = {};
        const FinishScoring scoring(w.world.expect, {{row.id, work}}, offers, w.world.gpus, w.world.now);
        const Scoring s = scoring.scoring();
        for (const auto& offer : offers) {
            const Fit fit = make_fit(spec, row, offer, w.world);
            const Pace pace = s.pace(s.self, fit);
            const auto least = static_cast<__int128>(fit.all_in.micros) * pace.least / 3'600'000;
            REQUIRE(static_cast<__int128>(s.score(s.self, fit)) >= least);
            CHECK(pace.expected.has_value() == (work.total.value_or(0) > 0));
        }
    }
}

TEST_CASE("a machine that is up saves its start, and what of it is paid") {
    FinishWorld w(1'000);
    test::add_speed(*w.history, w.family, "RTX-4090", 1'000);
    const JobSpec spec = test::job();
    TaskRecord row;
    row.id = TaskId{"tsk_1"};
    const std::vector<Offer> offers{test::offer()};
    for (const bool known : {true, false}) {
        CAPTURE(known);
        const FinishScoring scoring(w.world.expect, {{row.id, known ? w.world.expect.work : TaskWork{}}}, offers, w.world.gpus, w.world.now);
        const Scoring s = scoring.scoring();
        const Fit fit = make_fit(spec, row, offers[0], w.world);
        const auto fresh = s.score(s.self, fit), warm = s.warm(s.self, fit, Millis{0}), paid = s.warm(s.self, fit, minutes{20});
        if (known) CHECK(fresh - warm >= 15'000);  // three minutes of boot at 0.30
        else CHECK(fresh >= warm);
        CHECK(warm - paid == 100'000);
        CHECK(s.warm(s.self, fit, hours{1'000}) >= -10'000);  // no more is saved than it costs
    }
}

TEST_CASE("tasks of one key have one score") {
    struct Row {
        const char* what;
        void (*change)(JobSpec&, TaskRecord&, TaskWork&);
        bool same;
    };
    const Row table[] = {{"nothing", [](JobSpec&, TaskRecord&, TaskWork&) {}, true},
                         {"name", [](JobSpec& s, TaskRecord&, TaskWork&) { s.name = "other"; }, true},
                         {"work", [](JobSpec&, TaskRecord&, TaskWork& w) { w.total = 7; }, false},
                         {"step", [](JobSpec&, TaskRecord&, TaskWork& w) { w.step = 7; }, false},
                         {"family", [](JobSpec&, TaskRecord&, TaskWork& w) { w.family = "x"; }, false},
                         {"checkpoint size", [](JobSpec&, TaskRecord&, TaskWork& w) { w.checkpoint = Bytes{7}; }, false},
                         {"downloads", [](JobSpec&, TaskRecord&, TaskWork& w) { w.download = Bytes{7}; }, false},
                         {"uploads", [](JobSpec&, TaskRecord&, TaskWork& w) { w.upload = Bytes{7}; }, false},
                         {"resumed", [](JobSpec&, TaskRecord& t, TaskWork&) { t.generation = 1; }, false},
                         {"ran", [](JobSpec&, TaskRecord& t, TaskWork&) { t.ran = hours{1}; }, false},
                         {"kind", [](JobSpec& s, TaskRecord&, TaskWork&) { s.kind = JobKind::batch_inference; }, false},
                         {"image", [](JobSpec& s, TaskRecord&, TaskWork&) { s.image = "b:2"; }, false},
                         {"duration", [](JobSpec& s, TaskRecord&, TaskWork&) { s.limits.duration = hours{1}; }, false},
                         {"deadline", [](JobSpec& s, TaskRecord&, TaskWork&) { s.limits.deadline = test::kNow; }, false},
                         {"checkpoints", [](JobSpec& s, TaskRecord&, TaskWork&) { s.checkpoint.declared = true; }, false},
                         {"interval",
                          [](JobSpec& s, TaskRecord&, TaskWork&) {
                              s.checkpoint.declared = true;
                              s.checkpoint.every = hours{1};
                          },
                          false}};
    std::set<std::string> keys;
    std::string plain;
    for (const auto& row : table) {
        CAPTURE(std::string(row.what));
        FinishWorld w;
        JobSpec spec = test::job();
        TaskRecord task;
        task.id = TaskId{"tsk_1"};
        TaskWork work = w.world.expect.work;
        row.change(spec, task, work);
        const FinishScoring scoring(w.world.expect, {{task.id, work}}, {}, w.world.gpus, w.world.now);
        const Scoring s = scoring.scoring();
        std::string key;
        s.key(s.self, spec, task, key);
        if (plain.empty()) plain = key;
        if (row.same) CHECK(key == plain);
        else CHECK(keys.insert(key).second);
        CHECK((key == plain) == row.same);
    }
}
