// Jobs with a deadline: which market they are placed in, when they leave it, and that people are told when it cannot be met.
#include <nlohmann/json.hpp>

#include "tests/orchestrator/cards.hpp"

namespace gf {
namespace {
namespace ap = agent_protocol;
using nlohmann::json;
using std::chrono::hours;
using std::chrono::minutes;

struct Deadline : CoreBench {
    Deadline() : CoreBench(with_cards()) {
        offers["cloud"] = {offer("cloud", "a", 600'000)};
        offers["market"] = {offer("market", "s", 150'000, true)};
        apply(Tick{});
        answer_market();
    }
    /// Two hours of work, to be done in `time`.
    JobSpec due_in(Millis time) {
        JobSpec s;
        s.checkpoint.declared = true;
        s.limits.duration = hours{2};
        s.limits.deadline = now + time;
        return s;
    }
    json decision(const JobId& id) { return json::parse((*store->reader().decision(id))->json); }
    void heartbeats(const MachineId& machine, Millis span) {
        for (const Instant end = now + span; now < end;) {
            say(machine, ap::Heartbeat{}, "boot1", 0);
            pass(std::min<Millis>(Seconds{20}, end - now));
        }
    }
};

TEST_CASE_FIXTURE(Deadline, "with time to spare a job goes to spot, without it on demand") {
    JobId id;
    SUBCASE("time for a loss and more") {
        id = submit(due_in(hours{12}));
        pass(Seconds{2});
        CHECK(take<CallLaunch>().provider.get() == "market");
        CHECK(decision(id).at("deadline").at("move") == "move");
    }
    SUBCASE("a loss would be one too many") {
        id = submit(due_in(hours{2} + minutes{25}));
        pass(Seconds{2});
        CHECK(take<CallLaunch>().provider.get() == "cloud");
        CHECK(decision(id).at("deadline").at("move") == "move");
        CHECK(alerts("deadline_at_risk") == 0);
    }
    SUBCASE("not even on demand would make it") {
        id = submit(due_in(hours{1}));
        pass(Seconds{2});
        CHECK(count<CallLaunch>() == 1);
        CHECK(decision(id).at("deadline").at("why") == "too_late");
        CHECK(alerts("deadline_at_risk") == 1);
    }
    SUBCASE("without checkpoints a loss takes everything: half of the time must be left over") {
        JobSpec s = due_in(hours{4});
        s.checkpoint.declared = false;
        id = submit(s);
        pass(Seconds{2});
        CHECK(take<CallLaunch>().provider.get() == "cloud");
    }
    SUBCASE("who says always or never is not asked") {
        JobSpec s = due_in(hours{2} + minutes{25});
        s.resources.spot = SpotChoice::always;
        id = submit(s);
        pass(Seconds{2});
        CHECK(take<CallLaunch>().provider.get() == "market");
        CHECK_FALSE(decision(id).contains("deadline"));
    }
}

TEST_CASE_FIXTURE(Deadline, "a job on spot whose slack is gone checkpoints and goes on demand, once, and nothing is counted against it") {
    JobSpec spec = due_in(hours{4});
    spec.limits.duration.reset();
    const Running a = run_one(spec, "s1");
    REQUIRE(machine(a.machine).provider.get() == "market");
    // Ten steps a minute of 1,200: two hours. Then it does not get on, and every hour that passes is an hour of slack.
    for (int i = 1; i <= 25; ++i) {
        pass(minutes{1});
        say(a.machine, ap::Progress{a.attempt, 10 * i, 1200}, "boot1", 0);
    }
    CHECK(offer_checkpoint(a.machine, a.attempt, "m1", 250) == 200);
    sent.clear();
    std::vector<std::string> stops;
    const auto asked_to_stop = [&] {
        for (const auto& message : sent)
            if (const auto* stop = std::get_if<ap::Stop>(&message.message)) stops.push_back(stop->reason);
        sent.clear();
        return !stops.empty();
    };
    const Instant began = now;
    while (!asked_to_stop() && now - began < hours{3}) heartbeats(a.machine, Seconds{20});
    REQUIRE(stops == std::vector<std::string>{"deadline"});
    // 1,200 - 250 steps are 95 minutes. Left must be that and the worst start, twenty minutes; not left were two intervals besides.
    const Millis left = *spec.limits.deadline - now;
    CHECK(left >= minutes{95 + 20});
    CHECK(left <= minutes{95 + 20 + 20 + 3});
    ap::Exited out;
    out.attempt = a.attempt;
    out.reason = "stopped";
    out.exit_code = 0;
    say(a.machine, out);
    CHECK(machine(a.machine).state == MachineState::destroying);
    pass(Seconds{5});
    CHECK(take<CallLaunch>().provider.get() == "cloud");
    CHECK(job(a.job).attempts == 2);
    CHECK((*store->reader().tasks(a.job)).front().retries == RetryCounts{});
}

TEST_CASE_FIXTURE(Deadline, "where nobody has ever seen spot there is nothing to wait for") {
    offers["market"].clear();
    pass(minutes{2});
    const JobId id = submit(due_in(hours{48}));
    pass(minutes{2});
    CHECK(take<CallLaunch>().provider.get() == "cloud");
    CHECK(decision(id).at("deadline").at("move") == "move");
}

TEST_CASE_FIXTURE(Deadline, "a deadline of a job is no affair of a market that it does not want") {
    offers["market"].clear();
    pass(minutes{2});
    JobSpec s = due_in(hours{3});
    s.resources.spot = SpotChoice::never;
    const JobId id = submit(s);
    pass(minutes{2});
    CHECK(take<CallLaunch>().provider.get() == "cloud");
    CHECK_FALSE(decision(id).contains("deadline"));
}

}  // namespace
}  // namespace gf
