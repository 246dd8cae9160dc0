// Running a small program of the machine and reading what it says. For nvidia-smi, the CUDA probe and docker, not for jobs.
#pragma once
#include <sys/types.h>

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "agent/descriptor.hpp"
#include "model/time.hpp"

namespace gf::agent {

struct CommandResult {
    bool started{false};
    int start_error{0};       // errno of the exec, when not started
    bool timed_out{false};
    int wait_status{0};
    std::string output;       // at most 1 MiB; what comes after it is thrown away
    [[nodiscard]] bool good() const { return started && !timed_out && wait_status == 0; }
};

struct CommandOptions {
    std::string input{};                                    // for its stdin, at most kCommandInputMax
    bool with_errors{false};                                // stderr belongs to the output too
    std::function<void(std::string_view)> heard{};          // each piece of output as it comes
    std::function<bool()> cancelled{};                      // asked ten times a second; true ends the program
};
inline constexpr std::size_t kCommandInputMax = 60 * 1024;  // fits into a pipe that nobody reads yet

/// The file of a program by PATH and the usual folders; empty if there is none. With a slash it is taken as it is.
[[nodiscard]] std::string find_program(const std::string& program);

/// Runs `program` (found by PATH and the usual folders unless it has a slash) with the environment of
/// `set_command_environment`. Kills it after `limit`, or when it is cancelled: `timed_out`. Blocking.
[[nodiscard]] CommandResult run_command(const std::string& program, const std::vector<std::string>& arguments, Millis limit,
                                        const CommandOptions& options = {});

/// A program that goes on; its stdout is `output`. Killed and reaped when the object goes.
class RunningCommand {
 public:
    RunningCommand(const std::string& program, const std::vector<std::string>& arguments, const CommandOptions& options = {});
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
/// That environment, NAME=value.
[[nodiscard]] const std::vector<std::string>& command_environment();

}  // namespace gf::agent
