// The policies that gpuferry's own is held against, as published: on-demand alone, greedy with a safety net,
// and Uniform Progress
// ("Can't Be Late", NSDI'24) in its three forms: for one zone, with the wrapper for loose deadlines, and over
// many zones with eager failover (the UP(S) of SkyNomad, NSDI'27).
#pragma once
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "replay/play.hpp"

namespace gf::replay {

/// "us-west-2a" and "europe-west3-c" are zones of "us-west-2" and "europe-west3"; any other name is its own
/// region.
[[nodiscard]] std::string region_of(std::string_view zone);

/// By name: on_demand, greedy, uniform_progress, uniform_progress_loose. Nothing for another name.
[[nodiscard]] std::unique_ptr<Policy> make_baseline(std::string_view name);

}  // namespace gf::replay
