// Everything about the providers' manners that a run can choose: delays, lags, limits, and which of two
// documented readings of an API is played. Times are in scaled time.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "model/result.hpp"
#include "model/time.hpp"

namespace gf::sim {

struct Settings {
    // Keys and money.
    std::string runpod_key;  // empty = any non-empty key is accepted
    std::string vastai_key;
    std::int64_t runpod_balance{100'000'000};  // micro-dollars at the start
    std::int64_t vastai_balance{100'000'000};

    // RunPod.
    bool runpod_observed{
        true};  // RUNNING at once with runtime null, else PROVISIONING -> STARTING -> RUNNING
    bool runpod_pagination{true};     // lists carry a "pagination" object
    bool runpod_container_key{true};  // the pod-scoped key may stop and terminate its own pod over v2
    bool graphql_retired{false};      // /graphql answers 410
    bool runpod_spot{false};          // podRentInterruptable finds a GPU
    bool runpod_refill{true};  // a freed GPU is taken by another tenant, so that `start` finds the host full
    bool stale_ports{false};   // the first read after a start still shows the old public ports
    int runpod_per_minute{600};
    int runpod_per_hour{30'000};
    int runpod_per_day{500'000};
    Millis runpod_provision{2'000};
    Millis runpod_pull{4'000};
    Millis runpod_grace{5'000};    // SIGTERM to SIGKILL
    Millis runpod_list_lag{0};     // how long a new pod is missing from lists
    Millis runpod_read_lag{0};     // and from reads by id
    Millis runpod_restart{1'000};  // pause before a container that ended is started again; doubles to 30 s

    // Vast.ai.
    bool vastai_wrong_key_401{false};       // else 404 auth_error
    bool vastai_v0_list_200{false};         // else 410
    bool vastai_intervals{true};            // minimum intervals between calls
    bool vastai_outbid_keeps_intent{true};  // an outbid instance keeps intended_status running, else stopped
    bool vastai_destroyed_not_found{true};  // second destroy: `not_found`, else `no_such_instance`
    bool vastai_stop_reads_exited{false};   // an ordinary stop ends in `exited`, else `stopped`
    bool low_bid_leaves_contract{true};
    int vastai_lost_races{0};     // so many next creates lose their race for the GPU
    Millis vastai_silent{1'000};  // actual_status null
    Millis vastai_created{1'000};
    Millis vastai_pull{4'000};
    Millis vastai_grace{0};       // outbid: SIGTERM to SIGKILL; 0 = SIGKILL at once
    Millis vastai_stop{2'000};    // an asked stop
    Millis vastai_resume{2'000};  // won bid to loading
    Millis vastai_destroy{3'000};
    Millis vastai_list_lag{2'000};
    Millis vastai_read_lag{1'000};
    Millis vastai_unpaid_kept{48LL * 3'600'000};  // credit at or below 0 so long: data destroyed

    // Both.
    Millis expired_kept{48LL * 3'600'000};
    double jitter{0.0};  // each delay is stretched by up to this share, from the seed

    [[nodiscard]] static Settings of_profile(bool observed);
};

/// Lays the keys of `patch` over `settings`; an unknown key or a wrong type changes nothing and is an error.
/// Durations are numbers with the suffix `_ms`; `runpod_balance` and `vastai_balance` are dollars.
[[nodiscard]] Result<std::string> apply_settings(Settings& settings, const nlohmann::json& patch);
[[nodiscard]] nlohmann::json to_json(const Settings& settings);

}  // namespace gf::sim
