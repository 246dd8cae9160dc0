// The cheapest that any policy could have done, knowing the whole trace: an exact search backwards over
// (tick, machine, work left). It is the yardstick, no policy: it may run for free what nobody can foresee.
#pragma once
#include <cstddef>
#include <optional>

#include "replay/play.hpp"

namespace gf::replay {

/// Least cost under the rules of `play`, with losses of unsaved work left out (whoever knows the end of a
/// machine saves before it). Work is counted in steps of the greatest common divisor of tick and changeover,
/// coarser where that would need more than kStepsMax steps; coarser steps round the changeover down, so that
/// the figure stays a lower bound. Nothing if it cannot be done. Memory grows with zones * steps, time with
/// zones^2 * ticks * steps.
[[nodiscard]] std::optional<Usd> optimum(const Trace& trace, const Setting& setting, std::size_t start);

inline constexpr std::int64_t kStepsMax = 20'000;

}  // namespace gf::replay
