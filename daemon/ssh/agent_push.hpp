// The agent sent to a machine and started there, over a connection that stands. One remote shell talks with the daemon by lines:
// a login prints banners and the like, so only lines with a mark count. Here are the script and the daemon's side of the talk,
// without any process: text comes in, text goes out.
//
// On the machine: one agent at a time and machine row, told by process and its start, in a file that names the kernel's boot; an
// agent that lives is left alone, one that has died is started again, five times per boot. The binary is checked by its
// SHA-256 there. What is secret travels over the shell's standard input and into the agent's environment, never into an argument.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "model/result.hpp"
#include "model/strong.hpp"

namespace gf::ssh {

/// An agent's binary on this machine.
struct AgentBinary {
    std::string path;
    std::string sha256;
    std::int64_t size{0};
};
/// For `uname -m` ("x86_64", "aarch64"): the binary, or an error in plain words.
using AgentFor = std::function<Result<AgentBinary>(std::string_view machine_arch)>;

/// What is given to the login shell: reads a script's length and the script from standard input and becomes it, as root where
/// sudo asks for no password.
[[nodiscard]] std::string remote_shell();

/// The talk that makes sure that an agent runs.
class AgentPush {
 public:
    enum class Step : std::uint8_t {
        talk,    // give more of what the machine prints
        upload,  // send the bytes of `binary()`, then go on
        done,    // `outcome` says how it went
    };
    /// `env` without line breaks. `tag`: the machine's.
    AgentPush(MachineTag tag, std::map<std::string, std::string> env, AgentFor agent_for);

    /// What is sent before anything is read.
    [[nodiscard]] std::string opening() const;
    /// Takes what was printed; `reply` is to be sent. Whatever a machine prints, the replies of a talk are few and short, and
    /// the binary is to be sent once at most.
    Step take(std::string_view printed, std::string& reply);
    [[nodiscard]] const AgentBinary& binary() const { return binary_; }

    struct Outcome {
        bool alive{false};
        bool started{false};  // now
        std::string detail;   // for people
    };
    /// After `done`, or when the talk broke off.
    [[nodiscard]] Outcome outcome() const { return outcome_; }

 private:
    Step line(std::string_view line, std::string& reply);

    MachineTag tag_;
    std::map<std::string, std::string> env_;
    AgentFor agent_for_;
    AgentBinary binary_;
    enum class Expected : std::uint8_t { arch, send, end };
    Expected expected_{Expected::arch};  // what the machine may ask for next
    std::string rest_;      // a line that has not ended
    bool too_long_{false};  // what comes until the next line's end belongs to a line that is too long
    Outcome outcome_;
};

/// What is sent to end the sshd process of an earlier connection of ours that still holds the machine's port: it has not noticed
/// that we are gone.
[[nodiscard]] std::string free_port_opening(const MachineTag& tag);

}  // namespace gf::ssh
