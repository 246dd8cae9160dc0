// Doubts about a provider or a machine that must end when their reason does, and not before: pauses, alerts that outlive the process,
// listings that only ever say "later", destroys that are refused.
#include "tests/orchestrator/bench.hpp"

namespace gf {
namespace {
namespace ap = agent_protocol;

struct Doubts : Market {
    void alive_for(const Running& a, Millis span) {
        for (const Instant end = now + span; now < end;) {
            say(a.machine, ap::Heartbeat{}, "boot1", 0);
            pass(Seconds{10});
        }
    }
    void back(const Running& a) {
        restart();
        pass(Seconds{1});
        apply(AgentConnected{a.machine, "boot1"});
        say(a.machine, hello_of(a.attempt, "running"), "boot1", 0);
    }
    std::vector<std::string> open() {
        std::vector<std::string> keys;
        for (const auto& alert : *store->reader().alerts(true, 100)) keys.push_back(alert.dedupe);
        std::ranges::sort(keys);
        return keys;
    }
    void destroy_fails(const Error& error) {
        const CallDestroy call = take<CallDestroy>();
        apply(DestroyEnded{call.machine, call.call_seq, now, now, std::unexpected(error)});
    }
    ProviderView cloud() {
        for (const auto& view : core->view(now).providers)
            if (view.name.get() == "cloud") return view;
        return {};
    }
};
using Keys = std::vector<std::string>;

// ---- Alerts ----

TEST_CASE_FIXTURE(Doubts, "a listing that is not trusted is told once over restarts, and again when it happens again (A05)") {
    const Running a = run_one(on_demand(), "i1");
    alive_for(a, Seconds{120});
    const auto whole = listing["cloud"];
    listing["cloud"].clear();
    alive_for(a, Seconds{60});
    CHECK(open() == Keys{"listing/cloud"});
    back(a);
    alive_for(a, Seconds{120});
    CHECK(open() == Keys{"listing/cloud"});
    CHECK(alerts("listing_not_trusted") == 1);
    CHECK(cloud().health == "listing_not_trusted");
    // It heals while nobody looks: the alert ends with the first whole listing, whatever this process remembers.
    listing["cloud"] = whole;
    back(a);
    alive_for(a, Seconds{20});
    CHECK(open().empty());
    listing["cloud"].clear();
    alive_for(a, Seconds{120});
    CHECK(open() == Keys{"listing/cloud"});
    CHECK(alerts("listing_not_trusted") == 2);
    CHECK(job(a.job).attempts == 1);
}

TEST_CASE_FIXTURE(Doubts, "the alert about a pause ends with the process that paused, and the next refusal is told again") {
    submit(on_demand());
    pass(Seconds{2});
    launch_failed(take<CallLaunch>(), ErrorKind::auth, "invalid key");
    CHECK(open() == Keys{"provider/cloud/auth"});
    restart();
    pass(Seconds{1});
    CHECK(open().empty());
    for (int i = 0; i < 60 && count<CallLaunch>() == 0; ++i) pass(Seconds{1});
    launch_failed(take<CallLaunch>(), ErrorKind::auth, "invalid key");
    CHECK(open() == Keys{"provider/cloud/auth"});
    CHECK(alerts("provider_degraded") == 2);
}

// ---- Pauses ----

TEST_CASE_FIXTURE(Doubts, "a short pause does not end a long one, and each alert ends with its own reason") {
    submit(on_demand());
    pass(Seconds{1});
    submit(on_demand());
    pass(Seconds{1});
    submit(on_demand());
    pass(Seconds{1});
    REQUIRE(count<CallLaunch>() == 3);
    const CallLaunch first = take<CallLaunch>(), second = take<CallLaunch>(), third = take<CallLaunch>();
    launch_failed(first, ErrorKind::auth, "invalid key");
    pass(Seconds{60});
    launch_failed(second, ErrorKind::quota, "10 machines at most");
    launch_failed(third, ErrorKind::unavailable, "connection refused");
    CHECK(open() == Keys{"provider/cloud/auth", "provider/cloud/quota"});
    CHECK(cloud().reason == "quota");
    pass(std::chrono::minutes{9} - Seconds{5});
    CHECK(count<CallLaunch>() == 0);
    CHECK(open() == Keys{"provider/cloud/auth", "provider/cloud/quota"});
    pass(Seconds{15});
    CHECK(count<CallLaunch>() == 0);
    CHECK(open() == Keys{"provider/cloud/quota"});
    CHECK(cloud().health == "launch_paused");
    pass(Seconds{90});
    CHECK(open().empty());
    CHECK(count<CallLaunch>() == 3);
    CHECK(cloud().health == "ok");
}

// ---- Listings ----

TEST_CASE_FIXTURE(Doubts, "a listing that is only ever slowed down is unknown after a while: told once, no launches, until it answers") {
    const Running a = run_one(on_demand(), "i1");
    alive_for(a, Seconds{60});
    listing_broken = Error{.kind = ErrorKind::rate_limited, .message = "429"};
    listing_broken_at = "cloud";
    alive_for(a, Seconds{20});
    CHECK(open().empty());  // once or twice is nothing
    CHECK(cloud().health == "ok");
    alive_for(a, std::chrono::minutes{3});
    CHECK(cloud().health == "degraded");
    CHECK(cloud().reason == "rate_limited");
    const JobId waiting = submit(on_demand());
    alive_for(a, std::chrono::minutes{10});
    CHECK(count<CallLaunch>() == 0);
    CHECK(store->reader().decision(waiting)->value().json.find("provider_rate_limited") != std::string::npos);
    CHECK(open() == Keys{"listing_failed/cloud"});
    CHECK(alerts("provider_degraded") == 1);
    CHECK(job(a.job).state == JobState::running);
    listing_broken.reset();
    for (int i = 0; i < 60 && count<CallLaunch>() == 0; ++i) alive_for(a, Seconds{10});
    CHECK(count<CallLaunch>() == 1);
    CHECK(open().empty());
    CHECK(cloud().health == "ok");
}

TEST_CASE_FIXTURE(Doubts, "a new machine that was listed once and is missing is asked for at once; found by the read, its listing keeps its trust (P4)") {
    const Running a = run_one(on_demand(), "i1");
    alive_for(a, Seconds{20});
    listing["cloud"].clear();
    const int reads_before = read_calls;
    SUBCASE("it is gone") {
        const Instant deleted = now;
        reads["i1"].presence = Presence::gone;
        alive_for(a, Seconds{20});
        CHECK(machine(a.machine).state == MachineState::gone);
        CHECK(store->reader().ledger(a.job, instant_of(0), now)->back().until.value() <= deleted + Seconds{1});
    }
    SUBCASE("it is there: listings of new machines flicker") {
        alive_for(a, Seconds{20});
        CHECK(read_calls > reads_before);
        CHECK(machine(a.machine).state == MachineState::busy);
        CHECK(open().empty());
    }
}

TEST_CASE_FIXTURE(Doubts, "a machine that was never listed is not asked for before listings have settled") {
    submit(on_demand());
    answer_market();
    apply(Tick{});
    answer_market();
    launched(take<CallLaunch>(), "i1");
    listing["cloud"].clear();
    const int reads_before = read_calls;
    pass(Seconds{50});
    CHECK(read_calls == reads_before);
}

// ---- Destroys ----

TEST_CASE_FIXTURE(Doubts, "a machine whose destroys are refused and that a listing lacks is read at once, not when its turn comes (P4)") {
    const Running a = run_one(on_demand(), "i1");
    alive_for(a, Seconds{100});
    exits(a.machine, a.attempt, 0);
    for (int i = 0; i < 7; ++i) {
        while (count<CallDestroy>() == 0) pass(Seconds{1});
        destroy_fails(Error{.kind = ErrorKind::unavailable, .message = "500"});
    }
    const Instant deleted = now;
    set_presence("i1", Presence::gone, "404");
    listing["cloud"].clear();
    pass(Seconds{12});
    CHECK(machine(a.machine).state == MachineState::gone);
    CHECK(store->reader().ledger(a.job, instant_of(0), now)->back().until.value() <= deleted + Seconds{12});
}

TEST_CASE_FIXTURE(Doubts, "listings that lack a machine, and reads that are refused for long, put no destroy off (P1)") {
    const Running a = run_one(on_demand(), "i1");
    alive_for(a, Seconds{100});
    exits(a.machine, a.attempt, 0);
    while (count<CallDestroy>() == 0) pass(Seconds{1});
    destroy_fails(Error{.kind = ErrorKind::unavailable, .message = "500"});
    reads.erase("i1");  // reads are answered below
    listing["cloud"].clear();
    const Instant failed = now;
    while (count<CallDestroy>() == 0 && now - failed < std::chrono::minutes{10}) {
        pass(Seconds{1});
        if (count<CallRead>() == 0) continue;
        const CallRead read = take<CallRead>();
        apply(ReadEnded{read.machine, read.call_seq, now, now,
                        std::unexpected(Error{.kind = ErrorKind::rate_limited, .message = "429", .retry_after = std::chrono::minutes{30}})});
    }
    CHECK(count<CallDestroy>() == 1);
}

TEST_CASE_FIXTURE(Doubts, "a machine that was deleted by hand while its destroys are refused is seen to be gone (E04, P4)") {
    const Running a = run_one(on_demand(), "i1");
    alive_for(a, Seconds{100});
    exits(a.machine, a.attempt, 0);
    destroy_fails(Error{.kind = ErrorKind::auth, .message = "403"});
    const Instant deleted = now;
    set_presence("i1", Presence::gone, "404");
    pass(Seconds{10});
    CHECK(machine(a.machine).state == MachineState::gone);
    CHECK(count<CallDestroy>() == 0);
    const auto ledger = *store->reader().ledger(a.job, instant_of(0), now);
    REQUIRE(ledger.back().until.has_value());
    CHECK(*ledger.back().until <= deleted + Seconds{10});
}

TEST_CASE_FIXTURE(Doubts, "between two refused destroys there is one read; what it shows, or does not, holds up nothing") {
    const Running a = run_one(on_demand(), "i1");
    alive_for(a, Seconds{100});
    const bool answered = [&] {
        bool yes = false;
        SUBCASE("it is there") { yes = true; }
        SUBCASE("the read fails too") {}
        return yes;
    }();
    if (!answered) reads.clear();
    exits(a.machine, a.attempt, 0);
    int destroys = 0, failed_reads = 0;
    const int read_before = read_calls;
    for (const Instant end = now + std::chrono::minutes{20}; now < end;) {
        pass(Seconds{1});
        if (count<CallRead>() > 0) {
            const CallRead call = take<CallRead>();
            apply(ReadEnded{call.machine, call.call_seq, now, now,
                            std::unexpected(Error{.kind = ErrorKind::unavailable, .message = "500", .retry_after = Seconds{3600}})});
            ++failed_reads;
            // However long the read is to wait, the machine bills on.
            if (failed_reads == 1) CHECK(destroys == 1);
        }
        if (count<CallDestroy>() == 0) continue;
        destroy_fails(Error{.kind = ErrorKind::unavailable, .message = "500"});
        ++destroys;
    }
    const int between = answered ? read_calls - read_before : failed_reads;
    CHECK(destroys >= (answered ? 7 : 3));
    CHECK(between >= destroys - 1);
    CHECK(between <= destroys);
    CHECK(machine(a.machine).state == MachineState::destroying);
}

TEST_CASE_FIXTURE(Doubts, "a destroy is not put off for as long as a provider likes") {
    const Running a = run_one(on_demand(), "i1");
    exits(a.machine, a.attempt, 0);
    destroy_fails(Error{.kind = ErrorKind::unavailable, .message = "503", .retry_after = Seconds{3600}});
    pass(Seconds{295});
    CHECK(count<CallDestroy>() == 0);
    pass(Seconds{15});
    CHECK(count<CallDestroy>() == 1);
}

TEST_CASE_FIXTURE(Market, "what a whole answer no longer shows is gone, at hosts that nobody has vetted too") {
    offers["cloud"][0].verified = false;
    offers["cloud"][1].verified = true;
    pass(std::chrono::minutes{2});
    offers["cloud"].clear();
    const JobId waiting = submit(on_demand());
    pass(std::chrono::minutes{2});
    CHECK(count<CallLaunch>() == 0);
    CHECK(job(waiting).state == JobState::queued);
}

}  // namespace
}  // namespace gf
