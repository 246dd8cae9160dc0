#include "agent/nvidia_smi.hpp"

#include <charconv>

#include "agent/command.hpp"
#include "model/bytes.hpp"

namespace gf::agent {
namespace {

std::string_view trim(std::string_view text) {
    const auto start = text.find_first_not_of(" \t\r");
    if (start == std::string_view::npos) return {};
    return text.substr(start, text.find_last_not_of(" \t\r") - start + 1);
}

std::vector<std::string_view> cells(std::string_view line) {
    std::vector<std::string_view> found;
    while (true) {
        const auto comma = line.find(',');
        found.push_back(trim(line.substr(0, comma)));
        if (comma == std::string_view::npos) return found;
        line.remove_prefix(comma + 1);
    }
}

std::int64_t number(std::string_view text) {
    std::int64_t value = -1;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
    return read.ec == std::errc{} ? value : -1;
}

}  // namespace

std::vector<agent_protocol::GpuReport> parse_gpu_reports(std::string_view csv) {
    std::vector<agent_protocol::GpuReport> gpus;
    while (!csv.empty()) {
        const auto end = std::min(csv.find('\n'), csv.size());
        const auto line = csv.substr(0, end);
        csv.remove_prefix(std::min(end + 1, csv.size()));
        const auto parts = cells(line);
        // Fewer cells are an error text ("No devices were found"), which nvidia-smi prints on stdout.
        if (parts.size() != 4) continue;
        const auto mib = number(parts[1]);
        gpus.push_back({.name = std::string(parts[0]),
                        .memory_bytes = mib > 0 ? mib * kMiB : 0,
                        .driver = std::string(parts[2]),
                        .uuid = std::string(parts[3])});
    }
    return gpus;
}

std::vector<agent_protocol::GpuReport> read_gpu_reports(Millis limit) {
    const auto ran = run_command(
        "nvidia-smi", {"--query-gpu=name,memory.total,driver_version,uuid", "--format=csv,noheader,nounits"}, limit);
    return ran.started && !ran.timed_out ? parse_gpu_reports(ran.output) : std::vector<agent_protocol::GpuReport>{};
}

std::optional<IndexedSample> parse_gpu_sample(std::string_view line) {
    const auto parts = cells(line);
    if (parts.size() != 4) return std::nullopt;
    const auto index = number(parts[0]);
    if (index < 0 || index > 1023) return std::nullopt;
    const auto memory = number(parts[2]);
    return IndexedSample{.index = static_cast<int>(index),
                         .sample = {.util_percent = static_cast<int>(number(parts[1])),
                                    .memory_used = memory < 0 ? -1 : memory * kMiB,
                                    .temperature_c = static_cast<int>(number(parts[3]))}};
}

}  // namespace gf::agent
