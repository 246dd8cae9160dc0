// A circuit breaker: after some calls in a row that brought no answer, or 5xx, a provider is left alone for a
// while instead of being asked by every thread until its time-out. Then one call is let through; its answer
// closes the breaker or keeps it open for twice as long. Pure state: the caller passes the time. Destroys are
// never shown to it, see Pacer.
#pragma once
#include <optional>

#include "model/id.hpp"
#include "model/time.hpp"

namespace gf {

struct BreakerRules {
    int failures{5};  // in a row; 0 = no breaker
    Millis open_first{Seconds{15}};
    Millis open_max{Seconds{120}};
    Millis trial_max{Seconds{120}};  // a trial that reports nothing for so long is given up, and another goes
};

class Breaker {
 public:
    explicit Breaker(BreakerRules rules) : rules_(rules) {}

    /// How long from `now` until a call may be let out; nothing = now.
    [[nodiscard]] std::optional<Millis> holds(Instant now) const;
    /// A call goes out: the trial, where the breaker is open.
    void let_out(Instant now);
    /// What came of a call. Failures of calls that went out before the breaker opened count no further.
    void heard(bool failed, Instant now, Entropy& entropy);
    [[nodiscard]] bool is_open() const { return open_until_.has_value(); }

 private:
    void open(Millis wait, Instant now, Entropy& entropy);
    BreakerRules rules_;
    int failures_{0};
    Millis wait_{0};
    std::optional<Instant> open_until_;
    std::optional<Instant> trial_;
};

}  // namespace gf
