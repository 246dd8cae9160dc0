// What the machine is, found out once before any job runs on it.
#pragma once
#include <string>

#include "model/agent_protocol.hpp"

namespace gf::agent {

/// Blocking, up to about two minutes on a machine whose driver hangs. `workspace` = base of the workspace, may be empty.
[[nodiscard]] agent_protocol::MachineReport make_machine_report(const std::string& workspace);

}  // namespace gf::agent
