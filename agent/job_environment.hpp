// What a job sees in its environment. Pure.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "model/agent_protocol.hpp"

namespace gf::agent {

struct JobSurroundings {
    std::map<std::string, std::string> machine_env;  // of the container, withheld names included
    std::string folder;
    std::string mark;
    std::string socket;
    std::string command_folder;   // appended to PATH: holds gpuferry-agent
    bool contained{false};        // the rest of PATH is the image's, and is put there inside
    std::string user;             // empty = as the agent
    std::string home;
    std::int64_t generation{0};   // restored; 0 = none
    std::int64_t step{0};
};

/// NAME=value lines: the container's own without what is withheld, then ours, then the spec's and the secrets', which win.
/// Names that cannot be environment variables and values with NUL are left out.
[[nodiscard]] std::vector<std::string> job_environment(const agent_protocol::Lease& lease, const JobSurroundings& around);

/// Where the job is told to leave its results: its first declared output, else "out".
[[nodiscard]] std::string output_folder(const agent_protocol::Lease& lease);

}  // namespace gf::agent
