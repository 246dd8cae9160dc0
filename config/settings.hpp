// The daemon's configuration (gpuferryd.yaml), parsed and checked. `Settings{}` plus `apply_environment` is
// what runs without any file. config/gpuferryd.example.yaml is the reference: every key with its default,
// unit and range; a test holds the two together. Nothing here opens a file; the environment comes in as a
// function.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/enum_text.hpp"
#include "model/money.hpp"
#include "model/result.hpp"
#include "model/secret.hpp"
#include "model/time.hpp"

namespace gf {

/// A host (name, IPv4, or IPv6 without brackets) and a TCP port; port 0 takes a free one.
struct ListenAddress {
    std::string host;
    std::uint16_t port{0};
    friend bool operator==(const ListenAddress&, const ListenAddress&) = default;
};
/// "127.0.0.1:8470", "[::1]:8470".
[[nodiscard]] std::string text(const ListenAddress& address);
/// Nothing for a text without a port, with an empty host, or with a port above 65535.
[[nodiscard]] std::optional<ListenAddress> parse_listen_address(std::string_view text);

/// True for 127.0.0.0/8, ::1 and "localhost": where plain HTTP is allowed. `host` without brackets.
[[nodiscard]] bool is_loopback_host(std::string_view host);

/// A cloud takes part exactly when it has a key; without one it is absent and costs nothing.
struct CloudSettings {
    Secret api_key;       // empty = this provider is not used
    std::string api_url;  // no trailing slash; http:// only on loopback
    [[nodiscard]] bool enabled() const { return !api_key.empty(); }
};
struct RunpodSettings : CloudSettings {
    std::string graphql_url{"https://api.runpod.io/graphql"};
    std::vector<std::string> clouds{"secure", "community"};  // sub-markets that may be used
    bool spot{false};  // also the interruptible pods of the legacy GraphQL market, which is being withdrawn
};
struct LocalSettings {
    bool enabled{true};
    UsdPerHour electricity;  // what an hour of this machine at work costs
};
struct ProvidersSettings {
    RunpodSettings runpod;
    CloudSettings vastai;
    CloudSettings lambda;
    CloudSettings vultr;
    LocalSettings local;
};

/// How long a create call may stay invisible in listings, per provider (DESIGN 6.1).
struct SettleSettings {
    Millis runpod{Seconds{60}};
    Millis vastai{Seconds{90}};
    Millis lambda{Seconds{120}};
    Millis vultr{Seconds{120}};
    friend bool operator==(const SettleSettings&, const SettleSettings&) = default;
};

struct TimingSettings {
    Millis sweep{Seconds{10}};   // between listings of each provider
    Millis offers{Seconds{30}};  // between looks at each market
    SettleSettings settle;
    Millis settle_alone{std::chrono::minutes{5}};  // when no live machine of ours is there to compare with
    Millis unknown_move{
        std::chrono::minutes{10}};  // after it the task of an `unknown` machine may go elsewhere
    Millis patience{
        std::chrono::minutes{10}};  // an interrupted machine without a checkpoint elsewhere is kept so long
    Millis start{std::chrono::minutes{20}};  // from the create call to a working agent
    Millis heartbeat{Seconds{10}};
    Millis silence{Seconds{90}};
    Millis long_silence{std::chrono::minutes{30}};
    Millis machine_check{std::chrono::minutes{2}};
    Millis cooldown{std::chrono::minutes{10}};  // of an offer after a refusal
    Millis backoff_max{std::chrono::minutes{5}};
    Millis destroy_alert{std::chrono::minutes{5}};
    Millis stopped_alert{std::chrono::hours{24}};
    Millis dead_man{std::chrono::hours{2}};
    Millis balance{Seconds{60}};
    Millis balance_alert{std::chrono::hours{12}};   // burn left
    Millis balance_stop{std::chrono::minutes{20}};  // burn left
    friend bool operator==(const TimingSettings&, const TimingSettings&) = default;
};

/// The record of the market (docs/market-history.md).
struct HistorySettings {
    Millis keep{std::chrono::hours{90 * 24}};  // changes; after that days
    Millis every{std::chrono::minutes{5}};     // looks at a market that nobody waits for; 0 = none for the record's sake
    friend bool operator==(const HistorySettings&, const HistorySettings&) = default;
};

enum class OrphanPolicy : std::uint8_t { report, destroy, adopt };
GF_ENUM_NAMES(OrphanPolicy, {{E::report, "report"}, {E::destroy, "destroy"}, {E::adopt, "adopt"}});

enum class CudaProbePolicy : std::uint8_t { required, if_present, off };
GF_ENUM_NAMES(CudaProbePolicy, {{E::required, "required"}, {E::if_present, "if_present"}, {E::off, "off"}});

/// How agents on rented machines reach the daemon, see docs/ssh.md.
enum class ReachPolicy : std::uint8_t { automatic, direct, ssh };
GF_ENUM_NAMES(ReachPolicy, {{E::automatic, "auto"}, {E::direct, "direct"}, {E::ssh, "ssh"}});

/// Limits on what is rented at one provider at one time; absent = no limit.
struct ProviderQuotaSettings {
    std::optional<int> machines_max;
    std::optional<UsdPerHour> rate_max;
    friend bool operator==(const ProviderQuotaSettings&, const ProviderQuotaSettings&) = default;
};

inline constexpr int kProjectWeightMax = 1000;

struct Settings {
    ListenAddress listen{"127.0.0.1", 8470};
    ListenAddress agent_listen{"0.0.0.0", 8471};
    std::string advertise_url;  // empty = none: only local machines, and those with a tunnel, can reach the daemon
    ReachPolicy reach{ReachPolicy::automatic};
    std::vector<std::string> allowed_hosts;  // lower case, without a port: further names of the REST face
    std::string data_dir;       // empty only before `default_data_dir` has filled it
    std::string timezone;       // IANA name; empty = the system's
    std::string tls_cert;       // PEM files; both or neither
    std::string tls_key;
    ProvidersSettings providers;
    TimingSettings timing;
    HistorySettings history;
    Millis idle_machine{std::chrono::minutes{5}};  // a machine without work for longer is destroyed
    OrphanPolicy orphans{OrphanPolicy::report};
    std::string install_id{"auto"};      // "auto" = made at the first start; else 8 of [a-z0-9]
    std::optional<int> machines_max;     // quotas.machines; absent = no limit
    std::optional<UsdPerHour> rate_max;  // quotas.usd_per_hour; absent = no limit
    std::map<std::string, ProviderQuotaSettings> provider_quotas;  // quotas.providers
    std::map<std::string, int> project_weights;  // projects.NAME.weight, 1 to kProjectWeightMax; others have 1
    CudaProbePolicy cuda_probe{CudaProbePolicy::required};
    std::string gpu_table;    // file in place of the shipped config/gpus.csv; empty = shipped
    std::string gpu_aliases;  // file in place of the shipped config/aliases.csv
};

/// Looks a variable up; nothing when it is not set.
using GetEnv = std::function<std::optional<std::string>(std::string_view name)>;

/// What the daemon runs with when no file says otherwise: every default filled in, keys from the environment
/// (RUNPOD_API_KEY, VAST_API_KEY, LAMBDA_API_KEY, VULTR_API_KEY), `data_dir` by `default_data_dir`.
[[nodiscard]] Settings default_settings(const GetEnv& env, bool is_root);

/// A configuration file over those defaults. "env:NAME" in a secret reads the environment. Errors:
/// `malformed` for text that cannot be read, `invalid` for an unknown key, a bad value or an unset variable,
/// `not_yet` for stores, budgets, channels and checkpoints.store other than file; each with field, line and
/// column. Never shows a secret.
Result<Settings> parse_settings(std::string_view yaml, const GetEnv& env, bool is_root);

/// /var/lib/gpuferry for root; else $XDG_DATA_HOME/gpuferry or $HOME/.local/share/gpuferry. Empty if neither
/// is set.
[[nodiscard]] std::string default_data_dir(const GetEnv& env, bool is_root);

}  // namespace gf
