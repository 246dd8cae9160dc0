// Does CUDA initialise here? Asked by a tiny helper that the agent carries: it is linked against nothing but libcuda.so.1
// and started by the host's own loader, because a static program cannot load libcuda itself.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/time.hpp"

namespace gf::agent {

struct CudaProbe {
    std::string result;   // "ok", "no_loader", "no_libcuda", "error_<CUresult>", "error_timeout", "error_signal_<n>", "not_run"
    int devices{0};
    std::vector<std::string> names;
    std::vector<std::int64_t> memory_bytes;
    std::string version;  // "12.8"
};

/// Blocks up to `limit`: initialising eight GPUs without persistence mode takes half a minute.
[[nodiscard]] CudaProbe run_cuda_probe(Millis limit);
/// Reads what the helper printed and how it ended (a wait status; -1 = could not be started, -2 = timed out).
[[nodiscard]] CudaProbe read_cuda_probe(std::string_view output, int wait_status, bool no_loader);

[[nodiscard]] std::string_view embedded_cuda_probe();

}  // namespace gf::agent
