#include "cloud_bench.hpp"

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

void stock(RunpodWorld& world) {
    world.gpus = {runpod_gpu("NVIDIA GeForce RTX 4090", 0.69), runpod_gpu("NVIDIA  RTX A4500", 0.25)};
}

void stock(VastWorld& world) {
    world.asks = {vast_ask(18'442'711, "RTX 4090", 0.37), vast_ask(18'442'712, "RTX 3090", 0.17)};
}

}  // namespace gf::test
