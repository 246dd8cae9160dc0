// One thing that a client rents: a RunPod pod, a Vast.ai instance, a Lambda or Vultr machine, with everything the
// provider knows about it.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "simulator/bill.hpp"
#include "simulator/gpu_facts.hpp"
#include "simulator/market.hpp"
#include "simulator/start_command.hpp"

namespace gf::sim {

enum class Phase {
    accepted,  // rented; the host has reported nothing yet
    created,   // the container exists (Vast only); also where a failed docker start sticks
    loading,   // image pull
    starting,  // the process is being started
    running,
    stopping,  // told to stop; processes may still be there
    stopped,
    exited,  // the container's main process ended (Vast only)
    queued,  // wants to run, but its GPUs are taken (Vast only)
    failed,  // RunPod ERROR
    destroying,
    gone,
};
[[nodiscard]] std::string_view text(Phase phase);

/// Why a rental does not run.
enum class Halt { none, asked, taken_back, outbid, host, no_money, lease_end, main_exit };
[[nodiscard]] std::string_view text(Halt halt);

/// What leads back to running without anybody's start (Vast only).
enum class Restart { none, reboot, recycle };

/// What a virtual machine has beyond a container.
struct VmFacts {
    std::string type;    // Lambda's instance type, Vultr's plan
    std::string region;
    std::string user_data;  // decoded
    bool user_data_run{false};    // on the disk that it has now
    std::string authorized_keys;  // the text of the keys, one a line
    std::vector<std::string> key_names;  // Lambda: names; Vultr: ids
    std::vector<std::pair<std::string, std::string>> tags;  // Vultr's plain tags have no second half
    std::string hostname;
    std::string ip;
    std::string private_ip;
    std::string secret;  // Lambda's jupyter_token, Vultr's default_password
    std::vector<std::pair<std::string, std::string>> mounts;  // Lambda: file system id, mount point
    std::vector<std::string> firewalls;
    std::int64_t os_id{0};
    std::string image_id;
    bool metal{false};       // Vultr: rented through /bare-metals
    bool unhealthy{false};   // Lambda: runs, but its health check fails
    std::optional<Instant> active_since;  // the first time that it was up; where Lambda's bill begins
    std::optional<Instant> locked_until;  // Vultr: no delete before then
};

struct Rental {
    // What was rented.
    Provider provider{Provider::vastai};
    std::string id;            // RunPod: 14 characters; Vast: the contract number as text; Lambda: 32 hex; Vultr: a UUID
    std::int64_t contract{0};  // Vast
    std::uint64_t order{0};    // creation order over everything
    std::int64_t host{0};
    std::string gpu;  // canonical model; empty for a machine without GPUs
    int gpus{0};
    std::string name;  // RunPod name, Vast label
    std::string image;
    Environment env;                    // exactly as the client sent it
    std::string args;                   // RunPod args; Vast args_str
    std::vector<std::string> arg_list;  // Vast args
    std::string onstart;
    std::string runtype;  // Vast
    std::vector<std::string> ports;
    std::int64_t disk_gb_milli{0};  // thousandths of a GB
    std::int64_t volume_gb{0};      // RunPod persistent mount
    std::string volume_path;
    std::string network_volume;
    std::string network_path;
    std::string registry;
    bool locked{false};
    bool start_ssh{false};
    bool is_bid{false};
    std::int64_t bid_per_hour{0};
    std::string container_key;
    Instant created_at;
    Instant lease_end{Instant::max()};
    VmFacts vm;                // Lambda and Vultr
    std::string ssh_host;      // POST /_sim/ssh: what reads show instead of the made-up address; empty = that
    int ssh_port{0};           // 0 = the made-up one

    // Money: micro-dollars.
    std::int64_t gpu_per_hour{0};
    std::int64_t disk_per_month{0};  // while it runs
    std::int64_t disk_per_month_stopped{0};
    Bill bill{Instant{}};

    // What it does.
    Phase phase{Phase::accepted};
    std::optional<Instant> due;  // when the phase ends by itself
    bool want_running{true};
    Halt halt{Halt::none};
    bool start_after_stop{false};  // restart, reboot, edit: a stop that leads back to loading
    bool wipe_next{false};         // the next start begins on an empty container disk
    bool lease_over{false};
    std::optional<Instant> forced_out;  // a take-back holds until then: another tenant has its GPUs
    bool offline{false};                // host disconnected
    bool unheard{false};                // no heartbeat from the host
    bool frozen{false};                 // paused with its memory while it runs
    Restart restart{Restart::none};     // until it runs again
    bool never_runs{false};             // loading (RunPod: RUNNING without runtime) for ever
    bool docker_fails{false};           // the container cannot be created on this host
    int restarts_in_row{0};
    std::string status_msg;
    std::optional<Instant> started_at;
    std::optional<Instant> halted_at;
    std::optional<Instant> unpaid_since;

    // Its container.
    std::uint64_t run{0};  // number of the last start ordered
    bool alive{false};     // a process may be there
    int pid{0};
    int starts{0};  // containers really started
    std::optional<int> exit_code;
    int exit_signal{0};
    std::vector<std::string> uuids;
    GpuFault gpu_fault;
    std::map<std::string, int> public_ports;  // "22/tcp" -> port, of the current start
    std::map<std::string, int> old_ports;
    bool ports_read_since_start{false};
    std::vector<std::pair<Instant, std::string>> system_log;
    std::vector<std::pair<std::int64_t, std::string>> ssh_keys;

    [[nodiscard]] bool exists() const { return phase != Phase::gone; }
};

}  // namespace gf::sim
