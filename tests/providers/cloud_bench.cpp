#include "cloud_bench.hpp"

#include <nlohmann/json.hpp>

namespace gf::test {

GpuLookup plain_lookup() {
    return [](std::string_view provider, std::string_view name,
              std::optional<Bytes>) -> std::optional<std::string> {
        if (name == "NVIDIA") return std::nullopt;
        return std::string(provider) + ":" + std::string(name);
    };
}

ProviderSetup setup_for(const RunpodWorld&, const std::string& url) {
    ProviderSetup s;
    s.version = "test";
    s.local.enabled = false;
    s.runpod = {.api_key = Secret(kKey),
                .api_url = url + "/v2",
                .graphql_url = url + "/graphql",
                .clouds = {"secure"}};
    s.http.connect_timeout = Seconds{5};
    s.http.total_timeout = Seconds{10};
    return s;
}

ProviderSetup setup_for(const VastWorld&, const std::string& url) {
    ProviderSetup s;
    s.version = "test";
    s.local.enabled = false;
    s.vastai = {.api_key = Secret(kKey), .api_url = url};
    s.http.connect_timeout = Seconds{5};
    s.http.total_timeout = Seconds{10};
    return s;
}

ProviderSetup setup_for(const LambdaWorld&, const std::string& url) {
    ProviderSetup s;
    s.version = "test";
    s.install = "testtest";
    s.local.enabled = false;
    s.lambda = {.api_key = Secret(kKey), .api_url = url + "/api/v1"};
    s.http.connect_timeout = Seconds{5};
    s.http.total_timeout = Seconds{10};
    return s;
}

ProviderSetup setup_for(const VultrWorld&, const std::string& url) {
    ProviderSetup s;
    s.version = "test";
    s.install = "testtest";
    s.local.enabled = false;
    s.vultr = {.api_key = Secret(kKey), .api_url = url + "/v2"};
    s.http.connect_timeout = Seconds{5};
    s.http.total_timeout = Seconds{10};
    return s;
}

void stock(RunpodWorld& world) {
    world.gpus = {runpod_gpu("NVIDIA GeForce RTX 4090", 0.69), runpod_gpu("NVIDIA  RTX A4500", 0.25)};
}

void stock(VastWorld& world) {
    world.asks = {vast_ask(18'442'711, "RTX 4090", 0.37), vast_ask(18'442'712, "RTX 3090", 0.17)};
}

void stock(LambdaWorld& world) {
    world.types = {{"gpu_1x_a10", lambda_type("gpu_1x_a10", "A10 (24 GB PCIe)", 129, 1, {"us-west-1", "us-east-1"})},
                   {"gpu_1x_h100_sxm5", lambda_type("gpu_1x_h100_sxm5", "H100 (80 GB SXM5)", 429, 1, {"us-south-2"})}};
}

void stock(VultrWorld& world) {
    world.plans = {vultr_plan("vcg-a100-12c-120g-80vram", "NVIDIA_A100", 1, 80, 2.397),
                   vultr_plan("vcg-l40s-16c-180g-48vram", "NVIDIA_L40S", 1, 48, 1.671)};
    world.regions = {vultr_region("ewr", "US"), vultr_region("fra", "DE")};
    world.stock = {{"ewr", {"vc2-1c-1gb", "vcg-a100-12c-120g-80vram"}},
                   {"fra", {"vc2-1c-1gb", "vcg-l40s-16c-180g-48vram", "vcg-a100-12c-120g-80vram"}}};
}

Answer wired(Wire wire, const Received& r) {
    const std::string page = "<!DOCTYPE html><title>Not what was asked for</title>";
    switch (wire) {
        case Wire::whole:
            break;
        case Wire::retired:
            return {.status = 410, .body = "Gone", .content_type = "text/plain"};
        case Wire::edge:
            return {.status = 403, .body = page + "Error 1010", .content_type = "text/html"};
        case Wire::storm:
            return {.status = 429, .body = "slow down", .content_type = "text/plain"};
        case Wire::storm_hint:
            return {.status = 429, .body = "slow down", .content_type = "text/plain", .headers = {{"Retry-After", "7"}}};
        case Wire::cut:
            return {.delivery = Delivery::nothing};
        case Wire::html:
            return {.body = page, .content_type = "text/html"};
        case Wire::down:
            return {.status = 503, .body = page, .content_type = "text/html"};
        case Wire::echo: {
            auto text = "bad request " + r.method + " " + r.target + "?api_key=" + kKey + " ";
            for (const auto& h : r.headers) text += h.name + ": " + h.value + " ";
            text += r.body;
            return {.status = 400,
                    .body = nlohmann::json{{"title", "Bad Request"}, {"status", 400}, {"detail", text}, {"error", text}}.dump()};
        }
    }
    return {};
}

}  // namespace gf::test
