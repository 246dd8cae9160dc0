// All processes below one, by /proc. For machines without a PID namespace, and for freezing whole machines.
#pragma once
#include <sys/types.h>

#include <functional>
#include <vector>

namespace gf::sim {

/// Every live descendant of `root`, zombies left out. A snapshot: more may be born meanwhile.
[[nodiscard]] std::vector<pid_t> descendants(pid_t root);

void signal_descendants(pid_t root, int signal);

/// SIGKILL until nothing is left below `root`, which must be a subreaper and the caller itself: it reaps as
/// it goes and tells whom, with the wait status. Gives up after a bounded number of rounds.
void kill_descendants(pid_t root, const std::function<void(pid_t, int)>& reaped);

}  // namespace gf::sim
