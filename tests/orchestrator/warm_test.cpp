// A machine that goes from one job to the next: at what price, at whose cost meanwhile, and what becomes of the task's other machine.
#include "tests/orchestrator/bench.hpp"

namespace gf {
namespace {
namespace ap = agent_protocol;

struct Warm : Market {
    void alive_for(const Running& a, Millis span) {
        for (const Instant end = now + span; now < end;) {
            say(a.machine, ap::Heartbeat{}, "boot1", 0);
            pass(std::min<Millis>(Seconds{10}, end - now));
        }
    }
    /// What the machine's provider bills from now on.
    void costs(const Running& a, std::int64_t micros) {
        const MachineRecord row = machine(a.machine);
        reads[row.provider_id.get()].gpu_rate = UsdPerHour{micros};
        for (auto& m : listing[row.provider.get()])
            if (m.id == row.provider_id) m.gpu_rate = UsdPerHour{micros};
    }
    std::vector<LedgerRecord> bill(const Running& a) {
        auto rows = *store->reader().ledger(JobId{}, instant_of(0), now + std::chrono::hours{48});
        std::erase_if(rows, [&](const auto& row) { return row.machine != a.machine; });
        std::ranges::sort(rows, {}, &LedgerRecord::number);
        return rows;
    }
    JobSpec of_project(const std::string& name) {
        JobSpec s = on_demand();
        s.project = name;
        return s;
    }
};

TEST_CASE_FIXTURE(Warm, "a warm machine is judged by what it costs by now, and that is held back for it (P5)") {
    const Running a = run_one(on_demand(), "i1");
    costs(a, 340'000);
    offers["cloud"] = {offer("cloud", "dear", 900'000)};
    alive_for(a, Seconds{40});
    JobSpec next = on_demand();
    bool fits = false;
    SUBCASE("it was offered for less than the cap, and costs more by now") { next.resources.max_price = UsdPerHour{335'000}; }
    SUBCASE("it costs less than the cap") {
        next.resources.max_price = UsdPerHour{340'000};
        fits = true;
    }
    const JobId id = submit(next);
    alive_for(a, Seconds{40});
    REQUIRE(count<CallLaunch>() == 0);
    exits(a.machine, a.attempt, 0);
    pass(Seconds{5});
    CHECK((machine(a.machine).job == id) == fits);
    CHECK((job(id).state == JobState::starting) == fits);
    if (!fits) return;
    const auto held = *store->reader().reservations(id);
    REQUIRE(held.size() == 1);
    const Usd amount = held[0].amount;
    CHECK(amount == cost(UsdPerHour{340'000}, std::chrono::hours{1} + next.checkpoint.grace + std::chrono::minutes{10}));
    // The price that was agreed to is held against it from then on: nothing is given back.
    alive_for(a, Seconds{60});
    CHECK(machine(a.machine).state == MachineState::busy);
    CHECK(job(id).attempts == 1);
}

TEST_CASE_FIXTURE(Warm, "a warm machine whose bid was raised is judged by the bid") {
    market_can.bids = true;
    restart();
    pass(Seconds{1});
    const Running a = run_one(spot(), "s1");
    alive_for(a, Seconds{20});
    reads["s1"].spot_floor = listing["market"].front().spot_floor = UsdPerHour{199'000};
    alive_for(a, Seconds{20});
    const CallRaiseBid raise = take<CallRaiseBid>();
    apply(BidRaised{raise.machine, raise.bid, now, {}});
    costs(a, raise.bid.micros);
    offers["market"] = {offer("market", "dear", 900'000, true)};
    alive_for(a, Seconds{40});
    JobSpec next = spot();
    next.resources.max_price = UsdPerHour{raise.bid.micros - 1};
    const JobId id = submit(next);
    alive_for(a, Seconds{40});
    exits(a.machine, a.attempt, 0);
    pass(Seconds{5});
    CHECK(job(id).state == JobState::queued);
    CHECK(machine(a.machine).job == a.job);
}

TEST_CASE_FIXTURE(Warm, "a task that goes on on a warm machine gives up its old one in the same step (6.3)") {
    JobSpec spec;
    spec.checkpoint.declared = true;
    const Running b = run_one(spec, "s1");
    REQUIRE(machine(b.machine).provider.get() == "market");
    offers["cloud"] = {offer("cloud", "bargain", 100'000)};
    pass(Seconds{31});
    const Running a = run_one(on_demand(), "i1");
    set_presence("s1", Presence::stopped, "outbid");
    pass(Seconds{11});
    REQUIRE(machine(b.machine).state == MachineState::interrupted);
    exits(a.machine, a.attempt, 0);
    set_presence("s1", Presence::running, "running");
    pass(Seconds{11});
    REQUIRE(machine(a.machine).state == MachineState::ready);
    // Back, it hands in the only copy; then the cheaper one of the two is taken.
    apply(AgentConnected{b.machine, "boot2"});
    say(b.machine, hello_of(), "boot2", 0);
    REQUIRE(offer_checkpoint(b.machine, b.attempt, "m1", 10) == 200);
    pass(Seconds{2});
    CHECK(last_attempt(b.job).number == 2);
    CHECK(last_attempt(b.job).machine == a.machine);
    CHECK(machine(b.machine).state == MachineState::destroying);
    CHECK(machine(b.machine).reason == "superseded");
    CHECK(machine(a.machine).state == MachineState::busy);
    CHECK(take<CallDestroy>().machine == b.machine);
    CHECK(count<CallLaunch>() == 0);
}

TEST_CASE_FIXTURE(Warm, "a machine that stood still bills for its GPUs again from its agent's word on, not from the next listing on (P4)") {
    const Running a = run_one(spot(), "s1");
    alive_for(a, std::chrono::minutes{2});
    costs(a, 0);
    set_presence("s1", Presence::stopped, "outbid");
    pass(Seconds{11});
    REQUIRE(machine(a.machine).state == MachineState::interrupted);
    REQUIRE(bill(a).back().gpu_rate == UsdPerHour{0});
    now += Seconds{40};
    apply(AgentConnected{a.machine, "boot2"});
    say(a.machine, hello_of(), "boot2", 0);
    const auto rows = bill(a);
    CHECK(rows.back().gpu_rate == UsdPerHour{200'000});
    CHECK(rows.back().from == now);
}

TEST_CASE_FIXTURE(Warm, "the time between two jobs is the project's and no job's, a line of its own (10)") {
    const Running a = run_one(of_project("voices"), "i1");
    alive_for(a, std::chrono::minutes{10});
    JobSpec never = of_project("voices");
    never.resources.max_price = UsdPerHour{1};
    submit(never);  // something waits, so the machine is kept for a while
    const Instant over = now;
    exits(a.machine, a.attempt, 0);
    CHECK(job(a.job).state == JobState::succeeded);
    CHECK(machine(a.machine).state == MachineState::ready);
    alive_for(a, std::chrono::minutes{2});
    JobId next;
    Instant begun{};
    bool used_again = false;
    SUBCASE("nobody needs it: it goes") {
        alive_for(a, std::chrono::minutes{4});
        REQUIRE(machine(a.machine).state == MachineState::destroying);
    }
    SUBCASE("the next job of the project takes it over") { used_again = true; }
    SUBCASE("its price changes while it is idle, and the daemon restarts") {
        costs(a, 320'000);
        alive_for(a, Seconds{30});
        restart();
        pass(Seconds{1});
        apply(AgentConnected{a.machine, "boot1"});
        say(a.machine, hello_of(), "boot1", 0);
        used_again = true;
    }
    if (used_again) {
        begun = now;
        next = submit(of_project("voices"));
        pass(Seconds{1});
        REQUIRE(machine(a.machine).state == MachineState::busy);
        REQUIRE(machine(a.machine).job == next);
        alive_for(a, std::chrono::minutes{1});
        exits(a.machine, last_attempt(next).id.get(), 0);
        alive_for(a, std::chrono::minutes{6});
    }
    const CallDestroy call = take<CallDestroy>();
    apply(DestroyEnded{call.machine, call.call_seq, now, now, {}});
    set_presence("i1", Presence::gone, "");
    pass(Seconds{5});
    REQUIRE(machine(a.machine).state == MachineState::gone);

    const auto rows = bill(a);
    REQUIRE(rows.size() >= 2);
    for (std::size_t i = 0; i < rows.size(); ++i) {
        CHECK(rows[i].project == "voices");
        CHECK(rows[i].number == static_cast<int>(i) + 1);
        if (i > 0) CHECK(rows[i].from == *rows[i - 1].until);  // every second is billed once
    }
    CHECK(rows[0].job == a.job);
    CHECK(*rows[0].until == over);
    CHECK(rows[1].job.empty());
    CHECK(store->reader().ledger(a.job, instant_of(0), now)->size() == 1);
    if (!used_again) return;
    const auto of_next = *store->reader().ledger(next, instant_of(0), now);
    REQUIRE(of_next.size() == 1);
    CHECK(of_next[0].from >= begun);
    CHECK(of_next[0].from <= begun + Seconds{1});
    CHECK(rows.back().job.empty());
    for (const auto& row : rows)
        if (row.from >= over && row.until <= begun) CHECK(row.job.empty());
}

}  // namespace
}  // namespace gf
