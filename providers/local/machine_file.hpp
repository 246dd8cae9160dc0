// The record of one local machine: `<data_dir>/local/<tag>/machine.json`, written by the process itself
// before it becomes the agent, so that there is no moment at which an agent runs without one.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "model/money.hpp"
#include "model/result.hpp"
#include "providers/local/process_tree.hpp"

namespace gf::local {

struct MachineFile {
    std::string tag;
    std::string offer;              // offer id
    std::string gpu_name;           // as nvidia-smi says; empty = CPU only
    std::int64_t gpu_memory{0};     // bytes per GPU; 0 = unknown
    std::vector<std::string> gpus;  // uuids of its cards
    UsdPerHour rate;
    std::int64_t created_ms{0};
    ProcessIdentity process;
};

/// JSON in two halves: the process's pid goes between them and its start time after, both written without any
/// memory allocation.
struct RecordTemplate {
    std::string before_pid;
    std::string between;
    std::string after_start_time;
};
[[nodiscard]] RecordTemplate record_template(const MachineFile& file);

/// Nothing if there is no such file; `malformed` if it cannot be read as one.
Result<std::optional<MachineFile>> read_machine_file(const std::filesystem::path& path);

}  // namespace gf::local
