#include "simulator/gpu_facts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace gf::sim {

std::string gpu_facts(const GpuModel& model, const Host& host, const std::vector<std::string>& uuids,
                      const GpuFault& fault) {
    const auto whole = std::floor(host.cuda);
    const int cuda =
        static_cast<int>(whole) * 1000 + static_cast<int>(std::lround((host.cuda - whole) * 10)) * 10;
    std::string text = fmt::format("driver {}\ncuda {}\ncuinit {}\n", fault.driver.value_or(host.driver),
                                   cuda, fault.cuinit.value_or(0));
    if (fault.no_nvidia_smi_devices) text += "broken 1\n";
    const auto count =
        std::min(uuids.size(),
                 static_cast<std::size_t>(std::max(0, fault.count.value_or(static_cast<int>(uuids.size())))));
    const int memory = fault.memory_mib.value_or(model.card_mib);
    for (std::size_t i = 0; i < count; ++i) {
        // CUDA shows a little less than nvidia-smi: an RTX 4090 has 24564 MiB there and about 24217 MiB here.
        const auto cuda_memory = static_cast<int>(std::int64_t{memory} * 986 / 1000);
        const int util = fault.utilization.value_or(0);
        text += fmt::format("gpu {}|{}|{}|{}|{}|{}|00000000:{:02X}:00.0|{}|{}|{}|{}\n", i, uuids[i],
                            fault.name.value_or(model.card_name), memory, cuda_memory, model.compute_cap,
                            i + 1, fault.used_mib.value_or(4), util, 34 + util / 3, 22 + util * 3);
    }
    return text;
}

}  // namespace gf::sim
