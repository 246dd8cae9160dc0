// Finding and ending processes through /proc. Nothing that a job started may outlive it, whatever it did to hide: the
// keeper is subreaper, so all descendants stay below it; the environment mark finds what is left if the keeper died too.
#pragma once
#include <sys/types.h>

#include <string>
#include <vector>

namespace gf::agent {

inline constexpr const char* kMarkVariable = "GPUFERRY_MARK";

/// All descendants of `root`, parents before children, zombies left out. Empty without /proc.
[[nodiscard]] std::vector<pid_t> descendants_of(pid_t root);
/// True if any living process of the group remains.
[[nodiscard]] bool group_has_members(pid_t group);
/// Processes whose environment has the mark, other than the caller.
[[nodiscard]] std::vector<pid_t> marked_processes(const std::string& mark);
/// SIGKILL to each; returns how many there were.
int kill_all(const std::vector<pid_t>& pids);

/// How many processes the kernel has killed for lack of memory in this cgroup (v2, then v1), else on this machine.
[[nodiscard]] std::int64_t oom_kill_count();
/// The same for the whole machine.
[[nodiscard]] std::int64_t machine_oom_kill_count();

/// "SIGUSR1", "usr1" or "10"; 0 for anything else.
[[nodiscard]] int signal_number(std::string_view name);

}  // namespace gf::agent
