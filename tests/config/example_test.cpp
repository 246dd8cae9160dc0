// config/gpuferryd.example.yaml is the reference of the configuration: it must parse to the defaults, and
// name every key.
#include <doctest/doctest.h>

#include <set>
#include <sstream>

#include "config/node.hpp"
#include "config/settings.hpp"
#include "config/shipped.hpp"

using namespace gf;

namespace {

const GetEnv kNoKeys = [](std::string_view name) -> std::optional<std::string> {
    if (name == "HOME") return "/home/u";
    return std::nullopt;
};

/// The example with the keys that have no fixed default taken out of their comments.
std::string uncommented() {
    std::string out;
    std::istringstream lines{std::string(shipped_example_yaml())};
    for (std::string line; std::getline(lines, line);) {
        for (const auto* key : {"# data_dir:", "# timezone:", "# tls:", "#   cert:", "#   key:", "# gpus:",
                                "#   table:", "#   aliases:"})
            if (line.starts_with(key)) line.erase(0, 2);
        out += line + "\n";
    }
    return out;
}

void collect(const Node& node, const std::string& path, std::set<std::string>& into) {
    if (node.kind != Node::Kind::mapping) return;
    for (std::size_t i = 0; i < node.keys.size(); ++i) {
        const std::string key = path + (path.empty() ? "" : ".") + node.keys[i].text;
        into.insert(key);
        collect(node.items[i], key, into);
    }
}

}  // namespace

TEST_CASE("the shipped example parses to the defaults in code") {
    const auto parsed = parse_settings(shipped_example_yaml(), kNoKeys, false);
    REQUIRE_MESSAGE(parsed.has_value(), parsed.error().message);
    const Settings expected = default_settings(kNoKeys, false);
    CHECK(parsed->listen == expected.listen);
    CHECK(parsed->agent_listen == expected.agent_listen);
    CHECK(parsed->advertise_url == expected.advertise_url);
    CHECK(parsed->reach == expected.reach);
    CHECK(parsed->allowed_hosts == expected.allowed_hosts);
    CHECK(parsed->data_dir == expected.data_dir);
    CHECK(parsed->timezone == expected.timezone);
    CHECK(parsed->tls_cert == expected.tls_cert);
    const auto& p = parsed->providers;
    const auto& e = expected.providers;
    CHECK(p.runpod.api_key.equals(e.runpod.api_key.reveal()));
    CHECK(p.runpod.api_url == e.runpod.api_url);
    CHECK(p.runpod.graphql_url == e.runpod.graphql_url);
    CHECK(p.runpod.clouds == e.runpod.clouds);
    CHECK(p.runpod.spot == e.runpod.spot);
    CHECK(p.vastai.api_url == e.vastai.api_url);
    CHECK(p.lambda.api_url == e.lambda.api_url);
    CHECK(p.vultr.api_url == e.vultr.api_url);
    CHECK(p.local.enabled == e.local.enabled);
    CHECK(p.local.electricity == e.local.electricity);
    CHECK(parsed->timing == expected.timing);
    CHECK(parsed->history == expected.history);
    CHECK(parsed->idle_machine == expected.idle_machine);
    CHECK(parsed->orphans == expected.orphans);
    CHECK(parsed->install_id == expected.install_id);
    CHECK(parsed->machines_max == expected.machines_max);
    CHECK(parsed->rate_max == expected.rate_max);
    CHECK(parsed->provider_quotas == expected.provider_quotas);
    CHECK(parsed->project_weights == expected.project_weights);
    CHECK(parsed->cuda_probe == expected.cuda_probe);
    CHECK(parsed->gpu_table == expected.gpu_table);
    CHECK(parsed->gpu_aliases == expected.gpu_aliases);
}

TEST_CASE("the shipped example names every key that the parser knows") {
    const std::string text = uncommented();
    const auto parsed = parse_settings(text, kNoKeys, false);
    REQUIRE_MESSAGE(parsed.has_value(), parsed.error().message);
    CHECK(parsed->timezone == "Europe/Berlin");
    CHECK(parsed->gpu_table == "/etc/gpuferry/gpus.csv");
    const auto root = read_yaml(text);
    REQUIRE(root.has_value());
    std::set<std::string> named;
    collect(*root, "", named);
    // A key that the parser does not know is refused, so that only missing ones need a list.
    CHECK(named == std::set<std::string>{"listen",
                                         "agent_listen",
                                         "advertise_url",
                                         "reach",
                                         "allowed_hosts",
                                         "data_dir",
                                         "timezone",
                                         "tls",
                                         "tls.cert",
                                         "tls.key",
                                         "providers",
                                         "providers.runpod",
                                         "providers.runpod.api_key",
                                         "providers.runpod.api_url",
                                         "providers.runpod.graphql_url",
                                         "providers.runpod.clouds",
                                         "providers.runpod.spot",
                                         "providers.vastai",
                                         "providers.vastai.api_key",
                                         "providers.vastai.api_url",
                                         "providers.lambda",
                                         "providers.lambda.api_key",
                                         "providers.lambda.api_url",
                                         "providers.vultr",
                                         "providers.vultr.api_key",
                                         "providers.vultr.api_url",
                                         "providers.local",
                                         "providers.local.enabled",
                                         "providers.local.electricity",
                                         "timing",
                                         "timing.sweep",
                                         "timing.offers",
                                         "timing.settle",
                                         "timing.settle.runpod",
                                         "timing.settle.vastai",
                                         "timing.settle.lambda",
                                         "timing.settle.vultr",
                                         "timing.settle_alone",
                                         "timing.unknown_move",
                                         "timing.patience",
                                         "timing.start",
                                         "timing.heartbeat",
                                         "timing.silence",
                                         "timing.long_silence",
                                         "timing.machine_check",
                                         "timing.cooldown",
                                         "timing.backoff_max",
                                         "timing.destroy_alert",
                                         "timing.stopped_alert",
                                         "timing.dead_man",
                                         "timing.balance",
                                         "timing.balance_alert",
                                         "timing.balance_stop",
                                         "history",
                                         "history.keep",
                                         "history.every",
                                         "idle",
                                         "idle.machine",
                                         "orphans",
                                         "install_id",
                                         "quotas",
                                         "quotas.machines",
                                         "quotas.usd_per_hour",
                                         "quotas.providers",
                                         "projects",
                                         "machine",
                                         "machine.cuda_probe",
                                         "gpus",
                                         "gpus.table",
                                         "gpus.aliases",
                                         "checkpoints",
                                         "checkpoints.store",
                                         "stores",
                                         "budgets",
                                         "channels"});
}
