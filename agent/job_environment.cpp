#include "agent/job_environment.hpp"

#include "agent/ask_socket.hpp"
#include "agent/processes.hpp"
#include "agent/settings.hpp"
#include "agent/workspace.hpp"

namespace gf::agent {

std::string output_folder(const agent_protocol::Lease& lease) {
    return lease.outputs.empty() || lease.outputs.front().from.empty() ? "out" : lease.outputs.front().from;
}

std::vector<std::string> job_environment(const agent_protocol::Lease& lease, const JobSurroundings& around) {
    std::map<std::string, std::string> env;
    for (const auto& [name, value] : around.machine_env)
        if (!is_withheld(name)) env[name] = value;
    if (!around.contained) {
        auto& path = env["PATH"];
        if (path.empty()) path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        if (!around.command_folder.empty()) path += ":" + around.command_folder;
    }
    if (!around.user.empty()) {
        env["USER"] = env["LOGNAME"] = around.user;
        env["HOME"] = around.home;
    }
    env["PWD"] = around.folder;
    for (const auto& [name, value] : lease.env) env[name] = value;
    for (const auto& [name, value] : lease.secret_env) env[name] = value;
    // Last, because a job that overwrites these by its spec would restart from the beginning or write to nowhere.
    env["GPUFERRY_CHECKPOINT_DIR"] = below(around.folder, lease.checkpoint.path);
    env["GPUFERRY_RESUME"] = around.generation > 0 ? "1" : "0";
    env["GPUFERRY_STEP"] = std::to_string(around.step);
    env["GPUFERRY_ATTEMPT"] = std::to_string(lease.number);
    env["GPUFERRY_TASK_INDEX"] = std::to_string(lease.task_index);
    env["GPUFERRY_TASK_COUNT"] = std::to_string(lease.task_count);
    env["GPUFERRY_OUTPUT_DIR"] = below(around.folder, output_folder(lease));
    env[kSocketVariable] = around.socket;
    env[kMarkVariable] = around.mark;
    std::vector<std::string> lines;
    for (const auto& [name, value] : env) {
        const bool usable = !name.empty() && name.find('=') == std::string::npos && name.find('\0') == std::string::npos &&
                            value.find('\0') == std::string::npos;
        if (usable) lines.push_back(name + "=" + value);
    }
    return lines;
}

}  // namespace gf::agent
