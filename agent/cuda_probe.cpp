#include "agent/cuda_probe.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>

#include "agent/command.hpp"

namespace gf::agent {
namespace {

std::int64_t number_of(std::string_view text) {
    std::int64_t value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
}

/// The helper as a file that can be executed: in memory where the kernel has it, else in a folder that allows it.
struct ProbeFile {
    Descriptor memory;
    std::string path;
    bool remove{false};
    ~ProbeFile() {
        if (remove) ::unlink(path.c_str());
    }
};

bool put_all(int fd, std::string_view bytes) {
    while (!bytes.empty()) {
        const auto put = ::write(fd, bytes.data(), bytes.size());
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return false;
        bytes.remove_prefix(static_cast<std::size_t>(put));
    }
    return true;
}

CommandResult try_probe(const std::string& path, Millis limit) { return run_command(path, {}, limit); }

}  // namespace

CudaProbe run_cuda_probe(Millis limit) {
    const auto bytes = embedded_cuda_probe();
    {
        ProbeFile file;
        file.memory.reset(::memfd_create("gpuferry-cuda-probe", 0));
        if (file.memory && put_all(file.memory.get(), bytes)) {
            // Without close-on-exec: the loader opens the file again by this name after the exec.
            file.path = "/proc/self/fd/" + std::to_string(file.memory.get());
            const auto ran = try_probe(file.path, limit);
            if (ran.started) return read_cuda_probe(ran.output, ran.timed_out ? -2 : ran.wait_status, false);
        }
    }
    // Some kernels forbid to execute memory files, and without /proc there is no name for one. The interpreter that is
    // missing shows as ENOENT too, so only a real file can tell.
    for (const std::string folder : {"/tmp", "/var/tmp", "/dev/shm", "/run", "."}) {
        ProbeFile file;
        file.path = folder + "/gpuferry-cuda-probe-XXXXXX";
        {
            const Descriptor out(::mkstemp(file.path.data()));
            if (!out) continue;
            file.remove = true;
            if (!put_all(out.get(), bytes) || ::fchmod(out.get(), 0700) != 0) continue;
        }
        const auto ran = try_probe(file.path, limit);
        if (ran.started) return read_cuda_probe(ran.output, ran.timed_out ? -2 : ran.wait_status, false);
        if (ran.start_error == ENOENT) return read_cuda_probe({}, -1, true);
    }
    return read_cuda_probe({}, -1, false);
}

CudaProbe read_cuda_probe(std::string_view output, int wait_status, bool no_loader) {
    CudaProbe probe;
    std::int64_t init = -1;
    while (!output.empty()) {
        const auto end = std::min(output.find('\n'), output.size());
        const auto line = output.substr(0, end);
        output.remove_prefix(std::min(end + 1, output.size()));
        const auto space = line.find(' ');
        if (space == std::string_view::npos) continue;
        const auto key = line.substr(0, space);
        const auto value = line.substr(space + 1);
        if (key == "result") init = number_of(value);
        if (key == "count") probe.devices = static_cast<int>(number_of(value));
        if (key == "name") probe.names.emplace_back(value);
        if (key == "memory") probe.memory_bytes.push_back(number_of(value));
        if (key == "driver") {
            const auto version = number_of(value);
            probe.version = std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
        }
    }
    if (no_loader) probe.result = "no_loader";
    else if (wait_status == -1) probe.result = "not_run";
    else if (wait_status == -2) probe.result = "error_timeout";
    else if (init > 0) probe.result = "error_" + std::to_string(init);
    else if (WIFSIGNALED(wait_status)) probe.result = "error_signal_" + std::to_string(WTERMSIG(wait_status));
    // 127 is the loader's own word for a library that is not there.
    else if (init < 0 && WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 127) probe.result = "no_libcuda";
    else if (init == 0 && WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0) probe.result = "ok";
    else probe.result = "error_exit_" + std::to_string(WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : -1);
    return probe;
}

}  // namespace gf::agent
