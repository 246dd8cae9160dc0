// The scheduler's own policy, put before a trace: it is shown at each tick what the daemon would show it, and
// no more.
#pragma once
#include <memory>
#include <string_view>

#include "replay/play.hpp"

namespace gf::replay {

/// By name: gpuferry. Nothing for another name.
[[nodiscard]] std::unique_ptr<Policy> make_ferry(std::string_view name);

}  // namespace gf::replay
