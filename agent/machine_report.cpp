#include "agent/machine_report.hpp"

#include <sys/utsname.h>
#include <unistd.h>

#include "agent/cuda_probe.hpp"
#include "agent/nvidia_smi.hpp"
#include "agent/system_figures.hpp"

namespace gf::agent {
namespace {

// The first call after boot wakes every GPU: 8 GPUs without persistence mode have been seen to take 40 s.
constexpr Millis kGpuLimit{60'000};

std::string architecture() {
    utsname name{};
    if (::uname(&name) != 0) return GF_AGENT_ARCH;
    const std::string machine = name.machine;
    if (machine == "x86_64") return "amd64";
    if (machine == "aarch64") return "arm64";
    return machine;
}

}  // namespace

agent_protocol::MachineReport make_machine_report(const std::string& workspace) {
    agent_protocol::MachineReport report;
    report.gpus = read_gpu_reports(kGpuLimit);
    const auto probe = run_cuda_probe(kGpuLimit);
    report.cuda_probe = probe.result;
    report.cuda_devices = probe.devices;
    report.cuda_names = probe.names;
    report.cuda_version = probe.version;
    const auto disk = disk_figures(workspace);
    report.disk_total = disk.total;
    report.disk_free = disk.free;
    report.memory_total = memory_total();
    report.cpus = usable_cpus();
    report.arch = architecture();
    report.workspace = workspace;
    char host[256] = {};
    if (::gethostname(host, sizeof host - 1) == 0) report.hostname = host;
    return report;
}

}  // namespace gf::agent
