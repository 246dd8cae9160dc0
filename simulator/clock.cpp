#include "simulator/clock.hpp"

#include <cmath>

namespace gf::sim {

namespace {
double wall_ms() {
    return static_cast<double>(wall_micros()) / 1000.0;
}
}  // namespace

std::string offset_time(Instant at) {
    return rfc3339(at).substr(0, 19) + "+00:00";
}

std::int64_t wall_micros() {
    using namespace std::chrono;
    return duration_cast<microseconds>(system_clock::now().time_since_epoch()).count();
}

Clock::Clock(Instant origin, double scale)
    : origin_(origin), scale_(scale), started_(std::chrono::steady_clock::now()) {
    const auto origin_ms = static_cast<double>(unix_millis(origin));
    base_ms_ = origin_ms + (wall_ms() - origin_ms) * scale_;
}

Instant Clock::now() const {
    const std::chrono::duration<double, std::milli> real = std::chrono::steady_clock::now() - started_;
    return instant_of(static_cast<std::int64_t>(std::floor(base_ms_ + real.count() * scale_)) +
                      added_ms_.load());
}

void Clock::advance(Millis by) {
    added_ms_.fetch_add(by.count());
}

std::chrono::microseconds Clock::real_until(Instant when) const {
    const auto left = static_cast<double>((when - now()).count());
    if (left <= 0) return std::chrono::microseconds{0};
    // Rounded up, so that a sleeper that wakes finds the instant reached.
    return std::chrono::microseconds{static_cast<std::int64_t>(std::ceil(left * 1000.0 / scale_))};
}

}  // namespace gf::sim
