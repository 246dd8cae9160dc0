// Bids, steps of a bill, and machines that live on under another id: what the ledger says is what the provider bills.
#include "tests/orchestrator/bench.hpp"

namespace gf {
namespace {
namespace ap = agent_protocol;

Usd billed(Store& store, const JobId& job, Instant now) {
    Usd total;
    for (const auto& row : *store.reader().ledger(job, instant_of(0), now + std::chrono::hours{48}))
        total += cost(row.gpu_rate + row.disk_rate, row.until.value_or(now) - row.from);
    return total;
}

// ---- Bids ----

struct Bids : Market {
    Bids() {
        market_can.bids = true;
        restart();
        pass(Seconds{1});
    }
    Running bidder(JobSpec spec) {
        Running a = run_one(std::move(spec), "s1");
        pass(Seconds{20});
        return a;
    }
    void floor(std::int64_t micros) {
        reads["s1"].spot_floor = UsdPerHour{micros};
        for (auto& m : listing["market"])
            if (m.id.get() == "s1") m.spot_floor = UsdPerHour{micros};
    }
    void alive_for(const Running& a, Millis span) {
        for (const Instant end = now + span; now < end;) {
            say(a.machine, ap::Heartbeat{}, "boot1", 0);
            pass(Seconds{10});
        }
    }
    void raised(const CallRaiseBid& call) {
        apply(BidRaised{call.machine, call.bid, now, {}});
        reads["s1"].gpu_rate = call.bid;
        for (auto& m : listing["market"])
            if (m.id.get() == "s1") m.gpu_rate = call.bid;
    }
};

TEST_CASE_FIXTURE(Bids, "a bid is raised when the floor comes near; ledger and reservation follow") {
    const Running a = bidder(spot());
    floor(170'000);
    alive_for(a, Seconds{30});
    CHECK(count<CallRaiseBid>() == 0);
    const Usd held = store->reader().reservations(a.job)->front().amount;
    floor(197'000);
    alive_for(a, Seconds{20});
    const CallRaiseBid call = take<CallRaiseBid>();
    CHECK(call.id.get() == "s1");
    CHECK(call.bid == UsdPerHour{216'700});
    const Instant at = now;
    raised(call);
    CHECK(machine(a.machine).bid == UsdPerHour{216'700});
    CHECK(machine(a.machine).rate == UsdPerHour{216'700});
    CHECK(store->reader().reservations(a.job)->front().amount > held);
    alive_for(a, std::chrono::minutes{10});
    CHECK(count<CallRaiseBid>() == 0);
    CHECK(alerts("billed_rate_over_offer") == 0);  // it is our own bid
    const auto ledger = *store->reader().ledger(a.job, instant_of(0), now);
    REQUIRE(ledger.size() == 2);
    CHECK(ledger[1].gpu_rate == UsdPerHour{216'700});
    CHECK(ledger[1].from == at);
    // Higher than our own bid is still told.
    reads["s1"].gpu_rate = listing["market"].front().gpu_rate = UsdPerHour{300'000};
    alive_for(a, Seconds{20});
    CHECK(alerts("billed_rate_over_offer") == 1);
}

TEST_CASE_FIXTURE(Bids, "a floor that runs away is followed at most once a minute") {
    const Running a = bidder(spot());
    int raises = 0;
    for (std::int64_t at = 200'000; at < 260'000; at += 2'000) {
        floor(at);
        alive_for(a, Seconds{10});
        while (count<CallRaiseBid>() > 0) {
            raised(take<CallRaiseBid>());
            ++raises;
        }
    }
    CHECK(raises >= 2);
    CHECK(raises <= 5);
}

TEST_CASE_FIXTURE(Bids, "a bid is not raised beyond the job's cap, the on-demand price, or what moving costs") {
    JobSpec spec = spot();
    SUBCASE("max_price") { spec.resources.max_price = UsdPerHour{210'000}; }
    SUBCASE("as dear as on-demand") {
        offers["market"].push_back(offer("market", "od", 215'000));
        pass(Seconds{31});
    }
    SUBCASE("far cheaper elsewhere") {
        spec.resources.spot = SpotChoice::automatic;
    }
    const Running a = bidder(spec);
    if (!spec.resources.max_price) {
        if (spec.resources.spot == SpotChoice::automatic) offers["cloud"] = {offer("cloud", "bargain", 100'000)};
        submit(on_demand());  // makes the core look at the market
        pass(Seconds{35});
    }
    floor(199'000);
    alive_for(a, Seconds{90});
    CHECK(count<CallRaiseBid>() == 0);
    CHECK(machine(a.machine).bid == UsdPerHour{200'000});
    bool said = false;
    for (const auto& e : *store->reader().events(a.job, 0, 1000)) said = said || (e.kind == "bid" && e.state == "kept");
    CHECK(said);
}

TEST_CASE_FIXTURE(Bids, "no raise for a machine on demand, an idle one, or where bids cannot be raised") {
    SUBCASE("on demand") {
        const Running a = run_one(on_demand(), "s1");
        reads["s1"].spot_floor = listing["cloud"].front().spot_floor = UsdPerHour{299'000};
        alive_for(a, Seconds{90});
    }
    SUBCASE("no such call there") {
        market_can.bids = false;
        restart();
        pass(Seconds{1});
        const Running a = bidder(spot());
        floor(199'000);
        alive_for(a, Seconds{90});
    }
    SUBCASE("a floor that is not told") {
        const Running a = bidder(spot());
        alive_for(a, Seconds{90});
    }
    CHECK(count<CallRaiseBid>() == 0);
}

TEST_CASE_FIXTURE(Bids, "a raise that fails leaves the bid as it was and is tried again after a pause") {
    const Running a = bidder(spot());
    floor(199'000);
    alive_for(a, Seconds{20});
    const CallRaiseBid call = take<CallRaiseBid>();
    apply(BidRaised{call.machine, call.bid, now, fail(ErrorKind::unavailable, "503")});
    CHECK(machine(a.machine).bid == UsdPerHour{200'000});
    alive_for(a, Seconds{20});
    CHECK(count<CallRaiseBid>() == 0);
    alive_for(a, Seconds{60});
    CHECK(count<CallRaiseBid>() == 1);
}

TEST_CASE_FIXTURE(Bids, "an answer about a machine that is gone meanwhile changes nothing") {
    const Running a = bidder(spot());
    apply(BidRaised{MachineId{"mch_unknown"}, UsdPerHour{1}, now, {}});
    CHECK(machine(a.machine).bid == UsdPerHour{200'000});
}

TEST_CASE_FIXTURE(Bids, "outbid with the only copy there: the bid is raised to get it back; with a copy elsewhere it is let go") {
    const Running a = bidder(spot());
    alive_for(a, std::chrono::minutes{30});
    const bool copied = [&] {
        bool yes = false;
        SUBCASE("the only copy") {}
        SUBCASE("a copy elsewhere") { yes = true; }
        return yes;
    }();
    if (copied) CHECK(offer_checkpoint(a.machine, a.attempt, "m1", 10) == 200);
    floor(230'000);
    set_presence("s1", Presence::stopped, "outbid");
    pass(Seconds{11});
    if (copied) {
        CHECK(machine(a.machine).state == MachineState::destroying);
        CHECK(count<CallRaiseBid>() == 0);
        return;
    }
    CHECK(machine(a.machine).state == MachineState::interrupted);
    const CallRaiseBid call = take<CallRaiseBid>();
    CHECK(call.bid == UsdPerHour{253'000});
    raised(call);
    set_presence("s1", Presence::running, "running");
    pass(Seconds{11});
    CHECK(machine(a.machine).state == MachineState::booting);
    // Back, it hands in what it has; the next machine goes on from there.
    apply(AgentConnected{a.machine, "boot2"});
    say(a.machine, hello_of(), "boot2", 0);
    CHECK(offer_checkpoint(a.machine, a.attempt, "m1", 10) == 200);
    CHECK(store->reader().tasks(a.job)->front().generation == 1);
}

// ---- Steps of a bill ----

struct Stepped : Market {
    void step_of(Millis step, Millis minimum) {
        for (Offer& o : offers["cloud"]) {
            o.billing_step = step;
            o.billing_minimum = minimum;
        }
        pass(Seconds{31});
    }
    void end(const Running& a, const std::string& id) {
        exits(a.machine, a.attempt, 0);
        const CallDestroy call = take<CallDestroy>();
        apply(DestroyEnded{call.machine, call.call_seq, now, now, {}});
        set_presence(id, Presence::gone, "");
        pass(Seconds{5});
        REQUIRE(machine(a.machine).state == MachineState::gone);
    }
    void alive_for(const Running& a, Millis span) {
        for (const Instant end = now + span; now < end;) {
            say(a.machine, ap::Heartbeat{}, "boot1", 0);
            pass(std::min<Millis>(Seconds{20}, end - now));
        }
    }
};

TEST_CASE_FIXTURE(Stepped, "an hour is the least that a machine by the hour costs, and the next one costs whole (Vultr)") {
    step_of(std::chrono::hours{1}, std::chrono::hours{1});
    Millis held{};
    std::int64_t micros = 0;
    SUBCASE("five minutes") { held = std::chrono::minutes{5}, micros = 300'000; }
    SUBCASE("fifty-nine minutes") { held = std::chrono::minutes{59}, micros = 300'000; }
    SUBCASE("sixty-one minutes") { held = std::chrono::minutes{61}, micros = 600'000; }
    SUBCASE("three hours and a half") { held = std::chrono::minutes{210}, micros = 1'200'000; }
    const Running a = run_one(on_demand(), "i1");
    alive_for(a, held);
    end(a, "i1");
    CHECK(billed(*store, a.job, now).micros == micros);
    // In steps it is never over what was reserved for it.
    CHECK(store->reader().reservations(a.job)->front().amount.micros >= micros);
}

TEST_CASE_FIXTURE(Stepped, "the whole life is rounded, not each interval of it, whatever happens to price, job or daemon") {
    step_of(std::chrono::hours{1}, std::chrono::hours{1});
    const Running a = run_one(on_demand(), "i1");
    alive_for(a, std::chrono::minutes{20});
    reads["i1"].gpu_rate = listing["cloud"].front().gpu_rate = UsdPerHour{310'000};
    alive_for(a, std::chrono::minutes{20});
    restart();
    apply(AgentConnected{a.machine, "boot1"});
    say(a.machine, hello_of(a.attempt, "running"), "boot1", 0);
    alive_for(a, std::chrono::minutes{40});
    end(a, "i1");
    const auto ledger = *store->reader().ledger(a.job, instant_of(0), now + std::chrono::hours{3});
    REQUIRE(ledger.size() == 2);
    CHECK(*ledger.back().until - ledger.front().from == std::chrono::hours{2});
}

TEST_CASE_FIXTURE(Stepped, "a minute counts from running on, not from the boot that is free (Lambda)") {
    cloud_can.gpu_free_while_booting = true;
    restart();
    step_of(std::chrono::minutes{1}, std::chrono::minutes{1});
    const bool again = [&] {
        bool yes = false;
        SUBCASE("without a restart") {}
        SUBCASE("with one") { yes = true; }
        return yes;
    }();
    const JobId id = submit(on_demand());
    answer_market();
    apply(Tick{});
    answer_market();
    const CallLaunch call = take<CallLaunch>();
    launched(call, "i1");
    reads["i1"].presence = listing["cloud"].front().presence = Presence::booting;
    reads["i1"].gpu_rate = listing["cloud"].front().gpu_rate = UsdPerHour{0};
    pass(std::chrono::minutes{4});
    reads["i1"].presence = listing["cloud"].front().presence = Presence::running;
    reads["i1"].gpu_rate = listing["cloud"].front().gpu_rate = UsdPerHour{300'000};
    pass(Seconds{10});
    const Running a{id, call.machine, agent_up(call.machine).attempt};
    if (again) {
        restart();
        apply(AgentConnected{a.machine, "boot1"});
        say(a.machine, hello_of(a.attempt, "running"), "boot1", 0);
    }
    alive_for(a, Seconds{150});
    end(a, "i1");
    CHECK(billed(*store, id, now).micros == 300'000 * 3 / 60);
}

TEST_CASE_FIXTURE(Stepped, "a look that began before the agent spoke does not make a running machine free again") {
    cloud_can.gpu_free_while_booting = true;
    restart();
    pass(Seconds{31});
    JobId id;
    const CallLaunch call = first_launch(on_demand(), &id);
    launched(call, "i1");
    ProviderMachine booting = reads["i1"];
    booting.presence = Presence::booting;
    booting.gpu_rate = UsdPerHour{0};
    const Instant began = now;
    pass(Seconds{4});
    agent_up(call.machine);
    CHECK(machine(call.machine).rate == UsdPerHour{300'000});
    now += std::chrono::minutes{20};  // the answer comes late
    apply(ListingSeen{ProviderName{"cloud"}, began + Seconds{1}, began + Seconds{6}, Listing{{booting}}});
    CHECK(machine(call.machine).rate == UsdPerHour{300'000});
}

TEST_CASE_FIXTURE(Stepped, "a rate that was told before a suspend of ours changes then, not when we heard of it") {
    const Running a = run_one(on_demand(), "i1");
    alive_for(a, std::chrono::minutes{5});
    ProviderMachine dearer = reads["i1"];
    dearer.gpu_rate = UsdPerHour{600'000};
    const Instant told = now;
    now += std::chrono::hours{2};
    apply(ListingSeen{ProviderName{"cloud"}, told - Seconds{1}, told, Listing{{dearer}}});
    const auto ledger = *store->reader().ledger(a.job, instant_of(0), now);
    REQUIRE(ledger.size() == 2);
    CHECK(ledger[1].from == told);
}

TEST_CASE_FIXTURE(Stepped, "what was never seen alive costs nothing, whatever its minimum") {
    step_of(std::chrono::hours{1}, std::chrono::hours{1});
    JobSpec spec = on_demand();
    spec.retry.start_timeout = 0;
    JobId id;
    const CallLaunch call = first_launch(spec, &id);
    apply(LaunchEnded{call.machine, call.call_seq, now, now, LaunchOutcome{.id = ProviderMachineId{"x1"}, .error = {}, .rate = {}}});
    ProviderMachine nothing;
    nothing.presence = Presence::gone;
    reads["x1"] = nothing;
    pass(std::chrono::minutes{21});
    const CallDestroy destroy = take<CallDestroy>();
    apply(DestroyEnded{destroy.machine, destroy.call_seq, now, now, {}});
    pass(Seconds{30});
    CHECK(machine(call.machine).state == MachineState::gone);
    CHECK(billed(*store, id, now).micros == 0);
}

// ---- Names and ids ----

struct Moves : Market {
    ProviderMachine moved(const std::string& from, const std::string& to) {
        ProviderMachine m = reads[from];
        m.id = ProviderMachineId{to};
        return m;
    }
};

TEST_CASE_FIXTURE(Moves, "a machine that its provider moves under a new id is followed: one machine, one bill, no loss") {
    const Running a = run_one(on_demand(), "i1");
    pass(Seconds{100});
    say(a.machine, ap::Heartbeat{}, "boot1", 0);
    reads["i2"] = moved("i1", "i2");
    listing["cloud"] = {reads["i2"]};
    reads["i1"].presence = Presence::gone;
    pass(Seconds{12});
    CHECK(machine(a.machine).provider_id.get() == "i2");
    CHECK(machine(a.machine).state == MachineState::busy);
    CHECK(job(a.job).state == JobState::running);
    CHECK(job(a.job).attempts == 1);
    CHECK(count<CallLaunch>() == 0);
    CHECK(count<CallDestroy>() == 0);
    CHECK(alerts("orphan_found") == 0);
    CHECK(store->reader().machines(true, "", 10)->size() == 1);
    SUBCASE("it ends under its new id") {
        exits(a.machine, a.attempt, 0);
        CHECK(take<CallDestroy>().id.get() == "i2");
        CHECK(store->reader().ledger(a.job, instant_of(0), now)->size() == 1);
    }
    SUBCASE("its container was restarted by the move: the attempt is over, and the machine that is destroyed is the new one") {
        apply(AgentConnected{a.machine, "boot2"});
        CHECK(store->reader().attempts(a.job)->front().cause == Cause::host_fault);
        CHECK(take<CallDestroy>().id.get() == "i2");
    }
    SUBCASE("and once more") {
        reads["i3"] = moved("i2", "i3");
        listing["cloud"] = {reads["i3"]};
        reads["i2"].presence = Presence::gone;
        say(a.machine, ap::Heartbeat{}, "boot1", 0);
        pass(Seconds{12});
        CHECK(machine(a.machine).provider_id.get() == "i3");
    }
}

TEST_CASE_FIXTURE(Moves, "a machine that is moved while it is destroyed is destroyed under its new id") {
    const Running a = run_one(on_demand(), "i1");
    pass(Seconds{100});
    exits(a.machine, a.attempt, 0);
    REQUIRE(count<CallDestroy>() == 1);  // under way while it is moved
    reads["i2"] = moved("i1", "i2");
    listing["cloud"] = {reads["i2"]};
    reads["i1"].presence = Presence::gone;
    pass(Seconds{12});
    std::set<std::string> destroyed;
    for (int i = 0; i < 60 && machine(a.machine).state != MachineState::gone; ++i) {
        pass(Seconds{1});
        while (count<CallDestroy>() > 0) {
            const CallDestroy call = take<CallDestroy>();
            destroyed.insert(call.id.get());
            if (call.id.get() == "i2") set_presence("i2", Presence::gone, "");
            apply(DestroyEnded{call.machine, call.call_seq, now, now, {}});
        }
    }
    CHECK(destroyed.contains("i2"));
    CHECK(machine(a.machine).state == MachineState::gone);
}

TEST_CASE_FIXTURE(Moves, "a second machine whose first is only missing from the listing is no move: it goes") {
    const Running a = run_one(on_demand(), "i1");
    pass(Seconds{100});
    reads["i2"] = moved("i1", "i2");
    listing["cloud"] = {reads["i2"]};  // i1 is left out, and a read still shows it
    for (int i = 0; i < 4; ++i) {
        say(a.machine, ap::Heartbeat{}, "boot1", 0);
        pass(Seconds{10});
    }
    CHECK(machine(a.machine).provider_id.get() == "i1");
    CHECK(job(a.job).state == JobState::running);
    CHECK(take<CallDestroy>().id.get() == "i2");
    CHECK(count<CallDestroy>() == 0);
}

TEST_CASE_FIXTURE(Moves, "a twin that listings still show after its end, or that comes back later, is no trouble to the store") {
    const Running a = run_one(on_demand(), "i1");
    pass(Seconds{100});
    ProviderMachine twin = moved("i1", "i2");
    reads["i2"] = twin;
    listing["cloud"].push_back(twin);
    const auto end_twin = [&] {
        for (int i = 0; i < 30 && count<CallDestroy>() == 0; ++i) {
            say(a.machine, ap::Heartbeat{}, "boot1", 0);
            pass(Seconds{1});
        }
        const CallDestroy call = take<CallDestroy>();
        CHECK(call.id.get() == "i2");
        apply(DestroyEnded{call.machine, call.call_seq, now, now, {}});
        reads["i2"].presence = Presence::gone;
        for (int i = 0; i < 5; ++i) pass(Seconds{1});
    };
    end_twin();
    const std::size_t rows = store->reader().machines(true, "", 10)->size();
    for (int i = 0; i < 3; ++i) {  // the listing lags
        say(a.machine, ap::Heartbeat{}, "boot1", 0);
        pass(Seconds{10});
    }
    CHECK(store->reader().machines(true, "", 10)->size() == rows);
    CHECK(count<CallDestroy>() == 0);
    reads["i2"].presence = Presence::running;  // and beyond any lag it is there again
    for (int i = 0; i < 6; ++i) {
        say(a.machine, ap::Heartbeat{}, "boot1", 0);
        pass(Seconds{10});
        if (count<CallDestroy>() > 0) break;
    }
    end_twin();
    CHECK(job(a.job).state == JobState::running);
    CHECK(machine(a.machine).provider_id.get() == "i1");
}

// A name that somebody changed in a console is left as it is: the id is what a machine is known by once it is known, and until
// then its environment mark stands in. A rename back would be one more call that can go wrong, for nothing that we need.
TEST_CASE_FIXTURE(Moves, "a machine renamed in a console stays ours by its id; before its id is known, by its environment") {
    SUBCASE("its id is known: name and environment may say what they like") {
        const Running a = run_one(on_demand(), "i1");
        for (auto* seen : {&reads["i1"], &listing["cloud"].front()}) seen->tag = "my pet", seen->env_tag.clear();
        pass(Seconds{60});
        CHECK(job(a.job).state == JobState::running);
        CHECK(machine(a.machine).provider_id.get() == "i1");
        exits(a.machine, a.attempt, 0);
        CHECK(take<CallDestroy>().id.get() == "i1");
    }
    SUBCASE("its id is not known yet, the environment shows our mark") {
        const CallLaunch call = first_launch(on_demand());
        launch_failed(call, ErrorKind::unknown_outcome, "502");
        ProviderMachine seen = alive("i1", call);
        seen.env_tag = std::exchange(seen.tag, "renamed");
        listing["cloud"] = {seen};
        pass(Seconds{30});
        CHECK(machine(call.machine).state == MachineState::booting);
        CHECK(machine(call.machine).provider_id.get() == "i1");
    }
    SUBCASE("another machine of ours got this one's name: each keeps its own id") {
        const Running a = run_one(on_demand(), "i1");
        pass(Seconds{1});
        const Running b = run_one(on_demand(), "i2");
        for (auto* list : {&listing["cloud"]})
            for (auto& m : *list)
                if (m.id.get() == "i2") m.tag = reads["i1"].tag;
        reads["i2"].tag = reads["i1"].tag;
        pass(Seconds{60});
        CHECK(machine(a.machine).provider_id.get() == "i1");
        CHECK(machine(b.machine).provider_id.get() == "i2");
        CHECK(job(a.job).state == JobState::running);
        CHECK(job(b.job).state == JobState::running);
        CHECK(count<CallDestroy>() == 0);
    }
    SUBCASE("nothing shows our mark: it is somebody's own") {
        ProviderMachine other;
        other.id = ProviderMachineId{"i9"};
        other.tag = "gf-otherins-00000000000000000000000000";
        other.presence = Presence::running;
        listing["cloud"] = {other};
        pass(std::chrono::minutes{2});
        CHECK(count<CallDestroy>() == 0);
        CHECK(core->world().machines.empty());
    }
}

}  // namespace
}  // namespace gf
