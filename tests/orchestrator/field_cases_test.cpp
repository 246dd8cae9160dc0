// The core's side of the field cases: each test is named for what must come out. Where each row of areas A, B, C, E and of the
// core's part of I is tried (here unless a file is named; neighbours of A, B and E are in answers_test.cpp):
//
//   A01 A13   "no capacity is a clean refusal", "a request that the provider finds wrong"
//   A02 A09   "an unclear create is adopted", seams_test.cpp "an agent that is faster than the answer"
//   A04       "an id that never appears"
//   A05       "an empty listing ends no job"; its drift in hosts_test.cpp
//   A06       "a null or retired listing is unknown"; a retired call for logins in secrets_test.cpp "where no registry login is taken"
//   A08       "a refused key pauses the provider"; what a 404 is, in tests/providers (conformance, wrong_key_test.cpp)
//   A11       answers_test.cpp "a market that cannot be read is degraded"; bodies in tests/providers
//   A15       "a provider at its quota is left alone", answers_test.cpp "limits of an account"
//   B01 B02 B05 B09   prices, units and nulls: tests/providers (mapping of each, decimal_test.cpp), tests/scheduler/filters_test.cpp;
//             what people see of them: "what cannot be used of a market"; prices that are billed: machine_check_test.cpp,
//             tests/providers/vm_rates_test.cpp, drifted ones: hosts_test.cpp
//   B06       tests/scheduler/choice_test.cpp "disk can make the cheap offer the dear one"
//   B08       tests/scheduler/filters_test.cpp (lease), answers_test.cpp "a machine whose lease nears its end"
//   C01 C03 C05 C06 C10   tests/scheduler/gpu_names_test.cpp and filters_test.cpp; on the machine: machine_check_test.cpp
//   C08       machine_check_test.cpp "a machine that restarts without its GPUs"
//   B and C, D08, D11   whatever ranks the offers (price, throughput, money to finish): tests/scheduler/field_cases_test.cpp
//   D02 D04 D06 D08 D11   below; neighbours of D08 and D11, and an image that comes up nowhere, in causes_test.cpp
//   E01 E02 E03 E04 E06   below; E01 over a restart in seams_test.cpp
//   I01       secrets_test.cpp, tests/model/secret_forms_test.cpp, tests/providers/redaction_test.cpp; an enrol token or key is in no row or event: tests/daemon
//   L06       machine_check_test.cpp "a price that rises while the job runs", money_test.cpp
#include "tests/orchestrator/bench.hpp"

namespace gf {
namespace {
namespace ap = agent_protocol;

TEST_CASE_FIXTURE(Market, "no capacity is a clean refusal: the offer is cooled down and the next one tried (A01, A13)") {
    JobId job;
    const CallLaunch call = first_launch(on_demand(), &job);
    CHECK(call.request.offer.id == "a");
    launch_failed(call, ErrorKind::no_capacity, "There are no longer any instances available");
    pass(Seconds{2});
    const CallLaunch next = take<CallLaunch>();
    CHECK(next.request.offer.id == "b");
    CHECK(next.request.tag != call.request.tag);
    const auto attempts = *store->reader().attempts(job);
    CHECK(attempts.front().cause == Cause::not_started);
    CHECK(!attempts.front().started_at);
    CHECK(attempts.front().detail == "There are no longer any instances available");
}

TEST_CASE_FIXTURE(Market, "a request that the provider finds wrong fails the job at once with its message (A13)") {
    JobId job;
    launch_failed(first_launch(on_demand(), &job), ErrorKind::refused, "image name is bad");
    CHECK(this->job(job).state == JobState::failed);
    CHECK(this->job(job).detail == "image name is bad");
    pass(Seconds{30});
    CHECK(count<CallLaunch>() == 0);
}

TEST_CASE_FIXTURE(Market, "an unclear create is adopted when its tag shows up in a listing (A02, A09)") {
    JobId job;
    const CallLaunch call = first_launch(on_demand(), &job);
    launch_failed(call, ErrorKind::unknown_outcome, "502");
    CHECK(machine(call.machine).state == MachineState::unknown);
    listing["cloud"] = {alive("i1", call)};
    pass(Seconds{30});
    CHECK(machine(call.machine).state == MachineState::booting);
    CHECK(machine(call.machine).provider_id.get() == "i1");
    CHECK(count<CallLaunch>() == 0);
    CHECK(this->job(job).state == JobState::starting);
}

TEST_CASE_FIXTURE(Market, "an unclear create that nothing came of is written off only after two trusted listings and the settle time") {
    const CallLaunch call = first_launch(on_demand());
    launch_failed(call, ErrorKind::unknown_outcome, "time-out");
    pass(Seconds{200});  // no live machine there to compare with: five minutes count
    CHECK(machine(call.machine).state == MachineState::unknown);
    CHECK(count<CallLaunch>() == 0);
    pass(Seconds{160});
    CHECK(machine(call.machine).state == MachineState::gone);
    CHECK(machine(call.machine).reason == "never_appeared");
    CHECK(take<CallLaunch>().request.tag != call.request.tag);
    // It shows up all the same, late: destroyed, nothing else.
    listing["cloud"].push_back(alive("late", call));
    reads["late"] = alive("late", call);
    pass(Seconds{15});
    CHECK(machine(call.machine).state == MachineState::destroying);
    CHECK(take<CallDestroy>().id.get() == "late");
}

TEST_CASE_FIXTURE(Market, "an id that never appears ends the try after the start time-out and stays watched (A04)") {
    JobId job;
    const CallLaunch call = first_launch(on_demand(), &job);
    apply(LaunchEnded{call.machine, call.call_seq, now, now, LaunchOutcome{.id = ProviderMachineId{"x1"}, .error = {}, .rate = {}}});
    ProviderMachine nothing;
    nothing.presence = Presence::gone;
    reads["x1"] = nothing;
    pass(std::chrono::minutes{19});
    CHECK(machine(call.machine).state == MachineState::booting);
    CHECK(count<CallLaunch>() == 0);
    pass(std::chrono::minutes{2});
    CHECK(last_attempt(job).number == 2);
    CHECK(store->reader().attempts(job)->front().cause == Cause::start_timeout);
    CHECK(take<CallLaunch>().request.offer.id == "b");
    const CallDestroy destroy = take<CallDestroy>();
    CHECK(destroy.id.get() == "x1");
    apply(DestroyEnded{destroy.machine, destroy.call_seq, now, now, {}});
    pass(Seconds{10});
    CHECK(machine(call.machine).state == MachineState::gone);
    CHECK(machine(call.machine).watch);
}

TEST_CASE_FIXTURE(Market, "an empty listing ends no job and starts no machine; it is told once (A05)") {
    const Running a = run_one(on_demand(), "i1");
    pass(Seconds{120});
    listing["cloud"].clear();  // complete-looking, while a read by id still shows it running
    pass(std::chrono::minutes{10});
    CHECK(job(a.job).state == JobState::running);
    CHECK(count<CallLaunch>() == 0);
    CHECK(core->view(now).providers.front().health == "listing_not_trusted");
    CHECK(alerts("listing_not_trusted") == 1);
    const JobId waiting = submit(on_demand());
    pass(Seconds{30});
    CHECK(count<CallLaunch>() == 0);
    CHECK(store->reader().decision(waiting)->value().json.find("listing_not_trusted") != std::string::npos);
    listing["cloud"] = {reads["i1"]};
    pass(Seconds{30});
    CHECK(count<CallLaunch>() == 1);
    CHECK(core->view(now).providers.front().health == "ok");
}

TEST_CASE_FIXTURE(Market, "a null or retired listing is unknown: no launches, jobs go on, destroy by id works (A06)") {
    const Running a = run_one(on_demand(), "i1");
    pass(Seconds{100});
    for (const ErrorKind kind : {ErrorKind::malformed, ErrorKind::api_retired}) {
        listing_broken = Error{.kind = kind, .message = "instances is null"};
        pass(std::chrono::minutes{6});
        CHECK(job(a.job).state == JobState::running);
        submit(on_demand());
        pass(Seconds{20});
        CHECK(count<CallLaunch>() == 0);
    }
    CHECK(command(a.job, JobVerb::cancel) == 200);
    ap::Exited over;
    over.attempt = a.attempt;
    over.signal = 15;
    over.reason = "stopped";
    say(a.machine, over);
    CHECK(take<CallDestroy>().id.get() == "i1");
    CHECK(alerts("provider_degraded") >= 1);
}

TEST_CASE_FIXTURE(Market, "a refused key pauses the provider and marks nothing as gone (A08)") {
    const Running a = run_one(on_demand(), "i1");
    listing_broken = Error{.kind = ErrorKind::auth, .message = "Invalid user key"};
    offers_broken = listing_broken;
    pass(std::chrono::minutes{5});
    CHECK(job(a.job).state == JobState::running);
    CHECK(machine(a.machine).state == MachineState::busy);
    const auto view = core->view(now);
    CHECK(view.providers.front().health != "ok");
    CHECK(view.providers.front().reason == "auth");
}

TEST_CASE_FIXTURE(Market, "a provider at its quota is left alone during the cool-down and the dearer one is used (A15)") {
    JobSpec spec;
    spec.resources.spot = SpotChoice::automatic;
    JobId job;
    const CallLaunch cheap = first_launch(spec, &job);
    CHECK(cheap.provider.get() == "market");
    launch_failed(cheap, ErrorKind::quota, "quota exceeded");
    pass(Seconds{2});
    const CallLaunch next = take<CallLaunch>();
    CHECK(next.provider.get() == "cloud");
    launch_failed(next, ErrorKind::no_capacity);
    pass(Seconds{3});
    launch_failed(take<CallLaunch>(), ErrorKind::no_capacity);
    pass(std::chrono::minutes{5});
    CHECK(count<CallLaunch>() == 0);
    CHECK(store->reader().decision(job)->value().json.find("quota") != std::string::npos);
}

TEST_CASE_FIXTURE(Market, "agent silence alone starts no recovery while the provider says running (D02)") {
    const Running a = run_one(on_demand(), "i1");
    for (int i = 0; i < 10; ++i) {
        pass(Seconds{100});
        CHECK(core->world().machines.at(a.machine).unreachable);
        say(a.machine, ap::Heartbeat{}, "boot1", 0);
        apply(AgentConnected{a.machine, "boot1"});
        pass(Seconds{200});
        say(a.machine, ap::Heartbeat{}, "boot1", 0);
        pass(Seconds{30});
    }
    CHECK(job(a.job).attempts == 1);
    CHECK(job(a.job).state == JobState::running);
    CHECK(read_calls > 0);
}

TEST_CASE_FIXTURE(Market, "half an hour of silence ends the attempt even if the provider still says running") {
    const Running a = run_one(on_demand(), "i1");
    pass(std::chrono::minutes{31});
    CHECK(store->reader().attempts(a.job)->front().cause == Cause::host_fault);
    CHECK(machine(a.machine).state == MachineState::destroying);
}

TEST_CASE_FIXTURE(Market, "a clock jump makes silence count anew") {
    const Running a = run_one(on_demand(), "i1");
    now += std::chrono::hours{5};
    apply(ClockJumped{"suspend"});
    pass(std::chrono::minutes{20});
    CHECK(job(a.job).state == JobState::running);
}

TEST_CASE_FIXTURE(Market, "a spot loss is seen at the provider within one poll, whatever the agent said (D04)") {
    const Running a = run_one(spot(), "s1");
    CHECK(offer_checkpoint(a.machine, a.attempt, "m1", 100) == 200);
    say(a.machine, ap::Heartbeat{}, "boot1", 0);
    set_presence("s1", Presence::stopped, "exited");
    pass(Seconds{11});
    CHECK(store->reader().attempts(a.job)->front().cause == Cause::spot_lost);
    CHECK(job(a.job).state != JobState::running);
    const CallDestroy destroy = take<CallDestroy>();  // its disk bills: a checkpoint is elsewhere, so it goes at once
    CHECK(destroy.id.get() == "s1");
    const CallLaunch next = take<CallLaunch>();
    launched(next, "s2");
    CHECK(agent_up(next.machine).generation == 1);
}

TEST_CASE_FIXTURE(Market, "an interrupted machine that holds the only copy is kept for the patience, then destroyed") {
    const Running a = run_one(spot(), "s1");
    set_presence("s1", Presence::stopped, "exited");
    pass(Seconds{11});
    CHECK(machine(a.machine).state == MachineState::interrupted);
    CHECK(count<CallDestroy>() == 0);
    pass(std::chrono::minutes{11});
    CHECK(machine(a.machine).state == MachineState::destroying);
    CHECK(count<CallLaunch>() == 1);
}

TEST_CASE_FIXTURE(Market, "preemptions and user errors are counted apart (D06)") {
    JobSpec spec = spot();
    spec.retry.user_error = 1;
    spec.retry.spot_lost = 5;
    JobId id;
    Running a = run_one(spec, "m0");
    id = a.job;
    int n = 0;
    const auto next = [&](bool preempted) {
        CHECK(offer_checkpoint(a.machine, a.attempt, "m" + std::to_string(n), n) == 200);
        if (preempted) set_presence("m" + std::to_string(n), Presence::stopped, "outbid");
        else exits(a.machine, a.attempt, 1);
        if (!preempted && job(id).state == JobState::failed) return;
        if (!preempted) {
            // The machine is fine: the retry gets it again, under the next number.
            sent.clear();
            pass(Seconds{10});
            for (const auto& message : sent)
                if (const auto* lease = std::get_if<ap::Lease>(&message.message)) a.attempt = lease->attempt;
            say(a.machine, ap::Started{a.attempt, 1, 0});
            CHECK(count<CallLaunch>() == 0);
            return;
        }
        for (int i = 0; i < 30 && count<CallLaunch>() == 0; ++i) pass(Seconds{1});
        ++n;
        a = boot(id, "m" + std::to_string(n));
    };
    for (const bool preempted : {true, true, true, false, true, false}) next(preempted);
    CHECK(job(id).state == JobState::failed);
    CHECK(job(id).reason == "user_error");
    CHECK(job(id).detail.starts_with("user error, 2 of 2"));
    CHECK(job(id).exit_code == 1);
    CHECK(store->reader().tasks(id)->front().retries.spot_lost == 4);
}

TEST_CASE_FIXTURE(Market, "a GPU out of memory is never repeated on the same card (D08)") {
    for (const bool bigger : {false, true}) {
        CAPTURE(bigger);
        Market m;
        Offer big = offer("cloud", "big", 900'000);
        big.gpu = {"L40S", "L40S", Bytes{46068 * kMiB}};
        m.offers["cloud"].push_back(big);
        JobSpec spec = m.on_demand();
        spec.retry.gpu_oom_bigger = bigger;
        spec.retry.gpu_oom = bigger ? 3 : 0;
        const Running a = m.run_one(spec, "i1");
        ap::Exited over;
        over.attempt = a.attempt;
        over.exit_code = 1;
        over.gpu_oom = true;
        m.say(a.machine, over);
        m.pass(Seconds{20});
        if (bigger) {
            CHECK(m.take<CallLaunch>().request.offer.id == "big");
        } else {
            CHECK(m.job(a.job).state == JobState::failed);
            CHECK(m.job(a.job).reason == "gpu_oom");
            CHECK(m.count<CallLaunch>() == 0);
        }
    }
}

TEST_CASE_FIXTURE(Market, "recoveries without checkpoint progress end (D11)") {
    JobSpec spec = spot();
    spec.checkpoint.declared = false;
    Running a = run_one(spec, "m0");
    int launches = 1;
    for (; launches < 50 && !is_final(job(a.job).state); ++launches) {
        set_presence("m" + std::to_string(launches - 1), Presence::stopped, "outbid");
        pass(Seconds{11});
        if (is_final(job(a.job).state)) break;
        a = boot(a.job, "m" + std::to_string(launches));
    }
    CHECK(job(a.job).state == JobState::failed);
    CHECK(job(a.job).reason == "recovery_limit");
    CHECK(launches == 6);
}

TEST_CASE_FIXTURE(Market, "a machine whose id comes after the cancel is destroyed (E01)") {
    JobId job;
    const CallLaunch call = first_launch(on_demand(), &job);
    CHECK(command(job, JobVerb::cancel) == 200);
    CHECK(this->job(job).state == JobState::cancelled);
    pass(Seconds{8});
    launched(call, "i1");
    CHECK(machine(call.machine).state == MachineState::destroying);
    const CallDestroy destroy = take<CallDestroy>();
    apply(DestroyEnded{destroy.machine, destroy.call_seq, now, now, {}});
    pass(Seconds{3});
    set_presence("i1", Presence::gone, "");
    pass(Seconds{30});
    CHECK(machine(call.machine).state == MachineState::gone);
}

TEST_CASE_FIXTURE(Market, "a destroy that fails goes on for ever, bills on and is told with its price (E02)") {
    const Running a = run_one(on_demand(), "i1");
    exits(a.machine, a.attempt, 0);
    CHECK(job(a.job).state == JobState::succeeded);
    int tries = 0;
    const Instant end = now + std::chrono::minutes{40};
    while (now < end) {
        pass(Seconds{1});
        if (count<CallDestroy>() > 0) {
            const CallDestroy call = take<CallDestroy>();
            ++tries;
            apply(DestroyEnded{call.machine, call.call_seq, now, now, fail(ErrorKind::unknown_outcome, "500")});
        }
        REQUIRE(machine(a.machine).state == MachineState::destroying);
    }
    CHECK(tries > 8);
    CHECK(tries < 40);  // with back-off
    CHECK(alerts("machine_will_not_die") == 1);
    while (count<CallDestroy>() == 0) pass(Seconds{1});
    const CallDestroy call = take<CallDestroy>();
    apply(DestroyEnded{call.machine, call.call_seq, now, now, {}});
    set_presence("i1", Presence::gone, "");
    pass(Seconds{10});
    CHECK(machine(a.machine).state == MachineState::gone);
    const auto ledger = *store->reader().ledger(a.job, instant_of(0), now);
    Usd total;
    for (const auto& row : ledger) total += cost(row.gpu_rate + row.disk_rate, *row.until - row.from);
    CHECK(total.micros >= 300'000 * 40 / 60);
}

TEST_CASE_FIXTURE(Market, "a destroy is not repeated before the time that the provider asked for (E03)") {
    const Running a = run_one(on_demand(), "i1");
    exits(a.machine, a.attempt, 0);
    const CallDestroy call = take<CallDestroy>();
    apply(DestroyEnded{call.machine, call.call_seq, now, now,
                       std::unexpected(Error{.kind = ErrorKind::unknown_outcome, .message = "try again in 60 s", .retry_after = Seconds{60}})});
    pass(Seconds{59});
    CHECK(count<CallDestroy>() == 0);
    pass(Seconds{3});
    CHECK(count<CallDestroy>() == 1);
}

TEST_CASE_FIXTURE(Market, "a machine deleted by hand counts as gone after a read by id, and the job recovers (E04)") {
    const Running a = run_one(on_demand(), "i1");
    pass(Seconds{100});
    set_presence("i1", Presence::gone, "");
    pass(Seconds{15});
    CHECK(machine(a.machine).state == MachineState::gone);
    CHECK(store->reader().attempts(a.job)->front().cause == Cause::host_fault);
    pass(Seconds{10});
    CHECK(count<CallLaunch>() == 1);
}

TEST_CASE("orphans: a new store destroys nothing, a store that lacks rows follows the setting, others' machines are never touched (E06)") {
    const auto machine = [](const std::string& id, const std::string& tag) {
        ProviderMachine m;
        m.id = ProviderMachineId{id};
        m.tag = tag;
        m.presence = Presence::running;
        m.raw_state = "running";
        m.gpu_rate = UsdPerHour{500'000};
        return m;
    };
    IdMaker ids{Entropy{99}};
    const auto tag = [&](const std::string& install, Instant at) { return machine_tag(install, ids.make("mch_", at)); };
    SUBCASE("empty store") {
        CoreSettings settings = CoreBench::default_settings();
        settings.orphans = OrphanPolicy::destroy;
        CoreBench b(settings);
        b.listing["cloud"] = {machine("i1", tag("benchbnh", b.now)), machine("i2", tag("benchbnh", b.now)),
                              machine("i3", tag("otherins", b.now)), machine("i4", "my-notebook")};
        b.pass(std::chrono::minutes{5});
        CHECK(b.count<CallDestroy>() == 0);
        CHECK(b.alerts("orphan_found") == 2);
        CHECK(b.core->world().machines.size() == 2);
        const MachineId first = b.core->world().machines.begin()->first;
        b.apply(CommandMachine{900, first, MachineVerb::destroy, "user"});
        CHECK(b.replies.at(900).status == 202);
        CHECK(b.take<CallDestroy>().id.get() == "i1");
        const MachineId second = std::next(b.core->world().machines.begin())->first;
        b.apply(CommandMachine{901, second, MachineVerb::adopt, "user"});
        CHECK(b.replies.at(901).status == 200);
    }
    SUBCASE("a store with a past that lacks two rows") {
        for (const OrphanPolicy policy : {OrphanPolicy::report, OrphanPolicy::destroy}) {
            CoreSettings settings = CoreBench::default_settings();
            settings.orphans = policy;
            CoreBench b(settings);
            const Instant earlier = b.now - std::chrono::hours{2};
            b.submit();
            b.pass(Seconds{60});  // both providers are looked at
            b.restart();
            b.listing["cloud"] = {machine("i1", tag("benchbnh", earlier)), machine("i3", tag("otherins", earlier)), machine("i4", "")};
            b.pass(Seconds{30});
            CHECK(b.count<CallDestroy>() == (policy == OrphanPolicy::destroy ? 1 : 0));
            CHECK(b.alerts("orphan_found") == 1);
        }
    }
    SUBCASE("a store that was rolled back") {
        CoreSettings settings = CoreBench::default_settings();
        settings.orphans = OrphanPolicy::destroy;
        CoreBench b(settings);
        b.submit();
        b.pass(Seconds{60});
        b.now += std::chrono::hours{3};
        b.restart();
        // The provider cannot be reached in the first life after it: what is seen in the second is no less in doubt.
        b.listing_broken = Error{.kind = ErrorKind::unavailable, .message = "down"};
        b.pass(Seconds{30});
        b.restart();
        b.listing_broken.reset();
        b.listing["cloud"] = {machine("i1", tag("benchbnh", b.now - std::chrono::hours{1}))};
        b.pass(Seconds{30});
        CHECK(b.count<CallDestroy>() == 0);
        CHECK(b.alerts("orphan_found") == 1);
    }
}

TEST_CASE_FIXTURE(Market, "two machines on one tag: the committed one is kept, the other destroyed") {
    const Running a = run_one(on_demand(), "i1");
    ProviderMachine twin = reads["i1"];
    twin.id = ProviderMachineId{"i2"};
    reads["i2"] = twin;
    listing["cloud"].push_back(twin);
    pass(Seconds{15});
    CHECK(job(a.job).state == JobState::running);
    CHECK(take<CallDestroy>().id.get() == "i2");
    CHECK(count<CallDestroy>() == 0);
}

TEST_CASE_FIXTURE(Market, "an id that comes with an error is destroyed before anything else (vastai.md 4.4)") {
    JobId job;
    const CallLaunch call = first_launch(spot(), &job);
    launch_failed(call, ErrorKind::no_capacity, "bid too low", "k7");
    CHECK(machine(call.machine).state == MachineState::destroying);
    CHECK(take<CallDestroy>().id.get() == "k7");
}

TEST_CASE_FIXTURE(Market, "the same idempotency key makes one job, another body under it is refused, also after a restart (G07)") {
    const JobId first = submit(on_demand(), "key", "body");
    for (int i = 0; i < 50; ++i) CHECK(submit(on_demand(), "key", "body") == first);
    submit(on_demand(), "key", "other");
    CHECK(last_status == 422);
    restart();
    CHECK(submit(on_demand(), "key", "body") == first);
    CHECK(store->reader().jobs({})->size() == 1);
}

TEST_CASE_FIXTURE(Market, "a checkpoint of a stale attempt is refused and its machine destroyed (F01, P2)") {
    const Running a = run_one(spot(), "s1");
    CHECK(offer_checkpoint(a.machine, a.attempt, "m1", 10) == 200);
    CHECK(offer_checkpoint(a.machine, a.attempt, "m1", 10) == 200);  // the answer was lost: the same generation again
    CHECK(store->reader().checkpoints(a.job)->size() == 1);
    set_presence("s1", Presence::stopped, "outbid");
    pass(Seconds{11});
    const Running b = boot(a.job, "s2");
    CHECK(offer_checkpoint(a.machine, a.attempt, "m2", 20) == 409);
    CHECK(offer_checkpoint(b.machine, b.attempt, "m3", 30) == 200);
    CHECK(store->reader().newest_checkpoint(store->reader().tasks(a.job)->front().id, 0)->value().generation == 2);
}

TEST_CASE_FIXTURE(Market, "a restart of the daemon disturbs nothing that runs (K02)") {
    const Running a = run_one(spot(), "s1");
    offer_checkpoint(a.machine, a.attempt, "m1", 10);
    const JobId waiting = submit(spot());
    now += Seconds{40};
    restart();
    apply(AgentConnected{a.machine, "boot1"});
    say(a.machine, hello_of(a.attempt, "running"), "boot1", 0);
    pass(Seconds{60});
    CHECK(job(a.job).state == JobState::running);
    CHECK(job(a.job).attempts == 1);
    CHECK(job(waiting).state == JobState::provisioning);
    exits(a.machine, a.attempt, 0);
    CHECK(job(a.job).state == JobState::succeeded);
}

TEST_CASE_FIXTURE(Market, "a machine that is worse than its offer is given back and the next one tried") {
    JobId id;
    const CallLaunch call = first_launch(on_demand(), &id);
    launched(call, "i1");
    apply(AgentConnected{call.machine, "b"});
    ap::Hello hello;
    hello.report.workspace = "/workspace";
    hello.report.arch = "amd64";
    const auto check = [&](std::string_view detail) {
        say(call.machine, hello, "b", 0);
        CHECK(machine(call.machine).state == MachineState::destroying);
        CHECK(store->reader().attempts(id)->front().detail.find(detail) != std::string::npos);
        CHECK(store->reader().attempts(id)->front().cause == Cause::start_timeout);
        pass(Seconds{8});
        CHECK(take<CallLaunch>().request.offer.id == "b");
    };
    SUBCASE("no GPU") { check("0 GPUs, offered 1"); }
    SUBCASE("less memory") {
        hello.report.gpus = {{"NVIDIA GeForce RTX 4090", 16000 * kMiB, "560", "u"}};
        check("16000 MiB");
    }
    SUBCASE("error 802") {
        hello.report.gpus = {{"NVIDIA GeForce RTX 4090", 24564 * kMiB, "560", "u"}};
        hello.report.cuda_probe = "error_802";
        check("error_802");
    }
    SUBCASE("nowhere to write") {
        hello.report.workspace.clear();
        check("unwritable");
    }
}

TEST_CASE_FIXTURE(Market, "limits.wait ends a job that found no machine") {
    JobSpec spec = on_demand();
    spec.resources.max_price = UsdPerHour{1};
    spec.limits.wait = Seconds{600};
    const JobId id = submit(spec);
    pass(std::chrono::minutes{9});
    CHECK(job(id).state == JobState::queued);
    pass(std::chrono::minutes{2});
    CHECK(job(id).state == JobState::failed);
    CHECK(job(id).reason == "wait_limit");
}

TEST_CASE_FIXTURE(Market, "hold checkpoints and stops, release goes on from there") {
    const Running a = run_one(spot(), "s1");
    sent.clear();
    CHECK(command(a.job, JobVerb::hold) == 200);
    CHECK(job(a.job).state == JobState::stopping);
    REQUIRE(!sent.empty());
    CHECK(std::get<ap::Stop>(sent.front().message).checkpoint);
    CHECK(offer_checkpoint(a.machine, a.attempt, "m1", 77) == 200);
    ap::Exited over;
    over.attempt = a.attempt;
    over.signal = 15;
    over.reason = "stopped";
    say(a.machine, over);
    CHECK(job(a.job).state == JobState::held);
    CHECK(machine(a.machine).state == MachineState::destroying);
    pass(std::chrono::minutes{5});
    CHECK(count<CallLaunch>() == 0);
    CHECK(command(a.job, JobVerb::release) == 200);
    pass(Seconds{10});
    const CallLaunch call = take<CallLaunch>();
    launched(call, "s2");
    CHECK(agent_up(call.machine).generation == 1);
}

TEST_CASE_FIXTURE(Market, "what cannot be used of a market is counted by its reason, until the next answer (B01)") {
    OfferList list{.offers = offers["cloud"], .rejected = {{"x", "price_zero"}, {"y", "price_zero"}, {"z", "price_not_a_number"}}};
    apply(OffersSeen{ProviderName{"cloud"}, now, now, list});
    auto cloud = core->view(now).providers.front();
    CHECK(cloud.rejected == 3);
    CHECK(cloud.rejected_by == std::map<std::string, int>{{"price_not_a_number", 1}, {"price_zero", 2}});
    list.rejected.clear();
    apply(OffersSeen{ProviderName{"cloud"}, now, now, list});
    cloud = core->view(now).providers.front();
    CHECK(cloud.rejected_by.empty());
}

}  // namespace
}  // namespace gf
