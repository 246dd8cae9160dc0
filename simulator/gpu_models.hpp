// The cards that the simulated hosts carry, with the names and sizes that each provider and the card itself
// use.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace gf::sim {

struct GpuModel {
    std::string canonical;    // key of the market file: "RTX-4090"
    std::string runpod_id;    // "NVIDIA GeForce RTX 4090"; empty = not sold there
    std::string runpod_name;  // "RTX 4090"
    std::string pool;         // RunPod's serverless pool; empty = null
    int runpod_gb{0};
    std::string vast_name;  // "RTX 4090"
    int vast_mb{0};         // Vast's gpu_ram
    std::string card_name;  // what nvidia-smi and CUDA call it
    int card_mib{0};        // nvidia-smi's memory.total
    int compute_cap{0};     // x100: 890 = 8.9
    double bandwidth_gb_s{0};
    double tflops{0};
};

/// The built-in table. Sizes as the cards report them, not as they are sold.
[[nodiscard]] const std::vector<GpuModel>& known_gpu_models();

}  // namespace gf::sim
