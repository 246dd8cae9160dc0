// Many waiting tasks at once: who is served first, what holds whom, and that what is written down is what is rented.
#include <nlohmann/json.hpp>

#include <set>

#include "tests/orchestrator/cards.hpp"

namespace gf {
namespace {
namespace ap = agent_protocol;
using nlohmann::json;

struct Fleet : CoreBench {
    explicit Fleet(CoreSettings settings = default_settings()) : CoreBench(std::move(settings)) {}
    void market(const std::string& provider, int n, std::int64_t from = 100'000) {
        const bool spot = provider == "market";
        for (int i = 0; i < n; ++i) {
            Offer o = offer(provider, provider + std::to_string(1000 + i), from + i * 100, spot);
            o.exclusive = true;
            offers[provider].push_back(o);
        }
    }
    JobId put(const std::string& project, int priority = 50) {
        JobSpec spec;
        spec.project = project;
        spec.priority = priority;
        spec.checkpoint.declared = true;
        return submit(spec);
    }
    /// Passes a few seconds, and takes all launches in their order.
    std::vector<CallLaunch> launches(Millis span = Seconds{5}) {
        pass(span);
        std::vector<CallLaunch> out;
        while (count<CallLaunch>() > 0) out.push_back(take<CallLaunch>());
        return out;
    }
    std::map<std::string, int> by_project(const std::vector<CallLaunch>& calls) {
        std::map<std::string, int> out;
        for (const auto& call : calls) ++out[job(machine(call.machine).job).project];
        return out;
    }
    json decision(const JobId& id) {
        const auto row = *store->reader().decision(id);
        REQUIRE(row.has_value());
        return json::parse(row->json);
    }
    /// Offer ids, each no more than once.
    std::set<std::string> taken(const std::vector<CallLaunch>& calls) {
        std::set<std::string> out;
        for (const auto& call : calls) {
            const bool first = out.insert(call.request.offer.provider.get() + "/" + call.request.offer.id).second;
            CHECK(first);
        }
        return out;
    }
    /// The decision of each launch names what is rented.
    void records_tell_the_truth(const std::vector<CallLaunch>& calls) {
        for (const auto& call : calls) {
            const MachineRecord row = machine(call.machine);
            const json chosen = decision(row.job).at("chosen");
            CHECK(chosen.at("offer") == call.request.offer.id);
            CHECK(chosen.at("provider") == call.request.offer.provider.get());
            CHECK(chosen.at("spot") == call.request.offer.spot);
        }
    }
};

CoreSettings with(int machines, std::map<std::string, int> weights = {}) {
    CoreSettings s = CoreBench::default_settings();
    s.machines_max = machines;
    s.project_weights = std::move(weights);
    return s;
}

TEST_CASE("two projects share the fleet by their weights, however many tasks each has and whose are older") {
    struct Case {
        std::map<std::string, int> weights;
        int machines, a, b;
    };
    const std::vector<Case> cases{
        {{}, 20, 10, 10},
        {{{"b", 3}}, 20, 5, 15},
        {{{"a", 4}}, 100, 80, 20},
    };
    for (const auto& c : cases) {
        CAPTURE(c.machines);
        Fleet f(with(c.machines, c.weights));
        for (int i = 0; i < c.machines; ++i) {
            Offer o = f.offer("cloud", "flat" + std::to_string(i), 100'000);
            o.exclusive = true;
            f.offers["cloud"].push_back(o);
        }
        for (int i = 0; i < 150; ++i) f.put("a");
        for (int i = 0; i < 100; ++i) f.put("b");
        const auto calls = f.launches(Seconds{10});
        CHECK(f.taken(calls).size() == static_cast<std::size_t>(c.machines));
        CHECK(f.by_project(calls) == std::map<std::string, int>{{"a", c.a}, {"b", c.b}});
        f.records_tell_the_truth(calls);
    }
}

TEST_CASE("priority comes before fair shares, and the rest says that it waits for the quota, and since when") {
    Fleet f(with(4));
    f.market("cloud", 30);
    std::vector<JobId> low, high;
    for (int i = 0; i < 5; ++i) low.push_back(f.put("a", 10));
    for (int i = 0; i < 5; ++i) high.push_back(f.put("b", 90));
    const auto calls = f.launches();
    CHECK(f.by_project(calls) == std::map<std::string, int>{{"b", 4}});
    for (const auto& id : low) {
        const json why = f.decision(id);
        CHECK(why.at("chosen").is_null());
        CHECK(why.at("wait_reason") == "quota");
        CHECK(why.at("wait_detail") == "quota_machines");
        CHECK(why.contains("wait_since"));
        CHECK(f.job(id).state == JobState::queued);
    }
    const auto since = f.decision(low[0]).at("wait_since");
    f.pass(Seconds{90});
    CHECK(f.decision(low[0]).at("wait_since") == since);
}

TEST_CASE("a provider's quota sends tasks to the next best elsewhere, then holds them, and is told") {
    CoreSettings s = CoreBench::default_settings();
    int at_cloud = 2, at_market = 3;
    SUBCASE("machines") {
        s.provider_quotas = {{"cloud", {.machines_max = 2, .rate_max = {}}}, {"market", {.machines_max = 3, .rate_max = {}}}};
    }
    SUBCASE("dollars per hour") {
        s.provider_quotas = {{"cloud", {.machines_max = {}, .rate_max = UsdPerHour{220'000}}},
                             {"market", {.machines_max = 3, .rate_max = UsdPerHour{9'000'000}}}};
    }
    SUBCASE("nothing at all at one") {
        s.provider_quotas = {{"cloud", {.machines_max = 0, .rate_max = {}}}, {"market", {.machines_max = 3, .rate_max = {}}}};
        at_cloud = 0;
    }
    Fleet f(s);
    f.market("cloud", 10, 100'000);
    f.market("market", 10, 200'000);
    std::vector<JobId> ids;
    for (int i = 0; i < 8; ++i) ids.push_back(f.put("a"));
    const auto calls = f.launches();
    std::map<std::string, int> where;
    for (const auto& call : calls) ++where[call.provider.get()];
    CHECK(where["cloud"] == at_cloud);
    CHECK(where["market"] == at_market);
    f.records_tell_the_truth(calls);
    const json why = f.decision(ids.back());
    CHECK(why.at("wait_reason") == "quota");
    CHECK(why.at("wait_detail").get<std::string>().starts_with("quota_provider_"));
    REQUIRE(!why.at("sources").empty());
    CHECK(why.at("sources").front().at("config") == "quotas.providers");
    // One of them ends: its room goes to the next.
    if (at_cloud == 0) return;
    f.launch_failed(calls.front(), ErrorKind::no_capacity);
    const auto next = f.launches(Seconds{10});
    REQUIRE(next.size() == 1);
    CHECK(next[0].provider == calls.front().provider);
    CHECK(next[0].request.offer.id != calls.front().request.offer.id);
}

TEST_CASE("tasks of one pass never take one offer twice, and one that is refused is not tried again at once") {
    Fleet f;
    f.market("cloud", 12);
    for (int i = 0; i < 20; ++i) f.put(i % 2 != 0 ? "a" : "b");
    const auto calls = f.launches();
    CHECK(f.taken(calls).size() == 12);
    for (const auto& call : calls) f.launch_failed(call, ErrorKind::no_capacity);
    CHECK(f.launches(Seconds{60}).empty());
}

TEST_CASE("a warm machine is used where it is cheaper to go on with, and not only because it is there") {
    bool taken = false, short_work = false;
    std::int64_t other = 0;
    SUBCASE("a new one would cost as much") { other = 300'000, taken = true; }
    SUBCASE("a new one costs a third") { other = 100'000; }
    SUBCASE("a new one costs a third, and its start takes longer than the work") { other = 100'000, taken = short_work = true; }
    CoreBench b(with_cards());
    b.offers["cloud"] = {CoreBench::offer("cloud", "a", 300'000)};
    b.apply(Tick{});
    b.answer_market();
    JobSpec spec;
    spec.limits.duration = std::chrono::hours{2};
    const auto a = b.run_one(spec, "i1");
    b.offers["cloud"] = {CoreBench::offer("cloud", "other", other)};
    for (int i = 0; i < 8; ++i) {
        b.say(a.machine, ap::Heartbeat{}, "boot1", 0);
        b.pass(Seconds{5});
    }
    JobSpec never = spec;
    never.resources.max_price = UsdPerHour{1};
    b.submit(never);  // something waits, so the machine is kept for a while
    b.exits(a.machine, a.attempt, 0);
    REQUIRE(b.machine(a.machine).state == MachineState::ready);
    // The first job's family is known to be done in a minute; of another one nothing is known.
    if (!short_work) spec.kind = JobKind::batch_inference;
    const JobId id = b.submit(spec);
    b.pass(Seconds{3});
    CHECK((b.machine(a.machine).job == id) == taken);
    CHECK(b.count<CallLaunch>() == (taken ? 0 : 1));
}

TEST_CASE("a choice whose price has to be read again is kept from others, and rented when it was read") {
    Fleet f;
    const JobId id = f.put("a");
    f.pass(Seconds{20});
    f.market("cloud", 1);
    f.market("market", 1, 150'000);
    f.pass(Seconds{15}, false);
    // A look that took long: what it shows is known, and its prices are too old to be paid.
    for (int i = 0; i < 2; ++i) {
        const auto look = f.take<CallOffers>();
        f.apply(OffersSeen{look.provider, f.now - Seconds{12}, f.now, OfferList{.offers = f.offers[look.provider.get()]}});
    }
    REQUIRE(f.count<CallLaunch>() == 0);
    const auto rent = f.take<CallOffers>();
    CHECK(rent.query.look == Look::rent);
    CHECK(rent.provider.get() == "cloud");
    f.calls.push_back(rent);
    // Who comes later and stands before it does not get it either.
    const JobId other = f.put("b", 60);
    const auto calls = f.launches();
    REQUIRE(calls.size() == 2);
    std::map<JobId, std::string> got;
    for (const auto& call : calls) got[f.machine(call.machine).job] = call.request.offer.id;
    CHECK(got[id] == "cloud1000");
    CHECK(got[other] == "market1000");
    f.records_tell_the_truth(calls);
}

TEST_CASE("equal worlds are planned alike: the same machines for the same tasks, whatever the order of the offers") {
    std::vector<std::vector<std::string>> told;
    for (const bool turned : {false, true}) {
        Fleet f(with(9, {{"a", 2}}));
        f.market("cloud", 8);
        f.market("market", 8, 100'300);
        if (turned)
            for (auto& [name, list] : f.offers) std::ranges::reverse(list);
        for (int i = 0; i < 12; ++i) f.put(i % 3 != 0 ? "a" : "b", i % 5 != 0 ? 50 : 60);
        std::vector<std::string> lines;
        for (const auto& call : f.launches())
            lines.push_back(f.job(f.machine(call.machine).job).name + " " + call.request.offer.provider.get() + "/" + call.request.offer.id);
        CHECK(lines.size() == 9);
        told.push_back(std::move(lines));
    }
    CHECK(told[0] == told[1]);
}

TEST_CASE("a task that waits long for a quota holds it: what gets free is kept for it, over all pages of the queue") {
    CoreSettings s = CoreBench::default_settings();
    s.usd_per_hour_max = UsdPerHour{1'000'000};
    s.time_scale = 0.01;  // half an hour is 18 seconds
    Fleet f(s);
    for (int i = 0; i < 200; ++i) f.offers["cloud"].push_back(f.offer("cloud", "small" + std::to_string(i), 100'000));
    Offer big = f.offer("cloud", "big", 900'000);
    big.gpu_count = 8;
    f.offers["cloud"].push_back(big);
    for (auto& o : f.offers["cloud"]) o.exclusive = true;
    for (int i = 0; i < 10; ++i) f.put("small");
    std::vector<CallLaunch> running = f.launches();
    REQUIRE(running.size() == 10);
    const auto one_goes = [&] {
        f.launch_failed(running.back(), ErrorKind::no_capacity);
        running.pop_back();
    };
    JobSpec spec;
    spec.resources.gpus = 8;
    spec.project = "wide";
    const JobId wide = f.submit(spec);
    for (int i = 0; i < 150; ++i) f.put("small");
    // At first whoever fits takes what gets free.
    f.pass(Seconds{4});
    one_goes();
    for (const auto& call : f.launches(Seconds{4})) running.push_back(call);
    CHECK(running.size() == 10);
    CHECK(f.decision(wide).at("wait_reason") == "quota");
    CHECK(f.decision(wide).at("wait_detail") == "quota_usd_per_hour");
    f.pass(Seconds{30});
    while (running.size() > 1) {
        CHECK(f.launches(Seconds{8}).empty());
        one_goes();
    }
    const auto calls = f.launches(Seconds{8});
    REQUIRE(calls.size() == 1);
    CHECK(calls[0].request.offer.id == "big");
    CHECK(f.machine(calls[0].machine).job == wide);
}

TEST_CASE("what is held for a task is free again when its job is cancelled") {
    CoreSettings s = CoreBench::default_settings();
    s.usd_per_hour_max = UsdPerHour{1'000'000};
    s.time_scale = 0.01;
    Fleet f(s);
    f.offers["cloud"] = {f.offer("cloud", "running", 900'000), f.offer("cloud", "wide", 950'000), f.offer("cloud", "small", 100'000)};
    for (auto& o : f.offers["cloud"]) o.exclusive = true;
    f.offers["cloud"][1].gpu_count = 8;
    f.offers["cloud"][2].gpu_count = 2;
    f.put("a");
    REQUIRE(f.launches().size() == 1);
    JobSpec spec;
    spec.resources.gpus = 8;
    spec.project = "wide";
    const JobId wide = f.submit(spec);
    f.pass(Seconds{40});
    spec.resources.gpus = 2;
    spec.project = "a";
    const JobId small = f.submit(spec);
    CHECK(f.launches(Seconds{40}).empty());
    CHECK(f.decision(small).at("wait_reason") == "turn");
    CHECK(f.command(wide, JobVerb::cancel) == 200);
    CHECK(f.launches().size() == 1);
    CHECK(f.job(small).state == JobState::provisioning);
}

}  // namespace
}  // namespace gf
