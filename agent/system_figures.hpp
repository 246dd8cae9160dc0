// CPU, memory, disk and network of this machine as a container sees them, from /proc, /sys and statfs. The texts are parsed
// by pure functions, the files are read by the ones without arguments.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace gf::agent {

struct DiskFigures {
    std::int64_t total{0};
    std::int64_t free{0};  // for us, not for root only
};
[[nodiscard]] DiskFigures disk_figures(const std::string& path);

/// CPUs that this container may use: affinity, then the cgroup's quota (v2 cpu.max, v1 cfs_quota/period).
[[nodiscard]] double usable_cpus();
/// Bytes: MemTotal or the cgroup's limit, whichever is less.
[[nodiscard]] std::int64_t memory_total();
/// Bytes in use, of the cgroup where it has a figure of its own, without the page cache.
[[nodiscard]] std::int64_t memory_used();

struct CpuTimes {
    std::int64_t busy{0};
    std::int64_t all{0};
};
[[nodiscard]] CpuTimes parse_cpu_times(std::string_view proc_stat);
[[nodiscard]] CpuTimes cpu_times();

struct NetFigures {
    std::int64_t rx{0};
    std::int64_t tx{0};
};
/// Sum over all interfaces but loopback.
[[nodiscard]] NetFigures parse_net_figures(std::string_view proc_net_dev);
[[nodiscard]] NetFigures net_figures();

/// The number after `key` in a /proc/meminfo text, in bytes; -1 if it is not there.
[[nodiscard]] std::int64_t meminfo_bytes(std::string_view text, std::string_view key);
/// cpu.max: "150000 100000" is 1.5, "max 100000" is 0 (no limit).
[[nodiscard]] double parse_cpu_max(std::string_view text);

}  // namespace gf::agent
