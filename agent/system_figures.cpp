#include "agent/system_figures.hpp"

#include <sched.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <vector>

#include "agent/cgroup.hpp"
#include "agent/descriptor.hpp"

namespace gf::agent {
namespace {

// cgroup v1 says "no limit" as the largest page-aligned number.
constexpr std::int64_t kNoLimit = 1LL << 60;

std::vector<std::string_view> words(std::string_view text) {
    std::vector<std::string_view> found;
    while (true) {
        const auto start = text.find_first_not_of(" \t\n");
        if (start == std::string_view::npos) return found;
        const auto end = std::min(text.find_first_of(" \t\n", start), text.size());
        found.push_back(text.substr(start, end - start));
        text.remove_prefix(end);
    }
}

std::int64_t number(std::string_view text, std::int64_t otherwise) {
    std::int64_t value = otherwise;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
    return read.ec == std::errc{} ? value : otherwise;
}

template <class Visit>
void each_line(std::string_view text, Visit visit) {
    while (!text.empty()) {
        const auto end = std::min(text.find('\n'), text.size());
        visit(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
}

}  // namespace

DiskFigures disk_figures(const std::string& path) {
    struct statvfs fs{};
    if (path.empty() || ::statvfs(path.c_str(), &fs) != 0) return {};
    const auto unit = static_cast<std::int64_t>(fs.f_frsize);
    return {.total = static_cast<std::int64_t>(fs.f_blocks) * unit, .free = static_cast<std::int64_t>(fs.f_bavail) * unit};
}

double parse_cpu_max(std::string_view text) {
    const auto parts = words(text);
    if (parts.size() < 2) return 0;
    const auto quota = number(parts[0], -1);
    const auto period = number(parts[1], 0);
    return quota > 0 && period > 0 ? static_cast<double>(quota) / static_cast<double>(period) : 0;
}

double usable_cpus() {
    cpu_set_t set;
    CPU_ZERO(&set);
    double cpus = ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set)
                                                                 : static_cast<double>(::sysconf(_SC_NPROCESSORS_ONLN));
    double quota = parse_cpu_max(cgroup_file("", "cpu.max"));
    if (quota <= 0) {
        const auto v1 = cgroup_number("cpu", "cpu.cfs_quota_us").value_or(-1);
        const auto period = cgroup_number("cpu", "cpu.cfs_period_us").value_or(0);
        if (v1 > 0 && period > 0) quota = static_cast<double>(v1) / static_cast<double>(period);
    }
    if (quota > 0) cpus = std::min(cpus, quota);
    return cpus;
}

std::int64_t meminfo_bytes(std::string_view text, std::string_view key) {
    std::int64_t value = -1;
    each_line(text, [&](std::string_view line) {
        const auto colon = line.find(':');
        if (colon == std::string_view::npos || line.substr(0, colon) != key) return;
        const auto parts = words(line.substr(colon + 1));
        if (!parts.empty()) value = number(parts[0], -1) * (parts.size() > 1 && parts[1] == "kB" ? 1024 : 1);
    });
    return value;
}

std::int64_t memory_total() {
    std::int64_t total = std::max<std::int64_t>(0, meminfo_bytes(read_small_file("/proc/meminfo"), "MemTotal"));
    for (const auto& limit : {cgroup_number("", "memory.max"), cgroup_number("memory", "memory.limit_in_bytes")})
        if (limit && *limit > 0 && *limit < kNoLimit && (total == 0 || *limit < total)) total = *limit;
    return total;
}

std::int64_t memory_used() {
    // The page cache counts as used in a cgroup and would show every data loader as memory near its limit.
    if (const auto v2 = cgroup_number("", "memory.current"))
        return std::max<std::int64_t>(0, *v2 - number_after(cgroup_file("", "memory.stat"), "inactive_file").value_or(0));
    const auto v1 = cgroup_number("memory", "memory.usage_in_bytes");
    if (v1 && cgroup_number("memory", "memory.limit_in_bytes").value_or(kNoLimit) < kNoLimit)
        return std::max<std::int64_t>(0, *v1 - number_after(cgroup_file("memory", "memory.stat"), "total_inactive_file").value_or(0));
    const auto info = read_small_file("/proc/meminfo");
    return std::max<std::int64_t>(0, meminfo_bytes(info, "MemTotal") - std::max<std::int64_t>(0, meminfo_bytes(info, "MemAvailable")));
}

CpuTimes parse_cpu_times(std::string_view proc_stat) {
    CpuTimes times;
    each_line(proc_stat, [&](std::string_view line) {
        if (!line.starts_with("cpu ")) return;
        const auto parts = words(line);
        // user nice system idle iowait irq softirq steal; guest time is inside of user already
        for (std::size_t i = 1; i < parts.size() && i <= 8; ++i) {
            const auto value = number(parts[i], 0);
            times.all += value;
            if (i != 4 && i != 5) times.busy += value;
        }
    });
    return times;
}
CpuTimes cpu_times() { return parse_cpu_times(read_small_file("/proc/stat")); }

NetFigures parse_net_figures(std::string_view proc_net_dev) {
    NetFigures figures;
    each_line(proc_net_dev, [&](std::string_view line) {
        const auto colon = line.find(':');
        if (colon == std::string_view::npos) return;
        const auto name = words(line.substr(0, colon));
        const auto parts = words(line.substr(colon + 1));
        if (name.size() != 1 || name[0] == "lo" || parts.size() < 9) return;
        figures.rx += number(parts[0], 0);
        figures.tx += number(parts[8], 0);
    });
    return figures;
}
NetFigures net_figures() { return parse_net_figures(read_small_file("/proc/net/dev")); }

}  // namespace gf::agent
