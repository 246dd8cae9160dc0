// Vultr's market: which plans become offers, at what price, and of how many GPUs.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

#include "cloud_bench.hpp"
#include "providers/vultr/mapping.hpp"

using namespace gf;
using gf::test::Received;
using gf::test::vultr_plan;
using gf::test::VultrBench;
using nlohmann::json;
using Sent = gf::test::Answer;

namespace {

const std::string kA100 = "vcg-a100-12c-120g-80vram";

Sent plain(int status, std::string body) {
    return {.status = status, .body = std::move(body)};
}

const Offer* find(const OfferList& list, std::string_view id) {
    const auto it = std::ranges::find(list.offers, id, &Offer::id);
    return it == list.offers.end() ? nullptr : &*it;
}

std::string reason(const OfferList& list, std::string_view id) {
    const auto it = std::ranges::find(list.rejected, id, &RejectedOffer::id);
    return it == list.rejected.end() ? "" : it->reason;
}

/// Every plan is in stock in New Jersey, and nothing anywhere else.
void everything_in_stock(VultrBench& b) {
    b.world.stock = {{"ewr", {"vc2-1c-1gb"}}};
    for (const auto& plan : b.world.plans)
        if (plan["id"].is_string()) b.world.stock["ewr"].push_back(plan["id"]);
}

}  // namespace

TEST_CASE("Vultr: plans in stock become offers, region by region") {
    VultrBench b;
    auto& p = b.world.plans;
    p[0]["location_cost"] = {{"fra", {{"monthly_cost", 1850}, {"hourly_cost", 2.534}}}};
    const auto list = b.provider().offers({.gpu_counts = {1}});
    REQUIRE(list);
    const auto* ewr = find(*list, kA100 + "/ewr");
    REQUIRE(ewr != nullptr);
    CHECK(ewr->gpu_rate.micros == 2'397'000);
    CHECK(ewr->gpu.canonical == "vultr:" + kA100);  // the plan's own row comes first
    CHECK(ewr->gpu.provider_name == "NVIDIA_A100");
    CHECK(ewr->gpu.memory == Bytes{80 * kGiB});
    CHECK(ewr->gpu_share == 1);
    CHECK(ewr->cpus == 12.0);
    CHECK(ewr->memory == Bytes{120 * kGiB});  // 122880 MB
    CHECK(ewr->disk_max == Bytes{1400 * kGB});
    CHECK(ewr->disk_micros_per_gb_month == 0);
    CHECK(ewr->billing_step == std::chrono::hours{1});
    CHECK(ewr->billing_minimum == std::chrono::hours{1});
    CHECK(ewr->country == "US");
    CHECK(!ewr->spot);
    CHECK(ewr->verified == true);
    REQUIRE(find(*list, kA100 + "/fra") != nullptr);
    CHECK(find(*list, kA100 + "/fra")->gpu_rate.micros == 2'534'000);
    CHECK(find(*list, kA100 + "/fra")->country == "DE");
    CHECK(find(*list, "vcg-l40s-16c-180g-48vram/ewr") == nullptr);  // `locations` name it, the stock does not
    CHECK(find(*list, "vcg-l40s-16c-180g-48vram/fra") != nullptr);
    CHECK(list->drift.empty());
    CHECK(b.server.count("GET", "/v2/regions?") == 1);
    // Regions are known for a day; a waiting job asks for the stock of its own only.
    const auto eu =
        b.provider().offers({.gpu_counts = {1}, .demands = {.regions = {"EU"}}, .look = Look::wanted});
    REQUIRE(eu);
    CHECK(eu->offers.size() == 2);
    CHECK(b.server.count("GET", "/v2/regions?") == 1);
    CHECK(b.server.count("GET", "/v2/regions/ewr/availability") == 1);
    CHECK(b.server.count("GET", "/v2/regions/fra/availability") == 2);
}

TEST_CASE("Vultr: a look that takes longer than a price may be old still has young prices") {
    VultrBench b;
    for (int i = 0; i < 31; ++i)
        b.world.regions.push_back(gf::test::vultr_region(fmt::format("r{:02}", i), "US"));
    b.script([&](const Received& r) {
        b.hand.advance(Millis{400});
        return b.world.answer(r);
    });
    const auto began = b.hand.now();
    const auto list = b.provider().offers({.gpu_counts = {1, 8}, .look = Look::wanted});
    REQUIRE(list);
    REQUIRE(b.hand.now() - began > Seconds{10});
    REQUIRE(list->reads.size() == 4);
    for (const int count : {1, 8})
        for (const bool spot : {false, true})
            CHECK(std::ranges::count_if(list->reads, [&](const PriceRead& r) {
                      return r.gpu_count == count && r.spot == spot && b.hand.now() - r.at < Seconds{5};
                  }) == 1);
    // The price of what is about to be rented is read alone, while the stock is young.
    const auto calls = b.server.received().size();
    const auto again = b.provider().offers({.gpu_counts = {1}, .spot = false, .look = Look::rent});
    REQUIRE(again);
    CHECK(find(*again, kA100 + "/ewr") != nullptr);
    REQUIRE(again->reads.size() == 1);
    CHECK(again->reads.front().at >= began + Seconds{10});
    CHECK(b.server.received().size() == calls + 3);
    b.pass(std::chrono::minutes{2});
    REQUIRE(b.provider().offers({.gpu_counts = {1}, .look = Look::rent}));
    CHECK(b.server.received().size() > calls + 33);
    // So is it where a create has just said that nothing is left.
    b.world.stock["ewr"] = {"vc2-1c-1gb"};
    const auto out = b.provider().launch(gf::test::launch_request(*find(*again, kA100 + "/ewr"), 1));
    REQUIRE(out.error);
    REQUIRE(out.error->kind == ErrorKind::no_capacity);
    const auto left = b.provider().offers({.gpu_counts = {1}, .look = Look::rent});
    REQUIRE(left);
    CHECK(find(*left, kA100 + "/ewr") == nullptr);
    CHECK(find(*left, kA100 + "/fra") != nullptr);
}

TEST_CASE("Vultr: one call that goes wrong loses what it is about, and no more") {
    for (const int status : {404, 500}) {
        CAPTURE(status);
        VultrBench b;
        b.script([&](const Received& r) {
            return r.path() == "/v2/regions/ewr/availability" ? gf::test::vultr_error(status, "x")
                                                              : b.world.answer(r);
        });
        const auto list = b.provider().offers({.gpu_counts = {1}, .look = Look::wanted});
        REQUIRE_MESSAGE(list, (list ? "" : list.error().message));
        CHECK(find(*list, kA100 + "/fra") != nullptr);
        CHECK(find(*list, kA100 + "/ewr") == nullptr);
        CHECK(reason(*list, "ewr") == "stock_unreadable");
        CHECK(list->drift.empty());
        // It may be no region any more: the list of them is read again.
        b.world.regions.erase(0);
        const auto next = b.provider().offers({.gpu_counts = {1}, .look = Look::wanted});
        REQUIRE(next);
        CHECK(reason(*next, "ewr").empty());
        CHECK(find(*next, kA100 + "/fra") != nullptr);
    }
    for (const std::string type : {"vcg", "vdm"}) {
        VultrBench b;
        b.script([&](const Received& r) {
            return r.target.find("type=" + type) != std::string::npos ? gf::test::vultr_error(500, "x")
                                                                      : b.world.answer(r);
        });
        const auto list = b.provider().offers({.gpu_counts = {1}});
        REQUIRE_MESSAGE(list, (list ? "" : list.error().message));
        CHECK(find(*list, kA100 + "/ewr") != nullptr);
        CHECK(reason(*list, "plans?type=" + type) == "list_unreadable");
    }
    // What holds for all of them is no answer at all.
    const struct {
        std::string path;
        Sent sent;
        ErrorKind kind;
    } rows[] = {{"/availability", gf::test::vultr_error(500, "x"), ErrorKind::unavailable},
                {"/availability", gf::test::vultr_error(404, "x"), ErrorKind::malformed},
                {"/fra/availability", gf::test::vultr_error(401, "Invalid API token."), ErrorKind::auth},
                {"/fra/availability", gf::test::vultr_error(429, "x"), ErrorKind::rate_limited},
                {"type=all", gf::test::vultr_error(500, "x"), ErrorKind::unavailable},
                {"type=vdm", gf::test::vultr_error(401, "Invalid API token."), ErrorKind::auth}};
    for (const auto& row : rows) {
        CAPTURE(row.path);
        VultrBench b;
        b.script([&](const Received& r) {
            return r.target.find(row.path) != std::string::npos ? row.sent : b.world.answer(r);
        });
        const auto list = b.provider().offers({.gpu_counts = {1}});
        REQUIRE(!list);
        CHECK(list.error().kind == row.kind);
    }
}

TEST_CASE("Vultr: how many GPUs a plan has, or which part of one") {
    const auto count = [](const std::string& id, const std::string& type, const json& n,
                          std::optional<double> vram) {
        auto plan = vultr_plan(id, type, n, vram.value_or(0), 1.0);
        if (type.empty()) plan.erase("gpu_type");
        if (!vram) plan.erase("gpu_vram_gb");
        if (n.is_null()) plan.erase("gpu_count");
        return plan;
    };
    const struct {
        json plan;
        int gpus;
        double share;
        std::int64_t gib;
        std::string reason{};
    } rows[] = {
        {count("vcg-a100-12c-120g-80vram", "NVIDIA_A100", 1, 80), 1, 1, 80},
        {count("vcg-a100-24c-240g-160vram", "NVIDIA_A100", 2, 160), 2, 1, 80},
        {count("vcg-a100-24c-240g-160vram", "NVIDIA_A100", "2", 160), 2, 1, 80},
        {count("vcg-a16-2c-8g-2vram", "NVIDIA_A16", "1/8", 2), 1, 0.125, 2},
        {count("vcg-a16-2c-8g-2vram", "NVIDIA_A16", 0.125, 2), 1, 0.125, 2},
        {count("vcg-a16-2c-8g-2vram", "NVIDIA_A16", nullptr, 2), 1, 0.125, 2},
        {count("vcg-a40-12c-60g-24vram", "NVIDIA_A40", nullptr, 24), 1, 0.5, 24},
        {count("vcg-a40-12c-60g-24vram", "NVIDIA_A40", 1, 24), 1, 0.5, 24},  // a slice that says it is a card
        {count("vcg-a100-6c-60g-40vram", "NVIDIA_A100_PCIE", "1/2", 40), 1, 0.5, 40},
        {count("vcg-a16-96c-960g-256vram", "NVIDIA_A16", nullptr, 256), 16, 1, 16},
        {count("vcg-h100-216c-1914g-640vram", "", nullptr, {}), 8, 1, 80},  // a whole node without GPU fields
        {count("vcg-b200-248c-2826g-1536vram", "NVIDIA_B200_SXM", nullptr, 1536), 8, 1, 192},
        {count("vcg-b200-248c-2826g-1440vram", "NVIDIA_B200", nullptr, 1440), 8, 1, 180},
        {count("vcg-mi355x-252c-2872g-2304vram", "AMD_MI355X", nullptr, 2304), 8, 1, 288},
        {count("vcg-mi325x-252c-2872g-1536vram", "AMD_MI325X", 8, 1536), 8, 1, 192},
        {count("vcg-mi325x-252c-2872g-1536vram", "AMD_MI325X", nullptr, 1536), 0, 1, 0,
         "gpu_count_missing"},  // six or eight
        {count("vcg-a100-48c-480g-320vram", "NVIDIA_A100", 4, 80), 4, 1,
         80},  // memory per card where the plan's belongs
        {count("vcg-x9000-1c-1g-1vram", "NVIDIA_X9000", 2, 64), 2, 1, 32},
        {count("vcg-x9000-1c-1g-1vram", "NVIDIA_X9000", nullptr, 64), 0, 1, 0, "gpu_count_missing"},
        {count("vcg-a100-12c-120g-80vram", "NVIDIA_A100", 0, 80), 0, 1, 0, "gpu_count_not_a_number"},
        {count("vcg-a100-12c-120g-80vram", "NVIDIA_A100", -1, 80), 0, 1, 0, "gpu_count_not_a_number"},
        {count("vcg-a100-12c-120g-80vram", "NVIDIA_A100", "1/0", 80), 0, 1, 0, "gpu_count_not_a_number"},
        {count("vcg-a100-12c-120g-80vram", "NVIDIA_A100", "half", 80), 0, 1, 0, "gpu_count_not_a_number"},
        {count("vcg-a100-12c-120g-80vram", "NVIDIA_A100", 1.5, 80), 0, 1, 0, "gpu_count_not_a_number"},
        {count("vcg-a100-12c-120g-80vram", "NVIDIA_A100", json::array(), 80), 0, 1, 0,
         "gpu_count_not_a_number"},
    };
    for (const auto& row : rows) {
        CAPTURE(row.plan.dump());
        VultrBench b;
        b.world.plans = json::array({row.plan});
        everything_in_stock(b);
        const auto list = b.provider().offers({.gpu_counts = {1, 2, 4, 8, 16}});
        REQUIRE(list);
        const std::string id = row.plan["id"];
        if (!row.reason.empty()) {
            CHECK(list->offers.empty());
            CHECK(reason(*list, id) == row.reason);
            continue;
        }
        const auto* o = find(*list, id + "/ewr");
        REQUIRE(o != nullptr);
        CHECK(o->gpu_count == row.gpus);
        CHECK(o->gpu_share == doctest::Approx(row.share));
        CHECK(o->gpu.memory == Bytes{row.gib * kGiB});
    }
}

TEST_CASE("Vultr: prices, modes of sale, and what is no GPU plan") {
    VultrBench b;
    auto& p = b.world.plans;
    p = json::array();
    const auto put = [&](const std::string& name) -> json& {
        p.push_back(vultr_plan("vcg-a100-" + name, "NVIDIA_A100", 1, 80, 2.0));
        return p.back();
    };
    const std::pair<const char*, json> prices[] = {
        {"text", "0.39"},           {"zero", 0},       {"empty", ""}, {"negative", -1}, {"nan", "NaN"},
        {"object", json::object()}, {"absurd", 20'000}};
    for (const auto& [name, price] : prices) put(name)["hourly_cost"] = price;
    put("monthly").erase("hourly_cost");
    auto& none = put("none");
    none.erase("hourly_cost");
    none.erase("monthly_cost");
    auto& spot = put("spot");
    spot["deploy_ondemand"] = false;
    spot["deploy_preemptible"] = true;
    put("both")["deploy_preemptible"] = true;
    put("neither")["deploy_ondemand"] = false;
    auto& silent = put("silent");
    silent.erase("deploy_ondemand");
    silent.erase("deploy_preemptible");
    put("elsewhere")["location_cost"] = {{"fra", {{"hourly_cost", 9.0}}}};
    put("here")["location_cost"] = {{"ewr", {{"hourly_cost", 2.5}}}};
    put("half")["location_cost"] = {{"ewr", {{"monthly_cost_preemptible", 1.0}}}};
    put("scalar here")["location_cost"] = {{"ewr", 2.5}};
    put("text here")["location_cost"] = {{"ewr", {{"hourly_cost", "0,39"}}}};
    put("list here")["location_cost"] = {{"ewr", {{"hourly_cost", json::array({0.39})}}}};
    put("nothing here")["location_cost"] = {{"ewr", nullptr}};
    put("odd elsewhere")["location_cost"] = {{"fra", {{"hourly_cost", true}}}, {"atl", 9}};
    put("node")["type"] = "vdm";
    p.push_back({{"id", "vc2-1c-1gb"},
                 {"type", "vc2"},
                 {"ram", 1024},
                 {"disk", 25},
                 {"monthly_cost", 5},
                 {"hourly_cost", 0.007},
                 {"locations", {"ewr"}}});
    p.push_back({{"id", "vdm-32c"},
                 {"type", "vdm"},
                 {"ram", 1024},
                 {"disk", 25},
                 {"monthly_cost", 5},
                 {"hourly_cost", 0.007},
                 {"locations", {"ewr"}}});
    everything_in_stock(b);
    const auto list = b.provider().offers({.gpu_counts = {1}});
    REQUIRE(list);
    const auto rate = [&](const std::string& name) {
        const auto* o = find(*list, "vcg-a100-" + name + "/ewr");
        return o == nullptr ? 0 : o->gpu_rate.micros;
    };
    CHECK(rate("text") == 390'000);  // B01
    CHECK(reason(*list, "vcg-a100-zero/ewr") == "price_zero");
    CHECK(reason(*list, "vcg-a100-empty/ewr") == "price_empty");
    CHECK(reason(*list, "vcg-a100-negative/ewr") == "price_negative");
    CHECK(reason(*list, "vcg-a100-nan/ewr") == "price_not_finite");
    CHECK(reason(*list, "vcg-a100-object/ewr") == "malformed");
    CHECK(reason(*list, "vcg-a100-absurd/ewr") == "price_too_large");
    CHECK(reason(*list, "vcg-a100-none/ewr") == "price_missing");
    CHECK(rate("monthly") == (1'460'000'000 + 671) / 672);  // the shorter month: never too low
    CHECK(rate("both") == 2'000'000);
    CHECK(rate("silent") == 2'000'000);
    CHECK(rate("elsewhere") == 2'000'000);
    CHECK(rate("here") == 2'500'000);
    CHECK(rate("half") == 2'000'000);
    CHECK(reason(*list, "vcg-a100-scalar here/ewr") == "malformed");
    CHECK(reason(*list, "vcg-a100-text here/ewr") == "price_not_a_number");
    CHECK(reason(*list, "vcg-a100-list here/ewr") == "malformed");
    CHECK(rate("nothing here") == 2'000'000);
    CHECK(rate("odd elsewhere") == 2'000'000);  // one region's price is no matter of the others
    CHECK(rate("node") == 2'000'000);
    CHECK(reason(*list, "vcg-a100-neither/ewr") == "not_for_sale");
    const auto* taken_back = find(*list, "vcg-a100-spot/ewr/preemptible");
    REQUIRE(taken_back != nullptr);
    CHECK(taken_back->spot);
    CHECK(taken_back->gpu_rate.micros == 1'000'000);
    CHECK(taken_back->spot_floor == taken_back->gpu_rate);
    CHECK(std::ranges::none_of(list->offers, [](const Offer& o) { return !o.id.starts_with("vcg-"); }));
    const auto on_demand = b.provider().offers({.gpu_counts = {1}, .spot = false});
    REQUIRE(on_demand);
    CHECK(std::ranges::none_of(on_demand->offers, &Offer::spot));
    const auto spots = b.provider().offers({.gpu_counts = {1}, .on_demand = false});
    REQUIRE(spots);
    CHECK(spots->offers.size() == 1);
    // It is rented like any other: no field of a create says which mode is meant.
    auto request = gf::test::launch_request(spots->offers.front(), 3);
    const auto out = b.provider().launch(request);
    REQUIRE_MESSAGE(!out.error, (out.error ? out.error->message : ""));
    const auto sent = json::parse(b.server.received().back().body);
    CHECK(sent["plan"] == "vcg-a100-spot");
    CHECK(sent["tags"].back() == "gpuferry-sale=preemptible");
    b.pass(Seconds{60});
    const auto m = b.provider().read(out.id);
    REQUIRE(m);
    CHECK(m->spot);
    CHECK(m->gpu_rate == UsdPerHour{1'000'000});
}

TEST_CASE("Vultr: whole nodes that one list leaves out are found in the other") {
    VultrBench b;
    b.world.plans.push_back(vultr_plan("vcg-a40-24c-120g-48vram", "NVIDIA_A40", 1, 48, 1.671));
    b.world.plans.back()["type"] = "vdm";
    everything_in_stock(b);
    b.script([&](const Received& r) {
        auto sent = b.world.answer(r);
        if (r.target.find("type=all") == std::string::npos) return sent;
        auto body = json::parse(sent.body);
        body["plans"].erase(body["plans"].size() - 1);
        body["meta"]["total"] = body["plans"].size();
        return plain(200, body.dump());
    });
    const auto list = b.provider().offers({.gpu_counts = {1}});
    REQUIRE(list);
    CHECK(find(*list, "vcg-a40-24c-120g-48vram/ewr") != nullptr);
}

TEST_CASE(
    "Vultr: plans without their paging, memory in another unit, and a stock that nobody has, are drift") {
    VultrBench b;
    b.script([&](const Received& r) {
        auto sent = b.world.answer(r);
        if (r.path() != "/v2/plans") return sent;
        auto body = json::parse(sent.body);
        body.erase("meta");
        return plain(200, body.dump());
    });
    const auto pages = b.provider().offers({.gpu_counts = {1}});
    REQUIRE(pages);
    REQUIRE(!pages->drift.empty());
    CHECK(pages->drift.front().what == "page_token_missing");
    CHECK(!pages->offers.empty());

    for (const auto look : {Look::sweep, Look::wanted, Look::rent}) {
        VultrBench empty;
        empty.world.stock.clear();
        const auto stock = empty.provider().offers({.gpu_counts = {1}, .look = look});
        REQUIRE(stock);
        REQUIRE(!stock->drift.empty());
        CHECK(stock->drift.front().what == "stock_empty");
    }

    // GB in the place of MB: the plan's own name settles it.
    VultrBench gb;
    for (auto& plan : gb.world.plans) plan["ram"] = plan["ram"].get<std::int64_t>() / 1024;
    const auto memory = gb.provider().offers({.gpu_counts = {1}});
    REQUIRE(memory);
    REQUIRE(find(*memory, kA100 + "/ewr") != nullptr);
    CHECK(find(*memory, kA100 + "/ewr")->memory == Bytes{120 * kGiB});

    VultrBench cents;
    REQUIRE(cents.provider().offers({.gpu_counts = {1}})->drift.empty());
    for (auto& plan : cents.world.plans) plan["hourly_cost"] = plan["hourly_cost"].get<double>() * 100;
    const auto price = cents.provider().offers({.gpu_counts = {1}});
    REQUIRE(price);
    REQUIRE(!price->drift.empty());
    CHECK(price->drift.front().what == "price_unit");
}
