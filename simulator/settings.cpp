#include "simulator/settings.hpp"

#include <nlohmann/json.hpp>

#include "simulator/market.hpp"

namespace gf::sim {

namespace {

using nlohmann::json;

/// One list of the keys serves reading and writing, so that they cannot drift apart.
template <class S, class Visit>
void each_setting(S& s, Visit visit) {
    visit("runpod_observed", s.runpod_observed);
    visit("runpod_pagination", s.runpod_pagination);
    visit("runpod_container_key", s.runpod_container_key);
    visit("graphql_retired", s.graphql_retired);
    visit("runpod_spot", s.runpod_spot);
    visit("runpod_refill", s.runpod_refill);
    visit("runpod_zero_gpus", s.runpod_zero_gpus);
    visit("runpod_lost_races", s.runpod_lost_races);
    visit("runpod_page_max", s.runpod_page_max);
    visit("stale_ports", s.stale_ports);
    visit("runpod_per_minute", s.runpod_per_minute);
    visit("runpod_per_hour", s.runpod_per_hour);
    visit("runpod_per_day", s.runpod_per_day);
    visit("runpod_provision_ms", s.runpod_provision);
    visit("runpod_pull_ms", s.runpod_pull);
    visit("runpod_grace_ms", s.runpod_grace);
    visit("runpod_list_lag_ms", s.runpod_list_lag);
    visit("runpod_read_lag_ms", s.runpod_read_lag);
    visit("runpod_restart_ms", s.runpod_restart);
    visit("vastai_wrong_key_401", s.vastai_wrong_key_401);
    visit("vastai_v0_list_200", s.vastai_v0_list_200);
    visit("vastai_intervals", s.vastai_intervals);
    visit("vastai_outbid_keeps_intent", s.vastai_outbid_keeps_intent);
    visit("vastai_destroyed_not_found", s.vastai_destroyed_not_found);
    visit("vastai_stop_reads_exited", s.vastai_stop_reads_exited);
    visit("low_bid_leaves_contract", s.low_bid_leaves_contract);
    visit("vastai_lost_races", s.vastai_lost_races);
    visit("vastai_silent_ms", s.vastai_silent);
    visit("vastai_created_ms", s.vastai_created);
    visit("vastai_pull_ms", s.vastai_pull);
    visit("vastai_grace_ms", s.vastai_grace);
    visit("vastai_stop_ms", s.vastai_stop);
    visit("vastai_resume_ms", s.vastai_resume);
    visit("vastai_destroy_ms", s.vastai_destroy);
    visit("vastai_list_lag_ms", s.vastai_list_lag);
    visit("vastai_read_lag_ms", s.vastai_read_lag);
    visit("vastai_unpaid_kept_ms", s.vastai_unpaid_kept);
    visit("vastai_page_max", s.vastai_page_max);
    visit("lambda_limits", s.lambda_limits);
    visit("lambda_429_form", s.lambda_429_form);
    visit("lambda_429_retry_after", s.lambda_429_retry_after);
    visit("lambda_second_terminate", s.lambda_second_terminate);
    visit("lambda_unknown_400", s.lambda_unknown_400);
    visit("lambda_duplicate_key_code", s.lambda_duplicate_key_code);
    visit("lambda_account_inactive", s.lambda_account_inactive);
    visit("lambda_boots_unhealthy", s.lambda_boots_unhealthy);
    visit("lambda_instance_limit", s.lambda_instance_limit);
    visit("lambda_lost_races", s.lambda_lost_races);
    visit("lambda_refusal_rate", s.lambda_refusal_rate);
    visit("lambda_silent_ms", s.lambda_silent);
    visit("lambda_boot_ms", s.lambda_boot);
    visit("lambda_terminate_ms", s.lambda_terminate);
    visit("lambda_terminated_kept_ms", s.lambda_terminated_kept);
    visit("lambda_list_lag_ms", s.lambda_list_lag);
    visit("lambda_read_lag_ms", s.lambda_read_lag);
    visit("lambda_restart_ms", s.lambda_restart);
    visit("vultr_allowed_ip", s.vultr_allowed_ip);
    visit("vultr_per_second", s.vultr_per_second);
    visit("vultr_limit_503", s.vultr_limit_503);
    visit("vultr_gone_400", s.vultr_gone_400);
    visit("vultr_second_delete", s.vultr_second_delete);
    visit("vultr_taken_stops", s.vultr_taken_stops);
    visit("vultr_any_user_data", s.vultr_any_user_data);
    visit("vultr_per_page_clamps", s.vultr_per_page_clamps);
    visit("vultr_string_counts", s.vultr_string_counts);
    visit("vultr_location_cost_array", s.vultr_location_cost_array);
    visit("vultr_keyless_empty", s.vultr_keyless_empty);
    visit("vultr_page_max", s.vultr_page_max);
    visit("vultr_instance_limit", s.vultr_instance_limit);
    visit("vultr_lost_races", s.vultr_lost_races);
    visit("vultr_refusal_rate", s.vultr_refusal_rate);
    visit("vultr_pending_ms", s.vultr_pending);
    visit("vultr_install_ms", s.vultr_install);
    visit("vultr_locked_ms", s.vultr_locked);
    visit("vultr_destroy_ms", s.vultr_destroy);
    visit("vultr_halt_ms", s.vultr_halt);
    visit("vultr_list_lag_ms", s.vultr_list_lag);
    visit("vultr_read_lag_ms", s.vultr_read_lag);
    visit("vultr_unpaid_kept_ms", s.vultr_unpaid_kept);
    visit("expired_kept_ms", s.expired_kept);
    visit("jitter", s.jitter);
}

void assign(bool& into, const json& value) {
    into = value.get<bool>();
}
void assign(int& into, const json& value) {
    into = value.get<int>();
}
void assign(double& into, const json& value) {
    into = value.get<double>();
}
void assign(std::string& into, const json& value) {
    into = value.get<std::string>();
}
void assign(Millis& into, const json& value) {
    const auto ms = value.get<std::int64_t>();
    if (ms < 0) throw std::runtime_error("must be 0 or more");
    into = Millis{ms};
}

json show(bool v) {
    return v;
}
json show(int v) {
    return v;
}
json show(double v) {
    return v;
}
json show(const std::string& v) {
    return v;
}
json show(Millis v) {
    return v.count();
}

}  // namespace

Settings Settings::of_profile(bool observed) {
    Settings s;
    if (observed) {
        // What single observations of the live service say where they differ from its documents.
        s.runpod_observed = true;
        s.vastai_v0_list_200 = true;
        s.vastai_outbid_keeps_intent = false;
        s.vastai_destroyed_not_found = false;
        s.vastai_stop_reads_exited = true;
    } else {
        s.runpod_observed = false;
        // Of the virtual machines' pages, what is written down rather than seen.
        s.lambda_429_form = 0;
        s.lambda_429_retry_after = true;
        s.lambda_unknown_400 = false;
        s.lambda_terminated_kept = Millis{60'000};
        s.vultr_gone_400 = false;
        s.vultr_limit_503 = true;
        s.vultr_string_counts = false;
        s.vultr_keyless_empty = false;
    }
    return s;
}

Result<std::string> apply_settings(Settings& settings, const json& patch) {
    if (!patch.is_object()) return fail(ErrorKind::invalid, "settings must be an object");
    Settings next = settings;
    for (const auto& [key, value] : patch.items()) {
        bool known = false;
        try {
            each_setting(next, [&](const char* name, auto& field) {
                if (key != name) return;
                known = true;
                assign(field, value);
            });
        } catch (const std::exception& e) {
            return fail(ErrorKind::invalid, key + ": " + e.what());
        }
        if (!known) return fail(ErrorKind::invalid, "no setting '" + key + "'");
    }
    settings = next;
    return std::string{"ok"};
}

json to_json(const Settings& settings) {
    json result = json::object();
    each_setting(settings, [&](const char* name, const auto& field) { result[name] = show(field); });
    return result;
}

}  // namespace gf::sim
