// The clock that everything outside the pure core asks for the time. Three kinds: the real one, the real one
// at another speed (one `--time-scale` for daemon, agent and simulator), and one that a test moves by hand.
//
// All run on a base time plus CLOCK_BOOTTIME: never backwards, also over a suspend or a step of the wall
// clock.
#pragma once
#include <condition_variable>
#include <mutex>

#include "model/time.hpp"

namespace gf {

class Clock {
 public:
    virtual ~Clock() = default;
    [[nodiscard]] virtual Instant now() const = 0;
    /// Blocks the calling thread until `now() >= t`; returns at once when that is so already.
    virtual void sleep_until(Instant t) = 0;
};

/// `origin` at construction, then `scale` seconds per real second. `scale` must be above 0.
class ScaledClock final : public Clock {
 public:
    ScaledClock(Instant origin, double scale);
    [[nodiscard]] Instant now() const override;
    void sleep_until(Instant t) override;

 private:
    Instant origin_;
    std::chrono::nanoseconds boot_;  // CLOCK_BOOTTIME at construction
    double scale_;
};

/// Real speed, starting from the wall clock's reading at construction.
class RealClock final : public Clock {
 public:
    RealClock();
    [[nodiscard]] Instant now() const override { return clock_.now(); }
    void sleep_until(Instant t) override { clock_.sleep_until(t); }

 private:
    ScaledClock clock_;
};

/// Moved by hand. A sleeper moves it itself by default, so that single-threaded tests of pacing run at once
/// and can read off how long was slept; with `sleepers_wait` it blocks until another thread calls `advance`.
class ManualClock final : public Clock {
 public:
    explicit ManualClock(Instant start, bool sleepers_wait = false)
        : now_(start), sleepers_wait_(sleepers_wait) {}
    [[nodiscard]] Instant now() const override;
    void sleep_until(Instant t) override;
    void advance(Millis by);

 private:
    mutable std::mutex mutex_;  // guards now_
    std::condition_variable moved_;
    Instant now_;
    bool sleepers_wait_;
};

}  // namespace gf
