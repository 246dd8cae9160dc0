// The two clocks of the agent. Spans are measured on CLOCK_BOOTTIME, which neither steps nor stops in a suspend; the wall
// clock of a rented machine is only for people.
#pragma once
#include <ctime>

#include "model/time.hpp"

namespace gf::agent {

[[nodiscard]] inline Millis boot_time() {
    timespec now{};
    ::clock_gettime(CLOCK_BOOTTIME, &now);
    return Millis{static_cast<std::int64_t>(now.tv_sec) * 1000 + now.tv_nsec / 1'000'000};
}
[[nodiscard]] inline Instant wall_time() {
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    return instant_of(static_cast<std::int64_t>(now.tv_sec) * 1000 + now.tv_nsec / 1'000'000);
}

}  // namespace gf::agent
