// Neighbours of the field cases of areas A, B and E: the same kinds of answers at other moments, from other calls, twice, or late.
// The cases themselves are in field_cases_test.cpp.
#include "tests/orchestrator/bench.hpp"

namespace gf {
namespace {
namespace ap = agent_protocol;

struct Answers : Market {
    void alive_for(const Running& a, Millis span) {
        for (const Instant end = now + span; now < end;) {
            say(a.machine, ap::Heartbeat{}, "boot1", 0);
            pass(Seconds{10});
        }
    }
    std::string decision(const JobId& id) { return store->reader().decision(id)->value().json; }
    int creates_until(Instant end, ErrorKind answer) {
        int n = 0;
        while (now < end) {
            pass(Seconds{5});
            while (count<CallLaunch>() > 0) {
                launch_failed(take<CallLaunch>(), answer);
                ++n;
            }
        }
        return n;
    }
};

// ---- A01, A13: a clean refusal ----

TEST_CASE_FIXTURE(Answers, "with no capacity anywhere each offer is asked once per cool-down, and the job says what it waits for (A01)") {
    const JobId id = submit(on_demand());
    CHECK(creates_until(now + std::chrono::minutes{9}, ErrorKind::no_capacity) == 2);
    CHECK(job(id).state == JobState::queued);
    CHECK(decision(id).find("cooling_down") != std::string::npos);
    CHECK(creates_until(now + std::chrono::minutes{3}, ErrorKind::no_capacity) == 2);
    CHECK(store->reader().reservations(id)->size() == 4);
    for (const auto& held : *store->reader().reservations(id)) CHECK(held.released_at);
}

TEST_CASE_FIXTURE(Answers, "no capacity for one job is no capacity for the next (A01)") {
    launch_failed(first_launch(on_demand()), ErrorKind::no_capacity);
    pass(Seconds{1});
    (void)take<CallLaunch>();
    submit(on_demand());
    pass(Seconds{3});
    REQUIRE(count<CallLaunch>() == 1);
    CHECK(take<CallLaunch>().request.offer.id == "b");
}

TEST_CASE_FIXTURE(Answers, "a wrong request fails the job whatever it did before, and rents nothing else (A13)") {
    SUBCASE("its first try") {
        const JobId id = submit(on_demand());
        pass(Seconds{2});
        launch_failed(take<CallLaunch>(), ErrorKind::invalid, "disk must be at least 40");
        CHECK(job(id).state == JobState::failed);
        CHECK(job(id).detail == "disk must be at least 40");
    }
    SUBCASE("after a loss") {
        const Running a = run_one(on_demand(), "i1");
        set_presence("i1", Presence::gone, "");
        pass(Seconds{150});
        launch_failed(take<CallLaunch>(), ErrorKind::refused, "image is gone");
        CHECK(job(a.job).state == JobState::failed);
        CHECK(job(a.job).detail == "image is gone");
    }
    SUBCASE("cancelled before the answer: cancelled it is") {
        const JobId id = submit(on_demand());
        pass(Seconds{2});
        CHECK(command(id, JobVerb::cancel) == 200);
        launch_failed(take<CallLaunch>(), ErrorKind::refused, "no");
        CHECK(job(id).state == JobState::cancelled);
    }
    pass(std::chrono::minutes{2});
    CHECK(count<CallLaunch>() == 0);
    for (const auto& [id, m] : core->world().machines) CHECK((m.row.state == MachineState::destroying || m.row.state == MachineState::gone));
}

// ---- A02, A09: an unclear create ----

TEST_CASE_FIXTURE(Answers, "an unclear create is found by its tag in whatever state it is, and belongs to its own task alone (A02, A09)") {
    JobId id;
    const CallLaunch call = first_launch(on_demand(), &id);
    apply(LaunchEnded{call.machine, call.call_seq, now, now,
                      LaunchOutcome{.id = {}, .error = Error{.kind = ErrorKind::unknown_outcome, .message = "429", .retry_after = Seconds{20}}, .rate = {}}});
    SUBCASE("still booting") {
        ProviderMachine seen = alive("i1", call);
        seen.presence = Presence::booting;
        listing["cloud"] = {seen};
        pass(Seconds{15});
        CHECK(machine(call.machine).state == MachineState::booting);
        CHECK(job(id).state == JobState::starting);
    }
    SUBCASE("a moment before it would be written off") {
        pass(Seconds{295});
        listing["cloud"] = {alive("i1", call)};
        reads["i1"] = listing["cloud"].front();
        pass(Seconds{30});
        CHECK(machine(call.machine).state == MachineState::booting);
        CHECK(count<CallLaunch>() == 0);
    }
    SUBCASE("stopped by itself: it goes, and the task is placed again") {
        ProviderMachine seen = alive("i1", call);
        seen.presence = Presence::stopped;
        listing["cloud"] = {seen};
        pass(Seconds{30});
        CHECK(machine(call.machine).state == MachineState::destroying);
        CHECK(job(id).attempts == 2);
    }
    SUBCASE("after its job was cancelled: it goes") {
        CHECK(command(id, JobVerb::cancel) == 200);
        CHECK(job(id).state == JobState::cancelled);
        listing["cloud"] = {alive("i1", call)};
        pass(Seconds{15});
        CHECK(take<CallDestroy>().id.get() == "i1");
        CHECK(count<CallLaunch>() == 0);
    }
    SUBCASE("over a restart of the daemon") {
        restart();
        listing["cloud"] = {alive("i1", call)};
        pass(Seconds{30});
        CHECK(machine(call.machine).state == MachineState::booting);
        CHECK(store->reader().machines(true, "", 10)->size() == 1);
    }
    SUBCASE("a listing that is slowed down by 429 says nothing") {
        listing_broken = Error{.kind = ErrorKind::rate_limited, .message = "too frequent", .retry_after = Seconds{20}};
        const int before = list_calls;
        pass(std::chrono::minutes{5});
        CHECK(list_calls - before <= 16);  // no sooner than it was asked for
        CHECK(machine(call.machine).state == MachineState::unknown);
        CHECK(count<CallLaunch>() == 0);
    }
}

TEST_CASE_FIXTURE(Answers, "a create whose answer never came because the daemon died is settled like any unclear one (A02)") {
    JobId id;
    const CallLaunch call = first_launch(on_demand(), &id);
    restart();
    pass(Seconds{5});
    CHECK(machine(call.machine).state == MachineState::unknown);
    SUBCASE("it was made") {
        listing["cloud"] = {alive("i1", call)};
        pass(Seconds{30});
        CHECK(machine(call.machine).provider_id.get() == "i1");
        CHECK(job(id).attempts == 1);
    }
    SUBCASE("it was not") {
        pass(std::chrono::minutes{7});
        CHECK(machine(call.machine).state == MachineState::gone);
        CHECK(job(id).attempts == 2);
    }
}

TEST_CASE_FIXTURE(Answers, "two unclear creates are told apart by their tags (A02)") {
    const CallLaunch a = first_launch(on_demand());
    pass(Seconds{1});
    const CallLaunch b = first_launch(on_demand());
    launch_failed(a, ErrorKind::unknown_outcome, "502");
    launch_failed(b, ErrorKind::unknown_outcome, "502");
    listing["cloud"] = {alive("ib", b), alive("ia", a)};
    pass(Seconds{15});
    CHECK(machine(a.machine).provider_id.get() == "ia");
    CHECK(machine(b.machine).provider_id.get() == "ib");
    CHECK(count<CallDestroy>() == 0);
}

// ---- A04: an id that never appears ----

TEST_CASE_FIXTURE(Answers, "an id that shows up after it was given up is destroyed (A04)") {
    JobSpec spec = on_demand();
    spec.retry.start_timeout = 0;
    const CallLaunch call = first_launch(spec);
    apply(LaunchEnded{call.machine, call.call_seq, now, now, LaunchOutcome{.id = ProviderMachineId{"x1"}, .error = {}, .rate = {}}});
    ProviderMachine nothing;
    nothing.presence = Presence::gone;
    reads["x1"] = nothing;
    pass(std::chrono::minutes{21});
    const CallDestroy destroy = take<CallDestroy>();
    apply(DestroyEnded{destroy.machine, destroy.call_seq, now, now, {}});
    pass(Seconds{30});
    REQUIRE(machine(call.machine).state == MachineState::gone);
    restart();  // the watch list is in the store
    pass(std::chrono::hours{3});
    reads["x1"] = alive("x1", call);
    listing["cloud"] = {reads["x1"]};
    pass(std::chrono::minutes{2});
    CHECK(machine(call.machine).state == MachineState::destroying);
    CHECK(take<CallDestroy>().id.get() == "x1");
}

TEST_CASE_FIXTURE(Answers, "reads that fail are no word about a machine, however many (A04, A08)") {
    const Running a = run_one(on_demand(), "i1");
    pass(Seconds{90});
    reads.erase("i1");  // answered by hand
    for (const ErrorKind kind : {ErrorKind::auth, ErrorKind::not_found, ErrorKind::malformed, ErrorKind::unavailable,
                                 ErrorKind::rate_limited, ErrorKind::api_retired}) {
        CAPTURE(text(kind));
        for (int i = 0; i < 60 && count<CallRead>() == 0; ++i) pass(Seconds{10});
        if (count<CallRead>() == 0) break;
        const CallRead call = take<CallRead>();
        apply(ReadEnded{call.machine, call.call_seq, now, now, fail(kind, "no")});
        CHECK(job(a.job).state == JobState::running);
        say(a.machine, ap::Heartbeat{}, "boot1", 0);
        pass(Seconds{95});
    }
    CHECK(job(a.job).attempts == 1);
}

// ---- A05, A06, A08: listings ----

TEST_CASE_FIXTURE(Answers, "a listing of others' machines only, a half one, and one that comes and goes end no job (A05)") {
    const Running a = run_one(on_demand(), "i1");
    pass(Seconds{1});
    const Running b = run_one(on_demand(), "i2");
    const auto both = [&](Millis span) {
        for (const Instant end = now + span; now < end;) {
            say(a.machine, ap::Heartbeat{}, "boot1", 0);
            say(b.machine, ap::Heartbeat{}, "boot1", 0);
            pass(Seconds{10});
        }
    };
    both(Seconds{120});
    const auto whole = listing["cloud"];
    SUBCASE("others' only") {
        ProviderMachine other;
        other.id = ProviderMachineId{"zz"};
        other.tag = "notebook";
        other.presence = Presence::running;
        listing["cloud"] = {other};
        both(std::chrono::minutes{10});
    }
    SUBCASE("half") {
        listing["cloud"] = {whole.front()};
        both(std::chrono::minutes{10});
    }
    SUBCASE("now and then") {
        for (int i = 0; i < 20; ++i) {
            listing["cloud"] = i % 2 ? whole : std::vector<ProviderMachine>{};
            both(Seconds{30});
        }
        CHECK(alerts("listing_not_trusted") >= 1);
    }
    CHECK(job(a.job).state == JobState::running);
    CHECK(job(b.job).state == JobState::running);
    CHECK(job(a.job).attempts == 1);
    CHECK(job(b.job).attempts == 1);
    CHECK(count<CallDestroy>() == 0);
    listing["cloud"] = whole;
    both(Seconds{30});
    CHECK(core->view(now).providers.front().health == "ok");
}

TEST_CASE_FIXTURE(Answers, "an empty listing just after the start starts nothing and ends nothing (A05)") {
    const Running a = run_one(on_demand(), "i1");
    pass(Seconds{120});
    listing["cloud"].clear();
    restart();
    apply(AgentConnected{a.machine, "boot1"});
    say(a.machine, hello_of(a.attempt, "running"), "boot1", 0);
    submit(on_demand());
    alive_for(a, std::chrono::minutes{5});
    CHECK(job(a.job).state == JobState::running);
    CHECK(count<CallLaunch>() == 0);
}

TEST_CASE_FIXTURE(Answers, "whatever is wrong with a listing: unknown is not none, and it heals by itself (A06, A08)") {
    const Running a = run_one(on_demand(), "i1");
    pass(Seconds{90});
    for (const ErrorKind kind : {ErrorKind::malformed, ErrorKind::api_retired, ErrorKind::auth, ErrorKind::not_found,
                                 ErrorKind::unknown_outcome, ErrorKind::unavailable}) {
        CAPTURE(text(kind));
        listing_broken = Error{.kind = kind, .message = "no"};
        alive_for(a, std::chrono::minutes{2});
        const JobId waiting = submit(on_demand());
        alive_for(a, std::chrono::minutes{3});
        CHECK(count<CallLaunch>() == 0);
        CHECK(job(a.job).state == JobState::running);
        CHECK(core->view(now).providers.front().health == "degraded");
        listing_broken.reset();
        for (int i = 0; i < 40 && count<CallLaunch>() == 0; ++i) alive_for(a, Seconds{10});
        REQUIRE(count<CallLaunch>() == 1);
        launch_failed(take<CallLaunch>(), ErrorKind::no_capacity);
        CHECK(command(waiting, JobVerb::cancel) == 200);
        alive_for(a, std::chrono::minutes{11});
        while (count<CallLaunch>() > 0) launch_failed(take<CallLaunch>(), ErrorKind::no_capacity);
    }
    CHECK(job(a.job).attempts == 1);
}

TEST_CASE_FIXTURE(Answers, "a key that is refused at a create pauses that provider alone, and a destroy there goes on (A08)") {
    const Running a = run_one(on_demand(), "i1");
    pass(Seconds{60});
    JobSpec any;
    const JobId id = submit(any);
    offers["market"].clear();
    pass(Seconds{35});
    while (count<CallLaunch>() > 0) {
        const CallLaunch call = take<CallLaunch>();
        launch_failed(call, ErrorKind::auth, "Invalid user key");
    }
    CHECK(creates_until(now + std::chrono::minutes{8}, ErrorKind::auth) <= 1);
    CHECK(job(id).state == JobState::queued);
    CHECK(command(id, JobVerb::cancel) == 200);  // or it would get the machine
    exits(a.machine, a.attempt, 0);
    const CallDestroy call = take<CallDestroy>();
    apply(DestroyEnded{call.machine, call.call_seq, now, now, fail(ErrorKind::auth, "Invalid user key")});
    CHECK(machine(a.machine).state == MachineState::destroying);
    pass(std::chrono::minutes{1});
    CHECK(count<CallDestroy>() == 1);
}

// ---- A11: one market's trouble is not another's ----

TEST_CASE_FIXTURE(Answers, "a market that cannot be read is degraded with its reason and heals; the job goes elsewhere (A11)") {
    for (const ErrorKind kind : {ErrorKind::malformed, ErrorKind::unavailable, ErrorKind::rate_limited, ErrorKind::auth}) {
        CAPTURE(text(kind));
        Answers b;
        b.pass(Seconds{31});
        const JobId id = b.submit(JobSpec{});
        // Only "market" answers with offers, "cloud" with an error.
        for (int i = 0; i < 40 && b.count<CallLaunch>() == 0; ++i) {
            auto open = std::move(b.calls);
            b.calls.clear();
            for (auto& call : open) {
                const auto* o = std::get_if<CallOffers>(&call);
                if (o && o->provider.get() == "cloud") b.apply(OffersSeen{o->provider, b.now, b.now, fail(kind, "<html>")});
                else b.calls.push_back(std::move(call));
            }
            b.answer_market();
            b.pass(Seconds{1}, false);
        }
        const CallLaunch call = b.take<CallLaunch>();
        CHECK(call.provider.get() == "market");
        CHECK(b.job(id).state == JobState::provisioning);
        const auto view = b.core->view(b.now).providers.front();
        CHECK(view.name.get() == "cloud");
        CHECK(view.health != "ok");
        CHECK(!view.reason.empty());
        b.submit(b.on_demand());
        b.pass(std::chrono::minutes{12});
        CHECK(b.core->view(b.now).providers.front().health == "ok");
    }
}

// ---- A15 ----

TEST_CASE_FIXTURE(Answers, "limits of an account are not tried again within the cool-down, whichever limit (A15)") {
    for (const ErrorKind kind : {ErrorKind::quota, ErrorKind::no_money, ErrorKind::api_retired, ErrorKind::auth}) {
        CAPTURE(text(kind));
        Answers b;
        b.offers["cloud"].push_back(CoreBench::offer("cloud", "c", 500'000));
        b.pass(Seconds{31});
        const JobId id = b.submit(b.on_demand());
        CHECK(b.creates_until(b.now + std::chrono::minutes{9}, kind) == 1);
        CHECK(b.decision(id).find(std::string("provider_") + std::string(text(kind))) != std::string::npos);
        CHECK(b.alerts("provider_degraded") == 1);
        CHECK(b.creates_until(b.now + std::chrono::minutes{3}, ErrorKind::no_capacity) >= 1);
    }
}

// ---- B08: leases ----

TEST_CASE_FIXTURE(Answers, "a machine whose lease nears its end: checkpoint, then move; the move counts against nothing (B08)") {
    offers["market"][0].lease_end = now + std::chrono::hours{3};
    pass(Seconds{31});
    JobSpec spec = spot();
    spec.retry.spot_lost = spec.retry.host_fault = 0;
    const Running a = run_one(spec, "s1");
    bool stops_in_time = true, told_by_provider = false;
    SUBCASE("as the offer said") {}
    SUBCASE("as its provider says now") { told_by_provider = true; }
    SUBCASE("as the offer said, and the agent does not stop") { stops_in_time = false; }
    if (told_by_provider)
        reads["s1"].lease_end = listing["market"].front().lease_end = now + std::chrono::minutes{40};
    alive_for(a, std::chrono::minutes{20});
    CHECK(offer_checkpoint(a.machine, a.attempt, "m1", 10) == 200);
    CHECK(job(a.job).state == JobState::running);
    sent.clear();
    const auto stops = [&] {
        int n = 0;
        for (const auto& m : sent)
            if (const auto* stop = std::get_if<ap::Stop>(&m.message)) n += stop->checkpoint && stop->reason == "lease_ends" ? 1 : 0;
        return n;
    };
    const Instant end = reads["s1"].lease_end.value_or(*machine(a.machine).offer.lease_end);
    while (stops() == 0 && now < end) alive_for(a, Seconds{10});
    REQUIRE(stops() == 1);
    CHECK(end - now >= std::chrono::minutes{10});
    CHECK(end - now <= std::chrono::minutes{12});
    if (stops_in_time) {
        CHECK(offer_checkpoint(a.machine, a.attempt, "m2", 20) == 200);
        ap::Exited over;
        over.attempt = a.attempt;
        over.signal = 15;
        over.reason = "stopped";
        say(a.machine, over);
        CHECK(store->reader().tasks(a.job)->front().generation == 2);
    } else {
        alive_for(a, std::chrono::minutes{3});
    }
    CHECK(machine(a.machine).state == MachineState::destroying);
    CHECK(store->reader().tasks(a.job)->front().retries.spot_lost == 0);
    CHECK(store->reader().tasks(a.job)->front().retries.host_fault == 0);
    CHECK(core->world().host_marks->empty());
    offers["market"] = {offer("market", "fresh", 210'000, true)};
    pass(Seconds{40});
    CHECK(take<CallLaunch>().request.offer.id == "fresh");
}

TEST_CASE_FIXTURE(Answers, "without checkpoints there is nothing to move before a lease ends (B08)") {
    offers["cloud"][0].lease_end = now + std::chrono::hours{2};
    pass(Seconds{31});
    const Running a = run_one(on_demand(), "i1");
    sent.clear();
    alive_for(a, std::chrono::minutes{115});
    CHECK(job(a.job).state == JobState::running);
    for (const auto& m : sent) CHECK(!std::holds_alternative<ap::Stop>(m.message));
}

// ---- E: cancel, destroy, orphans ----

TEST_CASE_FIXTURE(Answers, "a cancel at any moment leaves no machine behind (E01)") {
    SUBCASE("while the create is under way, which then fails cleanly") {
        JobId id;
        const CallLaunch call = first_launch(on_demand(), &id);
        CHECK(command(id, JobVerb::cancel) == 200);
        launch_failed(call, ErrorKind::no_capacity);
        CHECK(core->world().machines.empty());
    }
    SUBCASE("while it boots") {
        JobId id;
        const CallLaunch call = first_launch(on_demand(), &id);
        launched(call, "i1");
        CHECK(command(id, JobVerb::cancel) == 200);
        CHECK(job(id).state == JobState::cancelled);
        CHECK(take<CallDestroy>().id.get() == "i1");
    }
    SUBCASE("while it recovers") {
        const Running a = run_one(on_demand(), "i1");
        pass(Seconds{90});
        set_presence("i1", Presence::gone, "");
        pass(Seconds{12});
        CHECK(job(a.job).state == JobState::recovering);
        CHECK(command(a.job, JobVerb::cancel) == 200);
        CHECK(job(a.job).state == JobState::cancelled);
    }
    SUBCASE("twice, and held in between") {
        JobId id;
        const CallLaunch call = first_launch(on_demand(), &id);
        CHECK(command(id, JobVerb::hold) == 200);
        CHECK(command(id, JobVerb::cancel) == 200);
        CHECK(command(id, JobVerb::cancel) == 200);
        launched(call, "i1");
        CHECK(take<CallDestroy>().id.get() == "i1");
        CHECK(job(id).state == JobState::cancelled);
    }
    pass(std::chrono::minutes{1});
    CHECK(count<CallLaunch>() == 0);
}

TEST_CASE_FIXTURE(Answers, "a destroy that is accepted and does nothing is asked for again, for ever (E02)") {
    const Running a = run_one(on_demand(), "i1");
    exits(a.machine, a.attempt, 0);
    int accepted = 0;
    for (const Instant end = now + std::chrono::minutes{70}; now < end;) {
        pass(Seconds{1});
        while (count<CallDestroy>() > 0) {
            const CallDestroy call = take<CallDestroy>();
            apply(DestroyEnded{call.machine, call.call_seq, now, now, {}});
            ++accepted;
        }
        REQUIRE(machine(a.machine).state == MachineState::destroying);
    }
    CHECK(accepted > 20);
    CHECK(alerts("machine_will_not_die") == 2);  // once, and again after an hour
    CHECK(store->reader().ledger(a.job, instant_of(0), now)->back().until == std::nullopt);
}

TEST_CASE_FIXTURE(Answers, "a destroy goes on over a restart, and while its provider cannot be read (E02, E04)") {
    const Running a = run_one(on_demand(), "i1");
    exits(a.machine, a.attempt, 0);
    (void)take<CallDestroy>();
    restart();
    pass(Seconds{3});
    const CallDestroy call = take<CallDestroy>();
    CHECK(call.id.get() == "i1");
    apply(DestroyEnded{call.machine, call.call_seq, now, now, {}});
    reads.erase("i1");
    for (int i = 0; i < 5; ++i) {
        for (int s = 0; s < 400 && count<CallRead>() == 0; ++s) pass(Seconds{1});
        const CallRead read = take<CallRead>();
        apply(ReadEnded{read.machine, read.call_seq, now, now, fail(ErrorKind::unavailable, "504")});
        CHECK(machine(a.machine).state == MachineState::destroying);
    }
    ProviderMachine gone;
    gone.presence = Presence::gone;
    reads["i1"] = gone;
    listing["cloud"].clear();
    for (int s = 0; s < 400 && machine(a.machine).state != MachineState::gone; ++s) pass(Seconds{1});
    CHECK(machine(a.machine).state == MachineState::gone);
}

TEST_CASE_FIXTURE(Answers, "a time that a provider asks for is kept by every call (E03)") {
    const auto later = Error{.kind = ErrorKind::rate_limited, .message = "try again in 60 s", .retry_after = Seconds{60}};
    SUBCASE("reads") {
        const Running a = run_one(on_demand(), "i1");
        exits(a.machine, a.attempt, 0);
        const CallDestroy call = take<CallDestroy>();
        apply(DestroyEnded{call.machine, call.call_seq, now, now, {}});
        reads.erase("i1");
        pass(Seconds{3});
        const CallRead read = take<CallRead>();
        apply(ReadEnded{read.machine, read.call_seq, now, now, std::unexpected(later)});
        pass(Seconds{59});
        CHECK(count<CallRead>() == 0);
        pass(Seconds{3});
        CHECK(count<CallRead>() == 1);
    }
    SUBCASE("listings") {
        pass(Seconds{70});
        listing_broken = later;
        for (int i = 0, before = list_calls; i < 120 && list_calls == before; ++i) pass(Seconds{1});
        const int before = list_calls;
        pass(Seconds{55});
        CHECK(list_calls - before <= 1);  // the other provider's
    }
    SUBCASE("offers") {
        offers_broken = later;
        submit(on_demand());
        pass(Seconds{2});
        const int before = offer_calls;
        pass(Seconds{50});
        CHECK(offer_calls - before <= 1);
    }
}

TEST_CASE_FIXTURE(Answers, "a confirmed end is an end, however long listings still show the machine (E04)") {
    const Running a = run_one(on_demand(), "i1");
    pass(Seconds{30});
    const auto stale = listing["cloud"];
    exits(a.machine, a.attempt, 0);
    const CallDestroy call = take<CallDestroy>();
    apply(DestroyEnded{call.machine, call.call_seq, now, now, {}});
    set_presence("i1", Presence::gone, "");
    pass(Seconds{5});
    REQUIRE(machine(a.machine).state == MachineState::gone);
    listing["cloud"] = stale;
    pass(Seconds{40});
    CHECK(machine(a.machine).state == MachineState::gone);
    CHECK(alerts("orphan_found") == 0);
    // Beyond what a listing may lag it is back indeed, and goes again.
    pass(std::chrono::minutes{3});
    CHECK(machine(a.machine).state == MachineState::destroying);
}

}  // namespace
}  // namespace gf
