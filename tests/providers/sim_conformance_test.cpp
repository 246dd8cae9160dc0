#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "sim_bench.hpp"

using namespace gf;
using namespace gf::test;

namespace {

Offer spot_offer(SimBench& b) {
    const auto list = b.provider().offers({.gpu_counts = {1}, .on_demand = false});
    REQUIRE(list);
    REQUIRE(!list->offers.empty());
    return list->offers.front();
}

/// Reads until the machine runs, at most ten minutes of the bench's time.
Result<ProviderMachine> running(SimBench& b, const ProviderMachineId& id) {
    for (int i = 0; i < 200; ++i) {
        auto m = b.provider().read(id);
        if (m && m->presence == Presence::running) return m;
        b.pass(Seconds{3});
    }
    return fail(ErrorKind::unavailable, "it never ran");
}

std::int64_t billed(SimBench& b) {
    return b.bill().at("total_micros").get<std::int64_t>();
}

/// What the adapter says is billed against the simulator's own books, over some hours. Where the bill grows in steps, the two
/// readings of it may be one step apart.
void rates_are_what_is_billed(SimBench& b, Millis step = Millis{0}) {
    const auto out = b.provider().launch(launch_request(b.some_offer(), 1));
    REQUIRE_MESSAGE(!out.error, (out.error ? out.error->message : ""));
    const auto m = running(b, out.id);
    REQUIRE(m);
    REQUIRE(m->gpu_rate);
    REQUIRE(m->disk_rate);
    // The simulator's clock runs on while it is asked: each reading lies somewhere within its own bracket.
    const auto first_asked = b.clock().now();
    const auto before = billed(b);
    const auto first_told = b.clock().now();
    b.pass(std::chrono::hours{3});
    const auto last_asked = b.clock().now();
    const auto after = billed(b);
    const auto last_told = b.clock().now();
    const auto rate = *m->gpu_rate + *m->disk_rate;
    const auto least = cost(rate, std::max(last_asked - first_told - step, Millis{0}));
    const auto most = cost(rate, last_told - first_asked + step);
    CAPTURE(least.micros);
    CAPTURE(most.micros);
    CHECK(static_cast<double>(after - before) >= 0.99 * static_cast<double>(least.micros));
    CHECK(static_cast<double>(after - before) <= 1.01 * static_cast<double>(most.micros));
}

ProviderMachineId rent(SimBench& b, const Offer& offer) {
    const auto out = b.provider().launch(launch_request(offer, 1));
    REQUIRE_MESSAGE(!out.error, (out.error ? out.error->message : ""));
    return out.id;
}

/// Reads until the presence is another than booting and running, at most ten minutes of the bench's time. A
/// machine that was made just now may not be readable yet (providers/vastai.md 4.4): that is not a change.
ProviderMachine changed(SimBench& b, const ProviderMachineId& id) {
    bool appeared = false;
    for (int i = 0; i < 200; ++i) {
        const auto m = b.provider().read(id);
        const bool up = m && (m->presence == Presence::running || m->presence == Presence::booting);
        appeared = appeared || up;
        if (m && !up && (appeared || m->presence != Presence::gone)) return *m;
        b.pass(Seconds{3});
    }
    const auto m = b.provider().read(id);
    REQUIRE(m);
    return *m;
}

}  // namespace

TEST_CASE("the RunPod adapter keeps the contract against the simulator, observed profile") {
    check_conformance([]() -> std::unique_ptr<Bench> {
        return std::make_unique<SimBench>(SimSetup{.provider = "runpod"});
    });
}

TEST_CASE("the RunPod adapter keeps the contract against the simulator, documented profile") {
    check_conformance([]() -> std::unique_ptr<Bench> {
        return std::make_unique<SimBench>(SimSetup{.provider = "runpod", .profile = "documented"});
    });
}

TEST_CASE("the Vast.ai adapter keeps the contract against the simulator") {
    check_conformance([]() -> std::unique_ptr<Bench> {
        return std::make_unique<SimBench>(SimSetup{.provider = "vastai"});
    });
}

TEST_CASE("the Lambda adapter keeps the contract against the simulator, observed profile") {
    check_conformance([]() -> std::unique_ptr<Bench> {
        return std::make_unique<SimBench>(SimSetup{.provider = "lambda"});
    });
}

TEST_CASE("the Lambda adapter keeps the contract against the simulator, documented profile") {
    check_conformance([]() -> std::unique_ptr<Bench> {
        return std::make_unique<SimBench>(SimSetup{.provider = "lambda", .profile = "documented"});
    });
}

TEST_CASE("the Vultr adapter keeps the contract against the simulator, observed profile") {
    check_conformance([]() -> std::unique_ptr<Bench> {
        return std::make_unique<SimBench>(SimSetup{.provider = "vultr"});
    });
}

TEST_CASE("the Vultr adapter keeps the contract against the simulator, documented profile") {
    check_conformance([]() -> std::unique_ptr<Bench> {
        return std::make_unique<SimBench>(SimSetup{.provider = "vultr", .profile = "documented"});
    });
}

TEST_CASE("what RunPod is said to bill is what the simulator bills") {
    SimBench b({.provider = "runpod", .scale = 3600});
    rates_are_what_is_billed(b);
}

TEST_CASE("what Vast.ai is said to bill is what the simulator bills") {
    SimBench b({.provider = "vastai", .scale = 3600});
    rates_are_what_is_billed(b);
}

TEST_CASE("what Lambda is said to bill is what the simulator bills, by the minute") {
    SimBench b({.provider = "lambda", .scale = 3600});
    rates_are_what_is_billed(b, std::chrono::minutes{1});
}

TEST_CASE("what Vultr is said to bill is what the simulator bills, by the hour") {
    SimBench b({.provider = "vultr", .scale = 3600});
    rates_are_what_is_billed(b, std::chrono::hours{1});
}

TEST_CASE("a bid of Vast.ai runs as a bid at the price that was offered") {
    SimBench b({.provider = "vastai"});
    const auto offer = spot_offer(b);
    const auto out = b.provider().launch(launch_request(offer, 1));
    REQUIRE_MESSAGE(!out.error, (out.error ? out.error->message : ""));
    const auto m = running(b, out.id);
    REQUIRE(m);
    CHECK(m->spot);
    CHECK(m->gpu_rate == offer.gpu_rate);
    CHECK(!m->outbid);
}

TEST_CASE("a bid of Vast.ai that is too low leaves a machine, and the outcome names it") {
    SimBench b({.provider = "vastai"});
    auto request = launch_request(spot_offer(b), 1);
    request.bid = UsdPerHour{1'000};
    const auto out = b.provider().launch(request);
    REQUIRE(out.error);
    CHECK(!out.id.empty());
    CHECK(b.machines() == 1);
    b.pass(Seconds{60});
    REQUIRE(b.provider().destroy(out.id));
    bool gone = false;
    for (int i = 0; i < 100 && !gone; ++i) {
        b.pass(Seconds{3});
        const auto m = b.provider().read(out.id);
        gone = m && m->presence == Presence::gone;
    }
    CHECK(gone);
    CHECK(b.machines() == 0);
}

TEST_CASE("an offer of Vast.ai that is gone is a clean refusal") {
    SimBench b({.provider = "vastai"});
    const auto offer = b.some_offer();
    REQUIRE(!b.provider().launch(launch_request(offer, 1)).error);
    const auto again = b.provider().launch(launch_request(offer, 2));
    REQUIRE(again.error);
    CHECK(again.error->kind == ErrorKind::no_capacity);
    CHECK(again.id.empty());
    CHECK(b.machines() == 1);
}

TEST_CASE("the balances are read") {
    for (const std::string provider : {"runpod", "vastai", "vultr"}) {
        CAPTURE(provider);
        SimBench b({.provider = provider});
        const auto out = b.provider().balance();
        REQUIRE(out);
        CHECK(out->micros == 100'000'000);
    }
}

TEST_CASE("the pace of the adapter is within Vast.ai's intervals as the simulator enforces them") {
    SimBench b({.provider = "vastai", .scale = 10, .intervals = true});
    const auto offer = b.some_offer();
    const auto out = b.provider().launch(launch_request(offer, 1));
    REQUIRE_MESSAGE(!out.error, (out.error ? out.error->message : ""));
    for (int i = 0; i < 4; ++i) {
        const auto listing = b.provider().list();
        REQUIRE_MESSAGE(listing, (listing ? "" : listing.error().message));
        const auto m = b.provider().read(out.id);
        REQUIRE_MESSAGE((m || m.error().kind == ErrorKind::malformed), (m ? "" : m.error().message));
    }
    REQUIRE(b.provider().offers({.spot = false}));
    for (int i = 0; i < 3; ++i) {
        const auto destroyed = b.provider().destroy(out.id);
        REQUIRE_MESSAGE(destroyed, (destroyed ? "" : destroyed.error().message));
    }
}

TEST_CASE("D04: a bid that is taken back is seen as stopped, paying for its disk alone") {
    SimBench b({.provider = "vastai"});
    const auto id = rent(b, spot_offer(b));
    const auto before = running(b, id);
    REQUIRE(before);
    b.tell("take_back", {{"for_s", 3600}}, id);
    const auto m = changed(b, id);
    CHECK(m.presence == Presence::stopped);
    CHECK(m.spot);
    CHECK(m.gpu_rate == UsdPerHour{0});
    CHECK(m.disk_rate == before->disk_rate);
    const auto listing = b.provider().list();
    REQUIRE(listing);
    REQUIRE(listing->machines.size() == 1);
    CHECK(listing->machines[0].presence == Presence::stopped);
}

TEST_CASE("a bid below a floor that has risen says that it was outbid") {
    SimBench b({.provider = "vastai"});
    const auto offer = spot_offer(b);
    const auto id = rent(b, offer);
    REQUIRE(running(b, id));
    b.tell("market",
           {{"set", {{"host", std::stoll(offer.host_id)}, {"floor_per_gpu", 5.0}, {"existing", true}}}});
    const auto m = changed(b, id);
    CHECK(m.presence == Presence::stopped);
    CHECK(m.outbid);
}

TEST_CASE("a pod that its host stopped is stopped and free, whatever its price says") {
    for (const std::string profile : {"observed", "documented"}) {
        CAPTURE(profile);
        SimBench b({.provider = "runpod", .profile = profile});
        const auto id = rent(b, b.some_offer());
        REQUIRE(running(b, id));
        b.tell("take_back", {{"for_s", 3600}}, id);
        const auto m = changed(b, id);
        CHECK(m.presence == Presence::stopped);
        CHECK(m.gpu_rate == UsdPerHour{0});
        CHECK(m.disk_rate == UsdPerHour{0});
        const auto from = billed(b);
        b.pass(std::chrono::hours{1});
        CHECK(billed(b) == from);  // the simulator's books agree
    }
}

TEST_CASE("what befalls a host is seen as what it is") {
    const struct {
        std::string provider;
        std::string mode;
        Presence presence;
        bool gpu_billed;
    } rows[] = {
        {"vastai", "offline", Presence::unknown, false}, {"vastai", "unknown", Presence::unknown, true},
        {"vastai", "stop", Presence::stopped, false},    {"runpod", "stop", Presence::stopped, false},
        {"runpod", "error", Presence::failed, true},     {"vastai", "freeze", Presence::failed, true},
    };
    for (const auto& row : rows) {
        CAPTURE(row.provider);
        CAPTURE(row.mode);
        SimBench b({.provider = row.provider});
        const auto id = rent(b, b.some_offer());
        REQUIRE(running(b, id));
        b.tell("host_fail", {{"mode", row.mode}}, id);
        const auto m = changed(b, id);
        CHECK(m.presence == row.presence);
        REQUIRE(m.gpu_rate);
        CHECK((m.gpu_rate->micros > 0) == row.gpu_billed);
        REQUIRE(b.provider().destroy(id));
    }
}

TEST_CASE("a host that cannot start containers is told from one that is slow") {
    const struct {
        std::string fails;
        Presence presence;
    } rows[] = {{"docker_fails", Presence::failed}, {"never_runs", Presence::booting}};
    for (const auto& row : rows) {
        CAPTURE(row.fails);
        SimBench b({.provider = "vastai"});
        const auto host = b.some_offer().host_id;
        b.tell("market", {{"set", {{"host", std::stoll(host)}, {"fails", row.fails}}}});
        // Asks are short-lived: the host's offers are listed anew, under other numbers.
        const auto list = b.provider().offers({.gpu_counts = {1}, .spot = false});
        REQUIRE(list);
        const auto offer = std::ranges::find(list->offers, host, &Offer::host_id);
        REQUIRE(offer != list->offers.end());
        const auto m = changed(b, rent(b, *offer));
        CHECK(m.presence == row.presence);
        CHECK(m.gpu_rate == UsdPerHour{0});
    }
}

TEST_CASE("a market that is sold out meanwhile refuses cleanly") {
    SimBench b({.provider = "runpod"});
    const auto offer = b.some_offer();
    for (const auto& host : b.market().at("hosts"))
        if (host.at("provider") == "runpod")
            b.tell("market", {{"set", {{"host", host.at("id")}, {"online", false}}}});
    const auto out = b.provider().launch(launch_request(offer, 1));
    REQUIRE(out.error);
    CHECK(out.error->kind == ErrorKind::no_capacity);
    CHECK(out.id.empty());
    CHECK(b.machines() == 0);
}

TEST_CASE("an empty account refuses cleanly at both") {
    for (const std::string provider : {"runpod", "vastai"}) {
        CAPTURE(provider);
        SimBench b({.provider = provider});
        const auto offer = b.some_offer();
        b.tell("balance", {{"provider", provider}, {"usd", 0.0}});
        const auto out = b.provider().launch(launch_request(offer, 1));
        REQUIRE(out.error);
        CHECK(out.error->kind == ErrorKind::no_money);
        CHECK(b.machines() == 0);
    }
}

TEST_CASE("faults that the simulator plays by itself are read as what they are") {
    const struct {
        std::string provider;
        std::string path;
        nlohmann::json rule;
        ErrorKind kind;
    } rows[] = {
        {"vastai", "^/api/v1/instances", {{"action", "null_instances"}}, ErrorKind::malformed},
        {"vastai", "^/api/v1/instances", {{"action", "truncate_json"}}, ErrorKind::malformed},
        {"vastai", "^/api/v1/instances", {{"action", "cut_after_effect"}}, ErrorKind::unavailable},
        {"vastai",
         "^/api/v1/instances",
         {{"action", "html"}},
         ErrorKind::malformed},  // 403 with a page, and no word of Vast.ai's
        {"runpod", "^/v2/pods", {{"action", "truncate_json"}}, ErrorKind::malformed},
        {"runpod", "^/v2/pods", {{"action", "html"}}, ErrorKind::unavailable},
        {"runpod", "^/v2/pods", {{"action", "cut_before"}}, ErrorKind::unavailable},
        {"runpod",
         "^/v2/pods",
         {{"action", "status"}, {"status", 410}, {"body", "Gone"}},
         ErrorKind::api_retired},
    };
    for (const auto& row : rows) {
        CAPTURE(row.provider);
        CAPTURE(row.rule.dump());
        SimBench b({.provider = row.provider});
        rent(b, b.some_offer());
        b.pass(Seconds{30});
        auto rule = row.rule;
        rule["provider"] = row.provider;
        rule["match"] = {{"method", "GET"}, {"path", row.path}};
        b.tell("faults", rule);
        const auto listing = b.provider().list();
        REQUIRE(!listing);
        CHECK(listing.error().kind == row.kind);
    }
}

TEST_CASE("a waiting job sees what fits behind any number of cheaper rows, in one search per kind") {
    SimBench b({.provider = "vastai"});
    auto hosts = nlohmann::json::array();
    const auto add = [&](std::int64_t id, const char* gpu, double price, const char* place) {
        hosts.push_back({{"provider", "vastai"}, {"id", id}, {"gpu", gpu}, {"gpus", 1}, {"price_per_gpu", price},
                         {"floor_per_gpu", price / 2}, {"storage_per_gb_month", 0.1}, {"geolocation", place},
                         {"verified", true}, {"reliability", 0.99}, {"disk_gb", 500}, {"cpu_cores", 32},
                         {"cpu_ram_mb", 128000}, {"lease_s", 7776000}, {"cuda", 13.0}});
    };
    for (std::int64_t i = 0; i < 100; ++i) add(5000 + i, "RTX-3090", 0.10 + 0.001 * static_cast<double>(i), "Utah, US");
    for (std::int64_t i = 0; i < 70; ++i) add(6000 + i, "RTX-4090", 0.30 + 0.001 * static_cast<double>(i), "Ohio, US");
    add(7000, "RTX-4090", 0.90, "Munich, DE");
    add(7001, "RTX-4090", 0.95, "Munich, DE");
    b.tell("market", {{"hosts", hosts}});
    const auto before = b.sent().size();
    const auto list = b.provider().offers({.gpu_counts = {1},
                                           .demands = {.gpus = {"vastai:RTX 4090"},
                                                       .regions = {"EU"},
                                                       .vram_min = Bytes{22 * kGiB},
                                                       .memory_min = Bytes{64 * kGB},
                                                       .cpus_min = 16,
                                                       .reliability_min = 0.98,
                                                       .lease_min = std::chrono::hours{2},
                                                       .cuda_min = "12.6"},
                                           .look = Look::wanted});
    REQUIRE(list);
    CHECK(b.sent().size() - before == 2);
    CHECK(list->reads.size() == 2);
    REQUIRE(list->offers.size() == 4);  // both machines in both ways
    for (const auto& offer : list->offers) CHECK(offer.country == "DE");
    const auto none = b.provider().offers(
        {.gpu_counts = {1}, .demands = {.gpus = {"vastai:RTX 4090"}, .reliability_min = 0.999}, .look = Look::wanted});
    REQUIRE(none);
    CHECK(none->offers.empty());
}
