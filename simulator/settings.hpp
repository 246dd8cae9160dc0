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
    bool runpod_zero_gpus{false};  // a start on a full host succeeds with no GPU, billed as a CPU pod; else it is refused
    int runpod_lost_races{0};      // so many next creates find the listed stock gone
    int runpod_page_max{1000};
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

    int vastai_page_max{25};

    // Lambda.
    std::string lambda_key;
    bool lambda_limits{true};       // one call a second, one launch in twelve
    int lambda_429_form{3};         // 0 JSON, 1 HTML, 2 empty, 3 one after the other
    bool lambda_429_retry_after{false};
    int lambda_second_terminate{400};  // status of a terminate while terminating; 200 = it succeeds
    bool lambda_unknown_400{false};    // an unknown instance is 400, else 404
    bool lambda_duplicate_key_code{false};  // a taken key name is global/duplicate, else global/invalid-parameters
    bool lambda_account_inactive{false};    // launch is refused with 403
    bool lambda_boots_unhealthy{false};     // the next machines come up unhealthy
    int lambda_instance_limit{0};           // launches beyond so many machines are quota; 0 = none
    int lambda_lost_races{0};               // so many next launches find the listed capacity gone
    double lambda_refusal_rate{0.0};        // share of launches that do, at random (3 of 11 were seen)
    Millis lambda_silent{150'000};          // booting without an address
    Millis lambda_boot{60'000};             // booting with one
    Millis lambda_terminate{20'000};        // terminating
    Millis lambda_terminated_kept{0};       // rows that stay as `terminated` or `preempted`
    Millis lambda_list_lag{0};
    Millis lambda_read_lag{0};
    Millis lambda_restart{5'000};           // SIGTERM to SIGKILL at a restart

    // Vultr.
    std::string vultr_key;
    std::int64_t vultr_balance{100'000'000};
    std::string vultr_allowed_ip;       // the key's allow list; empty = every address
    int vultr_per_second{30};           // requests from one address; 0 = no limit
    bool vultr_limit_503{false};        // the old documents' status for that, else 429
    bool vultr_gone_400{true};          // a deleted machine reads 400 "invalid instance ID", else 404
    int vultr_second_delete{500};       // status of a delete while pending destruction
    bool vultr_taken_stops{false};      // a take-back leaves it stopped, else it vanishes
    bool vultr_any_user_data{false};    // user_data need not be base64
    bool vultr_per_page_clamps{false};  // per_page over 500 is 500, else 400
    bool vultr_string_counts{true};     // slices say gpu_count "1/8", else leave it out
    bool vultr_location_cost_array{false};  // no regional price is [] (PHP's way), else {}
    bool vultr_keyless_empty{true};     // without a key: no stock, and no GPU fields on whole nodes
    int vultr_page_max{500};
    int vultr_instance_limit{0};        // creates beyond so many machines are refused; 0 = none
    int vultr_lost_races{0};            // so many next creates find the listed stock gone
    double vultr_refusal_rate{0.0};     // share of creates that do, at random
    Millis vultr_pending{60'000};       // pending, without an address
    Millis vultr_install{120'000};      // installing and booting
    Millis vultr_locked{90'000};        // after create a delete answers 500 for so long
    Millis vultr_destroy{10'000};       // pending destruction
    Millis vultr_halt{5'000};           // SIGTERM to SIGKILL
    Millis vultr_list_lag{0};
    Millis vultr_read_lag{0};
    Millis vultr_unpaid_kept{7LL * 24 * 3'600'000};  // suspended so long: destroyed

    // All.
    Millis expired_kept{48LL * 3'600'000};
    double jitter{0.0};  // each delay is stretched by up to this share, from the seed

    [[nodiscard]] static Settings of_profile(bool observed);
};

/// Lays the keys of `patch` over `settings`; an unknown key or a wrong type changes nothing and is an error.
/// Durations are numbers with the suffix `_ms`; `runpod_balance` and `vastai_balance` are dollars.
[[nodiscard]] Result<std::string> apply_settings(Settings& settings, const nlohmann::json& patch);
[[nodiscard]] nlohmann::json to_json(const Settings& settings);

}  // namespace gf::sim
