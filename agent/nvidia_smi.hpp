// What nvidia-smi says, as CSV without units. "[N/A]", "[Not Supported]" and "[Unknown Error]" are unknown, never 0.
#pragma once
#include <string_view>
#include <vector>

#include "model/agent_protocol.hpp"
#include "model/time.hpp"

namespace gf::agent {

/// --query-gpu=name,memory.total,driver_version,uuid
[[nodiscard]] std::vector<agent_protocol::GpuReport> parse_gpu_reports(std::string_view csv);
/// Asks nvidia-smi; empty when there is none or it fails. Blocking up to `limit`.
[[nodiscard]] std::vector<agent_protocol::GpuReport> read_gpu_reports(Millis limit);

struct IndexedSample {
    int index{0};
    agent_protocol::GpuSample sample;
};
/// One line of --query-gpu=index,utilization.gpu,memory.used,temperature.gpu; nothing for any other line.
[[nodiscard]] std::optional<IndexedSample> parse_gpu_sample(std::string_view line);

}  // namespace gf::agent
