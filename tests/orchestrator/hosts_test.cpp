// What the core remembers of hosts and providers, and what it does about it: marks that outlive a restart, breakers, drift, tidying.
#include <nlohmann/json.hpp>

#include "tests/orchestrator/bench.hpp"

namespace gf {
namespace {
namespace ap = agent_protocol;

struct Hosts : Market {
    /// Every host fails in one way: the machine is made and its agent never says a word.
    void never_up(const CallLaunch& call, const std::string& id) {
        launched(call, id);
        pass(std::chrono::minutes{21});
        destroyed();
        set_presence(id, Presence::gone, "");
        pass(Seconds{20});
    }
    void destroyed() {
        while (count<CallDestroy>() > 0) {
            const CallDestroy call = take<CallDestroy>();
            apply(DestroyEnded{call.machine, call.call_seq, now, now, {}});
        }
    }
    const HostMarkRecord* mark(const std::string& key) const {
        const auto& marks = *core->world().host_marks;
        const auto found = marks.find(key);
        return found == marks.end() ? nullptr : &found->second;
    }
    std::string decision(const JobId& id) { return store->reader().decision(id)->value().json; }
};

TEST_CASE_FIXTURE(Hosts, "a host that does not come up is remembered, by the store too, and left out for a while") {
    offers["cloud"] = {offer("cloud", "a", 300'000)};
    offers["cloud"][0].host_owner = "own";
    offers["cloud"][0].data_center = "dc1";
    pass(Seconds{31});
    JobId id;
    never_up(first_launch(on_demand(), &id), "i1");
    REQUIRE(mark("cloud/host/host-a"));
    CHECK(mark("cloud/host/host-a")->boot_failures == 1000);
    CHECK(mark("cloud/owner/own"));
    CHECK(mark("cloud/dc/dc1"));
    CHECK(store->reader().host_marks()->size() == 3);
    // The cool-down of the host outlives a restart.
    REQUIRE(core->world().bad_hosts.size() == 1);
    restart();
    REQUIRE(core->world().bad_hosts.size() == 1);
    CHECK(core->world().bad_hosts.begin()->first == "cloud/host-a");
    pass(std::chrono::minutes{2});
    CHECK(count<CallLaunch>() == 0);
    CHECK(decision(id).find("bad_host") != std::string::npos);
    // Its end lets the same job try again; that it fails there a second time may be the job's image.
    pass(std::chrono::minutes{9});
    REQUIRE(count<CallLaunch>() == 1);
    never_up(take<CallLaunch>(), "i2");
    CHECK(mark("cloud/host/host-a")->boot_failures < 1400);
    CHECK(command(id, JobVerb::cancel) == 200);
    // Another job cannot be blamed.
    pass(std::chrono::minutes{11});
    JobId other;
    never_up(first_launch(on_demand(), &other), "i3");
    CHECK(mark("cloud/host/host-a")->boot_failures > 2000);
    CHECK(command(other, JobVerb::cancel) == 200);
    pass(std::chrono::minutes{11});
    const JobId third = submit(on_demand());
    pass(std::chrono::minutes{15});
    restart();
    pass(std::chrono::minutes{2});
    CHECK(count<CallLaunch>() == 0);
    const auto json = nlohmann::json::parse(decision(third));
    CHECK(json["refused"]["host_reputation"] == 1);
    CHECK(json["wait_reason"] == "host_reputation");
    const std::string detail = json["near_misses"][0]["detail"];
    CHECK(detail.starts_with("host host-a: 2 boot failures in the last days, out until 2026-"));
    CHECK(detail.find("no word from the agent within 20m") != std::string::npos);
    // With nothing else to be had, it is tried after an hour all the same.
    pass(std::chrono::minutes{50});
    CHECK(count<CallLaunch>() == 1);
}

TEST_CASE_FIXTURE(Hosts, "marks that have faded leave the store") {
    JobSpec spec = on_demand();
    spec.retry.start_timeout = 0;
    never_up(first_launch(spec), "i1");
    REQUIRE(store->reader().host_marks()->size() == 1);
    now += std::chrono::hours{24 * 14};
    apply(ClockJumped{"suspend"});
    apply(Tick{});
    CHECK(store->reader().host_marks()->empty());
    CHECK(core->world().host_marks->empty());
}

TEST_CASE_FIXTURE(Hosts, "losses are held against a host in its first hour only, by the market only a little") {
    struct Row {
        const char* what;
        bool is_spot;
        Millis after;
        Presence shown;
        std::int64_t counts;
    };
    for (const Row& row : {Row{"stopped by its host, early", false, std::chrono::minutes{10}, Presence::stopped, 1000},
                           Row{"vanished, early", false, std::chrono::minutes{10}, Presence::gone, 1000},
                           Row{"stopped by its host, late", false, std::chrono::minutes{70}, Presence::stopped, 0},
                           Row{"taken back, early", true, std::chrono::minutes{10}, Presence::stopped, 250},
                           Row{"taken back, late", true, std::chrono::minutes{70}, Presence::stopped, 0}}) {
        CAPTURE(row.what);
        Hosts b;
        const Running a = b.run_one(row.is_spot ? b.spot() : b.on_demand(), "i1");
        for (const Instant end = b.now + row.after; b.now < end;) {
            b.say(a.machine, ap::Heartbeat{}, "boot1", 0);
            b.pass(Seconds{60});
        }
        b.set_presence("i1", row.shown, "x");
        b.pass(Seconds{15});
        const HostMarkRecord* mark = b.mark(row.is_spot ? "market/host/host-s" : "cloud/host/host-a");
        CHECK((mark ? mark->early_losses : 0) == row.counts);
    }
}

TEST_CASE_FIXTURE(Hosts, "an empty account is nobody's fault") {
    const Running a = run_one(on_demand(), "i1");
    apply(BalanceSeen{ProviderName{"cloud"}, Usd{0}});
    set_presence("i1", Presence::stopped, "EXITED");
    pass(Seconds{11});
    CHECK(core->world().host_marks->empty());
}

TEST_CASE_FIXTURE(Hosts, "a machine that comes up far later than its image does elsewhere is a slow one") {
    const auto up_after = [&](Hosts& b, const CallLaunch& call, const std::string& id, Millis wait) {
        b.launched(call, id);
        b.pass(wait);
        const ap::Lease lease = b.agent_up(call.machine, "boot-" + id);
        b.say(call.machine, ap::Started{lease.attempt, 1, 0}, "boot-" + id, 1);
        ap::Exited over;
        over.attempt = lease.attempt;
        over.exit_code = 0;
        b.say(call.machine, over, "boot-" + id);
    };
    SUBCASE("against what the image takes") {
        up_after(*this, first_launch(on_demand()), "i1", std::chrono::minutes{1});
        CHECK(core->world().host_marks->empty());
        offers["cloud"].front().host_id = "slow";
        pass(Seconds{31});
        up_after(*this, first_launch(on_demand()), "i2", std::chrono::minutes{6});
        REQUIRE(mark("cloud/host/slow"));
        CHECK(mark("cloud/host/slow")->slow_pulls == 1000);
    }
    SUBCASE("six minutes of an image that nothing is known of are not slow") {
        up_after(*this, first_launch(on_demand()), "i1", std::chrono::minutes{6});
        CHECK(core->world().host_marks->empty());
    }
    SUBCASE("eleven are") {
        up_after(*this, first_launch(on_demand()), "i1", std::chrono::minutes{11});
        CHECK(mark("cloud/host/host-a"));
    }
}

TEST_CASE_FIXTURE(Hosts, "good runs heal a host that has failed, and mark none that has not") {
    const auto run_for = [&](Millis span, const std::string& id) {
        const Running a = run_one(on_demand(), id);
        for (const Instant end = now + span; now < end;) {
            say(a.machine, ap::Heartbeat{}, "boot1", 0);
            pass(Seconds{30});
        }
        exits(a.machine, a.attempt, 0);
        destroyed();
        set_presence(id, Presence::gone, "");
        pass(Seconds{20});
    };
    run_for(std::chrono::minutes{15}, "i0");
    CHECK(core->world().host_marks->empty());
    offers["cloud"] = {offer("cloud", "a", 300'000)};
    JobSpec spec = on_demand();
    spec.retry.start_timeout = 0;
    pass(Seconds{31});
    never_up(first_launch(spec), "i1");
    pass(std::chrono::minutes{11});
    run_for(std::chrono::minutes{5}, "i2");
    CHECK(mark("cloud/host/host-a")->good_runs == 0);
    run_for(std::chrono::minutes{15}, "i3");
    CHECK(mark("cloud/host/host-a")->good_runs >= 1000);
    CHECK(store->reader().host_marks()->front().good_runs == mark("cloud/host/host-a")->good_runs);
}

TEST_CASE_FIXTURE(Hosts, "three different offers in a row whose creates end unclear pause the provider; one is tried then") {
    offers["cloud"] = {offer("cloud", "a", 300'000), offer("cloud", "b", 310'000), offer("cloud", "c", 320'000),
                       offer("cloud", "d", 330'000), offer("cloud", "e", 340'000)};
    pass(Seconds{31});
    std::vector<JobId> jobs;
    for (int i = 0; i < 6; ++i) jobs.push_back(submit(on_demand()));
    pass(Seconds{2});
    // Those that were under way are no part of it; they have failed before the pause can begin.
    int failed = 0;
    while (count<CallLaunch>() > 0 && failed < 3) {
        launch_failed(take<CallLaunch>(), ErrorKind::unknown_outcome, "502");
        ++failed;
    }
    REQUIRE(failed == 3);
    while (count<CallLaunch>() > 0) launch_failed(take<CallLaunch>(), ErrorKind::no_capacity);
    CHECK(core->view(now).providers.front().health == "launch_paused");
    CHECK(core->view(now).providers.front().reason == "creates_failing");
    CHECK(alerts("provider_degraded") == 1);
    const JobId late = submit(on_demand());
    pass(std::chrono::minutes{9});
    CHECK(count<CallLaunch>() == 0);
    CHECK(decision(late).find("provider_creates_failing") != std::string::npos);
    pass(std::chrono::minutes{2});
    REQUIRE(count<CallLaunch>() == 1);  // however many wait
    SUBCASE("it comes up: all others follow") {
        const CallLaunch trial = take<CallLaunch>();
        launched(trial, "i1");
        agent_up(trial.machine);
        CHECK(core->view(now).providers.front().health == "ok");
        pass(Seconds{10});
        CHECK(count<CallLaunch>() >= 2);
        for (const auto& alert : *store->reader().alerts(true, 100)) CHECK(alert.dedupe != "provider/cloud/creates_failing");
    }
    SUBCASE("it fails too: twice the pause") {
        launch_failed(take<CallLaunch>(), ErrorKind::unknown_outcome, "502");
        pass(std::chrono::minutes{19});
        CHECK(count<CallLaunch>() == 0);
        pass(std::chrono::minutes{2});
        CHECK(count<CallLaunch>() == 1);
    }
    SUBCASE("it vanishes before its agent says a word: twice the pause, and not for ever") {
        const CallLaunch trial = take<CallLaunch>();
        launched(trial, "i1");
        pass(Seconds{20});
        set_presence("i1", Presence::gone, "");
        pass(std::chrono::minutes{25});
        CHECK(count<CallLaunch>() == 1);
    }
    SUBCASE("it says nothing: the next one is tried") {
        launch_failed(take<CallLaunch>(), ErrorKind::no_capacity);
        pass(Seconds{10});
        CHECK(count<CallLaunch>() == 1);
    }
}

TEST_CASE_FIXTURE(Hosts, "a breaker of one provider leaves the other alone, and machines that never come up trip it too") {
    offers["cloud"] = {offer("cloud", "a", 300'000), offer("cloud", "b", 310'000), offer("cloud", "c", 320'000)};
    offers["market"] = {};
    pass(Seconds{31});
    JobSpec spec;
    spec.resources.spot = SpotChoice::automatic;
    spec.retry.start_timeout = 100;
    const JobId id = submit(spec);
    pass(Seconds{2});
    for (const char* machine : {"i1", "i2", "i3"}) {
        REQUIRE(count<CallLaunch>() == 1);
        never_up(take<CallLaunch>(), machine);
    }
    CHECK(core->view(now).providers.front().reason == "creates_failing");
    offers["market"] = {offer("market", "s", 200'000, true)};
    pass(std::chrono::minutes{2});
    REQUIRE(count<CallLaunch>() == 1);
    CHECK(take<CallLaunch>().provider.get() == "market");
    CHECK(job(id).attempts == 4);
}

TEST_CASE_FIXTURE(Hosts, "drift stops launches on that provider, nothing else, until a whole read without it (A05, B05)") {
    const Running a = run_one(on_demand(), "i1");
    pass(Seconds{60});
    bool in_listing = false, cancelled = false;
    SUBCASE("in the market") {}
    SUBCASE("in the market, and nobody waits for it any more") { cancelled = true; }
    SUBCASE("in the listing") { in_listing = true; }
    (in_listing ? listing_drift : offers_drift)["cloud"] = {{"price_unit", "gpu_hour 129 where dollars were"}};
    submit(spot());  // makes the core look at the markets
    pass(Seconds{35});
    launch_failed(take<CallLaunch>(), ErrorKind::refused);
    JobSpec other = on_demand();
    other.image = "another";  // so that no machine that is there already serves it
    const JobId waits = submit(other);
    pass(Seconds{45});
    CHECK(count<CallLaunch>() == 0);
    const ProviderView view = core->view(now).providers.front();
    CHECK(view.health == "launch_paused");
    CHECK(view.reason == "drift");
    REQUIRE(view.drift.size() == 1);
    CHECK(view.drift[0].what == "price_unit");
    CHECK(alerts("provider_drift") == 1);
    CHECK(store->reader().alerts(true, 10)->front().text.find("gpu_hour 129 where dollars were") != std::string::npos);
    // The other provider goes on, the job here too, and so do reads, listings and destroys.
    const JobId elsewhere = submit(spot());
    pass(Seconds{5});
    CHECK(take<CallLaunch>().provider.get() == "market");
    CHECK(job(elsewhere).state == JobState::provisioning);
    CHECK(job(a.job).state == JobState::running);
    CHECK(job(waits).state == JobState::queued);
    CHECK(decision(waits).find("provider_drift") != std::string::npos);
    const int listed = list_calls;
    pass(Seconds{30});
    CHECK(list_calls > listed);
    exits(a.machine, a.attempt, 0);
    apply(CommandMachine{900, a.machine, MachineVerb::destroy, "user"});
    CHECK(take<CallDestroy>().id.get() == "i1");
    if (cancelled) CHECK(command(waits, JobVerb::cancel) == 200);
    listing_drift.clear();
    offers_drift.clear();
    pass(Seconds{45});
    CHECK(count<CallLaunch>() == (cancelled ? 0 : 1));
    CHECK(core->view(now).providers.front().drift.empty());
    CHECK(alerts("provider_drift") == 1);
    for (const auto& alert : *store->reader().alerts(true, 100)) CHECK(alert.kind != "provider_drift");
}

TEST_CASE_FIXTURE(Hosts, "what a drifted answer says of money is not believed, what it leaves out proves nothing") {
    const Running a = run_one(on_demand(), "i1");
    pass(Seconds{120});
    listing_drift["cloud"] = {{"price_unit", "cents"}};
    for (auto* seen : {&reads["i1"], &listing["cloud"].front()}) seen->gpu_rate = UsdPerHour{30'000'000};
    pass(Seconds{30});
    CHECK(alerts("billed_rate_over_offer") == 0);
    CHECK(store->reader().ledger(a.job, instant_of(0), now)->size() == 1);
    // An unclear create is not written off by such listings, however often they lack it.
    listing_drift.clear();
    for (auto* seen : {&reads["i1"], &listing["cloud"].front()}) seen->gpu_rate = UsdPerHour{300'000};
    pass(Seconds{15});
    submit(on_demand());
    pass(Seconds{5});
    const CallLaunch call = take<CallLaunch>();
    launch_failed(call, ErrorKind::unknown_outcome, "502");
    listing_drift["cloud"] = {{"page_token_missing", "the last page has none"}};
    for (int i = 0; i < 20; ++i) {
        say(a.machine, ap::Heartbeat{}, "boot1", 0);
        pass(Seconds{20});
    }
    CHECK(machine(call.machine).state == MachineState::unknown);
    CHECK(job(a.job).state == JobState::running);
}

TEST_CASE_FIXTURE(Hosts, "a provider without a machine of ours is tidied once, after a while, and again after the next machine") {
    const auto tidied = [&] {
        int n = 0;
        for (auto it = calls.begin(); it != calls.end();) {
            const auto* call = std::get_if<CallTidy>(&*it);
            if (call && call->provider.get() == "cloud") ++n;
            it = call ? calls.erase(it) : std::next(it);
        }
        return n;
    };
    pass(std::chrono::minutes{9});
    CHECK(tidied() == 0);
    pass(std::chrono::minutes{2});
    CHECK(tidied() == 1);  // once after the start
    pass(std::chrono::hours{2});
    CHECK(tidied() == 0);
    const Running a = run_one(on_demand(), "i1");
    for (int i = 0; i < 30; ++i) {
        say(a.machine, ap::Heartbeat{}, "boot1", 0);
        pass(Seconds{60});
    }
    exits(a.machine, a.attempt, 0);
    pass(Seconds{5});
    CHECK(tidied() == 0);
    destroyed();
    set_presence("i1", Presence::gone, "");
    pass(std::chrono::minutes{9});
    CHECK(tidied() == 0);
    SUBCASE("not while its list of machines is unknown") {
        listing_broken = Error{.kind = ErrorKind::malformed, .message = "no"};
        pass(std::chrono::minutes{30});
        CHECK(tidied() == 0);
        listing_broken.reset();
    }
    pass(std::chrono::minutes{12});
    CHECK(tidied() == 1);
    restart();
    pass(std::chrono::minutes{11});
    CHECK(tidied() == 1);
}

}  // namespace
}  // namespace gf
