// Everything that a command takes from the process around it, so that tests can run commands in their own
// process: the streams, environment variables, whether a terminal is there, and Ctrl-C.
#pragma once
#include <atomic>
#include <chrono>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>

namespace gf::cli {

struct Environment {
    std::istream& in;
    std::ostream& out;  // results
    std::ostream& err;  // notes, warnings, errors
    bool out_is_terminal{false};
    bool err_is_terminal{false};
    bool in_is_terminal{false};
    /// Shows the prompt and reads one line from the terminal without echo; nothing at end of file or Ctrl-C.
    std::function<std::optional<std::string>(const std::string& prompt)> ask_hidden;
    int columns{100};  // width of the terminal
    unsigned uid{0};   // whose data directory is the default
    std::function<std::optional<std::string>(const char*)> variable;
    std::function<void(std::chrono::milliseconds)> sleep;  // between two polls; returns early after Ctrl-C
    std::atomic<bool>* interrupted{nullptr};               // set by Ctrl-C while a command follows something
    std::function<void(bool)> catch_interrupt;  // true: Ctrl-C sets the flag; false: it ends the process
};

[[nodiscard]] inline bool was_interrupted(const Environment& env) {
    return env.interrupted != nullptr && env.interrupted->load();
}

/// Ctrl-C detaches instead of ending the process, as long as this lives.
class DetachOnInterrupt {
 public:
    explicit DetachOnInterrupt(Environment& env) : env_(env) {
        if (env_.catch_interrupt) env_.catch_interrupt(true);
    }
    ~DetachOnInterrupt() {
        if (env_.catch_interrupt) env_.catch_interrupt(false);
    }
    DetachOnInterrupt(const DetachOnInterrupt&) = delete;
    DetachOnInterrupt& operator=(const DetachOnInterrupt&) = delete;

 private:
    Environment& env_;
};

}  // namespace gf::cli
