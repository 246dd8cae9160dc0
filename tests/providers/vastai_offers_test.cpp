#include <doctest/doctest.h>

#include <algorithm>

#include "cloud_bench.hpp"
#include "providers/vastai/mapping.hpp"

using namespace gf;
using gf::test::Received;
using gf::test::vast_ask;
using gf::test::VastBench;
using nlohmann::json;
using Sent = gf::test::Answer;

namespace {

const Offer* find(const OfferList& list, std::string_view id) {
    const auto it = std::ranges::find(list.offers, id, &Offer::id);
    return it == list.offers.end() ? nullptr : &*it;
}

std::string reason(const OfferList& list, std::string_view id) {
    const auto it = std::ranges::find(list.rejected, id, &RejectedOffer::id);
    return it == list.rejected.end() ? "" : it->reason;
}

}  // namespace

TEST_CASE("Vast.ai: asks become offers, and what cannot be one says why") {
    VastBench b;
    auto& asks = b.world.asks;
    asks = json::array();
    const auto add = [&](std::int64_t id, json changes) {
        asks.push_back(vast_ask(id, "RTX 4090", 0.37));
        asks.back().merge_patch(changes);
        for (const auto& item : changes.items())
            if (item.value().is_null()) asks.back()[item.key()] = nullptr;
    };
    add(1, json::object());
    add(2, {{"dph_base", nullptr}, {"dph_total", 0.62}, {"min_bid", 0.01}});  // B02
    add(3, {{"dph_base", nullptr}, {"dph_total", "0.39"}});
    add(4, {{"dph_total", nullptr}});
    add(5, {{"dph_total", 0}});
    add(6, {{"dph_total", ""}});
    add(7, {{"dph_total", -1}});
    add(8, {{"dph_total", "NaN"}});
    add(9, {{"dph_total", "HUGE"}});
    add(10, {{"dph_base", 0}, {"dph_total", 0.4}});
    add(11, {{"geolocation", nullptr}, {"cpu_cores", nullptr}, {"cpu_cores_effective", 0}});  // B09
    add(12, {{"gpu_name", "NVIDIA"}, {"gpu_ram", 0}});                                        // C06
    add(13, {{"duration", 7200.0}});                                                          // B08
    add(14, {{"duration", nullptr}, {"end_date", unix_millis(gf::test::kStart) / 1000 + 3600}});
    add(15, {{"duration", 7200.0}, {"end_date", 1764480000.0}});  // another clock's past
    add(16, {{"rentable", false}});
    add(17, {{"external", true}});
    add(18, {{"verification", "unverified"}});
    add(19, {{"storage_cost", -0.1}});
    add(20, {{"inet_down_cost", "x"}});
    add(21, {{"gpu_name", nullptr}});
    add(22, {{"dph_base", {{"a", 1}}}});
    add(23, {{"geolocation", ", US"}, {"cpu_arch", "aarch64"}, {"cuda_max_good", 13}});
    add(24, {{"storage_cost", nullptr}, {"dph_base", nullptr}, {"dph_total", 0.5}});
    b.script([&](const Received& r) {
        auto answer = b.world.answer(r);
        for (auto at = answer.body.find("\"HUGE\""); at != std::string::npos;
             at = answer.body.find("\"HUGE\""))
            answer.body.replace(at, 6, "1e309");
        return answer;
    });
    const auto list = b.provider().offers({.gpu_counts = {1}, .disk_gb = 60, .spot = false});
    REQUIRE(list);
    const auto* one = find(*list, "on_demand/1");
    REQUIRE(one != nullptr);
    CHECK(one->gpu_rate.micros == 370'000);
    CHECK(one->disk_micros_per_gb_month == 150'000);
    CHECK(disk_rate(*one, 60).micros == 12'500);  // 60 GB * 0.15 / 720, as in the documentation's example
    CHECK(one->traffic_up_micros_per_gb == 4'400);
    CHECK(one->traffic_down_micros_per_gb == 1'800);
    CHECK(one->gpu.memory == Bytes{24'564 * kMiB});
    CHECK(one->gpu.canonical == "vastai:RTX 4090");
    CHECK(one->cpus == 16.0);
    CHECK(one->memory == Bytes{64'477 * 1'000'000LL});  // 515820 MB * 16 / 128
    CHECK(one->disk_max == Bytes{843 * kGB});
    CHECK(one->region == "Oregon, US");
    CHECK(one->country == "US");
    CHECK(one->reliability == 0.9964);
    CHECK(one->cuda_max == "13.0");
    CHECK(one->driver == "580.95.05");
    CHECK(one->host_id == "31001");
    CHECK(one->verified == true);
    CHECK(one->lease_end == gf::test::kStart + Seconds{7'776'000});
    CHECK(one->exclusive);
    CHECK(!one->spot);
    CHECK(!one->spot_floor);
    const auto* b02 = find(*list, "on_demand/2");
    REQUIRE(b02 != nullptr);
    CHECK(b02->gpu_rate.micros + disk_rate(*b02, 60).micros == 620'000);
    REQUIRE(find(*list, "on_demand/3") != nullptr);
    CHECK(find(*list, "on_demand/3")->gpu_rate.micros + 12'500 == 390'000);
    CHECK(reason(*list, "on_demand/4") == "price_missing");
    CHECK(reason(*list, "on_demand/5") == "price_zero");
    CHECK(reason(*list, "on_demand/6") == "price_empty");
    CHECK(reason(*list, "on_demand/7") == "price_negative");
    CHECK(reason(*list, "on_demand/8") == "price_not_finite");
    CHECK(reason(*list, "on_demand/9") == "price_too_large");
    CHECK(reason(*list, "on_demand/10") == "price_zero");
    const auto* b09 = find(*list, "on_demand/11");
    REQUIRE(b09 != nullptr);
    CHECK(b09->country.empty());
    CHECK(b09->region.empty());
    CHECK(!b09->cpus);
    CHECK(!b09->memory);
    const auto* c06 = find(*list, "on_demand/12");
    REQUIRE(c06 != nullptr);
    CHECK(c06->gpu.canonical.empty());
    CHECK(!c06->gpu.memory);
    CHECK(find(*list, "on_demand/13")->lease_end == gf::test::kStart + Seconds{7'200});
    CHECK(find(*list, "on_demand/14")->lease_end == gf::test::kStart + Seconds{3'600});
    CHECK(find(*list, "on_demand/15")->lease_end == gf::test::kStart + Seconds{7'200});
    CHECK(reason(*list, "on_demand/16") == "not_rentable");
    CHECK(reason(*list, "on_demand/17") == "brokered");
    CHECK(reason(*list, "on_demand/18") == "not_verified");
    CHECK(reason(*list, "on_demand/19") == "disk_price_negative");
    CHECK(reason(*list, "on_demand/20") == "traffic_price_not_a_number");
    CHECK(reason(*list, "on_demand/21") == "gpu_name_missing");
    CHECK(reason(*list, "on_demand/22") == "malformed");
    const auto* arm = find(*list, "on_demand/23");
    REQUIRE(arm != nullptr);
    CHECK(arm->country == "US");
    CHECK(arm->arch == "arm64");
    CHECK(arm->cuda_max == "13.0");
    REQUIRE(find(*list, "on_demand/24") != nullptr);
    CHECK(find(*list, "on_demand/24")->gpu_rate.micros == 500'000);
}

TEST_CASE("B06: the dear disk makes the cheap offer the dear one") {
    VastBench b;
    b.world.asks = {vast_ask(1, "RTX 4090", 0.30), vast_ask(2, "RTX 4090", 0.38)};
    b.world.asks[0]["storage_cost"] = 0.60;
    b.world.asks[1]["storage_cost"] = 0.10;
    const auto list = b.provider().offers({.gpu_counts = {1}, .disk_gb = 200, .spot = false});
    REQUIRE(list);
    const auto all_in = [&](const char* id) {
        return find(*list, id)->gpu_rate.micros + disk_rate(*find(*list, id), 200).micros;
    };
    CHECK(all_in("on_demand/1") == 300'000 + 166'667);
    CHECK(all_in("on_demand/2") == 380'000 + 27'778);
}

TEST_CASE(
    "C01, C03: names pass through as the provider spells them, with the memory that tells variants apart") {
    VastBench b;
    b.world.asks = json::array();
    const std::vector<std::pair<std::string, int>> cards{{"RTX 4090", 24564},        {"RTX 4090D", 24564},
                                                         {"RTX 4090 Laptop", 16376}, {"A100 PCIE", 40960},
                                                         {"A100 SXM4", 81920},       {"A100X", 81920}};
    for (std::size_t i = 0; i < cards.size(); ++i) {
        b.world.asks.push_back(vast_ask(static_cast<std::int64_t>(i) + 1, cards[i].first, 0.5));
        b.world.asks.back()["gpu_ram"] = cards[i].second;
    }
    const auto list = b.provider().offers({.gpu_counts = {1}, .spot = false});
    REQUIRE(list);
    REQUIRE(list->offers.size() == cards.size());
    for (std::size_t i = 0; i < cards.size(); ++i) {
        CHECK(list->offers[i].gpu.provider_name == cards[i].first);
        CHECK(list->offers[i].gpu.canonical == "vastai:" + cards[i].first);
        CHECK(list->offers[i].gpu.memory == Bytes{cards[i].second * kMiB});
    }
}

TEST_CASE("Vast.ai: bids carry their floor and stand above it") {
    VastBench b;
    b.world.asks = {vast_ask(1, "RTX 4090", 0.37), vast_ask(2, "RTX 4090", 0.37),
                    vast_ask(3, "RTX 4090", 0.37), vast_ask(4, "RTX 4090", 0.37)};
    b.world.asks[1]["min_bid"] = 0.0;
    b.world.asks[2]["min_bid"] = 0.0001;
    b.world.asks[3]["storage_cost"] = nullptr;
    b.script([&](const Received& r) {
        // Rows as the server makes them; the null must not stop the world's own arithmetic.
        auto copy = b.world.asks;
        for (auto& ask : copy) ask["is_bid"] = true;
        CHECK(json::parse(r.body)["type"] == "bid");
        return Sent{.body = json{{"offers", copy}}.dump()};
    });
    const auto list = b.provider().offers({.gpu_counts = {1}, .on_demand = false});
    REQUIRE(list);
    const auto* bid = find(*list, "bid/1");
    REQUIRE(bid != nullptr);
    CHECK(bid->spot);
    CHECK(bid->spot_floor == UsdPerHour{213'300});
    CHECK(bid->gpu_rate.micros == 234'700);  // 0.2133 and a tenth, up to whole 0.0001 $
    CHECK(reason(*list, "bid/2") == "min_bid_zero");
    REQUIRE(find(*list, "bid/3") != nullptr);
    CHECK(find(*list, "bid/3")->gpu_rate.micros == 1'000);
    CHECK(reason(*list, "bid/4") == "disk_price_missing");
}

TEST_CASE("Vast.ai: a search states all filters, in the server's spelling and with our disk") {
    VastBench b;
    REQUIRE(b.provider().offers({.gpu_counts = {2},
                                 .disk_gb = 100,
                                 .spot = false,
                                 .demands = {.gpus = {"vastai:RTX 4090", "vastai:H100 SXM"},
                                             .regions = {"EEA", "US"},
                                             .vram_min = Bytes{20 * kGiB + 5},
                                             .memory_min = Bytes{32 * kGB},
                                             .cpus_min = 8,
                                             .inet_down_min = 200.0,
                                             .reliability_min = 0.98,
                                             .lease_min = Seconds{4500},
                                             .cuda_min = "12.6"}}));
    const auto q = json::parse(b.server.received().back().body);
    CHECK(q["gpu_name"] == json{{"in", {"H100 SXM", "RTX 4090"}}});
    CHECK(q["geolocation"]["in"].size() == 31);  // the 30 of the EEA and US
    CHECK(std::ranges::count(q["geolocation"]["in"], json("NO")) == 1);
    CHECK(q["gpu_ram"] == json{{"gte", 20 * 1024}});
    CHECK(q["cpu_ram"] == json{{"gte", 32'000}});
    CHECK(q["cpu_cores_effective"] == json{{"gte", 8}});
    CHECK(q["reliability2"] == json{{"gte", 0.98}});
    CHECK(q["inet_down"] == json{{"gte", 200.0}});
    CHECK(q["duration"] == json{{"gte", 4500}});
    CHECK(q["cuda_max_good"] == json{{"gte", 12.6}});
    CHECK(q["num_gpus"] == json{{"eq", 2}});
    CHECK(q["verified"] == json{{"eq", true}});
    CHECK(q["external"] == json{{"eq", false}});
    CHECK(q["rentable"] == json{{"eq", true}});
    CHECK(q["rented"] == json{{"eq", false}});
    CHECK(q["disk_space"] == json{{"gte", 100}});
    CHECK(q["allocated_storage"] == 100);
    CHECK(q["type"] == "on-demand");
    CHECK(q["limit"] == 64);
}

TEST_CASE("Vast.ai: hosts that nobody has vetted are looked for, and offered, only to who takes them") {
    VastBench b;
    b.world.asks = json::array();
    for (const auto& [id, word] :
         std::vector<std::pair<int, json>>{{1, "verified"}, {2, "unverified"}, {3, "deverified"}, {4, nullptr}}) {
        b.world.asks.push_back(gf::test::vast_ask(id, "RTX 4090", 0.37));
        b.world.asks.back()["verification"] = word;
    }
    for (const bool unvetted : {false, true}) {
        CAPTURE(unvetted);
        const auto list = b.provider().offers({.gpu_counts = {1}, .spot = false, .demands = {.unvetted = unvetted}});
        REQUIRE(list);
        CHECK(json::parse(b.server.received().back().body).contains("verified") == !unvetted);
        REQUIRE(find(*list, "on_demand/1") != nullptr);
        CHECK(find(*list, "on_demand/1")->verified == true);
        for (const auto* id : {"on_demand/2", "on_demand/3"}) {
            CHECK((find(*list, id) != nullptr) == unvetted);
            if (unvetted)
                CHECK(find(*list, id)->verified == false);
            else
                CHECK(reason(*list, id) == "not_verified");
        }
        REQUIRE(find(*list, "on_demand/4") != nullptr);
        CHECK(!find(*list, "on_demand/4")->verified);  // not told: the filters' matter
    }
}

TEST_CASE("Vast.ai: the cap of 64 rows hides nothing that was asked for") {
    SUBCASE("by name: one search each when the common one is full") {
        VastBench b;
        b.world.asks = json::array();
        for (int i = 0; i < 70; ++i) b.world.asks.push_back(vast_ask(100 + i, "RTX 3060", 0.05));
        b.world.asks.push_back(vast_ask(900, "H100 SXM", 2.0));
        const auto list = b.provider().offers(
            {.gpu_counts = {1}, .spot = false, .demands = {.gpus = {"vastai:RTX 3060", "vastai:H100 SXM"}}});
        REQUIRE(list);
        CHECK(find(*list, "on_demand/900") != nullptr);
        CHECK(b.server.count("POST", "/api/v0/bundles/") == 3);
        CHECK(std::ranges::count(list->offers, "on_demand/100", &Offer::id) == 1);
    }
    SUBCASE("without names: further searches leave out the names seen") {
        VastBench b;
        b.world.asks = json::array();
        for (int i = 0; i < 70; ++i) b.world.asks.push_back(vast_ask(100 + i, "RTX 3060", 0.05));
        for (int i = 0; i < 70; ++i) b.world.asks.push_back(vast_ask(300 + i, "RTX 3090", 0.10));
        b.world.asks.push_back(vast_ask(900, "H100 SXM", 2.0));
        const auto list = b.provider().offers({.gpu_counts = {1}, .spot = false});
        REQUIRE(list);
        CHECK(find(*list, "on_demand/900") != nullptr);
        CHECK(b.server.count("POST", "/api/v0/bundles/") == 3);
    }
    SUBCASE("for a waiting job: one search of each kind, so that the answer is young") {
        VastBench b;
        b.world.asks = json::array();
        for (int i = 0; i < 70; ++i) b.world.asks.push_back(vast_ask(100 + i, "RTX 3060", 0.05));
        b.world.asks.push_back(vast_ask(900, "H100 SXM", 2.0));
        const auto list = b.provider().offers({.gpu_counts = {1}, .look = Look::wanted});
        REQUIRE(list);
        CHECK(b.server.count("POST", "/api/v0/bundles/") == 2);
        CHECK(list->reads.size() == 2);
    }
}

TEST_CASE("Vast.ai: wanted cards without a name here do not widen a search, and are none by themselves") {
    VastBench b;
    const OfferQuery some{.gpu_counts = {1}, .spot = false, .demands = {.gpus = {"vastai:RTX 4090", "B9000"}}, .look = Look::wanted};
    REQUIRE(b.provider().offers(some));
    CHECK(json::parse(b.server.received().back().body)["gpu_name"] == json{{"in", {"RTX 4090"}}});
    CHECK(b.server.count("POST", "/api/v0/bundles/") == 1);
    const auto none = b.provider().offers({.gpu_counts = {1, 2}, .demands = {.gpus = {"B9000"}}});
    REQUIRE(none);
    CHECK(none->offers.empty());
    CHECK(none->rejected.empty());
    CHECK(none->drift.empty());
    CHECK(b.server.count("POST", "/api/v0/bundles/") == 1);
}

TEST_CASE("Vast.ai: absurd prices and sizes are refused or unknown, and nothing overflows") {
    VastBench b;
    b.world.asks = {vast_ask(1, "RTX 4090", 0.37), vast_ask(2, "RTX 4090", 0.37), vast_ask(3, "RTX 4090", 10'001),
                    vast_ask(4, "RTX 4090", 0.37), vast_ask(5, "RTX 4090", 0.37)};
    b.world.asks[0]["storage_cost"] = 999'999'999;
    b.world.asks[0]["dph_total"] = 0.4;
    b.world.asks[1]["storage_cost"] = 101;
    b.world.asks[3]["disk_space"] = 1e300;
    b.world.asks[4]["inet_up_cost"] = 999'999'999;
    const auto list = b.provider().offers({.gpu_counts = {1}, .disk_gb = 10'000, .spot = false});
    REQUIRE(list);
    for (const char* id : {"on_demand/1", "on_demand/2", "on_demand/3", "on_demand/5"}) {
        CAPTURE(std::string(id));
        CHECK(reason(*list, id) == "price_too_large");
    }
    REQUIRE(find(*list, "on_demand/4") != nullptr);
    CHECK(!find(*list, "on_demand/4")->disk_max);
    for (const double space : {1e300, -1e300, 1e18}) {
        vastai::Instance instance;
        instance.actual_status = "running";
        instance.disk_space = space;
        instance.storage_cost = "0.15";
        instance.dph_base = "999999999";
        const auto machine = vastai::machine_of(instance, gf::test::plain_lookup());
        CHECK(!machine.disk_rate);
        CHECK(!machine.gpu_rate);
    }
}
