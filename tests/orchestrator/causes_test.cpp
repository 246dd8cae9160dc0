// Why an attempt ended decides what its task does next: each cause with its own count, and nothing repeated
// that is sure to fail again (D08, D11 and what lies beside them; D06 in field_cases_test.cpp).
#include <functional>
#include <optional>

#include "tests/orchestrator/cards.hpp"

namespace gf {
namespace {
namespace ap = agent_protocol;

/// A cloud of 4090s and of a larger card, a market of spot, and the shipped tables.
struct Causes : CoreBench {
    explicit Causes(bool tables = true) : CoreBench(tables ? with_cards() : default_settings()) {
        Offer big = offer("cloud", "big", 900'000);
        big.gpu = {"L40S", "L40S", Bytes{46068 * kMiB}};
        offers["cloud"] = {offer("cloud", "a", 300'000), offer("cloud", "b", 400'000), big};
        for (int i = 0; i < 12; ++i)
            offers["market"].push_back(offer("market", "s" + std::to_string(i), 100'000 + i, true));
        apply(Tick{});
        answer_market();
    }
    static JobSpec on_demand() {
        JobSpec s;
        s.resources.spot = SpotChoice::never;
        s.resources.providers = {"cloud"};
        return s;
    }
    void dies(const Running& a, const std::function<void(ap::Exited&)>& how) {
        ap::Exited over;
        over.attempt = a.attempt;
        over.exit_code = 1;
        how(over);
        say(a.machine, over);
    }
    /// The machine is taken back, and the job is elsewhere or over.
    std::optional<Running> taken_back(const Running& a, const std::string& id, const std::string& next) {
        set_presence(id, Presence::stopped, "outbid");
        for (int i = 0; i < 900 && count<CallLaunch>() == 0 && !is_final(job(a.job).state); ++i)
            pass(Seconds{1});
        if (is_final(job(a.job).state)) return std::nullopt;
        return boot(a.job, next);
    }
    TaskRecord task(const JobId& id) { return store->reader().tasks(id)->front(); }
};

TEST_CASE(
    "after a GPU ran out of memory the next card has more than it had, whoever tells how much that was "
    "(D08)") {
    struct Row {
        const char* what;
        bool offer_tells, agent_tells, table;
        const char* next;  // offer; empty = none
    };
    const Row table[] = {{"the offer", true, true, true, "big"},
                         {"the agent alone", false, true, true, "big"},
                         {"the agent, without a table", false, true, false, "big"},
                         {"the table of cards alone", false, false, true, "big"},
                         {"nobody", false, false, false, ""}};
    for (const auto& row : table) {
        CAPTURE(std::string(row.what));
        Causes b(row.table);
        for (Offer& o : b.offers["cloud"])
            if (!row.offer_tells && o.id != "big") o.gpu.memory.reset();
        b.pass(Seconds{30});
        JobSpec spec = Causes::on_demand();
        spec.retry.gpu_oom = 3;
        spec.retry.gpu_oom_bigger = true;
        const JobId id = b.submit(spec);
        b.answer_market();
        b.apply(Tick{});
        b.answer_market();
        const CallLaunch call = b.take<CallLaunch>();
        REQUIRE(call.request.offer.id == "a");
        b.launched(call, "i1");
        b.apply(AgentConnected{call.machine, "boot1"});
        b.sent.clear();
        ap::Hello hello = CoreBench::hello_of();
        if (!row.agent_tells) hello.report.gpus[0].memory_bytes = 0;
        b.say(call.machine, hello, "boot1", 0);
        b.answer_market();
        std::string attempt;
        for (const auto& message : b.sent)
            if (const auto* lease = std::get_if<ap::Lease>(&message.message)) attempt = lease->attempt;
        REQUIRE(!attempt.empty());
        b.say(call.machine, ap::Started{attempt, 1, 0}, "boot1", 1);
        b.dies({id, call.machine, attempt}, [](ap::Exited& m) { m.gpu_oom = true; });
        b.pass(Seconds{30});
        if (*row.next != '\0') {
            CHECK(b.take<CallLaunch>().request.offer.id == row.next);
            CHECK(b.task(id).vram_above.has_value());
        } else {
            CHECK(b.count<CallLaunch>() == 0);
            CHECK(b.job(id).state == JobState::failed);
            CHECK(b.job(id).reason == "gpu_oom");
            CHECK(b.job(id).detail.find("not known") != std::string::npos);
        }
    }
}

TEST_CASE("losses in a row without progress end a job, or take it off spot where that may help (D11)") {
    struct Row {
        const char* what;
        SpotChoice spot;
        int allowed;        // retry.no_progress
        std::int64_t step;  // of a checkpoint before each loss: 0 = the first told none, -1 = no checkpoints,
                            // 1 = one more each time, 2 = always the same
        int losses;         // on spot, until it is over or elsewhere
        bool ends;
    };
    const Row table[] = {
        {"spot alone", SpotChoice::always, 1, -1, 6, true},
        {"spot or on demand", SpotChoice::automatic, 1, -1, 6, false},
        {"on demand, but not allowed", SpotChoice::automatic, 0, -1, 6, true},
        {"a program that hangs saves the same step again and again", SpotChoice::always, 1, 2, 6, true},
        {"steps that go on", SpotChoice::always, 1, 1, 9, false},
        {"checkpoints of a program that tells no steps", SpotChoice::always, 1, 0, 9, false}};
    for (const auto& row : table) {
        CAPTURE(std::string(row.what));
        Causes b;
        // So dear that nothing but the rule takes a job there, and enough hosts for all that fail.
        b.offers["cloud"].clear();
        for (int i = 0; i < 12; ++i)
            b.offers["cloud"].push_back(CoreBench::offer("cloud", "h" + std::to_string(i), 20'000'000 + i));
        b.pass(Seconds{30});
        JobSpec spec;
        spec.resources.spot = row.spot;
        spec.retry.no_progress = row.allowed;
        spec.checkpoint.declared = row.step >= 0;
        CoreBench::Running a = b.run_one(spec, "m0");
        int losses = 0;
        for (; losses < row.losses; ++losses) {
            CAPTURE(losses);
            REQUIRE(b.machine(a.machine).offer.spot);
            if (row.step >= 0)
                CHECK(b.offer_checkpoint(a.machine, a.attempt, "manifest" + std::to_string(losses),
                                         row.step == 1   ? 10 * (losses + 1)
                                         : row.step == 2 ? 10
                                                         : 0) == 200);
            const auto next = b.taken_back(a, "m" + std::to_string(losses), "m" + std::to_string(losses + 1));
            if (!next) break;
            a = *next;
        }
        CHECK(is_final(b.job(a.job).state) == row.ends);
        if (row.ends) {
            CHECK(losses + 1 == row.losses);
            CHECK(b.job(a.job).reason == "recovery_limit");
            CHECK(b.job(a.job).detail.find("6 losses in a row") != std::string::npos);
        } else if (row.step < 0) {
            CHECK_FALSE(b.machine(a.machine).offer.spot);
            CHECK(b.task(a.job).retries.no_progress == 1);
            // It stays off spot, however it ends there; and the end comes by the same count.
            for (int i = 0; i < 8 && !is_final(b.job(a.job).state); ++i) {
                b.set_presence("m" + std::to_string(losses), Presence::gone, "");
                for (int s = 0; s < 2000 && b.count<CallLaunch>() == 0 && !is_final(b.job(a.job).state); ++s)
                    b.pass(Seconds{1});
                if (is_final(b.job(a.job).state)) break;
                a = b.boot(a.job, "m" + std::to_string(++losses));
                CHECK_FALSE(b.machine(a.machine).offer.spot);
            }
            CHECK(is_final(b.job(a.job).state));
        } else {
            CHECK(b.task(a.job).retries.no_progress == 0);
        }
    }
}

TEST_CASE("an image that comes up nowhere is its user's affair, not the fault of six hosts") {
    struct Row {
        const char* what;
        const char* image;
        const char* told;  // by the provider of each machine; empty = nothing
        bool others_do;    // machines of other images have come up there
        bool known;        // so has this one, once
        int machines;      // that are rented before it is over
        const char* reason;
    };
    const Row table[] = {
        {"the provider says so, twice", "ghcr.io/x/none:1", "manifest unknown", false, false, 2,
         "user_error"},
        {"it says so, though it came up once", "ghcr.io/x/none:1", "manifest unknown", true, true, 2,
         "user_error"},
        {"it stops and says nothing, where others come up", "ghcr.io/x/none:1", "", true, false, 3,
         "user_error"},
        {"it has come up before: hosts", "ghcr.io/x/none:1", "", true, true, 6, "start_timeout"},
        {"nothing ever came up there", "ghcr.io/x/none:1", "", false, false, 6, "start_timeout"},
        {"no image of the user's", "", "", true, false, 6, "start_timeout"}};
    for (const auto& row : table) {
        CAPTURE(std::string(row.what));
        Causes b;
        b.offers["cloud"].clear();
        for (int i = 0; i < 12; ++i)
            b.offers["cloud"].push_back(CoreBench::offer("cloud", "h" + std::to_string(i), 300'000 + i));
        b.pass(Seconds{30});
        int n = 0;
        const auto run = [&](const std::string& image) {
            JobSpec spec = Causes::on_demand();
            spec.image = image;
            const CoreBench::Running a = b.run_one(spec, "first" + std::to_string(n++));
            b.exits(a.machine, a.attempt, 0);
            b.pass(Seconds{5});
        };
        if (row.others_do) run("ghcr.io/x/good:1");
        if (row.known) run(row.image);
        JobSpec spec = Causes::on_demand();
        spec.image = row.image;
        const JobId id = b.submit(spec);
        int machines = 0;
        for (int s = 0; s < 20'000 && !is_final(b.job(id).state); ++s) {
            b.pass(Seconds{1});
            if (b.count<CallLaunch>() == 0) continue;
            const std::string name = "i" + std::to_string(machines++);
            b.launched(b.take<CallLaunch>(), name);
            b.set_presence(name, Presence::failed, "created");
            b.reads[name].image_fault = row.told;
            for (auto& m : b.listing["cloud"])
                if (m.id.get() == name) m.image_fault = row.told;
        }
        CHECK(machines == row.machines);
        CHECK(b.job(id).state == JobState::failed);
        CHECK(b.job(id).reason == row.reason);
        if (*row.told != '\0') {
            CHECK(b.job(id).detail.find(row.told) != std::string::npos);
            CHECK(b.store->load_live()->host_marks.empty());  // no host is blamed
        }
    }
}

}  // namespace
}  // namespace gf
