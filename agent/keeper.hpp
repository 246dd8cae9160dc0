// The job's keeper: a process between supervisor and job that starts the command in a session of its own, is the reaper
// of all that comes of it, reads and masks its output into the spool, and ends it whole. When the supervisor dies, the
// kernel tells the keeper, which kills every descendant and goes. It needs no network, no threads and hardly any memory.
#pragma once
#include "agent/frame.hpp"
#include "agent/job_order.hpp"

namespace gf::agent {

/// Runs in a fork of the supervisor; never returns.
[[noreturn]] void run_keeper(const JobOrder& order, Descriptor channel, pid_t supervisor);

}  // namespace gf::agent
