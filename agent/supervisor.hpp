// The agent's first process, PID 1 where it can be: it holds what must not be lost (boot id, the right to run, messages
// that were not acknowledged), owns the job through its keeper, and restarts the worker, which does everything that can go
// wrong. It opens no connection and reads no foreign byte.
#pragma once
#include <functional>
#include <string>

#include "agent/frame.hpp"

namespace gf::agent {

/// The worker's body, run in a fork with its end of the channel; its return value is its exit code.
using WorkerMain = std::function<int(Descriptor channel)>;

/// Runs until a worker orders `quit`, or SIGTERM's patience is over. Returns the exit code of the agent. Single-threaded.
int run_supervisor(const std::string& boot_id, const WorkerMain& worker);

}  // namespace gf::agent
