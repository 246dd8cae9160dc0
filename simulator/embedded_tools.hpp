// The fake nvidia-smi and libcuda.so.1 travel inside the simulator's own binary.
#pragma once
#include <filesystem>

#include "model/result.hpp"

namespace gf::sim {

struct ToolFolders {
    std::filesystem::path smi;   // a layer with usr/bin/nvidia-smi
    std::filesystem::path cuda;  // a layer with libcuda.so.1 where loaders look
};

/// Writes both tools below `dir` as two folders that can be laid over a root. Existing ones are replaced.
[[nodiscard]] Result<ToolFolders> unpack_tools(const std::filesystem::path& dir);

}  // namespace gf::sim
