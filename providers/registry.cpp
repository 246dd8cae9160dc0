#include "providers/registry.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "providers/lambda/adapter.hpp"
#include "providers/local/adapter.hpp"
#include "providers/runpod/adapter.hpp"
#include "providers/vastai/adapter.hpp"
#include "providers/vultr/adapter.hpp"

namespace gf {
namespace {

/// Paths are appended with a leading slash.
std::string without_slash(std::string url) {
    while (url.ends_with('/')) url.pop_back();
    return url;
}

std::optional<Error> bad_url(std::string_view key, const std::string& url) {
    const auto problem = base_url_problem(url);
    if (!problem) return std::nullopt;
    return Error{.kind = ErrorKind::invalid,
                 .message = fmt::format("{}: {}", key, *problem),
                 .field = std::string(key)};
}

}  // namespace

Result<ProviderSet> make_providers(const ProviderSetup& setup, Clock& clock, const GpuLookup& lookup) {
    ProviderSet out;
    auto http = setup.http;
    http.user_agent = "gpuferry/" + setup.version;
    out.http = std::make_unique<HttpClient>(std::move(http));
    if (setup.local.enabled)
        out.providers.push_back(std::make_unique<local::Adapter>(
            local::AdapterSettings{
                .data_dir = setup.data_dir,
                .agent = setup.local.agent,
                .agent_arguments = setup.local.agent_arguments,
                .market = {.electricity = setup.local.electricity, .cpu_machines = setup.local.cpu_machines},
                .nvidia_smi = setup.local.nvidia_smi},
            clock, lookup));
    if (!setup.runpod.api_key.empty()) {
        if (auto error = bad_url("providers.runpod.api_url", setup.runpod.api_url))
            return fail(*std::move(error));
        if (!setup.runpod.graphql_url.empty())
            if (auto error = bad_url("providers.runpod.graphql_url", setup.runpod.graphql_url))
                return fail(*std::move(error));
        for (const auto& cloud : setup.runpod.clouds)
            if (cloud != "secure" && cloud != "community")
                return fail(Error{.kind = ErrorKind::invalid,
                                  .message = fmt::format(
                                      "providers.runpod.clouds: '{}' is neither secure nor community", cloud),
                                  .field = "providers.runpod.clouds"});
        out.providers.push_back(std::make_unique<runpod::Adapter>(
            runpod::AdapterSettings{.client = {.api_url = without_slash(setup.runpod.api_url),
                                               .graphql_url = without_slash(setup.runpod.graphql_url),
                                               .key = setup.runpod.api_key},
                                    .clouds = setup.runpod.clouds,
                                    .spot = setup.runpod.spot,
                                    .install = setup.install},
            *out.http, clock, lookup, setup.seed));
    }
    if (!setup.vastai.api_key.empty()) {
        if (auto error = bad_url("providers.vastai.api_url", setup.vastai.api_url))
            return fail(*std::move(error));
        out.providers.push_back(std::make_unique<vastai::Adapter>(without_slash(setup.vastai.api_url),
                                                                  setup.vastai.api_key, *out.http, clock,
                                                                  lookup, setup.seed + 1));
    }
    if (!setup.lambda.api_key.empty()) {
        if (auto error = bad_url("providers.lambda.api_url", setup.lambda.api_url))
            return fail(*std::move(error));
        out.providers.push_back(std::make_unique<lambda::Adapter>(without_slash(setup.lambda.api_url),
                                                                  setup.lambda.api_key, setup.install, *out.http,
                                                                  clock, lookup, setup.seed + 2));
    }
    if (!setup.vultr.api_key.empty()) {
        if (auto error = bad_url("providers.vultr.api_url", setup.vultr.api_url))
            return fail(*std::move(error));
        out.providers.push_back(std::make_unique<vultr::Adapter>(without_slash(setup.vultr.api_url),
                                                                 setup.vultr.api_key, *out.http, clock, lookup,
                                                                 setup.seed + 3));
    }
    std::ranges::sort(out.providers, {}, [](const auto& p) { return p->name(); });
    return out;
}

}  // namespace gf
