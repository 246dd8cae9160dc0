// What runs teach, and that the next choice is made with it: speeds from progress, losses, start-up times; all of it outlives a restart.
#include <nlohmann/json.hpp>

#include "daemon/orchestrator/learned.hpp"
#include "tests/orchestrator/cards.hpp"

namespace gf {
namespace {
namespace ap = agent_protocol;
using nlohmann::json;

struct Learning : CoreBench {
    Learning() : CoreBench(with_cards()) {
        offers["cloud"] = {offer("cloud", "a", 300'000)};
        offers["market"] = {offer("market", "s", 200'000, true)};
        apply(Tick{});
        answer_market();
    }
    static JobSpec on(const char* provider, SpotChoice spot) {
        JobSpec s;
        s.resources.providers = {provider};
        s.resources.spot = spot;
        s.checkpoint.declared = true;
        return s;
    }
    /// `per_minute` steps of `total`, told each minute.
    void trains(const Running& a, int minutes, std::int64_t from, std::int64_t per_minute, std::int64_t total) {
        for (int i = 1; i <= minutes; ++i) {
            pass(std::chrono::minutes{1});
            say(a.machine, ap::Progress{a.attempt, from + per_minute * i, total}, "boot1", 0);
        }
    }
    std::vector<LearnedRecord> learned(const std::string& kind) {
        auto rows = store->load_live()->learned;
        std::erase_if(rows, [&](const auto& row) { return row.kind != kind; });
        return rows;
    }
    json chosen(const JobId& id) { return json::parse((*store->reader().decision(id))->json).at("chosen"); }
};

TEST_CASE_FIXTURE(Learning, "how fast a job goes is learned from its progress, and prices the next one of its family") {
    const Running a = run_one(on("cloud", SpotChoice::never), "i1");
    CHECK_FALSE(chosen(a.job).at("finish").at("known").get<bool>());
    trains(a, 25, 0, 10, 1000);
    exits(a.machine, a.attempt, 0);
    const auto rows = learned("speed");
    REQUIRE(rows.size() == 1);
    const json speed = json::parse(rows[0].value);
    CHECK(speed.at("card") == "RTX-4090");
    CHECK(speed.at("unit") == "step");
    // Steps and time between the first word of progress and the last.
    CHECK(speed.at("work").get<int>() == doctest::Approx(240 * 1000).epsilon(0.01));
    CHECK(speed.at("busy").get<int>() == doctest::Approx(24 * 60'000).epsilon(0.01));
    restart();
    pass(Seconds{1});
    const JobId next = submit(on("cloud", SpotChoice::never));
    pass(Seconds{2});
    const json finish = chosen(next).at("finish");
    CHECK(finish.at("known").get<bool>());
    CHECK(finish.at("unit") == "step");
    CHECK(finish.at("units_per_hour").get<double>() == doctest::Approx(600).epsilon(0.01));
    CHECK(finish.at("run_seconds").get<int>() == doctest::Approx(1000 / 600.0 * 3600).epsilon(0.02));
    std::vector<std::string> names;
    for (const auto& line : finish.at("lines")) names.push_back(line.at("name"));
    CHECK(std::ranges::find(names, "gpu") != names.end());
    // Another command is another family: nothing is known of it.
    JobSpec other = on("cloud", SpotChoice::never);
    other.image = "ghcr.io/x/y:1";
    const JobId stranger = submit(other);
    pass(Seconds{2});
    CHECK_FALSE(chosen(stranger).at("finish").at("known").get<bool>());
}

TEST_CASE_FIXTURE(Learning, "steps that went back, and those over a clock jump, teach nothing") {
    const Running a = run_one(on("cloud", SpotChoice::never), "i1");
    SUBCASE("a program that began again") {
        trains(a, 9, 0, 10, 1000);
        trains(a, 9, 0, 10, 1000);
        CHECK(learned("speed").empty());
    }
    SUBCASE("a counter that is none") {
        for (int i = 0; i < 30; ++i) {
            pass(std::chrono::minutes{1});
            say(a.machine, ap::Progress{a.attempt, INT64_MAX - 100 + i, INT64_MAX}, "boot1", 0);
        }
        CHECK(learned("speed").empty());
        CHECK(learned("family").empty());
    }
    SUBCASE("bars of training and of evaluation in turn: no total of one is the other's") {
        for (int i = 1; i < 60; ++i) {
            pass(Seconds{20});
            say(a.machine, i % 2 == 0 ? ap::Progress{a.attempt, i, 400} : ap::Progress{a.attempt, 3, 50}, "boot1", 0);
        }
        CHECK(learned("family").empty());
    }
    SUBCASE("a counter of epochs, each longer than a look: what it calls a total is a part") {
        trains(a, 25, 0, 10, 250);
        CHECK(learned("family").size() == 1);
        trains(a, 25, 0, 10, 250);
        CHECK(learned("family").size() == 1);
        CHECK(json::parse(learned("family")[0].value).at("total") == 0);
        exits(a.machine, a.attempt, 0);
        const Running next = run_one(on("cloud", SpotChoice::never), "i2");
        CHECK_FALSE(chosen(next.job).at("finish").at("known").get<bool>());
        trains(next, 15, 0, 10, 250);  // its first epoch looks like a whole job again
        CHECK(json::parse(learned("family")[0].value).at("total") == 0);
        return;
    }
    SUBCASE("a suspend of ours") {
        trains(a, 9, 0, 10, 1000);
        now += std::chrono::hours{3};
        apply(ClockJumped{});
        trains(a, 2, 2000, 10, 5000);
        CHECK(learned("speed").empty());
    }
}

TEST_CASE_FIXTURE(Learning, "a job without progress is counted in whole runs, when one attempt made all of it") {
    const Running a = run_one(on("cloud", SpotChoice::never), "i1");
    for (int i = 0; i < 60; ++i) {
        say(a.machine, ap::Heartbeat{}, "boot1", 0);
        pass(Seconds{30});
    }
    exits(a.machine, a.attempt, 0);
    const auto rows = learned("speed");
    REQUIRE(rows.size() == 1);
    CHECK(json::parse(rows[0].value).at("unit") == "run");
    CHECK(json::parse(rows[0].value).at("work") == 1000);
    const JobId next = submit(on("cloud", SpotChoice::never));
    pass(Seconds{2});
    CHECK(learned("family").size() == 1);
    pass(std::chrono::minutes{6});  // the first machine, kept warm, has it or is gone
    CHECK(job(next).attempts == 1);
}

TEST_CASE("what a run took of its GPU corrects the estimate of the next one of its family, over a restart too") {
    constexpr auto kGiBd = static_cast<double>(kGiB);
    const auto with_estimate = [](double peak) {
        JobSpec s = Learning::on("cloud", SpotChoice::never);
        s.estimate = MemoryEstimate{.model = "m/x", .method = "lora", .peak_gib = peak, .margin = 1.15, .margin_reason = "formula",
                                    .demand = Bytes{static_cast<std::int64_t>(peak * 1.15 * kGiBd)}, .text = "by formula",
                                    .parts_gib = {{"weights", peak}}, .notes = {}};
        s.resources.vram = VramDemand{.class_gb = {}, .exact = s.estimate->demand};
        return s;
    };
    struct Row {
        const char* what;
        int code;
        bool gpu_oom;
        std::int64_t used, peak;  // MiB
        double took;              // GiB that the next one is reckoned to take; 0 = as the formula has it
    };
    const Row table[] = {{"a peak between the looks", 0, false, 9'000, 12'288, 12 - 0.35},
                         {"an agent that tells no peak", 0, false, 12'288, -1, 12 - 0.35},
                         {"nothing told", 0, false, -1, -1, 0},
                         {"the program failed", 1, false, 12'288, 12'288, 0},
                         // More than the card can give: a tenth above it.
                         {"out of memory", 1, true, 20'000, 20'000, (24564 / 1024.0 * 0.985 - 0.35) * 1.1}};
    for (const auto& row : table) {
        CAPTURE(std::string(row.what));
        Learning b;
        b.offers["cloud"].push_back(CoreBench::offer("cloud", "big", 900'000));
        b.offers["cloud"].back().gpu = {"L40S", "L40S", Bytes{46068 * kMiB}};
        b.pass(Seconds{30});
        const CoreBench::Running a = b.run_one(with_estimate(16), "i1");
        b.pass(Seconds{30});
        ap::Heartbeat m;
        m.attempt = a.attempt;
        m.gpus = {ap::GpuSample{.memory_used = row.used, .memory_peak = row.peak}};
        for (auto* figure : {&m.gpus[0].memory_used, &m.gpus[0].memory_peak})
            if (*figure > 0) *figure *= kMiB;
        b.say(a.machine, m, "boot1", 0);
        ap::Exited over;
        over.attempt = a.attempt;
        over.exit_code = row.code;
        over.gpu_oom = row.gpu_oom;
        b.say(a.machine, over);
        CHECK(b.learned("memory").size() == (row.took > 0 ? 1 : 0));
        b.restart();
        b.pass(Seconds{1});
        const JobId next = b.submit(with_estimate(16));
        b.pass(Seconds{2});
        const json decision = json::parse((*b.store->reader().decision(next))->json);
        const json& estimate = decision.at("estimate");
        if (row.took == 0) {
            CHECK(estimate.at("peak_gib_per_gpu").get<double>() == doctest::Approx(16));
            CHECK_FALSE(estimate.contains("formula_gib_per_gpu"));
            continue;
        }
        CHECK(estimate.at("peak_gib_per_gpu").get<double>() == doctest::Approx(row.took).epsilon(0.001));
        CHECK(estimate.at("formula_gib_per_gpu").get<double>() == doctest::Approx(16));
        // What is asked of the market is that: a card that is too small now is refused for it.
        if (row.gpu_oom) CHECK(decision.at("refused").at("vram").get<int>() >= 1);
    }
}

TEST_CASE_FIXTURE(Learning, "a loss and the hours before it count against the market and the host; what is given back does not") {
    const Running a = run_one(on("market", SpotChoice::always), "s1");
    for (int i = 0; i < 60; ++i) {
        say(a.machine, ap::Heartbeat{}, "boot1", 0);
        pass(Seconds{30});
    }
    bool lost = false;
    SUBCASE("taken back") {
        set_presence("s1", Presence::stopped, "outbid");
        lost = true;
    }
    SUBCASE("its agent was told that it will be taken") {
        ap::Exited out;
        out.attempt = a.attempt;
        out.reason = "notice";
        say(a.machine, out);
        lost = true;
    }
    SUBCASE("gone without a word") {
        set_presence("s1", Presence::gone, "");
        lost = true;
    }
    SUBCASE("stopped because the account is empty") {
        apply(BalanceSeen{ProviderName{"market"}, Usd{0}});
        set_presence("s1", Presence::stopped, "no money");
    }
    SUBCASE("the job is over") { exits(a.machine, a.attempt, 0); }
    pass(Seconds{30});
    const auto rows = learned("losses");
    REQUIRE(rows.size() == 2);
    for (const auto& row : rows) {
        CHECK(json::parse(row.value).at("losses") == (lost ? 1000 : 0));
        CHECK(json::parse(row.value).at("hours").get<int>() == doctest::Approx(500).epsilon(0.06));
    }
    CHECK(rows[0].key == "market/RTX-4090/spot");
}

TEST_CASE_FIXTURE(Learning, "how long a machine takes to come up is learned, of the first start only") {
    const JobId id = submit(on("cloud", SpotChoice::never));
    answer_market();
    apply(Tick{});
    answer_market();
    const CallLaunch call = take<CallLaunch>();
    launched(call, "i1");
    pass(std::chrono::minutes{2});
    const auto lease = agent_up(call.machine);
    const auto rows = learned("start");
    REQUIRE(rows.size() == 1);
    CHECK(rows[0].key.starts_with("boot/cloud"));
    CHECK(json::parse(rows[0].value).at("times")[0].get<int>() == doctest::Approx(120'000).epsilon(0.05));
    exits(call.machine, lease.attempt, 0);
    const JobId next = submit(on("cloud", SpotChoice::never));
    pass(Seconds{5});
    CHECK(json::parse(learned("start")[0].value).at("times").size() == 1);
}

TEST_CASE_FIXTURE(Learning, "what nothing has touched for long is forgotten, the rest stays") {
    const auto days = [&](int n) { return now - std::chrono::hours{24 * n}; };
    const std::vector<RowChange> rows{
        PutLearned{learned_row(LossRecord{.key = "old", .losses = 1, .expected = 1, .hours = 1, .at = days(100)})},
        PutLearned{learned_row(LossRecord{.key = "young", .losses = 1, .expected = 1, .hours = 1, .at = days(10)})},
        PutLearned{learned_row(StartRecord{.key = "boot/old", .times = {Millis{1}}, .at = days(100)})},
        PutLearned{learned_row(ThroughputRecord{.family = "f", .place = {.card = "L4", .gpus = 1}, .work = 1, .busy = Millis{1}, .looks = 1, .at = days(100)})},
        PutLearned{learned_row(FamilyRecord{.family = "f", .total = 1000, .at = days(1)})}};
    REQUIRE(store->commit(rows).has_value());
    restart();
    pass(Seconds{2});
    REQUIRE(learned("losses").size() == 1);
    CHECK(learned("losses")[0].key == "young");
    CHECK(learned("start").empty());
    CHECK(learned("speed").empty());
    CHECK(learned("family").size() == 1);
}

TEST_CASE("what cannot be read was never learned") {
    RunHistory history;
    const LearnedRecord good = learned_row(LossRecord{.key = "market/RTX-4090/spot", .losses = 1000, .expected = 500, .hours = 2000, .at = {}});
    CHECK(take_learned(history, good));
    CHECK(learned_row(history.losses.at(good.key)) == good);
    for (const auto& [kind, value] : std::vector<std::pair<std::string, std::string>>{
             {"dreams", "{}"}, {"losses", "[]"}, {"losses", "{\"losses\":-1,\"expected\":0,\"hours\":0}"}, {"losses", "{\"losses\":\"1\"}"},
             {"speed", "{\"family\":\"a\",\"unit\":\"mile\",\"work\":1,\"busy\":1,\"looks\":1,\"gpus\":1,\"share\":1000}"},
             {"start", "{\"times\":[1,\"2\"]}"}, {"start", "{}"}, {"family", "{\"unit\":\"step\",\"total\":1}"}, {"speed", "not json"}})
        CHECK_FALSE_MESSAGE(take_learned(history, {.kind = kind, .key = "k", .value = value, .at = {}}), kind << value);
    CHECK(history.losses.size() == 1);
    CHECK(history.speeds.empty());
    CHECK(history.starts.empty());
}

}  // namespace
}  // namespace gf
