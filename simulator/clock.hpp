// The simulator's clock: wall time, stretched. Thread-safe; `now` never runs backwards.
#pragma once
#include <atomic>
#include <chrono>
#include <string>

#include "model/time.hpp"

namespace gf::sim {

/// now = origin + (real - origin) * scale + what `advance` added. Processes that share origin and scale share
/// the clock: daemon, agent and simulator are started with the same two numbers.
class Clock {
 public:
    /// `scale` must be above 0. The real time that has passed since `origin` counts with the scale.
    Clock(Instant origin, double scale);

    [[nodiscard]] Instant now() const;
    [[nodiscard]] double scale() const { return scale_; }
    [[nodiscard]] Instant origin() const { return origin_; }
    /// Jumps forward; `by` must not be negative.
    void advance(Millis by);
    /// How long to wait in real time until `when`; zero if it has passed.
    [[nodiscard]] std::chrono::microseconds real_until(Instant when) const;

 private:
    Instant origin_;
    double scale_;
    double base_ms_;  // scaled milliseconds since 1970 at `started_`
    std::chrono::steady_clock::time_point started_;
    std::atomic<std::int64_t> added_ms_{0};
};

/// RFC 3339 as Lambda and Vultr write it: whole seconds and +00:00.
[[nodiscard]] std::string offset_time(Instant at);

/// Real wall time in microseconds since 1970, for the request log.
[[nodiscard]] std::int64_t wall_micros();

}  // namespace gf::sim
