// The keeper: one process per simulated machine, the simulator's own binary under another first argument. It
// holds the machine's mount namespace and disk, starts and stops its container, and tells the simulator over
// a socket what happened. It is single-threaded, so it may fork freely; the simulator itself never does.
//
// When the socket closes, however the simulator ended, the keeper kills the container and goes.
#pragma once
#include <nlohmann/json_fwd.hpp>

namespace gf::sim {

/// The descriptor of the socket in a keeper.
inline constexpr int kKeeperSocket = 3;
/// The first argument that makes the binary a keeper.
inline constexpr const char* kKeeperArgument = "__keeper";

/// Runs until the socket closes. Returns the exit code of the process.
int keeper_main();

}  // namespace gf::sim
