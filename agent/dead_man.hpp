// The dead-man switch: what the machine does by itself when the daemon has been silent too long, so that a bill without an
// owner ends. The decision is pure; the calls are made by `end_this_machine`.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/http_client.hpp"
#include "model/secret.hpp"

namespace gf::agent {

struct DeadManClock {
    Millis last_contact{0};              // all on CLOCK_BOOTTIME
    Millis silence_max{7'200'000};
    std::optional<Millis> reserved_end;  // of the lease
};
enum class DeadManVerdict : std::uint8_t {
    alive,
    stop_job,   // the reserved time is over, but somebody is there who will see to the machine
    end_machine,
};
[[nodiscard]] DeadManVerdict dead_man_verdict(const DeadManClock& clock, Millis now);

/// One call that ends or stops this machine's billing, most fitting first.
struct SelfEndCall {
    std::string what;                    // for the log
    std::string base;                    // URL
    std::string method, target, body;
    Secret bearer;
};
/// `env` is the machine's environment. Empty where nothing can be done from inside.
[[nodiscard]] std::vector<SelfEndCall> self_end_calls(const std::map<std::string, std::string>& env, bool data_unsent);

/// Makes the calls in turn until one is accepted (2xx), with back-off between rounds; then
/// waits for the machine to go. False when `stop` became true, or after `rounds` without success.
bool end_this_machine(const std::vector<SelfEndCall>& calls, int rounds, const std::function<bool()>& stop);

}  // namespace gf::agent
