// Waiting for a job: for its first offer, and for its end.
#pragma once
#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cli/command.hpp"
#include "cli/failure.hpp"

namespace gf::cli {

[[nodiscard]] bool is_final_state(const std::string& state);

/// Exit status of `submit --wait`: 0 for succeeded; the last attempt's exit code, or 128 + its signal; 1
/// where there is neither (cancelled, never started, failed although the program said 0).
[[nodiscard]] int exit_status_of(const nlohmann::json& job);

/// Asks for the job until it has ended or Ctrl-C was pressed. State changes go to standard error. A daemon
/// that does not answer is asked again for up to ten minutes. `polls` between 250 ms and 2 s.
[[nodiscard]] Outcome<nlohmann::json> wait_for_end(Context& context, const std::string& id);

/// Says which offer the job got and its all-in price per hour, or after `patience` plainly that it waits and
/// why.
void show_first_offer(Context& context, const std::string& id, std::chrono::milliseconds patience);

}  // namespace gf::cli
