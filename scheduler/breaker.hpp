// A circuit breaker for the creates at one provider: when several different offers in a row came to nothing, the next one most
// likely does so too, and each try costs a job minutes. Launches there pause, then one is tried, and only its success opens the
// way again. Pure and plain data; the core asks before it rents and tells how creates end.
#pragma once
#include <set>
#include <string>

#include "model/time.hpp"

namespace gf {

struct BreakerRule {
    int failures{3};           // of different things (offers, or creates), in a row
    Millis first{};            // the first pause
    Millis most{};             // the longest
};

struct Breaker {
    std::set<std::string> failed;  // what failed in a row; never more than BreakerRule::failures
    int trips{0};                  // pauses since the last success
    Instant paused_until{};
    std::string trial;             // the one machine that is tried after a pause; empty = none
};

enum class BreakerState { closed, paused, trial };
/// `closed` = launch at will, `paused` = nothing, `trial` = one launch is under way and decides.
/// After a pause and before its trial it is `closed`: the next launch must be told by `breaker_launched`.
[[nodiscard]] BreakerState breaker_state(const Breaker& breaker, Instant now);

/// A create was sent.
void breaker_launched(Breaker& breaker, const std::string& machine);
/// A create ended unclear, or its machine never came up. True if launches pause from now on (and did not before).
/// `what` failed: the same one again counts once.
bool breaker_failed(Breaker& breaker, const BreakerRule& rule, const std::string& machine, const std::string& what, Instant now);
/// A create ended clearly without a machine (no capacity, a cancel): says nothing, but a trial is over.
void breaker_undecided(Breaker& breaker, const std::string& machine);
/// A machine came up: its provider can make machines.
void breaker_worked(Breaker& breaker);

}  // namespace gf
