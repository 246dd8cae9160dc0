// What the fake nvidia-smi and libcuda of a machine show: one small text file, /run/gpuferry-sim/gpus in the
// machine. The two tools are C without this project's code, so the format is lines and bars, not JSON:
//   driver 570.124.06
//   cuda 12080
//   cuinit 0
//   gpu <index>|<uuid>|<name>|<memory MiB>|<CUDA memory MiB>|<cc x100>|<bus id>|<used MiB>|<util
//   %>|<temp>|<watts>
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "simulator/market.hpp"

namespace gf::sim {

/// How a machine's GPUs differ from the offer's. Everything absent is as offered.
struct GpuFault {
    std::optional<int> count;
    std::optional<int> memory_mib;
    std::optional<std::string> name;
    std::optional<std::string> driver;
    std::optional<int> cuinit;  // what cuInit returns: 802 = system not ready
    bool no_libcuda{false};
    bool no_nvidia_smi_devices{false};  // nvidia-smi cannot talk to the driver
    std::optional<int> used_mib;
    std::optional<int> utilization;
    std::optional<int> disk_mib;  // container disk smaller than asked: makes ENOSPC real
};

[[nodiscard]] std::string gpu_facts(const GpuModel& model, const Host& host,
                                    const std::vector<std::string>& uuids, const GpuFault& fault);

}  // namespace gf::sim
