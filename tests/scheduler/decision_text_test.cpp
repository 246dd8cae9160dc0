#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "offers.hpp"

using namespace gf;

TEST_CASE("a decision is told as JSON with money as decimal texts") {
    Offer cheap = test::offer("vastai", "1"), dear = test::offer("vastai", "2"),
          arm = test::offer("runpod", "3");
    cheap.disk_micros_per_gb_month = 36'000;  // 20 GB: 0.001 an hour
    dear.gpu_rate = UsdPerHour{900'000};
    arm.arch = "arm64";
    JobSpec spec = test::job();
    spec.resources.max_price = UsdPerHour{500'000};
    const std::vector<Offer> offers{cheap, dear, arm};
    const auto out = nlohmann::json::parse(decision_json(choose(spec, {}, offers, test::world())));
    CHECK(out["considered"] == 3);
    CHECK(out["chosen"]["provider"] == "vastai");
    CHECK(out["chosen"]["offer"] == "1");
    CHECK(out["chosen"]["gpu"] == "RTX-4090");
    CHECK(out["chosen"]["gpus"] == 1);
    CHECK(out["chosen"]["rate"] == "0.301");
    CHECK(out["chosen"]["lines"] ==
          nlohmann::json::parse(R"([{"name":"gpu","rate":"0.30"},{"name":"disk","rate":"0.001"}])"));
    CHECK(out["refused"] == nlohmann::json::parse(R"({"max_price":1,"no_agent_for_arm64":1})"));
    CHECK(out["ranked"].size() == 1);
    CHECK(out["near_misses"].size() == 2);
    CHECK(out["near_misses"][0]["reason"] == "no_agent_for_arm64");
    CHECK(out["near_misses"][1]["detail"] == "0.90 $/h is over max_price 0.50");
    CHECK(!out.contains("wait_reason"));
}

TEST_CASE("a decision without a choice says so, and foreign bytes do not break it") {
    Offer odd = test::offer("vastai", "\xFF\xFE");
    odd.gpu = {.canonical = "", .provider_name = "NVID\xC3", .memory = {}};
    odd.stock = 0;
    const std::vector<Offer> offers{odd};
    const auto out = nlohmann::json::parse(decision_json(choose(test::job(), {}, offers, test::world())));
    CHECK(out["chosen"].is_null());
    CHECK(out["wait_reason"] == "no_offer_fits");
    CHECK(out["near_misses"].size() == 1);
    CHECK(!out["near_misses"][0].contains("vram_bytes"));
}
