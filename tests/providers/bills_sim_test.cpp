// RunPod and Vast.ai in the simulator, beside renting: bids that are raised, names, and the providers' own
// books.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

#include "sim_bench.hpp"

using namespace gf;
using gf::test::launch_request;
using gf::test::SimBench;

namespace {

Offer offer_of(SimBench& b, bool spot) {
    const auto list = b.provider().offers({.gpu_counts = {1}, .on_demand = !spot, .spot = spot});
    REQUIRE_MESSAGE(list, (list ? "" : list.error().message));
    const auto it = std::ranges::find_if(list->offers, [](const Offer& o) { return o.stock != 0; });
    REQUIRE(it != list->offers.end());
    return *it;
}

ProviderMachineId rent(SimBench& b, const Offer& offer) {
    const auto out = b.provider().launch(launch_request(offer, 1));
    REQUIRE_MESSAGE(!out.error, (out.error ? out.error->message : ""));
    return out.id;
}

/// Reads until it is so, at most ten minutes of the bench's time.
template <class Holds>
ProviderMachine seen(SimBench& b, const ProviderMachineId& id, Holds holds) {
    for (int i = 0; i < 200; ++i) {
        if (const auto m = b.provider().read(id); m && holds(*m)) return *m;
        b.pass(Seconds{3});
    }
    FAIL("it never came to that");
    return {};
}

std::int64_t billed(SimBench& b) {
    return b.bill().at("total_micros").get<std::int64_t>();
}

}  // namespace

TEST_CASE("a bid of Vast.ai that is raised above a risen floor runs again, at the new price") {
    SimBench b({.provider = "vastai"});
    const auto offer = offer_of(b, true);
    const auto id = rent(b, offer);
    seen(b, id, [](const auto& m) { return m.presence == Presence::running; });
    const auto floor = 2 * static_cast<double>(offer.gpu_rate.micros) / 1e6;
    b.tell("market",
           {{"set", {{"host", std::stoll(offer.host_id)}, {"floor_per_gpu", floor}, {"existing", true}}}});
    const auto lost = seen(b, id, [](const auto& m) { return m.outbid; });
    REQUIRE(lost.spot_floor.has_value());
    CHECK(*lost.spot_floor > offer.gpu_rate);
    const UsdPerHour bid{lost.spot_floor->micros * 11 / 10 / 100 * 100};
    REQUIRE(b.provider().raise_bid(id, bid));
    const auto back = seen(b, id, [](const auto& m) { return m.presence == Presence::running; });
    CHECK(back.gpu_rate == bid);
    CHECK(!back.outbid);
    CHECK(b.machines() == 1);
}

TEST_CASE("the books that the adapters read are the simulator's bill") {
    for (const std::string provider : {"runpod", "vastai"}) {
        CAPTURE(provider);
        SimBench b({.provider = provider, .scale = 3600});
        const auto request = launch_request(offer_of(b, false), 1);
        const auto out = b.provider().launch(request);
        REQUIRE_MESSAGE(!out.error, (out.error ? out.error->message : ""));
        const auto m = seen(b, out.id, [](const auto& now) { return now.presence == Presence::running; });
        REQUIRE(m.created_at.has_value());  // the simulator reads another date than the bench's clock
        b.pass(std::chrono::hours{5});
        REQUIRE(b.provider().destroy(out.id));
        seen(b, out.id, [](const auto& now) { return now.presence == Presence::gone; });
        b.pass(std::chrono::hours{2});  // records may lag
        const auto charges = b.provider().charges(*m.created_at - std::chrono::hours{2},
                                                  *m.created_at + std::chrono::hours{48});
        REQUIRE_MESSAGE(charges, (charges ? "" : charges.error().message));
        std::int64_t sum = 0;
        for (const auto& c : *charges) {
            CHECK(c.machine == out.id);
            if (!c.tag.empty()) CHECK(c.tag == request.tag.get());
            sum += c.amount.micros;
        }
        const auto bill = billed(b);
        CAPTURE(sum);
        CAPTURE(bill);
        CHECK(bill > 0);
        CHECK(static_cast<double>(sum) >= 0.99 * static_cast<double>(bill));
        CHECK(static_cast<double>(sum) <= 1.01 * static_cast<double>(bill));
    }
}
