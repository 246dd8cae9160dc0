#include "providers/clock.hpp"

#include <ctime>

#include "model/result.hpp"

namespace gf {
namespace {

std::chrono::nanoseconds boot_time() {
    timespec t{};
    ::clock_gettime(CLOCK_BOOTTIME, &t);
    return std::chrono::seconds{t.tv_sec} + std::chrono::nanoseconds{t.tv_nsec};
}

}  // namespace

ScaledClock::ScaledClock(Instant origin, double scale) : origin_(origin), boot_(boot_time()), scale_(scale) {
    GF_ASSERT(scale > 0);
}

Instant ScaledClock::now() const {
    const std::chrono::duration<double, std::milli> real = boot_time() - boot_;
    return origin_ + Millis{static_cast<std::int64_t>(real.count() * scale_)};
}

void ScaledClock::sleep_until(Instant t) {
    // clock_nanosleep may be cut short by a signal handler, and the scaled target is rounded; asking again
    // settles both.
    for (auto left = t - now(); left > Millis{0}; left = t - now()) {
        const auto real_ms = static_cast<double>(left.count()) / scale_;
        const auto nanos = static_cast<std::int64_t>(real_ms * 1e6) + 1'000;
        const timespec wait{.tv_sec = nanos / 1'000'000'000, .tv_nsec = nanos % 1'000'000'000};
        ::clock_nanosleep(CLOCK_BOOTTIME, 0, &wait, nullptr);
    }
}

RealClock::RealClock()
    : clock_(std::chrono::time_point_cast<Millis>(std::chrono::system_clock::now()), 1.0) {}

Instant ManualClock::now() const {
    const std::lock_guard lock(mutex_);
    return now_;
}

void ManualClock::sleep_until(Instant t) {
    std::unique_lock lock(mutex_);
    if (sleepers_wait_) {
        moved_.wait(lock, [&] { return now_ >= t; });
    } else if (t > now_) {
        now_ = t;
        moved_.notify_all();
    }
}

void ManualClock::advance(Millis by) {
    const std::lock_guard lock(mutex_);
    now_ += by;
    moved_.notify_all();
}

}  // namespace gf
