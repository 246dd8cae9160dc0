#include "scheduler/breaker.hpp"

#include <algorithm>

namespace gf {

BreakerState breaker_state(const Breaker& b, Instant now) {
    if (b.trips == 0) return BreakerState::closed;
    if (now < b.paused_until) return BreakerState::paused;
    return b.trial.empty() ? BreakerState::closed : BreakerState::trial;
}

void breaker_launched(Breaker& b, const std::string& machine) {
    if (b.trips > 0 && b.trial.empty()) b.trial = machine;
}

bool breaker_failed(Breaker& b, const BreakerRule& rule, const std::string& machine, const std::string& what, Instant now) {
    if (b.trips > 0) {
        // What was under way when the pause began adds nothing to it; the trial alone decides.
        if (b.trial != machine) return false;
    } else {
        b.failed.insert(what);
        if (static_cast<int>(b.failed.size()) < rule.failures) return false;
    }
    b.trial.clear();
    b.failed.clear();
    b.trips += 1;
    Millis pause = rule.first;
    for (int i = 1; i < b.trips && pause < rule.most; ++i) pause *= 2;
    b.paused_until = now + std::min(pause, rule.most);
    return true;
}

void breaker_undecided(Breaker& b, const std::string& machine) {
    if (b.trial == machine) b.trial.clear();
}

void breaker_worked(Breaker& b) { b = {}; }

}  // namespace gf
