#include "providers/local/process_tree.hpp"

#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

namespace gf::local {
namespace {

namespace fs = std::filesystem;

std::string whole_file(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

std::optional<ProcessStat> stat_of(pid_t pid) {
    return parse_stat(whole_file("/proc/" + std::to_string(pid) + "/stat"));
}

std::vector<ProcessStat> all_processes() {
    std::vector<ProcessStat> out;
    std::error_code error;
    for (fs::directory_iterator it("/proc", error), end; !error && it != end; it.increment(error)) {
        const auto name = it->path().filename().string();
        if (name.find_first_not_of("0123456789") != std::string::npos) continue;
        // A process may go away between the two looks: then there is nothing to parse.
        if (auto stat = parse_stat(whole_file(it->path() / "stat"))) out.push_back(*stat);
    }
    return out;
}

bool carries_mark(pid_t pid, const std::string& mark) {
    // The agent takes the machine's own variables out of a job's environment; what it adds
    // (GPUFERRY_CHECKPOINT_DIR and others) lies below a folder named like the machine.
    const auto environment = whole_file("/proc/" + std::to_string(pid) + "/environ");
    for (std::size_t at = 0; at < environment.size();) {
        const auto end = std::min(environment.find('\0', at), environment.size());
        const auto entry = std::string_view(environment).substr(at, end - at);
        if (entry.starts_with("GPUFERRY_") && entry.find(mark) != std::string_view::npos) return true;
        at = end + 1;
    }
    return false;
}

}  // namespace

std::optional<ProcessStat> parse_stat(std::string_view line) {
    const auto open = line.find('(');
    const auto close = line.rfind(')');
    if (open == std::string_view::npos || close == std::string_view::npos || close + 2 >= line.size())
        return std::nullopt;
    ProcessStat out;
    if (std::from_chars(line.data(), line.data() + open, out.pid).ec != std::errc{}) return std::nullopt;
    auto rest = line.substr(close + 2);
    out.state = rest.front();
    // Fields from 3 (state) on, separated by single blanks.
    for (int field = 3; field <= 22; ++field) {
        const auto blank = rest.find_first_of(" \n");
        const auto word = rest.substr(0, blank);
        std::uint64_t number = 0;
        if (field == 4 || field == 6 || field == 22)
            if (std::from_chars(word.data(), word.data() + word.size(), number).ec != std::errc{})
                return std::nullopt;
        if (field == 4) out.parent = static_cast<pid_t>(number);
        if (field == 6) out.session = static_cast<pid_t>(number);
        if (field == 22) {
            out.start_time = number;
            return out;
        }
        if (blank == std::string_view::npos) return std::nullopt;
        rest.remove_prefix(blank + 1);
    }
    return std::nullopt;
}

std::string boot_id() {
    auto id = whole_file("/proc/sys/kernel/random/boot_id");
    while (!id.empty() && id.back() == '\n') id.pop_back();
    return id;
}

bool is_alive(const ProcessIdentity& process) {
    if (process.pid <= 0 || process.boot_id != boot_id()) return false;
    const auto stat = stat_of(process.pid);
    return stat && stat->start_time == process.start_time && stat->state != 'Z' && stat->state != 'X';
}

std::vector<pid_t> tree_of(const ProcessIdentity& root, const std::string& mark) {
    const bool same_boot = root.boot_id == boot_id();  // else nothing of it can be left
    const auto processes = all_processes();
    std::map<pid_t, const ProcessStat*> by_pid;
    for (const auto& p : processes) by_pid[p.pid] = &p;
    // A session id stays reserved while the session has members, so it still means ours when its leader is
    // gone; but a stranger under the leader's pid means that all of ours had ended before.
    const auto leader = by_pid.find(root.pid);
    const bool reused = leader != by_pid.end() && leader->second->start_time != root.start_time;
    std::set<pid_t> ours;
    for (const auto& p : processes) {
        // Nothing that came of it is older than it. This also spares the look into most environments.
        if (!same_boot || p.start_time < root.start_time) continue;
        const bool in_session = !reused && root.pid > 0 && p.session == root.pid;
        if (in_session || carries_mark(p.pid, mark)) ours.insert(p.pid);
    }
    for (bool grown = true; grown;) {  // at most as many rounds as the tree is deep
        grown = false;
        for (const auto& p : processes)
            if (ours.contains(p.parent) && ours.insert(p.pid).second) grown = true;
    }
    ours.erase(::getpid());
    std::vector<pid_t> out;
    for (const auto pid : ours)
        if (const auto* p = by_pid.at(pid); p->state != 'Z' && p->state != 'X') out.push_back(pid);
    return out;
}

}  // namespace gf::local
