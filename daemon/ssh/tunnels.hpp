// The ssh path to machines whose agents cannot dial us (docs/ssh.md). For each such machine one `ssh` process holds a connection,
// and over it a listener on the machine's own loopback leads to our gateway; the agent is sent and started over the same
// connection. A connection that breaks is made anew, with growing pauses, until the machine's tunnel is closed.
//
// A tunnel says what happens and decides nothing: that a machine cannot be reached is no loss of it (the agent's own words and
// the provider's decide that). One thread per tunnel, which also is what its processes live as long as; at most kTunnelsMax.
#pragma once
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "daemon/ssh/agent_push.hpp"
#include "daemon/ssh/keys.hpp"
#include "daemon/ssh/machine_keys.hpp"
#include "providers/port.hpp"

namespace gf::ssh {

class Tunnel;

/// What a tunnel tells. `reason` is one word for machines, `detail` for people.
///   up                 the way stands
///   sshd_not_up, login_refused, connection_lost, ssh_failed
///                      not (any more): tried again
///   host_key_not_ours  it has not yet shown the key that we have made for it: tried again, at boot that passes
///   host_key_changed   a machine that we know shows another key: never talked to; tried again, rarely
///   forward_refused    its sshd gives us no listener
///   agent_not_started  the way stands, the agent does not run
///   no_keys            nothing of ours is there that could let us in: never gone to
///   too_many           no thread or descriptor is left; `open` it again later
///   no_ssh, bad_endpoint
struct TunnelNews {
    MachineId machine;
    bool up{false};
    std::string reason;
    std::string detail;
};

struct TunnelsOptions {
    std::string data_dir;            // keys lie in data_dir/ssh
    std::string comment;             // of our public key: which installation
    std::string ssh_program;         // empty = looked for in PATH
    /// All are called on the tunnels' threads, and must be there until `stop`.
    std::function<std::string()> target;                       // "127.0.0.1:8471": our gateway, as seen from here
    AgentFor agent_for;
    std::function<MachineTag(const MachineId&)> tag_of;
    /// The agent's environment but for its URL.
    std::function<std::map<std::string, std::string>(const MachineId&)> agent_env;
    std::function<bool(const MachineId&)> agent_connected;
    std::function<void(const TunnelNews&)> tell;
    std::uint64_t seed{1};           // of the jitter
    std::chrono::milliseconds pause_stranger{60'000};  // between two tries where another host key is shown
    std::chrono::milliseconds talk_max{15 * 60'000};   // for one talk with a machine's shell, the agent's way there included
    /// Where the control sockets may lie if data_dir is too deep for them; the first that is a folder of ours wins, /tmp is the last.
    std::vector<std::string> runtime_folders;
};

class Tunnels {
 public:
    static constexpr std::size_t kTunnelsMax = 500;

    explicit Tunnels(TunnelsOptions options);
    ~Tunnels();  // `stop`
    Tunnels(const Tunnels&) = delete;
    Tunnels& operator=(const Tunnels&) = delete;

    /// Loads or makes our key and the folders. Errors: `io`, `full`.
    Result<void> open_keys();

    /// What a launch needs, and the mark that this machine is reached by ssh. Errors: `io`, `full`, `quota` when kTunnelsMax
    /// machines are; thread-safe.
    Result<SshSetup> prepare(const MachineId& machine, bool make_host_key);
    /// Forgets the keys of machines that are over (MachineKeys::forget_over). Before the first `open`.
    void forget_over(const std::function<MachineKeys::Fate(const MachineId&)>& fate) { keys_.forget_over(fate); }
    [[nodiscard]] bool prepared(const MachineId& machine) const { return keys_.prepared(machine); }
    /// The ssh that is called; empty = there is none.
    [[nodiscard]] const std::string& program() const { return program_; }

    /// Keeps a tunnel to this machine, whose sshd is there now. Tells `no_keys` for a machine that was not prepared and whose agent
    /// is not here by itself, does nothing for one that is held there already. Never blocks for long; thread-safe, as is all that
    /// follows.
    void open(const MachineId& machine, const SshEndpoint& to);
    /// Ends it, a moment later: what is on its way to the agent may still arrive. The machine's keys are forgotten.
    void close(const MachineId& machine);
    /// Ends all and waits for their processes. The agents go on; the next daemon finds them.
    void stop();

    [[nodiscard]] std::size_t count() const;

 private:
    friend class Tunnel;
    /// The folder of the control sockets, made if it is not there, and ours alone. Errors: `io`. Thread-safe.
    Result<void> make_socket_folder() const;

    TunnelsOptions options_;
    std::string folder_;           // data_dir/ssh
    std::string sockets_;          // where the control sockets lie; short, because a socket's path is
    bool sockets_are_temporary_{false};
    std::string program_;
    MachineKeys keys_;
    KeyPair client_;

    mutable std::mutex mutex_;     // guards all below
    std::map<MachineId, std::unique_ptr<Tunnel>> tunnels_;
    std::vector<std::unique_ptr<Tunnel>> leaving_;
    bool stopping_{false};
};

}  // namespace gf::ssh
