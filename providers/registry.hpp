// Makes the adapters that a configuration asks for. The only place that knows them all.
#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "model/money.hpp"
#include "model/result.hpp"
#include "model/secret.hpp"
#include "providers/clock.hpp"
#include "providers/gpu_lookup.hpp"
#include "providers/http_client.hpp"
#include "providers/port.hpp"

namespace gf {

/// A cloud without a key is not made.
struct ProviderSetup {
    struct Runpod {
        Secret api_key;
        std::string api_url{"https://api.runpod.io/v2"};
        std::string graphql_url{"https://api.runpod.io/graphql"};  // empty = no balance
        std::vector<std::string> clouds{"secure", "community"};
        bool spot{false};  // the legacy GraphQL market of interruptible pods
    };
    struct Vastai {
        Secret api_key;
        std::string api_url{"https://console.vast.ai"};
    };
    struct Local {
        bool enabled{true};
        UsdPerHour electricity;
        std::filesystem::path agent;  // the agent's binary
        std::vector<std::string> agent_arguments;
        int cpu_machines{1};  // CPU-only machines at a time
        std::string nvidia_smi{"nvidia-smi"};
    };
    struct Lambda {
        Secret api_key;
        std::string api_url{"https://cloud.lambda.ai/api/v1"};
    };
    struct Vultr {
        Secret api_key;
        std::string api_url{"https://api.vultr.com/v2"};
    };
    Runpod runpod;
    Vastai vastai;
    Lambda lambda;
    Vultr vultr;
    Local local;
    std::string install;  // the installation's 8 characters: names what is registered at a provider beside machines
    std::filesystem::path data_dir;
    std::string version{"0.1.0"};  // for the User-Agent "gpuferry/<version>"
    HttpSettings http;             // its user_agent is overwritten
    std::uint64_t seed{1};         // of the jitter
};

/// The adapters with what they share. Destroyed together; the clock must outlive them.
struct ProviderSet {
    std::unique_ptr<HttpClient> http;
    std::vector<std::unique_ptr<Provider>> providers;  // sorted by name
};

/// Errors: `invalid` with the key of a URL that must not be used (plain HTTP off loopback, user information,
/// a query) or of an unknown cloud.
Result<ProviderSet> make_providers(const ProviderSetup& setup, Clock& clock, const GpuLookup& lookup);

}  // namespace gf
