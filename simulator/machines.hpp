// The seam between the simulated world and the processes that play its machines. The world orders; what
// happened comes back as events. One implementation runs real processes (local_machines.hpp), one only
// pretends.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace gf::sim {

struct Volume {
    std::string path;
    std::uint64_t bytes{0};
    std::string shared{};  // name of a network volume: outlives the machine, several may mount it
};

/// A file that is in the machine when it starts, root's.
struct MachineFile {
    std::string path;
    std::string content;
    unsigned mode{0644};
};

/// One start of a machine's container, or of a virtual machine.
struct ContainerSpec {
    std::string machine;   // the rental's id: one folder and one keeper process per machine
    std::uint64_t run{0};  // numbers the starts of one machine; comes back in events
    std::vector<std::string> argv;
    std::vector<std::pair<std::string, std::string>> env;  // the whole environment of the first process
    std::string hostname;
    std::uint64_t disk_bytes{0};
    std::vector<Volume> volumes;  // kept over wipes; given back with the machine
    std::string image_root;       // folder with the image; empty = the host's own /usr
    bool wipe{false};             // start on an empty container disk
    bool libcuda{true};
    std::string gpu_facts;  // content of /run/gpuferry-sim/gpus
    std::vector<MachineFile> files{};
    /// A virtual machine: its first process is an init that runs `argv` once (nothing if that is empty), reaps, and
    /// stays. It hands SIGTERM on to every process, as a shutdown does.
    bool vm{false};
};

struct MachineEvent {
    enum class Kind {
        started,  // the first process runs, as `pid` of the simulator's own PID namespace
        failed,   // it could not be started; `why` says so
        exited,   // the first process ended and everything that descends from it is gone
    };
    std::string machine;
    std::uint64_t run{0};
    Kind kind{Kind::started};
    int pid{0};
    int code{0};  // exit code, if `signal` is 0
    int signal{0};
    std::string why{};
};

/// Thread-safe. No call blocks on a machine: each is an order, and the sink hears the outcome.
class Machines {
 public:
    Machines() = default;
    Machines(const Machines&) = delete;
    Machines& operator=(const Machines&) = delete;
    virtual ~Machines() = default;

    virtual void start(ContainerSpec spec) = 0;
    /// To the first process alone, as `docker stop` does.
    virtual void signal(const std::string& machine, int number) = 0;
    /// SIGKILL to every process of the machine; `exited` follows.
    virtual void kill(const std::string& machine) = 0;
    /// Freezes (SIGSTOP) or thaws every process: a host that hangs.
    virtual void freeze(const std::string& machine, bool frozen) = 0;
    /// Kills what runs and gives the machine's disk and folder back. No event need follow.
    virtual void destroy(const std::string& machine) = 0;
    /// What nvidia-smi and libcuda in the machine show from now on.
    virtual void set_gpu_facts(const std::string& machine, const std::string& facts) = 0;
    /// The last `bytes` of what the container printed.
    [[nodiscard]] virtual std::string output(const std::string& machine, std::size_t bytes) = 0;
    /// "namespaces", "none" or "model"; "unknown" before the first start.
    [[nodiscard]] virtual std::string isolation() = 0;
};

/// Called from any thread; must not block.
using MachineSink = std::function<void(MachineEvent)>;

/// Machines without processes: they start at once and run until killed. For tests of the market and for
/// fleets larger than this computer.
class ModelMachines final : public Machines {
 public:
    explicit ModelMachines(MachineSink sink) : sink_(std::move(sink)) {}
    void start(ContainerSpec spec) override;
    void signal(const std::string&, int) override {}
    void kill(const std::string& machine) override;
    void freeze(const std::string&, bool) override {}
    void destroy(const std::string& machine) override;
    void set_gpu_facts(const std::string&, const std::string&) override {}
    [[nodiscard]] std::string output(const std::string&, std::size_t) override { return {}; }
    [[nodiscard]] std::string isolation() override { return "model"; }

    /// The specs started so far, in order; only for tests on one thread.
    [[nodiscard]] const std::vector<ContainerSpec>& started() const { return started_; }

 private:
    MachineSink sink_;
    std::vector<ContainerSpec> started_;
    std::vector<std::pair<std::string, std::uint64_t>> running_;
};

}  // namespace gf::sim
