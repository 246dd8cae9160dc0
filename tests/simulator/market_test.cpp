#include "simulator/market.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <set>

using namespace gf;
using namespace gf::sim;
using nlohmann::json;

TEST_CASE("the built-in market sells common cards at both providers, on-demand and by bid") {
    const auto market = default_market();
    for (const auto* gpu : {"RTX-4090", "RTX-3090", "A100-SXM-80GB", "H100-SXM-80GB", "L4"}) {
        CAPTURE(gpu);
        REQUIRE(market.model(gpu) != nullptr);
        int runpod = 0;
        int vastai = 0;
        for (const auto& host : market.hosts()) {
            if (host.gpu != gpu) continue;
            if (host.provider == Provider::runpod) ++runpod;
            if (host.provider == Provider::vastai && host.price_per_gpu > host.floor_per_gpu &&
                host.floor_per_gpu > 0)
                ++vastai;
        }
        CHECK(runpod > 0);
        CHECK(vastai > 0);
        CHECK(market.type_prices().at(gpu).secure > 0);
    }
}

TEST_CASE("asks are slices whose ids last until the host is relisted and are never used again") {
    auto market = default_market();
    const auto host = market.hosts().back().id;
    const auto first = market.asks(host, 6);
    REQUIRE(first.size() == 4);
    CHECK(first[0].gpus == 1);
    CHECK(first[2].gpus == 4);
    CHECK(first[3].gpus == 6);
    CHECK(market.asks(host, 6)[1].id == first[1].id);
    market.relist(host);
    CHECK_FALSE(market.find_ask(first[1].id));
    std::set<std::int64_t> seen;
    for (const auto& ask : first) seen.insert(ask.id);
    for (const auto& ask : market.asks(host, 6)) CHECK(seen.insert(ask.id).second);
    CHECK(market.asks(host, 0).empty());
}

TEST_CASE("a market file replaces hosts, adds models and refuses what it does not know") {
    Market market = default_market();
    const auto good = json::parse(R"({
        "gpu_models":{"ODD":{"vast_name":"NVIDIA","vast_mb":0,"card_name":"NVIDIA","card_mib":0}},
        "hosts":[{"provider":"vastai","id":7,"gpu":"ODD","gpus":2,"price_per_gpu":0.25,"floor_per_gpu":"0.1","cpu_cores":null,"geolocation":null}],
        "images":{"img:1":{"entrypoint":["/init"],"pull_ms":5,"missing":true}}})");
    REQUIRE(apply_market(market, good));
    REQUIRE(market.hosts().size() == 1);
    CHECK(market.hosts()[0].price_per_gpu == 250'000);
    CHECK(market.hosts()[0].floor_per_gpu == 100'000);
    CHECK_FALSE(market.hosts()[0].cpu_cores);
    CHECK(market.image("img:1").missing);
    CHECK_FALSE(market.image("other").missing);

    for (const auto* bad : {R"({"host":[]})", R"({"hosts":[{"provider":"aws","id":1}]})",
                            R"({"hosts":[{"provider":"vastai","id":1,"gpu":"no such card"}]})",
                            R"({"hosts":[{"provider":"vastai","id":1,"gpu":"L4","price_per_gpu":-1}]})",
                            R"({"hosts":[{"provider":"vastai","id":1,"gpu":"L4","colour":"red"}]})"}) {
        CAPTURE(bad);
        CHECK_FALSE(apply_market(market, json::parse(bad)));
        CHECK(market.hosts().size() == 1);
    }
}

TEST_CASE("money is read exactly or not at all") {
    CHECK(micros_of(json(0.69)) == 690'000);
    CHECK(micros_of(json("0.39")) == 390'000);
    CHECK(micros_of(json(2)) == 2'000'000);
    for (const auto& bad : {json(-1), json("x"), json(nullptr), json::array()}) CHECK_FALSE(micros_of(bad));
}

TEST_CASE("the built-in market has virtual machines of every kind, and a file may replace them") {
    auto market = default_market();
    REQUIRE(market.vm_type(Provider::lambda, "gpu_1x_a10") != nullptr);
    CHECK(market.vm_type(Provider::lambda, "gpu_1x_gh200")->arch == "arm64");
    CHECK(market.vm_type(Provider::vultr, "vcg-a16-2c-8g-2vram")->share == "1/8");
    const auto& node = *market.vm_type(Provider::vultr, "vcg-h100-216c-1914g-640vram");
    CHECK_FALSE(node.on_demand);
    CHECK(node.price_in("sea") == 18'400'000);
    for (const auto provider : {Provider::lambda, Provider::vultr}) {
        for (const auto& type : market.vm_types(provider)) {
            CAPTURE(type.name);
            CHECK((type.gpu.empty() || market.model(type.gpu) != nullptr));
            CHECK(type.price > 0);
        }
    }
    REQUIRE(apply_market(market, json::parse(R"({"add_vm_types":[
        {"provider":"lambda","name":"gpu_1x_a10","stock":{"us-west-1":1}},
        {"provider":"vultr","name":"new","gpu":"L40S","gpus":1,"price":"1.5","location_price":{"ewr":2},"stock":{"ewr":1}}]})")));
    CHECK(market.vm_type(Provider::lambda, "gpu_1x_a10")->price == 1'290'000);  // what the row does not say stays
    CHECK(market.vm_type(Provider::lambda, "gpu_1x_a10")->stock.size() == 1);
    CHECK(market.vm_type(Provider::vultr, "new")->price_in("ewr") == 2'000'000);
    for (const auto* bad : {R"({"vm_types":[{"provider":"vastai","name":"x"}]})",
                            R"({"vm_types":[{"provider":"lambda"}]})",
                            R"({"vm_types":[{"provider":"lambda","name":"x","gpu":"gold"}]})",
                            R"({"vm_types":[{"provider":"lambda","name":"x","stock":{"a":-1}}]})",
                            R"({"vm_types":[{"provider":"vultr","name":"x","kind":"odd"}]})",
                            R"({"vm_types":[{"provider":"vultr","name":"x","colour":1}]})",
                            R"({"hosts":[{"provider":"lambda","id":1,"gpu":"L4"}]})"}) {
        CAPTURE(bad);
        CHECK_FALSE(apply_market(market, json::parse(bad)));
    }
    REQUIRE(apply_market(market, json::parse(R"({"vm_types":[{"provider":"lambda","name":"only","price":1}]})")));
    CHECK(market.vm_types(Provider::vultr).empty());
    CHECK(market.vm_types(Provider::lambda).size() == 1);
}
