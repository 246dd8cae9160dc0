#include <algorithm>
#include <array>
#include <boost/url/parse.hpp>
#include <boost/url/url_view.hpp>
#include <stdexcept>

#include <date/tz.h>

#include "config/node.hpp"
#include "config/settings.hpp"
#include "config/utf8.hpp"
#include "config/walk.hpp"

namespace gf {
namespace {

constexpr std::size_t kSettingsBytesMax = 1 << 20;
constexpr std::size_t kAllowedHostsMax = 64;
constexpr std::size_t kProjectsMax = 1000;
constexpr std::size_t kProjectNameMax = 100;  // as in a spec
constexpr Millis kShortest{10};
constexpr Millis kLongest = std::chrono::hours{30 * 24};
constexpr Millis kHistoryShortest = std::chrono::hours{24};
constexpr Millis kHistoryLongest = std::chrono::hours{365 * 24};
// A market that is searched in eight pieces, one at a look, has to be gone through within an hour (model/market.hpp: kMarketGap).
constexpr Millis kHistoryLooksMost = std::chrono::minutes{7};

struct Draft {
    Settings settings;
    const GetEnv* env{nullptr};
};
using SettingField = Field<Draft>;

void not_yet(Walk& walk, const Node& node, std::string_view what) {
    walk.error(node, ErrorKind::not_yet, "is not yet supported: " + std::string(what));
}

bool empty(const Node& node) {
    return node.kind == Node::Kind::null || (node.kind != Node::Kind::scalar && node.items.empty());
}

std::optional<std::string> line(Walk& walk, const Node& node, std::size_t bytes_max) {
    auto value = walk.text(node, bytes_max);
    if (!value) return std::nullopt;
    for (std::size_t at = 0; at < value->size();) {
        const auto c = next_character(*value, at);
        if (c && !is_control(*c)) continue;
        walk.wrong(node, "a text without control characters");
        return std::nullopt;
    }
    return value;
}

std::optional<std::string> absolute_path(Walk& walk, const Node& node) {
    auto path = line(walk, node, 4096);
    if (!path || path->starts_with('/')) return path;
    walk.wrong(node, "an absolute path");
    return std::nullopt;
}

/// http or https, no user, query or fragment; plain http only where nobody can listen in.
std::optional<std::string> web_url(Walk& walk, const Node& node) {
    auto typed = line(walk, node, 1024);
    if (!typed) return std::nullopt;
    const auto url = boost::urls::parse_uri(*typed);
    // Boost.URL 1.81 reads "http://127.0.0.1.example.org" as the host 127.0.0.1 with the path ".example.org".
    const bool whole_host = url && (url->encoded_path().empty() || url->encoded_path().starts_with('/'));
    const bool shaped = whole_host && (url->scheme() == "http" || url->scheme() == "https") &&
                        !url->host().empty() && !url->has_userinfo() && !url->has_query() &&
                        !url->has_fragment();
    if (!shaped) {
        walk.wrong(node, "a URL such as https://host/path (no user, no query)");
        return std::nullopt;
    }
    if (url->scheme() == "http" && !is_loopback_host(url->host())) {
        walk.wrong(node, "an https:// URL; http:// is accepted for loopback addresses only");
        return std::nullopt;
    }
    while (typed->ends_with('/')) typed->pop_back();
    return typed;
}

/// A key as text or "env:NAME". The messages never show the value. The variable that is looked at without any
/// configuration may be unset: then the provider is not used, as without the line.
void read_key(Walk& walk, const Node& node, std::string_view usual, const GetEnv& env, Secret& into) {
    constexpr std::string_view prefix = "env:";
    if (node.kind == Node::Kind::null || (node.kind == Node::Kind::scalar && node.text.empty())) {
        into = Secret();  // written down as "no key": the environment does not count
        return;
    }
    if (node.kind != Node::Kind::scalar || node.text.size() > 4096) {
        walk.error(node, ErrorKind::invalid, "must be a key of at most 4096 bytes or env:NAME");
        return;
    }
    std::string value = node.text;
    if (node.text.starts_with(prefix)) {
        const std::string name = node.text.substr(prefix.size());
        const auto set = env(name);
        if (!set && name != usual) {
            // Somebody may have put the key itself behind env:.
            const bool is_name = std::ranges::all_of(
                name, [](char c) { return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; });
            walk.error(node, ErrorKind::invalid,
                       "names the environment variable " + (is_name ? shown(name) : std::string("(not shown)")) +
                           ", which is not set");
            return;
        }
        value = set.value_or("");
    }
    const bool printable = std::ranges::all_of(value, [](char c) { return c > ' ' && c < '\x7F'; });
    if (printable)
        into = Secret(std::move(value));
    else
        walk.error(node, ErrorKind::invalid, "must be printable ASCII without spaces");
}

void read_listen(Walk& walk, const Node& node, ListenAddress& into) {
    auto address = node.kind == Node::Kind::scalar ? parse_listen_address(node.text) : std::nullopt;
    if (address)
        into = *std::move(address);
    else
        walk.wrong(node, "an address and a port from 0 to 65535 (\"127.0.0.1:8470\", \"[::1]:8470\")");
}

void read_url(Walk& walk, const Node& node, std::string& into) {
    if (auto url = web_url(walk, node)) into = std::move(*url);
}

constexpr auto kTls = std::to_array<SettingField>({
    {"cert",
     [](Walk& w, const Node& n, Draft& d) {
         if (auto v = absolute_path(w, n)) d.settings.tls_cert = std::move(*v);
     }},
    {"key",
     [](Walk& w, const Node& n, Draft& d) {
         if (auto v = absolute_path(w, n)) d.settings.tls_key = std::move(*v);
     }},
});

void read_clouds(Walk& walk, const Node& node, Draft& draft) {
    constexpr std::array<std::string_view, 2> names{"secure", "community"};
    std::vector<std::string> clouds;
    walk.list(node, names.size(), [&](const Node& item) {
        if (auto name = walk.one_of(item, names)) clouds.push_back(std::move(*name));
    });
    if (node.kind == Node::Kind::sequence && node.items.empty())
        walk.wrong(node, "a list of secure, community or both");
    draft.settings.providers.runpod.clouds = std::move(clouds);
}

constexpr auto kRunpod = std::to_array<SettingField>({
    {"api_key",
     [](Walk& w, const Node& n, Draft& d) {
         read_key(w, n, "RUNPOD_API_KEY", *d.env, d.settings.providers.runpod.api_key);
     }},
    {"api_url",
     [](Walk& w, const Node& n, Draft& d) { read_url(w, n, d.settings.providers.runpod.api_url); }},
    {"graphql_url",
     [](Walk& w, const Node& n, Draft& d) { read_url(w, n, d.settings.providers.runpod.graphql_url); }},
    {"clouds", read_clouds},
    {"spot",
     [](Walk& w, const Node& n, Draft& d) {
         if (auto v = w.boolean(n)) d.settings.providers.runpod.spot = *v;
     }},
});
constexpr auto kVastai = std::to_array<SettingField>({
    {"api_key",
     [](Walk& w, const Node& n, Draft& d) {
         read_key(w, n, "VAST_API_KEY", *d.env, d.settings.providers.vastai.api_key);
     }},
    {"api_url",
     [](Walk& w, const Node& n, Draft& d) { read_url(w, n, d.settings.providers.vastai.api_url); }},
});
constexpr auto kLambda = std::to_array<SettingField>({
    {"api_key",
     [](Walk& w, const Node& n, Draft& d) {
         read_key(w, n, "LAMBDA_API_KEY", *d.env, d.settings.providers.lambda.api_key);
     }},
    {"api_url",
     [](Walk& w, const Node& n, Draft& d) { read_url(w, n, d.settings.providers.lambda.api_url); }},
});
constexpr auto kVultr = std::to_array<SettingField>({
    {"api_key",
     [](Walk& w, const Node& n, Draft& d) {
         read_key(w, n, "VULTR_API_KEY", *d.env, d.settings.providers.vultr.api_key);
     }},
    {"api_url", [](Walk& w, const Node& n, Draft& d) { read_url(w, n, d.settings.providers.vultr.api_url); }},
});
constexpr auto kLocal = std::to_array<SettingField>({
    {"enabled",
     [](Walk& w, const Node& n, Draft& d) {
         if (const auto v = w.boolean(n)) d.settings.providers.local.enabled = *v;
     }},
    {"electricity",
     [](Walk& w, const Node& n, Draft& d) {
         if (const auto v = w.dollars(n, 0, 1'000'000'000))
             d.settings.providers.local.electricity = UsdPerHour{*v};
     }},
});
constexpr auto kProviders = std::to_array<SettingField>({
    {"runpod", [](Walk& w, const Node& n, Draft& d) { read_section<Draft>(w, n, kRunpod, d); }},
    {"vastai", [](Walk& w, const Node& n, Draft& d) { read_section<Draft>(w, n, kVastai, d); }},
    {"lambda", [](Walk& w, const Node& n, Draft& d) { read_section<Draft>(w, n, kLambda, d); }},
    {"vultr", [](Walk& w, const Node& n, Draft& d) { read_section<Draft>(w, n, kVultr, d); }},
    {"local", [](Walk& w, const Node& n, Draft& d) { read_section<Draft>(w, n, kLocal, d); }},
});

template <Millis SettleSettings::* Member>
void read_settle(Walk& walk, const Node& node, Draft& draft) {
    if (const auto v = walk.duration(node, kShortest, kLongest)) draft.settings.timing.settle.*Member = *v;
}
constexpr auto kSettle = std::to_array<SettingField>({
    {"runpod", read_settle<&SettleSettings::runpod>},
    {"vastai", read_settle<&SettleSettings::vastai>},
    {"lambda", read_settle<&SettleSettings::lambda>},
    {"vultr", read_settle<&SettleSettings::vultr>},
});
void read_settles(Walk& walk, const Node& node, Draft& draft) {
    if (node.kind != Node::Kind::scalar) {
        read_section<Draft>(walk, node, kSettle, draft);
        return;
    }
    if (const auto v = walk.duration(node, kShortest, kLongest))
        draft.settings.timing.settle = {*v, *v, *v, *v};
}

template <Millis TimingSettings::* Member>
void read_time(Walk& walk, const Node& node, Draft& draft) {
    if (const auto v = walk.duration(node, kShortest, kLongest)) draft.settings.timing.*Member = *v;
}
constexpr auto kTiming = std::to_array<SettingField>({
    {"sweep", read_time<&TimingSettings::sweep>},
    {"offers", read_time<&TimingSettings::offers>},
    {"settle", read_settles},
    {"settle_alone", read_time<&TimingSettings::settle_alone>},
    {"unknown_move", read_time<&TimingSettings::unknown_move>},
    {"patience", read_time<&TimingSettings::patience>},
    {"start", read_time<&TimingSettings::start>},
    {"heartbeat", read_time<&TimingSettings::heartbeat>},
    {"silence", read_time<&TimingSettings::silence>},
    {"long_silence", read_time<&TimingSettings::long_silence>},
    {"machine_check", read_time<&TimingSettings::machine_check>},
    {"cooldown", read_time<&TimingSettings::cooldown>},
    {"backoff_max", read_time<&TimingSettings::backoff_max>},
    {"destroy_alert", read_time<&TimingSettings::destroy_alert>},
    {"stopped_alert", read_time<&TimingSettings::stopped_alert>},
    {"dead_man", read_time<&TimingSettings::dead_man>},
    {"balance", read_time<&TimingSettings::balance>},
    {"balance_alert", read_time<&TimingSettings::balance_alert>},
    {"balance_stop", read_time<&TimingSettings::balance_stop>},
});

constexpr auto kIdle = std::to_array<SettingField>({
    {"machine",
     [](Walk& w, const Node& n, Draft& d) {
         if (const auto v = w.duration(n, Millis{0}, kLongest)) d.settings.idle_machine = *v;
     }},
});
constexpr auto kHistory = std::to_array<SettingField>({
    {"keep",
     [](Walk& w, const Node& n, Draft& d) {
         if (const auto v = w.duration(n, kHistoryShortest, kHistoryLongest)) d.settings.history.keep = *v;
     }},
    {"every",
     [](Walk& w, const Node& n, Draft& d) {
         if (const auto v = w.duration(n, Millis{0}, kHistoryLooksMost)) d.settings.history.every = *v;
     }},
});
void read_machines(Walk& w, const Node& n, std::optional<int>& into) {
    if (n.kind == Node::Kind::null)
        into.reset();
    else if (const auto v = w.integer(n, 0, 100'000))
        into = static_cast<int>(*v);
}
void read_rate(Walk& w, const Node& n, std::optional<UsdPerHour>& into) {
    if (n.kind == Node::Kind::null)
        into.reset();
    else if (const auto v = w.dollars(n, 0, 1'000'000'000'000))
        into = UsdPerHour{*v};
}
constexpr auto kProviderQuota = std::to_array<Field<ProviderQuotaSettings>>({
    {"machines", [](Walk& w, const Node& n, ProviderQuotaSettings& q) { read_machines(w, n, q.machines_max); }},
    {"usd_per_hour", [](Walk& w, const Node& n, ProviderQuotaSettings& q) { read_rate(w, n, q.rate_max); }},
});
void read_provider_quotas(Walk& w, const Node& n, Draft& d) {
    if (n.kind == Node::Kind::null) return;
    std::vector<std::string_view> known;
    for (const auto& provider : kProviders) known.push_back(provider.key);
    const auto read = [&](const Node::Key& key, const Node& value) {
        read_section<ProviderQuotaSettings>(w, value, kProviderQuota, d.settings.provider_quotas[key.text]);
    };
    w.entries(n, known.size(), read, known);
}
constexpr auto kQuotas = std::to_array<SettingField>({
    {"machines", [](Walk& w, const Node& n, Draft& d) { read_machines(w, n, d.settings.machines_max); }},
    {"usd_per_hour", [](Walk& w, const Node& n, Draft& d) { read_rate(w, n, d.settings.rate_max); }},
    {"providers", read_provider_quotas},
});
constexpr auto kProject = std::to_array<Field<int>>({
    {"weight",
     [](Walk& w, const Node& n, int& weight) {
         if (const auto v = w.integer(n, 1, kProjectWeightMax)) weight = static_cast<int>(*v);
     }},
});
void read_projects(Walk& w, const Node& n, Draft& d) {
    if (n.kind == Node::Kind::null) return;
    w.entries(n, kProjectsMax, [&](const Node::Key& key, const Node& value) {
        if (key.text.empty() || key.text.size() > kProjectNameMax) {
            w.wrong(value, "under a name of 1 to " + std::to_string(kProjectNameMax) + " bytes");
            return;
        }
        read_section<int>(w, value, kProject, d.settings.project_weights.try_emplace(key.text, 1).first->second);
    });
}
constexpr auto kMachine = std::to_array<SettingField>({
    {"cuda_probe",
     [](Walk& w, const Node& n, Draft& d) {
         if (const auto v = w.choice<CudaProbePolicy>(n)) d.settings.cuda_probe = *v;
     }},
});
constexpr auto kGpus = std::to_array<SettingField>({
    {"table",
     [](Walk& w, const Node& n, Draft& d) {
         if (auto v = absolute_path(w, n)) d.settings.gpu_table = std::move(*v);
     }},
    {"aliases",
     [](Walk& w, const Node& n, Draft& d) {
         if (auto v = absolute_path(w, n)) d.settings.gpu_aliases = std::move(*v);
     }},
});
constexpr auto kCheckpoints = std::to_array<SettingField>({
    {"store",
     [](Walk& w, const Node& n, Draft&) {
         const auto name = line(w, n, 64);
         if (name && *name != "file")
             not_yet(w, n, "checkpoints are kept in the data directory (store: file)");
     }},
});

void read_install_id(Walk& walk, const Node& node, Draft& draft) {
    const auto id = line(walk, node, 8);
    if (!id) return;
    const bool good = id->size() == 8 && std::ranges::all_of(*id, [](char c) {
                          return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
                      });
    if (good || *id == "auto")
        draft.settings.install_id = *id;
    else
        walk.wrong(node, "auto, or 8 characters of a-z and 0-9");
}

bool zone_exists(const std::string& name) {
    try {
        return date::locate_zone(name) != nullptr;
    } catch (const std::runtime_error&) {
        return false;
    }
}

void read_timezone(Walk& walk, const Node& node, Draft& draft) {
    const auto zone = line(walk, node, 64);
    if (!zone) return;
    const bool good = std::ranges::all_of(*zone, [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               std::string_view("/_-+").find(c) != std::string_view::npos;
    });
    if (good && zone->front() != '/' && zone_exists(*zone))
        draft.settings.timezone = *zone;
    else
        walk.wrong(node, "a time zone of the tz database such as Europe/Berlin (is tzdata installed?)");
}

void read_advertise_url(Walk& walk, const Node& node, Draft& draft) {
    if (node.kind == Node::Kind::null || (node.kind == Node::Kind::scalar && node.text == "none"))
        draft.settings.advertise_url.clear();
    else
        read_url(walk, node, draft.settings.advertise_url);
}

/// Names as a Host header has them, without the port.
void read_allowed_hosts(Walk& walk, const Node& node, Draft& draft) {
    std::vector<std::string> hosts;
    walk.list(node, kAllowedHostsMax, [&](const Node& item) {
        auto host = line(walk, item, 253);
        if (!host) return;
        std::ranges::transform(*host, host->begin(),
                               [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
        // An IPv6 address stands in brackets, as in the header, so that a port is never taken for a part of it.
        const bool bracketed = host->starts_with('[') && host->ends_with(']') && host->size() > 2;
        std::string_view inside = *host;
        if (bracketed) inside = inside.substr(1, inside.size() - 2);
        const bool good = !inside.empty() && std::ranges::all_of(inside, [bracketed](char c) {
            return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
                   (bracketed && c == ':');
        });
        if (good)
            hosts.push_back(std::move(*host));
        else
            walk.wrong(item, "a host name without scheme and port (\"ferry.example.org\", \"[2001:db8::5]\")");
    });
    draft.settings.allowed_hosts = std::move(hosts);
}

constexpr auto kSettings = std::to_array<SettingField>({
    {"listen", [](Walk& w, const Node& n, Draft& d) { read_listen(w, n, d.settings.listen); }},
    {"agent_listen", [](Walk& w, const Node& n, Draft& d) { read_listen(w, n, d.settings.agent_listen); }},
    {"advertise_url", read_advertise_url},
    {"reach", [](Walk& w, const Node& n, Draft& d) {
         if (const auto v = w.choice<ReachPolicy>(n)) d.settings.reach = *v;
     }},
    {"allowed_hosts", read_allowed_hosts},
    {"data_dir", [](Walk& w, const Node& n, Draft& d) {
         if (auto v = absolute_path(w, n)) d.settings.data_dir = std::move(*v);
     }},
    {"timezone", read_timezone},
    {"tls", [](Walk& w, const Node& n, Draft& d) { read_section<Draft>(w, n, kTls, d); }},
    {"providers", [](Walk& w, const Node& n, Draft& d) { read_section<Draft>(w, n, kProviders, d); }},
    {"timing", [](Walk& w, const Node& n, Draft& d) { read_section<Draft>(w, n, kTiming, d); }},
    {"idle", [](Walk& w, const Node& n, Draft& d) { read_section<Draft>(w, n, kIdle, d); }},
    {"history", [](Walk& w, const Node& n, Draft& d) { read_section<Draft>(w, n, kHistory, d); }},
    {"orphans", [](Walk& w, const Node& n, Draft& d) {
         if (const auto v = w.choice<OrphanPolicy>(n)) d.settings.orphans = *v;
     }},
    {"install_id", read_install_id},
    {"quotas", [](Walk& w, const Node& n, Draft& d) { read_section<Draft>(w, n, kQuotas, d); }},
    {"projects", read_projects},
    {"machine", [](Walk& w, const Node& n, Draft& d) { read_section<Draft>(w, n, kMachine, d); }},
    {"gpus", [](Walk& w, const Node& n, Draft& d) { read_section<Draft>(w, n, kGpus, d); }},
    {"checkpoints", [](Walk& w, const Node& n, Draft& d) { read_section<Draft>(w, n, kCheckpoints, d); }},
    {"stores", [](Walk& w, const Node& n, Draft&) {
         if (!empty(n)) not_yet(w, n, "checkpoints and outputs are kept in the data directory");
     }},
    {"budgets", [](Walk& w, const Node& n, Draft&) {
         if (!empty(n)) not_yet(w, n, "use quotas.usd_per_hour and, per job, limits.duration");
     }},
    {"channels", [](Walk& w, const Node& n, Draft&) {
         if (!empty(n)) not_yet(w, n, "alerts are shown by gpuferry alerts");
     }},
});

void check_across(Walk& walk, const Node& root, const Settings& s) {
    const auto wrong = [&](std::string field, std::string message) {
        walk.error_at(root.place, ErrorKind::invalid, field, field + " " + message);
    };
    if (s.tls_cert.empty() != s.tls_key.empty()) wrong("tls", "needs both cert and key");
    const auto& t = s.timing;
    if (t.silence < 2 * t.heartbeat)
        wrong("timing.silence", "(" + duration_text(t.silence) +
                                    ") must be at least twice timing.heartbeat (" +
                                    duration_text(t.heartbeat) + ")");
    if (t.long_silence < t.silence)
        wrong("timing.long_silence", "(" + duration_text(t.long_silence) +
                                         ") must not be shorter than timing.silence (" +
                                         duration_text(t.silence) + ")");
    if (s.data_dir.empty()) wrong("data_dir", "is missing, and neither XDG_DATA_HOME nor HOME is set");
}

}  // namespace

Result<Settings> parse_settings(std::string_view yaml, const GetEnv& env, bool is_root) {
    if (yaml.size() > kSettingsBytesMax)
        return fail(ErrorKind::malformed, "the configuration is larger than 1 MiB");
    const auto root = read_yaml(yaml);
    if (!root) {
        // A file of comments only says nothing, which is a configuration.
        if (root.error().message != "the text is empty") return fail(root.error());
        return default_settings(env, is_root);
    }
    Walk walk(1);
    Draft draft{.settings = default_settings(env, is_root), .env = &env};
    if (root->kind != Node::Kind::null) read_section<Draft>(walk, *root, kSettings, draft);
    if (!walk.full()) check_across(walk, *root, draft.settings);
    if (walk.full()) return fail(walk.errors().front());
    return std::move(draft.settings);
}

}  // namespace gf
