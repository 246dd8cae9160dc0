#include "agent_process.hpp"

#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "agent/descriptor.hpp"
#include "agent/processes.hpp"

namespace gf::agent_test {

TemporaryFolder::TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "gf-agent-XXXXXX").string();
    if (::mkdtemp(name.data())) path_ = name;
}
TemporaryFolder::~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

AgentProcess::AgentProcess(const std::string& program, const std::map<std::string, std::string>& env) {
    std::vector<std::string> lines;
    for (const auto& [name, value] : env) lines.push_back(name + "=" + value);
    std::vector<char*> envp;
    for (auto& line : lines) envp.push_back(line.data());
    envp.push_back(nullptr);
    char* argv[] = {const_cast<char*>(program.c_str()), nullptr};
    pid_ = ::fork();
    if (pid_ == 0) {
        ::setsid();
        ::execve(program.c_str(), argv, envp.data());
        ::_exit(127);
    }
}

AgentProcess::~AgentProcess() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
}

pid_t AgentProcess::child(const std::string& name) const {
    for (const pid_t pid : agent::descendants_of(pid_))
        if (agent::read_small_file("/proc/" + std::to_string(pid) + "/comm") == name + "\n") return pid;
    return 0;
}

void AgentProcess::signal(int number) const { ::kill(pid_, number); }

int AgentProcess::wait(int seconds) {
    int status = -1;
    const bool ended = eventually([&] { return ::waitpid(pid_, &status, WNOHANG) == pid_; }, seconds);
    if (ended) pid_ = 0;
    return ended ? status : -1;
}

std::map<std::string, std::string> agent_environment(const std::string& url, const std::string& workspace) {
    return {{"PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
            {"HOME", workspace},
            {"GPUFERRY_URL", url},
            {"GPUFERRY_MACHINE", "gf-abcd1234-00000000000000000000000000"},
            {"GPUFERRY_ENROL", "enrol-token"},
            {"GPUFERRY_WORKSPACE", workspace}};
}

std::vector<pid_t> processes_with(const std::string& text) {
    std::vector<pid_t> found;
    DIR* proc = ::opendir("/proc");
    while (const dirent* entry = proc ? ::readdir(proc) : nullptr) {
        pid_t pid = 0;
        const std::string_view name = entry->d_name;
        if (std::from_chars(name.data(), name.data() + name.size(), pid).ec != std::errc{} || pid == ::getpid()) continue;
        if (agent::read_small_file("/proc/" + std::string(name) + "/cmdline").find(text) != std::string::npos) found.push_back(pid);
    }
    if (proc) ::closedir(proc);
    return found;
}

void pause_briefly() { ::poll(nullptr, 0, 20); }

}  // namespace gf::agent_test
