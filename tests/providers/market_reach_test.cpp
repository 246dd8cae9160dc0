// How far an answer says that it went: what is missing in it counts as gone no further than that (scheduler/market_book.hpp).
#include <doctest/doctest.h>

#include <algorithm>

#include "cloud_bench.hpp"

using namespace gf;
using gf::test::Received;
using nlohmann::json;

namespace {

const MarketReach* line(const OfferList& list, int count, bool spot, std::string_view card, std::string_view place = {}) {
    const auto it = std::ranges::find_if(list.reaches, [&](const MarketReach& r) {
        return r.gpu_count == count && r.spot == spot && r.card == card && r.place == place;
    });
    return it == list.reaches.end() ? nullptr : &*it;
}

json asks_of(const std::string& name, int from, int rows, double price, double step) {
    json out = json::array();
    for (int i = 0; i < rows; ++i) out.push_back(gf::test::vast_ask(from + i, name, price + i * step));
    return out;
}

}  // namespace

TEST_CASE("Vast.ai: an answer of less than 64 rows is whole, a full one reaches up to its last row") {
    gf::test::VastBench b;
    struct Row {
        const char* what;
        int rows;
        Look look;
        bool whole;
    };
    for (const Row& row : {Row{"few", 10, Look::wanted, true}, Row{"one less than all", 63, Look::wanted, true},
                           Row{"full", 64, Look::wanted, false}, Row{"more than fit", 90, Look::wanted, false}}) {
        CAPTURE(row.what);
        b.world.asks = asks_of("RTX 3060", 100, row.rows, 0.05, 0.001);
        const auto list = b.provider().offers({.gpu_counts = {1}, .spot = false, .look = row.look});
        REQUIRE(list);
        const auto* reach = line(*list, 1, false, "");
        REQUIRE(reach != nullptr);
        if (row.whole) {
            CHECK(!reach->up_to);
            CHECK(list->reaches.size() == 1);
            continue;
        }
        REQUIRE(reach->up_to);
        // The last of the 64 costs 0.05 + 63 * 0.001 and all disks cost the same.
        CHECK(reach->up_to->micros == 113'000);
        const auto* card = line(*list, 1, false, "vastai:RTX 3060");
        REQUIRE(card != nullptr);
        CHECK(card->up_to == reach->up_to);
    }
}

TEST_CASE("Vast.ai: a dear disk in the answer takes from its reach") {
    gf::test::VastBench b;
    b.world.asks = asks_of("RTX 3060", 100, 64, 0.05, 0.001);
    b.world.asks[3]["storage_cost"] = 3.6;  // 20 GB at 0.005 dollars an hour each
    const auto list = b.provider().offers({.gpu_counts = {1}, .disk_gb = 20, .spot = false, .look = Look::wanted});
    REQUIRE(list);
    const auto* reach = line(*list, 1, false, "");
    REQUIRE(reach != nullptr);
    REQUIRE(reach->up_to);
    CHECK(reach->up_to->micros < 113'000 - 90'000);
}

TEST_CASE("Vast.ai: rounds reach differently for the cards that they bring") {
    gf::test::VastBench b;
    b.world.asks = asks_of("RTX 3060", 100, 70, 0.05, 0.0001);
    for (const auto& part : {asks_of("RTX 3090", 300, 70, 0.10, 0.0001), asks_of("H100 SXM", 900, 1, 2.0, 0)})
        for (const auto& ask : part) b.world.asks.push_back(ask);
    const auto list = b.provider().offers({.gpu_counts = {1}, .spot = false});
    REQUIRE(list);
    const auto* small = line(*list, 1, false, "vastai:RTX 3060");
    const auto* middle = line(*list, 1, false, "vastai:RTX 3090");
    const auto* others = line(*list, 1, false, "");
    REQUIRE(small != nullptr);
    REQUIRE(middle != nullptr);
    REQUIRE(others != nullptr);
    CHECK(small->up_to == UsdPerHour{56'300});
    CHECK(middle->up_to == UsdPerHour{106'300});
    CHECK(!others->up_to);
    CHECK(line(*list, 1, false, "vastai:H100 SXM") == nullptr);
}

TEST_CASE("Vast.ai: a name that was left out leaves out each size that it can stand for") {
    gf::test::VastBench b;
    b.world.asks = asks_of("A100 SXM4", 100, 64, 0.50, 0.001);
    for (auto& ask : b.world.asks) ask["gpu_ram"] = 40'960;
    auto large = gf::test::vast_ask(900, "A100 SXM4", 2.0);
    large["gpu_ram"] = 81'920;
    b.world.asks.push_back(large);
    b.world.asks.push_back(gf::test::vast_ask(901, "H100 SXM", 3.0));
    const GpuLookup by_size = [](std::string_view, std::string_view name, std::optional<Bytes> memory) -> std::optional<std::string> {
        if (name != "A100 SXM4") return std::string(name);
        if (!memory) return std::nullopt;
        return memory->count > 60 * kGiB ? "A100-80" : "A100-40";
    };
    auto set = make_providers(gf::test::setup_for(b.world, b.server.url()), b.hand, by_size).value();
    const auto list = set.providers.front()->offers({.gpu_counts = {1}, .spot = false});
    REQUIRE(list);
    CHECK(list->offers.size() == 65);
    const auto* small = line(*list, 1, false, "A100-40");
    const auto* unseen = line(*list, 1, false, "A100-80");
    REQUIRE(small != nullptr);
    REQUIRE(unseen != nullptr);
    CHECK(small->up_to == UsdPerHour{563'000});
    CHECK(unseen->up_to == small->up_to);
    REQUIRE(line(*list, 1, false, "") != nullptr);
    CHECK(!line(*list, 1, false, "")->up_to);
}

TEST_CASE("RunPod: of a cloud that is closed nothing was shown, of the other one all was") {
    gf::test::RunpodBench b;
    b.script([&](const Received& r) {
        return r.target.find("cloud=SECURE") != std::string::npos ? gf::test::problem(403, "access denied") : b.world.answer(r);
    });
    auto setup = gf::test::setup_for(b.world, b.server.url());
    setup.runpod.clouds = {"secure", "community"};
    const auto both = make_providers(setup, b.hand, gf::test::plain_lookup());
    REQUIRE(both);
    const auto list = both->providers.front()->offers({.gpu_counts = {1, 2}});
    REQUIRE(list);
    for (const int count : {1, 2}) {
        CAPTURE(count);
        const auto* closed = line(*list, count, false, "", "cloud/secure");
        REQUIRE(closed != nullptr);
        CHECK(closed->up_to == UsdPerHour{0});
        CHECK(line(*list, count, false, "", "cloud/community") == nullptr);
    }
}

TEST_CASE("Vultr: of a region whose stock cannot be read nothing was shown") {
    gf::test::VultrBench b;
    b.script([&](const Received& r) {
        return r.path() == "/v2/regions/ewr/availability" ? gf::test::vultr_error(500, "x") : b.world.answer(r);
    });
    const auto list = b.provider().offers({.gpu_counts = {1}, .look = Look::wanted});
    REQUIRE(list);
    const auto* region = line(*list, 1, false, "", "data_center/ewr");
    REQUIRE(region != nullptr);
    CHECK(region->up_to == UsdPerHour{0});
    CHECK(line(*list, 1, false, "", "data_center/fra") == nullptr);
}
