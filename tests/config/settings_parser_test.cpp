#include <doctest/doctest.h>

#include <map>

#include "config/settings.hpp"

using namespace gf;

namespace {

using Environment = std::map<std::string, std::string, std::less<>>;

GetEnv env(Environment variables = {{"HOME", "/home/u"}}) {
    return [variables = std::move(variables)](std::string_view name) -> std::optional<std::string> {
        const auto at = variables.find(name);
        if (at == variables.end()) return std::nullopt;
        return at->second;
    };
}

Result<Settings> parse(std::string_view yaml, Environment variables = {{"HOME", "/home/u"}}) {
    return parse_settings(yaml, env(std::move(variables)), false);
}

}  // namespace

TEST_CASE("without a file the daemon has defaults and the environment's keys") {
    const auto root = default_settings(env({}), true);
    CHECK(root.data_dir == "/var/lib/gpuferry");
    CHECK(!root.providers.runpod.enabled());
    CHECK(root.providers.local.enabled);
    CHECK(root.listen == ListenAddress{"127.0.0.1", 8470});
    CHECK(!root.machines_max.has_value());
    const auto user = default_settings(env({{"HOME", "/home/u"},
                                            {"RUNPOD_API_KEY", "r"},
                                            {"VAST_API_KEY", "v"},
                                            {"LAMBDA_API_KEY", "l"},
                                            {"VULTR_API_KEY", "u"}}),
                                       false);
    CHECK(user.data_dir == "/home/u/.local/share/gpuferry");
    CHECK(user.providers.runpod.api_key.equals("r"));
    CHECK(user.providers.vastai.api_key.equals("v"));
    CHECK(user.providers.lambda.api_key.equals("l"));
    CHECK(user.providers.vultr.api_key.equals("u"));
    CHECK(default_data_dir(env({{"HOME", "/h"}, {"XDG_DATA_HOME", "/x"}}), false) == "/x/gpuferry");
    CHECK(default_data_dir(env({{"HOME", "/h"}, {"XDG_DATA_HOME", "rel"}}), false) ==
          "/h/.local/share/gpuferry");
    CHECK(default_data_dir(env({}), false) == "");
}

TEST_CASE("every section is read") {
    const auto s = parse(R"(
listen: "[::1]:0"
agent_listen: 10.0.0.1:9000
advertise_url: https://ferry.example.org/
allowed_hosts: [Ferry.Example.org, "[2001:db8::5]"]
data_dir: /srv/ferry
timezone: America/Argentina/Buenos_Aires
tls: {cert: /c.pem, key: /k.pem}
providers:
  runpod: {api_key: env:MY_KEY, api_url: "http://127.0.0.1:9001/v2/", graphql_url: http://localhost:9001/graphql, clouds: [secure], spot: true}
  vastai: {api_key: literal-key, api_url: "http://[::1]:9002"}
  local: {enabled: false, electricity: 0.05}
timing: {sweep: 500ms, settle: 7s, dead_man: 1h30m}
idle: {machine: 0s}
history: {keep: 30d, every: 0s}
orphans: adopt
reach: ssh
install_id: ab12cd34
quotas: {machines: 3, usd_per_hour: 4.50, providers: {vastai: {machines: 2}, runpod: {usd_per_hour: 1.25, machines:}}}
projects: {research: {weight: 3}, "quiet one": {}}
machine: {cuda_probe: if_present}
gpus: {table: /g.csv, aliases: /a.csv}
checkpoints: {store: file}
stores: {}
budgets: []
channels:
)",
                         {{"HOME", "/h"}, {"MY_KEY", "k1"}});
    REQUIRE_MESSAGE(s.has_value(), s.error().message);
    CHECK(text(s->listen) == "[::1]:0");
    CHECK(text(s->agent_listen) == "10.0.0.1:9000");
    CHECK(s->advertise_url == "https://ferry.example.org");
    CHECK(s->allowed_hosts == std::vector<std::string>{"ferry.example.org", "[2001:db8::5]"});
    CHECK(s->data_dir == "/srv/ferry");
    CHECK(s->timezone == "America/Argentina/Buenos_Aires");
    CHECK(s->tls_cert == "/c.pem");
    CHECK(s->tls_key == "/k.pem");
    CHECK(s->providers.runpod.api_key.equals("k1"));
    CHECK(s->providers.runpod.api_url == "http://127.0.0.1:9001/v2");
    CHECK(s->providers.runpod.clouds == std::vector<std::string>{"secure"});
    CHECK(s->providers.vastai.api_key.equals("literal-key"));
    CHECK(s->providers.vastai.api_url == "http://[::1]:9002");
    CHECK(!s->providers.local.enabled);
    CHECK(s->providers.local.electricity == UsdPerHour{50'000});
    CHECK(s->timing.sweep == Millis{500});
    CHECK(s->timing.settle == SettleSettings{Seconds{7}, Seconds{7}, Seconds{7}, Seconds{7}});
    CHECK(s->timing.dead_man == std::chrono::minutes{90});
    CHECK(s->timing.offers == Seconds{30});
    CHECK(s->idle_machine == Millis{0});
    CHECK(s->history == HistorySettings{.keep = std::chrono::hours{30 * 24}, .every = Millis{0}});
    CHECK(s->orphans == OrphanPolicy::adopt);
    CHECK(s->reach == ReachPolicy::ssh);
    CHECK(s->install_id == "ab12cd34");
    CHECK(s->machines_max == 3);
    CHECK(s->rate_max == UsdPerHour{4'500'000});
    CHECK(s->provider_quotas == std::map<std::string, ProviderQuotaSettings>{{"vastai", {.machines_max = 2, .rate_max = {}}},
                                                                             {"runpod", {.machines_max = {}, .rate_max = UsdPerHour{1'250'000}}}});
    CHECK(s->project_weights == std::map<std::string, int>{{"research", 3}, {"quiet one", 1}});
    CHECK(s->cuda_probe == CudaProbePolicy::if_present);
    CHECK(s->gpu_table == "/g.csv");
    CHECK(s->gpu_aliases == "/a.csv");
}

TEST_CASE("settle may be told per provider") {
    const auto s = parse("timing: {settle: {vastai: 45s}}\n");
    REQUIRE(s.has_value());
    CHECK(s->timing.settle == SettleSettings{Seconds{60}, Seconds{45}, Seconds{120}, Seconds{120}});
}

TEST_CASE("an empty file, or one of comments, is the defaults") {
    for (const auto* text : {"", "# nothing\n", "---\n", "{}\n"}) {
        CAPTURE(std::string(text));
        const auto s = parse(text);
        REQUIRE(s.has_value());
        CHECK(s->listen == Settings{}.listen);
        CHECK(s->data_dir == "/home/u/.local/share/gpuferry");
    }
}

TEST_CASE("bad settings are refused with field, place and range") {
    struct Row {
        const char* yaml;
        ErrorKind kind;
        const char* field;
        int column;
        const char* message_has;
    };
    using enum ErrorKind;
    const Row table[] = {
        {"listne: 1", invalid, "listne", 1, "did you mean \"listen\""},
        {"timing: {swep: 1s}", invalid, "timing.swep", 10, "did you mean \"sweep\""},
        {"listen: 8470", invalid, "listen", 9, "an address and a port"},
        {"listen: 127.0.0.1:70000", invalid, "listen", 9, "an address and a port"},
        {"listen: \"::1:80\"", invalid, "listen", 9, "[::1]:8470"},
        {"data_dir: relative", invalid, "data_dir", 11, "an absolute path"},
        {"advertise_url: http://ferry.example.org", invalid, "advertise_url", 16, "loopback"},
        {"advertise_url: ferry.example.org", invalid, "advertise_url", 16, "a URL"},
        {"allowed_hosts: [\"https://ferry.example.org\"]", invalid, "allowed_hosts[0]", 17, "without scheme and port"},
        {"allowed_hosts: [\"ferry.example.org:8470\"]", invalid, "allowed_hosts[0]", 17, "without scheme and port"},
        {"providers: {vastai: {api_url: \"http://console.vast.ai\"}}", invalid, "providers.vastai.api_url",
         31, "loopback addresses only"},
        {"providers: {vastai: {api_url: \"http://127.0.0.1.example.org\"}}", invalid,
         "providers.vastai.api_url", 31, "a URL"},
        {"providers: {vastai: {api_url: \"https://a:b@host/\"}}", invalid, "providers.vastai.api_url", 31,
         "no user"},
        {"providers: {vastai: {api_url: \"ftp://host/\"}}", invalid, "providers.vastai.api_url", 31, "a URL"},
        {"providers: {vastai: {api_key: env:NO_SUCH}}", invalid, "providers.vastai.api_key", 31,
         "NO_SUCH, which is not set"},
        {"providers: {vastai: {api_key: \"a b\"}}", invalid, "providers.vastai.api_key", 31, "printable"},
        {"providers: {vastai: {api_key: [x]}}", invalid, "providers.vastai.api_key", 31, "env:NAME"},
        {"providers: {aws: {}}", invalid, "providers.aws", 13, "unknown key"},
        {"providers: {runpod: {spot: 1}}", invalid, "providers.runpod.spot", 28, "true or false"},
        {"providers: {runpod: {clouds: [all]}}", invalid, "providers.runpod.clouds[0]", 31,
         "secure, community"},
        {"providers: {local: {electricity: -1}}", invalid, "providers.local.electricity", 34,
         "dollars from 0.00"},
        {"history: {every: 8m}", invalid, "history.every", 18, "from 0s to 7m"},
        {"history: {keep: 23h}", invalid, "history.keep", 17, "from 1d to 365d"},
        {"timing: {sweep: 0s}", invalid, "timing.sweep", 17, "from 10ms to 30d"},
        {"timing: {sweep: 31d}", invalid, "timing.sweep", 17, "from 10ms to 30d"},
        {"timing: {sweep: 10}", invalid, "timing.sweep", 17, "a duration"},
        {"timing: {silence: 15s}", invalid, "timing.silence", 1, "at least twice timing.heartbeat (10s)"},
        {"timing: {long_silence: 1m}", invalid, "timing.long_silence", 1, "not be shorter"},
        {"timing: {settle: {aws: 1s}}", invalid, "timing.settle.aws", 19, "unknown key"},
        {"reach: vpn", invalid, "reach", 8, "one of auto, direct, ssh"},
        {"orphans: kill", invalid, "orphans", 10, "one of report, destroy, adopt"},
        {"install_id: ABCDEFGH", invalid, "install_id", 13, "8 characters of a-z and 0-9"},
        {"quotas: {machines: -1}", invalid, "quotas.machines", 20, "from 0 to 100000"},
        {"quotas: {usd_per_hour: inf}", invalid, "quotas.usd_per_hour", 24, "dollars"},
        {"quotas: {providers: {aws: {machines: 1}}}", invalid, "quotas.providers.aws", 22, "unknown key"},
        {"quotas: {providers: {vastai: {machines: x}}}", invalid, "quotas.providers.vastai.machines", 41, "from 0 to 100000"},
        {"quotas: {providers: {vastai: {usd: 1}}}", invalid, "quotas.providers.vastai.usd", 31, "unknown key"},
        {"quotas: {providers: {vastai: 3}}", invalid, "quotas.providers.vastai", 30, "a mapping"},
        {"quotas: {providers: [vastai]}", invalid, "quotas.providers", 21, "a mapping"},
        {"projects: {research: {weight: 0}}", invalid, "projects.research.weight", 31, "from 1 to 1000"},
        {"projects: {research: {share: 1}}", invalid, "projects.research.share", 23, "unknown key"},
        {"projects: {research: 3}", invalid, "projects.research", 22, "a mapping"},
        {"machine: {cuda_probe: true}", invalid, "machine.cuda_probe", 23, "required, if_present, off"},
        {"tls: {cert: /c}", invalid, "tls", 1, "both cert and key"},
        {"timezone: \"Europe/Berlin; x\"", invalid, "timezone", 11, "a time zone"},
        {"timezone: Mars/Base", invalid, "timezone", 11, "tz database"},
        {"checkpoints: {store: bucket}", not_yet, "checkpoints.store", 22, "not yet"},
        {"stores: {bucket: {type: s3}}", not_yet, "stores", 9, "not yet"},
        {"budgets: [{name: month}]", not_yet, "budgets", 10, "not yet"},
        {"channels: [{name: team}]", not_yet, "channels", 11, "not yet"},
        {"listen: x\nlisten: y", malformed, "", 1, "twice"},
        {"[]", invalid, "", 1, "a mapping"},
    };
    for (const auto& row : table) {
        CAPTURE(std::string(row.yaml));
        const auto got = parse(row.yaml);
        REQUIRE(!got.has_value());
        CAPTURE(got.error().message);
        CHECK(got.error().kind == row.kind);
        CHECK(got.error().field == row.field);
        CHECK(got.error().column == row.column);
        CHECK(got.error().message.find(row.message_has) != std::string::npos);
    }
    CHECK(parse("listen: 127.0.0.1:1\n", {}).error().field == "data_dir");
}

TEST_CASE("a key never shows in a message") {
    for (const auto* yaml :
         {"providers: {vastai: {api_key: \"sekrit key\"}}", "providers: {vastai: {api_key: {sekrit: 1}}}",
          "providers: {runpod: {graphql_url: \"https://api.runpod.io/graphql?api_key=sekrit\"}}",
          "providers: {vastai: {api_url: \"https://bob:sekrit@example.org\"}}", "providers: {vastai: {api_url: sekrit}}",
          "advertise_url: \"https://bob:sekrit@example.org\"", "advertise_url: \"https://example.org/?token=sekrit\"",
          "providers: {runpod: sekrit}", "providers: sekrit", "providers: {runpod: {sekrit}}",
          "providers: {runpod: {clouds: sekrit}}", "providers: {runpod: {spot: sekrit}}",
          "providers: {vastai: {api_key: \"env:sekrit\"}}", "providers: {local: {electricity: sekrit}}",
          "providers: {local: {enabled: sekrit}}", "stores: sekrit", "channels: [{url: sekrit}]"}) {
        CAPTURE(std::string(yaml));
        const auto got = parse(yaml);
        REQUIRE(!got.has_value());
        CHECK(got.error().message.find("sekrit") == std::string::npos);
    }
}

TEST_CASE("the usual variable may be unset, an empty key switches a provider off") {
    CHECK(!parse("providers: {vastai: {api_key: env:VAST_API_KEY}}\n")->providers.vastai.enabled());
    const auto off = parse("providers: {vastai: {api_key: \"\"}}\n", {{"HOME", "/h"}, {"VAST_API_KEY", "v"}});
    REQUIRE(off.has_value());
    CHECK(!off->providers.vastai.enabled());
}

TEST_CASE("loopback is 127.0.0.0/8, ::1 and localhost, nothing that only looks so") {
    for (const auto* host : {"127.0.0.1", "127.255.0.3", "::1", "[::1]", "localhost"})
        CHECK_MESSAGE(is_loopback_host(host), host);
    for (const auto* host : {"127.0.0.1.example.org", "127.0.0", "1127.0.0.1", "127.0.0.256", "0.0.0.0",
                             "localhost.example.org", "::2", "", "127.0.0.1x"})
        CHECK_MESSAGE(!is_loopback_host(host), host);
}
