// Starts the agent as a process that has nothing more to do with the daemon: its own session, folder and
// environment, no inherited descriptor, not our child.
#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "model/result.hpp"
#include "providers/local/machine_file.hpp"

namespace gf::local {

struct AgentStart {
    std::filesystem::path program;
    std::vector<std::string> arguments;              // after the program's name
    std::map<std::string, std::string> environment;  // all of it
    std::filesystem::path folder;  // exists; becomes the working folder, holds machine.json and agent.log
};

/// Success means that machine.json is on disk and the agent is executing; then the daemon may be killed at
/// any moment. After an error no process and no record is left. Blocks until the program is executed
/// (milliseconds).
Result<void> start_agent(const AgentStart& start, const RecordTemplate& record);

}  // namespace gf::local
