// Running a small program of the machine and reading what it says. For nvidia-smi and the CUDA probe, not for jobs.
#pragma once
#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "agent/descriptor.hpp"
#include "model/time.hpp"

namespace gf::agent {

struct CommandResult {
    bool started{false};
    int start_error{0};       // errno of the exec, when not started
    bool timed_out{false};
    int wait_status{0};
    std::string output;       // of stdout, at most 1 MiB
};

/// Runs `program` (found by PATH and the usual folders unless it has a slash) with the environment of
/// `set_command_environment`. Kills it after `limit`. Blocking.
[[nodiscard]] CommandResult run_command(const std::string& program, const std::vector<std::string>& arguments, Millis limit);

/// A program that goes on; its stdout is `output`. Killed and reaped when the object goes.
class RunningCommand {
 public:
    RunningCommand(const std::string& program, const std::vector<std::string>& arguments);
    ~RunningCommand();
    RunningCommand(const RunningCommand&) = delete;
    RunningCommand& operator=(const RunningCommand&) = delete;
    [[nodiscard]] bool started() const { return pid_ > 0; }
    [[nodiscard]] int start_error() const { return start_error_; }
    /// Bytes of its output; empty and false when it has ended. Waits at most `wait`.
    bool read(std::string& out, Millis wait);
    [[nodiscard]] int end(bool kill);  // reaps; its wait status

 private:
    pid_t pid_{0};
    int start_error_{0};
    Descriptor output_;
};

/// The environment of the programs that the agent starts: its own without what `is_withheld`, and LC_ALL=C. Called once,
/// before threads exist; until then it is empty but for a PATH.
void set_command_environment(const std::map<std::string, std::string>& env);

}  // namespace gf::agent
