// The restartable half of the agent: everything that talks to the daemon. Runs in a process of its own below the
// supervisor; when it dies, the next one is told what it knew and goes on.
#pragma once
#include "agent/frame.hpp"
#include "agent/settings.hpp"
#include "agent/workspace.hpp"

namespace gf::agent {

/// Returns when the supervisor is gone (the job's processes are then killed), never otherwise: it ends by ordering `quit`.
int run_worker(const Settings& settings, const Workspace& workspace, Descriptor channel);

}  // namespace gf::agent
