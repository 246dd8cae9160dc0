#include "simulator/gpu_models.hpp"

namespace gf::sim {

const std::vector<GpuModel>& known_gpu_models() {
    static const std::vector<GpuModel> table{
        {"RTX-3070", "NVIDIA GeForce RTX 3070", "RTX 3070", "", 8, "RTX 3070", 8192,
         "NVIDIA GeForce RTX 3070", 8192, 860, 448, 20.3},
        {"RTX-3080-10GB", "NVIDIA GeForce RTX 3080", "RTX 3080", "", 10, "RTX 3080", 10240,
         "NVIDIA GeForce RTX 3080", 10240, 860, 760, 29.8},
        {"RTX-3090", "NVIDIA GeForce RTX 3090", "RTX 3090", "AMPERE_24", 24, "RTX 3090", 24576,
         "NVIDIA GeForce RTX 3090", 24576, 860, 936, 35.6},
        {"RTX-4080", "NVIDIA GeForce RTX 4080", "RTX 4080", "", 16, "RTX 4080", 16376,
         "NVIDIA GeForce RTX 4080", 16376, 890, 717, 48.7},
        {"RTX-4090", "NVIDIA GeForce RTX 4090", "RTX 4090", "ADA_24", 24, "RTX 4090", 24564,
         "NVIDIA GeForce RTX 4090", 24564, 890, 1008, 82.6},
        {"RTX-5090", "NVIDIA GeForce RTX 5090", "RTX 5090", "", 32, "RTX 5090", 32607,
         "NVIDIA GeForce RTX 5090", 32607, 1200, 1792, 104.8},
        {"RTX-A4000", "NVIDIA RTX A4000", "RTX A4000", "AMPERE_16", 16, "RTX A4000", 16376,
         "NVIDIA RTX A4000", 16376, 860, 448, 19.2},
        {"RTX-A5000", "NVIDIA RTX A5000", "RTX A5000", "AMPERE_24", 24, "RTX A5000", 24564,
         "NVIDIA RTX A5000", 24564, 860, 768, 27.8},
        {"RTX-A6000", "NVIDIA RTX A6000", "RTX A6000", "AMPERE_48", 48, "RTX A6000", 49140,
         "NVIDIA RTX A6000", 49140, 860, 768, 38.7},
        {"L4", "NVIDIA L4", "L4", "AMPERE_24", 24, "L4", 23034, "NVIDIA L4", 23034, 890, 300, 30.3},
        {"L40S", "NVIDIA L40S", "L40S", "ADA_48_PRO", 48, "L40S", 46068, "NVIDIA L40S", 46068, 890, 864,
         91.6},
        {"A40", "NVIDIA A40", "A40", "AMPERE_48", 48, "A40", 46068, "NVIDIA A40", 46068, 860, 696, 37.4},
        {"A100-SXM-40GB", "NVIDIA A100-SXM4-40GB", "A100 SXM 40GB", "", 40, "A100 SXM4", 40960,
         "NVIDIA A100-SXM4-40GB", 40960, 800, 1555, 19.5},
        {"A100-PCIe-80GB", "NVIDIA A100 80GB PCIe", "A100 PCIe", "AMPERE_80", 80, "A100 PCIE", 81920,
         "NVIDIA A100 80GB PCIe", 81920, 800, 1935, 19.5},
        {"A100-SXM-80GB", "NVIDIA A100-SXM4-80GB", "A100 SXM", "AMPERE_80", 80, "A100 SXM4", 81920,
         "NVIDIA A100-SXM4-80GB", 81920, 800, 2039, 19.5},
        {"H100-PCIe-80GB", "NVIDIA H100 PCIe", "H100 PCIe", "ADA_80_PRO", 80, "H100 PCIE", 81559,
         "NVIDIA H100 PCIe", 81559, 900, 2000, 51.0},
        {"H100-SXM-80GB", "NVIDIA H100 80GB HBM3", "H100 SXM", "ADA_80_PRO", 80, "H100 SXM", 81559,
         "NVIDIA H100 80GB HBM3", 81559, 900, 3350, 67.0},
        {"H200-SXM-141GB", "NVIDIA H200", "H200 SXM", "", 141, "H200", 143771, "NVIDIA H200", 143771, 900,
         4800, 67.0},
        // Only in virtual machines.
        {"A10", "", "", "", 0, "A10", 23028, "NVIDIA A10", 23028, 860, 600, 31.2},
        {"A16", "", "", "", 0, "A16", 15356, "NVIDIA A16", 15356, 860, 200, 4.5},
        {"A100-PCIe-40GB", "", "", "", 0, "A100 PCIE", 40960, "NVIDIA A100-PCIE-40GB", 40960, 800, 1555, 19.5},
        {"GH200-96GB", "", "", "", 0, "GH200 SXM", 97871, "NVIDIA GH200 480GB", 97871, 900, 4000, 67.0},
        {"B200", "", "", "", 0, "B200", 183359, "NVIDIA B200", 183359, 1000, 8000, 80.0},
        {"Quadro-RTX-6000", "", "", "", 0, "Q RTX 6000", 24576, "Quadro RTX 6000", 24576, 750, 672, 16.3},
        {"V100-SXM2-16GB", "", "", "", 0, "Tesla V100", 16384, "Tesla V100-SXM2-16GB", 16384, 700, 900, 15.7},
    };
    return table;
}

}  // namespace gf::sim
