// The files of this folder that travel inside the binaries, byte for byte as they lie in the tree.
#pragma once
#include <string_view>

namespace gf {

[[nodiscard]] std::string_view shipped_gpus_csv();      // config/gpus.csv
[[nodiscard]] std::string_view shipped_aliases_csv();   // config/aliases.csv
[[nodiscard]] std::string_view shipped_throughput_csv();  // config/throughput.csv
[[nodiscard]] std::string_view shipped_models_csv();    // config/models.csv
[[nodiscard]] std::string_view shipped_example_yaml();  // config/gpuferryd.example.yaml

}  // namespace gf
