// Processes by /proc: is the one that was started still the same, and what belongs to it. A pid alone names
// nothing, for it is used again; pid, start time and the kernel's boot id together do.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gf::local {

struct ProcessIdentity {
    pid_t pid{0};
    std::uint64_t start_time{0};  // clock ticks since boot, field 22 of /proc/<pid>/stat
    std::string boot_id;          // /proc/sys/kernel/random/boot_id
};

struct ProcessStat {
    pid_t pid{0};
    pid_t parent{0};
    pid_t session{0};
    char state{'?'};
    std::uint64_t start_time{0};
};

/// Pure: one line of /proc/<pid>/stat. The name in it may hold blanks and brackets.
[[nodiscard]] std::optional<ProcessStat> parse_stat(std::string_view line);

[[nodiscard]] std::string boot_id();
/// True while that very process runs; a zombie does not.
[[nodiscard]] bool is_alive(const ProcessIdentity& process);
/// Everything that came of `root`, which may itself be gone: its descendants, its session, and processes
/// whose GPUFERRY_… environment names `mark`. Zombies are left out, and so is the caller.
[[nodiscard]] std::vector<pid_t> tree_of(const ProcessIdentity& root, const std::string& mark);

}  // namespace gf::local
