// Losses that are none, or nobody's fault: machines that come back, accounts that run dry, machines that live on under another
// id, bids whose answer was lost, hosts that are silent.
#include <algorithm>
#include <set>

#include "tests/orchestrator/bench.hpp"

namespace gf {
namespace {
namespace ap = agent_protocol;

struct Losses : Market {
    void alive_for(const Running& a, Millis span, const std::string& boot = "boot1") {
        for (const Instant end = now + span; now < end;) {
            say(a.machine, ap::Heartbeat{}, boot, 0);
            pass(std::min<Millis>(Seconds{10}, end - now));
        }
    }
    TaskRecord task(const JobId& id) { return store->reader().tasks(id)->front(); }
    Running interrupted() {
        Running a = run_one(spot(), "s1");
        alive_for(a, std::chrono::minutes{25});
        set_presence("s1", Presence::stopped, "outbid");
        pass(Seconds{11});
        REQUIRE(machine(a.machine).state == MachineState::interrupted);
        pass(std::chrono::minutes{5});
        return a;
    }
    /// No two rows that are live name one machine of a provider.
    bool ids_differ() {
        std::set<std::string> ids;
        for (const auto& [id, m] : core->world().machines)
            if (m.row.state != MachineState::gone && !m.row.provider_id.empty() &&
                !ids.insert(m.row.provider.get() + "/" + m.row.provider_id.get()).second)
                return false;
        return true;
    }
};

// ---- Back from an interruption ----

TEST_CASE_FIXTURE(Losses, "an interrupted machine whose agent is faster than the listing keeps the only copy") {
    const Running a = interrupted();
    apply(AgentConnected{a.machine, "boot2"});
    ap::Hello hello = hello_of();
    bool restarted = false;
    SUBCASE("as it was") {
        SUBCASE("it runs, and the daemon starts anew") {
            set_presence("s1", Presence::running, "running");
            restarted = true;
        }
        SUBCASE("it runs") { set_presence("s1", Presence::running, "running"); }
        SUBCASE("listings lag, or it was taken back once more: it is waited for as before") {}
    }
    SUBCASE("without its GPUs") {
        hello.report.gpus.clear();
        set_presence("s1", Presence::running, "running");
    }
    say(a.machine, hello, "boot2", 0);
    if (restarted) {
        restart();
        apply(AgentConnected{a.machine, "boot2"});
        say(a.machine, hello, "boot2", 0);
    }
    alive_for(a, Seconds{25}, "boot2");
    CHECK(machine(a.machine).state != MachineState::destroying);
    CHECK(count<CallDestroy>() == 0);
    CHECK(offer_checkpoint(a.machine, a.attempt, "m1", 500) == 200);
    CHECK(task(a.job).generation == 1);
}

TEST_CASE_FIXTURE(Losses, "a machine that was taken back twice is kept until the first patience is over") {
    const Running a = interrupted();
    set_presence("s1", Presence::running, "running");
    pass(Seconds{15});
    set_presence("s1", Presence::stopped, "outbid");
    pass(Seconds{15});
    CHECK(machine(a.machine).state == MachineState::interrupted);
    pass(std::chrono::minutes{3});
    CHECK(count<CallDestroy>() == 0);
    pass(std::chrono::minutes{3});
    CHECK(take<CallDestroy>().id.get() == "s1");
}

TEST_CASE_FIXTURE(Losses, "where a stopped machine's disk does not last, its work is not waited for") {
    market_can.per_disk_price = false;
    restart();
    pass(Seconds{1});
    const Running a = run_one(spot(), "s1");
    set_presence("s1", Presence::stopped, "EXITED");
    pass(Seconds{11});
    CHECK(machine(a.machine).state == MachineState::destroying);
    CHECK(count<CallLaunch>() == 1);
}

TEST_CASE_FIXTURE(Losses, "a job that is to stop anyway keeps no machine that was taken back, and bids for none") {
    market_can.bids = true;
    restart();
    pass(Seconds{1});
    const Running a = run_one(spot(), "s1");
    alive_for(a, std::chrono::minutes{20});
    CHECK(command(a.job, JobVerb::hold) == 200);
    reads["s1"].spot_floor = listing["market"].front().spot_floor = UsdPerHour{230'000};
    set_presence("s1", Presence::stopped, "outbid");
    pass(Seconds{11});
    CHECK(job(a.job).state == JobState::held);
    CHECK(machine(a.machine).state == MachineState::destroying);
    CHECK(count<CallRaiseBid>() == 0);
}

// ---- Accounts ----

struct Accounts : Losses {
    Accounts() {
        cloud_can.balance = market_can.balance = true;
        restart();
        pass(Seconds{1});
        balance(Usd{5'000'000});
    }
    /// Answers whoever asks.
    void balance(const Result<Usd>& figure) {
        while (count<CallBalance>() > 0) apply(BalanceSeen{take<CallBalance>().provider, figure});
    }
    Running lost(bool is_spot, Presence shown) {
        Running a = run_one(is_spot ? spot() : on_demand(), "i1");
        alive_for(a, std::chrono::minutes{5});
        if (is_spot) REQUIRE(offer_checkpoint(a.machine, a.attempt, "m1", 10) == 200);
        balance(Usd{5'000'000});
        set_presence("i1", shown, "x");
        pass(Seconds{15});
        return a;
    }
    /// Losses that were counted.
    int counted(const JobId& id) {
        const RetryCounts used = task(id).retries;
        return used.spot_lost + used.host_fault + used.start_timeout;
    }
};

TEST_CASE("the balance is looked at before a loss counts, whichever way the machine was lost") {
    struct Row {
        const char* what;
        bool is_spot;
        Presence shown;
    };
    for (const Row& row : {Row{"spot, stopped", true, Presence::stopped}, Row{"spot, gone", true, Presence::gone},
                           Row{"on demand, stopped", false, Presence::stopped}, Row{"on demand, gone", false, Presence::gone}})
        for (const bool empty : {false, true}) {
            CAPTURE(row.what);
            CAPTURE(empty);
            Accounts b;
            const auto a = b.lost(row.is_spot, row.shown);
            CHECK(b.job(a.job).state == JobState::recovering);
            CHECK(b.counted(a.job) == 0);
            CHECK(b.core->world().host_marks->empty());
            REQUIRE(b.count<CallBalance>() == 1);
            CHECK(b.count<CallLaunch>() == 0);
            b.balance(Usd{empty ? 0 : 5'000'000});
            CHECK(b.counted(a.job) == (empty ? 0 : 1));
            CHECK(b.task(a.job).retries.without_progress == (empty ? 0 : 1));
            CHECK(b.core->world().host_marks->empty() == empty);
            CHECK((b.job(a.job).reason == "no_money") == empty);
            CHECK(b.alerts("provider_degraded") == (empty ? 1 : 0));
            b.pass(Seconds{8});
            CHECK(b.count<CallLaunch>() == (empty ? 0 : 1));  // with money, within seconds
        }
}

TEST_CASE_FIXTURE(Accounts, "a figure that our machines have used up since is not asked for again") {
    const Running a = run_one(on_demand(), "i1");
    pass(Seconds{61});
    balance(Usd{10'000});  // two minutes of it
    alive_for(a, Seconds{120});
    set_presence("i1", Presence::stopped, "x");
    pass(Seconds{12});
    CHECK(job(a.job).reason == "no_money");
    CHECK(counted(a.job) == 0);
    CHECK(core->world().host_marks->empty());
    CHECK(machine(a.machine).state == MachineState::destroying);
}

TEST_CASE_FIXTURE(Accounts, "without an answer a loss is what it looks like, and its job waits for none") {
    const Running a = lost(true, Presence::stopped);
    REQUIRE(count<CallBalance>() == 1);
    SUBCASE("no figure") { balance(fail(ErrorKind::unavailable, "502")); }
    SUBCASE("no answer at all") { pass(Seconds{30}); }
    CHECK(counted(a.job) == 1);
    pass(Seconds{3});
    CHECK(count<CallLaunch>() == 1);
}

TEST_CASE_FIXTURE(Accounts, "an answer that was asked for before the loss does not decide about it") {
    const Running a = run_one(on_demand(), "i1");
    pass(Seconds{61});
    REQUIRE(count<CallBalance>() >= 1);  // under way
    set_presence("i1", Presence::stopped, "x");
    pass(Seconds{12});
    CHECK(counted(a.job) == 0);
    std::vector<ProviderName> asked;
    while (count<CallBalance>() > 0) asked.push_back(take<CallBalance>().provider);
    for (const ProviderName& name : asked) apply(BalanceSeen{name, Usd{5'000'000}});
    CHECK(counted(a.job) == 0);
    REQUIRE(count<CallBalance>() == 1);
    balance(Usd{0});
    CHECK(counted(a.job) == 0);
    CHECK(job(a.job).reason == "no_money");
}

TEST_CASE_FIXTURE(Accounts, "the last loss that a job may have ends it when the balance says that it was one") {
    JobSpec spec = spot();
    spec.retry.spot_lost = 0;
    const Running a = run_one(spec, "i1");
    REQUIRE(offer_checkpoint(a.machine, a.attempt, "m1", 10) == 200);
    set_presence("i1", Presence::stopped, "x");
    pass(Seconds{15});
    CHECK(job(a.job).state == JobState::recovering);
    balance(Usd{5'000'000});
    CHECK(job(a.job).state == JobState::failed);
    CHECK(job(a.job).reason == "spot_lost");
}

TEST_CASE_FIXTURE(Accounts, "a machine with the only copy is kept while the balance is asked for, and after") {
    const Running a = run_one(spot(), "s1");
    alive_for(a, std::chrono::minutes{5});
    balance(Usd{5'000'000});
    set_presence("s1", Presence::stopped, "outbid");
    pass(Seconds{15});
    CHECK(machine(a.machine).state == MachineState::interrupted);
    balance(Usd{5'000'000});
    CHECK(counted(a.job) == 1);
    pass(std::chrono::minutes{5});
    CHECK(machine(a.machine).state == MachineState::interrupted);
    CHECK(count<CallLaunch>() == 0);
    pass(std::chrono::minutes{6});
    CHECK(count<CallLaunch>() == 1);
}

// ---- Other ids ----

struct Ids : Losses {
    void show(const std::string& as, const std::string& like) {
        ProviderMachine m = reads[like];
        m.id = ProviderMachineId{as};
        m.presence = Presence::running;
        reads[as] = m;
        listing["cloud"].push_back(m);
    }
};

TEST_CASE_FIXTURE(Ids, "what was listed under its own id again was not moved: its end is its end") {
    const Running a = run_one(on_demand(), "i1");
    alive_for(a, Seconds{100});
    const ProviderMachine first = reads["i1"];
    listing["cloud"].clear();
    show("i2", "i1");
    reads.erase("i1");  // its read takes long
    alive_for(a, Seconds{11});
    const CallRead open = take<CallRead>();
    CHECK(open.id.get() == "i1");
    listing["cloud"].push_back(first);
    alive_for(a, Seconds{11});  // both are listed: i2 is a second machine, and goes
    CHECK(take<CallDestroy>().id.get() == "i2");
    ProviderMachine gone = first;
    gone.presence = Presence::gone;
    apply(ReadEnded{open.machine, open.call_seq, now, now, gone});
    CHECK(ids_differ());
    CHECK(machine(a.machine).provider_id.get() == "i1");
    CHECK(machine(a.machine).state == MachineState::gone);
    CHECK(job(a.job).state == JobState::recovering);
}

TEST_CASE_FIXTURE(Ids, "a read that is older than the move does not make a second machine of the moved one") {
    const Running a = run_one(on_demand(), "i1");
    alive_for(a, Seconds{100});
    const ProviderMachine first = reads["i1"];
    reads.erase("i1");
    listing["cloud"].clear();
    alive_for(a, Seconds{11});
    const CallRead open = take<CallRead>();
    const Instant began = now - Seconds{1};
    reads["i1"] = first;
    show("i2", "i1");
    alive_for(a, Seconds{11});
    apply(ReadEnded{open.machine, open.call_seq, began, now, first});
    reads["i1"].presence = Presence::gone;
    alive_for(a, Seconds{30});
    CHECK(count<CallDestroy>() == 0);
    CHECK(machine(a.machine).provider_id.get() == "i2");
    CHECK(job(a.job).state == JobState::running);
}

TEST_CASE_FIXTURE(Ids, "a machine that once had a twin may be moved later") {
    const Running a = run_one(on_demand(), "i1");
    alive_for(a, Seconds{100});
    const ProviderMachine first = listing["cloud"].front();
    listing["cloud"].clear();
    show("i2", "i1");
    alive_for(a, Seconds{30});
    const CallDestroy call = take<CallDestroy>();
    CHECK(call.id.get() == "i2");
    apply(DestroyEnded{call.machine, call.call_seq, now, now, {}});
    reads["i2"].presence = Presence::gone;
    listing["cloud"] = {first};
    alive_for(a, Seconds{60});
    listing["cloud"].clear();
    show("i3", "i1");
    reads["i1"].presence = Presence::gone;
    alive_for(a, Seconds{30});
    CHECK(machine(a.machine).provider_id.get() == "i3");
    CHECK(job(a.job).state == JobState::running);
    CHECK(count<CallDestroy>() == 0);
}

// ---- Bids ----

TEST_CASE_FIXTURE(Losses, "a raise whose answer was lost is our own bid when the provider bills it") {
    market_can.bids = true;
    restart();
    pass(Seconds{1});
    JobSpec spec = spot();
    bool restarted = false;
    bool capped = true;
    SUBCASE("an answer that says nothing") {}
    SUBCASE("a restart, within the job's cap") { restarted = true; }
    SUBCASE("a restart, and nothing tells a cap: people are told") {
        restarted = true;
        capped = false;
    }
    if (capped) spec.resources.max_price = UsdPerHour{250'000};
    const Running a = run_one(spec, "s1");
    alive_for(a, Seconds{20});
    reads["s1"].spot_floor = listing["market"].front().spot_floor = UsdPerHour{199'000};
    alive_for(a, Seconds{11});
    const CallRaiseBid call = take<CallRaiseBid>();
    REQUIRE(call.bid > UsdPerHour{215'000});
    const Usd held = store->reader().reservations(a.job)->front().amount;
    reads["s1"].spot_floor = listing["market"].front().spot_floor = UsdPerHour{150'000};
    if (restarted) restart();
    else apply(BidRaised{call.machine, call.bid, now, fail(ErrorKind::unknown_outcome, "cut")});
    if (restarted) apply(AgentConnected{a.machine, "boot1"});
    reads["s1"].gpu_rate = listing["market"].front().gpu_rate = call.bid;
    alive_for(a, Seconds{20});
    CHECK(alerts("billed_rate_over_offer") == (capped ? 0 : 1));
    CHECK(machine(a.machine).bid == (capped ? call.bid : UsdPerHour{200'000}));
    CHECK((store->reader().reservations(a.job)->front().amount > held) == capped);
    // Beyond what we asked for, or may have, it is nobody's bid.
    reads["s1"].gpu_rate = listing["market"].front().gpu_rate = UsdPerHour{300'000};
    alive_for(a, Seconds{20});
    CHECK(alerts("billed_rate_over_offer") == 1);
}

// ---- Silent hosts ----

TEST_CASE_FIXTURE(Losses, "a host that is off the net bills what it tells, and is no loss") {
    const Running a = run_one(on_demand(), "i1");
    alive_for(a, Seconds{30});
    const auto rate = [&](std::int64_t micros) { reads["i1"].gpu_rate = listing["cloud"].front().gpu_rate = UsdPerHour{micros}; };
    set_presence("i1", Presence::unknown, "offline");
    rate(0);
    pass(Seconds{60});
    set_presence("i1", Presence::running, "running");
    rate(300'000);
    alive_for(a, Seconds{15});
    CHECK(job(a.job).state == JobState::running);
    const auto ledger = *store->reader().ledger(a.job, instant_of(0), now);
    REQUIRE(ledger.size() == 3);
    CHECK(ledger[1].gpu_rate.micros == 0);
    CHECK(ledger[2].gpu_rate.micros == 300'000);
    CHECK(*ledger[1].until - ledger[1].from >= Seconds{50});
}

TEST_CASE_FIXTURE(Losses, "a machine in a state that nobody knows is there when its price is told") {
    cloud_can.gpu_free_while_booting = true;
    restart();
    pass(Seconds{1});
    const CallLaunch call = first_launch(on_demand());
    launched(call, "i1");
    set_presence("i1", Presence::unknown, "unhealthy");
    bool priced = false;
    SUBCASE("with a price") { priced = true; }
    SUBCASE("without one") { reads["i1"].gpu_rate = listing["cloud"].front().gpu_rate = std::nullopt; }
    pass(Seconds{30});
    CHECK(machine(call.machine).read_alive == priced);
    CHECK(machine(call.machine).rate == UsdPerHour{priced ? 300'000 : 0});
    CHECK(machine(call.machine).state == MachineState::booting);
}

}  // namespace
}  // namespace gf
