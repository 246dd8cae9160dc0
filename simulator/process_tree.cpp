#include "simulator/process_tree.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

namespace gf::sim {

std::vector<pid_t> descendants(pid_t root) {
    std::multimap<pid_t, pid_t> children;
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
        const auto name = entry.path().filename().string();
        if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) == 0) continue;
        std::ifstream file(entry.path() / "stat");
        std::string text;
        // Not by the buffer's iterator: a process that ends meanwhile makes the buffer throw, the stream only fail.
        std::getline(file, text, '\0');
        // The name in brackets may hold anything; what follows the last bracket is "state ppid ...".
        const auto at = text.rfind(')');
        if (at == std::string::npos || at + 4 >= text.size() || text[at + 2] == 'Z' || text[at + 2] == 'X') continue;
        children.emplace(static_cast<pid_t>(std::atoi(text.c_str() + at + 4)),
                         static_cast<pid_t>(std::atoi(name.c_str())));
    }
    std::vector<pid_t> found;
    std::vector<pid_t> open{root};
    while (!open.empty()) {
        const pid_t parent = open.back();
        open.pop_back();
        const auto [first, last] = children.equal_range(parent);
        for (auto it = first; it != last; ++it) {
            found.push_back(it->second);
            open.push_back(it->second);
        }
    }
    return found;
}

void signal_descendants(pid_t root, int signal) {
    for (const pid_t pid : descendants(root)) ::kill(pid, signal);
}

void kill_descendants(pid_t root, const std::function<void(pid_t, int)>& reaped) {
    constexpr int kRounds = 2'000;
    for (int round = 0; round < kRounds; ++round) {
        const auto left = descendants(root);
        for (const pid_t pid : left) ::kill(pid, SIGKILL);
        int status = 0;
        for (pid_t pid = 0; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) reaped(pid, status);
        if (left.empty()) return;
        ::poll(nullptr, 0, 1);
    }
}

}  // namespace gf::sim
