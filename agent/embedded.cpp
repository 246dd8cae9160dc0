// Files that travel inside the binary, by the assembler: the CA certificates of the build system and the CUDA probe.
#include <string_view>

#include "agent/cuda_probe.hpp"
#include "agent/tls.hpp"

#if !defined(GF_CA_BUNDLE) || !defined(GF_CUDA_PROBE)
#error "the build names the files to embed"
#endif

__asm__(
    ".section .rodata\n"
    ".balign 16\n"
    "gf_ca_bundle_begin:\n"
    ".incbin \"" GF_CA_BUNDLE "\"\n"
    "gf_ca_bundle_end:\n"
    ".balign 16\n"
    "gf_cuda_probe_begin:\n"
    ".incbin \"" GF_CUDA_PROBE "\"\n"
    "gf_cuda_probe_end:\n"
    ".previous\n");

extern "C" {
extern const char gf_ca_bundle_begin[];
extern const char gf_ca_bundle_end[];
extern const char gf_cuda_probe_begin[];
extern const char gf_cuda_probe_end[];
}

namespace gf::agent {

std::string_view embedded_ca_bundle() {
    return {gf_ca_bundle_begin, static_cast<std::size_t>(gf_ca_bundle_end - gf_ca_bundle_begin)};
}
std::string_view embedded_cuda_probe() {
    return {gf_cuda_probe_begin, static_cast<std::size_t>(gf_cuda_probe_end - gf_cuda_probe_begin)};
}

}  // namespace gf::agent
