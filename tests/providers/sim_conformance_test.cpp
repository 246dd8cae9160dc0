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

std::int64_t billed(SimBench& b) { return b.bill().at("total_micros").get<std::int64_t>(); }

/// What the adapter says is billed against the simulator's own books, over some hours.
void rates_are_what_is_billed(SimBench& b) {
    const auto out = b.provider().launch(launch_request(b.some_offer(), 1));
    REQUIRE_MESSAGE(!out.error, (out.error ? out.error->message : ""));
    const auto m = running(b, out.id);
    REQUIRE(m);
    REQUIRE(m->gpu_rate);
    REQUIRE(m->disk_rate);
    const auto before = billed(b);
    const auto from = b.clock().now();
    b.pass(std::chrono::hours{3});
    const auto after = billed(b);
    const auto expected = cost(*m->gpu_rate + *m->disk_rate, b.clock().now() - from);
    CAPTURE(expected.micros);
    CAPTURE(after - before);
    CHECK(std::abs(static_cast<double>(expected.micros - (after - before))) <= 0.01 * static_cast<double>(expected.micros));
}

}  // namespace

TEST_CASE("the RunPod adapter keeps the contract against the simulator, observed profile") {
    check_conformance([]() -> std::unique_ptr<Bench> { return std::make_unique<SimBench>(SimSetup{.provider = "runpod"}); });
}

TEST_CASE("the RunPod adapter keeps the contract against the simulator, documented profile") {
    check_conformance([]() -> std::unique_ptr<Bench> { return std::make_unique<SimBench>(SimSetup{.provider = "runpod", .profile = "documented"}); });
}

TEST_CASE("the Vast.ai adapter keeps the contract against the simulator") {
    check_conformance([]() -> std::unique_ptr<Bench> { return std::make_unique<SimBench>(SimSetup{.provider = "vastai"}); });
}

TEST_CASE("what RunPod is said to bill is what the simulator bills") {
    SimBench b({.provider = "runpod", .scale = 3600});
    rates_are_what_is_billed(b);
}

TEST_CASE("what Vast.ai is said to bill is what the simulator bills") {
    SimBench b({.provider = "vastai", .scale = 3600});
    rates_are_what_is_billed(b);
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
    for (const std::string provider : {"runpod", "vastai"}) {
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
