#include "agent/processes.hpp"

#include <dirent.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>

#include "agent/cgroup.hpp"
#include "agent/descriptor.hpp"

namespace gf::agent {
namespace {

struct ProcessLine {
    pid_t parent{0};
    pid_t group{0};
    bool zombie{false};
};

template <class Visit>
void each_process(Visit visit) {
    DIR* proc = ::opendir("/proc");
    if (!proc) return;
    while (const dirent* entry = ::readdir(proc)) {
        const std::string_view name = entry->d_name;
        pid_t pid = 0;
        const auto read = std::from_chars(name.data(), name.data() + name.size(), pid);
        if (read.ec == std::errc{} && read.ptr == name.data() + name.size()) visit(pid);
    }
    ::closedir(proc);
}

std::optional<ProcessLine> process_line(pid_t pid) {
    const std::string stat = read_small_file("/proc/" + std::to_string(pid) + "/stat", 4096);
    // The name in parentheses may hold anything, a parenthesis included: the fields begin after the last one.
    const auto close = stat.rfind(')');
    if (close == std::string::npos || close + 4 > stat.size()) return std::nullopt;
    ProcessLine line;
    line.zombie = stat[close + 2] == 'Z' || stat[close + 2] == 'X';
    const char* at = stat.data() + close + 4;
    const char* end = stat.data() + stat.size();
    const auto parent = std::from_chars(at, end, line.parent);
    if (parent.ec != std::errc{} || parent.ptr == end) return std::nullopt;
    std::from_chars(parent.ptr + 1, end, line.group);
    return line;
}

}  // namespace

std::vector<pid_t> descendants_of(pid_t root) {
    std::multimap<pid_t, pid_t> children;
    std::map<pid_t, bool> zombie;
    each_process([&](pid_t pid) {
        if (const auto line = process_line(pid)) {
            children.emplace(line->parent, pid);
            zombie[pid] = line->zombie;
        }
    });
    std::vector<pid_t> queue{root};
    std::vector<pid_t> found;
    for (std::size_t i = 0; i < queue.size(); ++i) {
        const auto [from, to] = children.equal_range(queue[i]);
        for (auto it = from; it != to; ++it) {
            if (it->second == root) continue;
            queue.push_back(it->second);
            if (!zombie[it->second]) found.push_back(it->second);
        }
    }
    return found;
}

bool group_has_members(pid_t group) {
    bool any = false;
    each_process([&](pid_t pid) {
        const auto line = process_line(pid);
        any = any || (line && !line->zombie && line->group == group);
    });
    return any;
}

std::vector<pid_t> marked_processes(const std::string& mark) {
    std::vector<pid_t> found;
    const std::string wanted = std::string(kMarkVariable) + "=" + mark;
    each_process([&](pid_t pid) {
        if (pid == ::getpid()) return;
        const std::string environ = read_small_file("/proc/" + std::to_string(pid) + "/environ", 4 << 20);
        const std::string_view all = environ;
        for (auto at = all.find(wanted); at != std::string_view::npos; at = all.find(wanted, at + 1)) {
            const bool starts = at == 0 || all[at - 1] == '\0';
            const bool ends = at + wanted.size() == all.size() || all[at + wanted.size()] == '\0';
            if (starts && ends) {
                found.push_back(pid);
                return;
            }
        }
    });
    return found;
}

int kill_all(const std::vector<pid_t>& pids) {
    for (const pid_t pid : pids) ::kill(pid, SIGKILL);
    return static_cast<int>(pids.size());
}

std::int64_t oom_kill_count() {
    if (const auto v2 = number_after(cgroup_file("", "memory.events"), "oom_kill")) return *v2;
    if (const auto v1 = number_after(cgroup_file("memory", "memory.oom_control"), "oom_kill")) return *v1;
    return machine_oom_kill_count();
}

std::int64_t machine_oom_kill_count() { return number_after(read_small_file("/proc/vmstat"), "oom_kill").value_or(0); }

int signal_number(std::string_view name) {
    struct Row {
        std::string_view name;
        int number;
    };
    static constexpr std::array<Row, 12> kSignals{{{"TERM", SIGTERM},
                                                   {"INT", SIGINT},
                                                   {"USR1", SIGUSR1},
                                                   {"USR2", SIGUSR2},
                                                   {"HUP", SIGHUP},
                                                   {"QUIT", SIGQUIT},
                                                   {"KILL", SIGKILL},
                                                   {"ALRM", SIGALRM},
                                                   {"CONT", SIGCONT},
                                                   {"WINCH", SIGWINCH},
                                                   {"ABRT", SIGABRT},
                                                   {"XCPU", SIGXCPU}}};
    std::string upper;
    for (const char c : name) upper.push_back(c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c);
    std::string_view plain = upper;
    if (plain.starts_with("SIG")) plain.remove_prefix(3);
    for (const auto& row : kSignals)
        if (row.name == plain) return row.number;
    int number = 0;
    const auto read = std::from_chars(name.data(), name.data() + name.size(), number);
    const bool whole = read.ec == std::errc{} && read.ptr == name.data() + name.size();
    return whole && number > 0 && number < 65 ? number : 0;
}

}  // namespace gf::agent
