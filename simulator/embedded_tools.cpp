#include "simulator/embedded_tools.hpp"

#include <fstream>

// GF_SIM_SMI and GF_SIM_CUDA are the build's paths of the two tools; the assembler puts their bytes here.
__asm__(
    ".section .rodata\n"
    ".balign 16\n"
    "gf_sim_smi_begin: .incbin \"" GF_SIM_SMI
    "\"\n"
    "gf_sim_smi_end:\n"
    ".balign 16\n"
    "gf_sim_cuda_begin: .incbin \"" GF_SIM_CUDA
    "\"\n"
    "gf_sim_cuda_end:\n"
    ".previous\n");
extern "C" {
extern const char gf_sim_smi_begin[];
extern const char gf_sim_smi_end[];
extern const char gf_sim_cuda_begin[];
extern const char gf_sim_cuda_end[];
}

namespace gf::sim {

namespace {

namespace fs = std::filesystem;

void write_tool(const fs::path& path, const char* begin, const char* end) {
    fs::create_directories(path.parent_path());
    fs::remove(path);
    std::ofstream out(path, std::ios::binary);
    out.write(begin, end - begin);
    out.close();
    if (!out) throw std::runtime_error("cannot write " + path.string());
    fs::permissions(path, fs::perms::owner_all | fs::perms::group_read | fs::perms::group_exec |
                              fs::perms::others_read | fs::perms::others_exec);
}

#if defined(__aarch64__)
constexpr const char* kMultiarch = "usr/lib/aarch64-linux-gnu";
#else
constexpr const char* kMultiarch = "usr/lib/x86_64-linux-gnu";
#endif

}  // namespace

Result<ToolFolders> unpack_tools(const fs::path& dir) {
    try {
        const ToolFolders folders{.smi = dir / "smi", .cuda = dir / "cuda"};
        write_tool(folders.smi / "usr/bin/nvidia-smi", gf_sim_smi_begin, gf_sim_smi_end);
        // Where the NVIDIA runtime puts it, and where images' LD_LIBRARY_PATH points.
        for (const auto* where : {kMultiarch, "usr/local/nvidia/lib64"}) {
            write_tool(folders.cuda / where / "libcuda.so.1", gf_sim_cuda_begin, gf_sim_cuda_end);
        }
        return folders;
    } catch (const std::exception& e) {
        return fail(ErrorKind::io, std::string{"cannot unpack the GPU tools: "} + e.what());
    }
}

}  // namespace gf::sim
