// The machine's docker, or podman in its place: finding it, logging in to a registry, pulling the job's image, looking into
// it, and the command line of the job's container. Blocking; used by the attempt's thread alone.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/user_account.hpp"
#include "model/agent_protocol.hpp"
#include "model/time.hpp"

namespace gf::agent {

/// Errors of all calls: `invalid` = the job's own fault, the same on every machine; `io` = this machine's, or it was cancelled.
class ContainerEngine {
 public:
    /// Waits for the engine to answer: on a machine that has just booted it may still be starting. Runs it by `sudo -n` where
    /// that is needed. `machine` is the tag, the label that our containers carry.
    static Result<ContainerEngine> find(const std::string& machine, const std::function<bool()>& cancelled);

    /// Ends and removes every container that carries this machine's label: left by an agent that was killed.
    Result<void> remove_left_over() const;

    struct PullOrder {
        std::string image;
        std::optional<agent_protocol::RegistryAccess> registry;
        std::string config;                           // folder for the login, made and removed here
        std::function<void(const std::string&)> tell;  // progress, at most once in two seconds
        Millis patience{900'000};                      // for waiting between tries, in all
    };
    /// Does nothing when the image is there. What the registry or the network may get over is tried again. A pull that runs has no
    /// limit here: a large image over a slow line takes its time, and the daemon ends what takes too long. The password goes to the engine's stdin, and what the engine writes of it is removed before this returns.
    Result<void> pull(const PullOrder& order) const;

    struct Image {
        std::vector<std::string> entrypoint;
    };
    /// Error `invalid` where the image is for another architecture than this program.
    Result<Image> look_into(const std::string& image) const;

    /// How the image knows the user. `agent` is our own program, in a folder that the engine can mount.
    Result<UserAccount> account(const std::string& image, const std::string& user, const std::string& agent) const;

    struct RunOrder {
        std::string name;
        std::string attempt;
        std::string mark;
        std::string image;
        std::string folder;     // the job's, mounted at the same path
        std::string box;        // folder with the door and the ask socket, mounted read-only at the same path
        std::string agent;      // our own program, mounted read-only with its folder at the same path
        std::string door;
        std::int64_t shm_bytes{0};  // 0 = the host's
        std::string gpus;       // "" = none, "all", or a list of indexes or UUIDs
    };
    [[nodiscard]] std::vector<std::string> run_command_line(const RunOrder& order) const;
    [[nodiscard]] std::vector<std::string> remove_command_line(const std::string& name) const;
    [[nodiscard]] std::vector<std::string> inspect_command_line(const std::string& name) const;
    /// Asked from now on instead of what `find` was given.
    void set_cancelled(std::function<bool()> cancelled) { cancelled_ = std::move(cancelled); }
    [[nodiscard]] bool by_sudo() const { return prefix_.size() > 1; }

 private:
    struct Ran {
        bool good{false};
        bool cancelled{false};
        std::string output;
    };
    [[nodiscard]] Ran run(std::vector<std::string> arguments, Millis limit, const std::string& input = {},
                          const std::function<void(std::string_view)>& heard = {}) const;
    [[nodiscard]] std::vector<std::string> line(const std::vector<std::string>& arguments) const;
    [[nodiscard]] std::string name_of(const std::string& image) const;
    [[nodiscard]] bool wait(Millis time) const;  // false when cancelled
    Result<void> log_in(const PullOrder& order) const;
    Result<void> retry(const std::string& what, const PullOrder& order, const std::function<Ran()>& attempt) const;

    std::vector<std::string> prefix_;  // "sudo", "-n", "/usr/bin/docker"
    bool podman_{false};
    std::string machine_;
    std::function<bool()> cancelled_;
};

/// What a job's container is to have of the machine's GPUs: those that this agent was given itself, or all.
[[nodiscard]] std::string container_gpus(const std::map<std::string, std::string>& machine_env);
/// A name that an engine accepts, made of the attempt's id.
[[nodiscard]] std::string container_name(const std::string& attempt);
/// What `gpuferry-agent account` prints, and reading it. Error: `malformed`.
[[nodiscard]] std::string account_line(const UserAccount& account);
Result<UserAccount> read_account(std::string_view output);

}  // namespace gf::agent
