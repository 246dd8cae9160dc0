// A process of ours with pipes to its three standard streams: ssh itself, and the commands that talk through it.
//
// It dies with the thread that started it (and so with the daemon, also by kill -9): that thread must live for as long as the
// child shall. It has an environment of its own making, no descriptor but its pipes, no blocked signal, and a process group of
// its own, so that a Ctrl-C at the daemon's terminal is the daemon's to pass on. Not thread-safe.
#pragma once
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "model/result.hpp"

namespace gf::ssh {

class Child {
 public:
    /// `argv[0]` is the program's path. The pipes do not block. Errors: `io` with the program.
    static Result<Child> start(const std::vector<std::string>& argv);
    Child(Child&& other) noexcept;
    Child& operator=(Child&& other) noexcept;
    ~Child();  // `end`

    [[nodiscard]] pid_t pid() const { return pid_; }
    [[nodiscard]] int input() const { return input_; }    // -1 once closed
    [[nodiscard]] int output() const { return output_; }
    [[nodiscard]] int errors() const { return errors_; }
    void close_input();

    /// What is there to read now, at most 64 KiB. Nothing = the stream has ended.
    static std::optional<std::string> read_some(int fd);

    /// True once the process has ended; takes its status then. Never blocks.
    [[nodiscard]] bool ended();
    /// The exit status as a shell tells it: the code, or 128 and the signal. Only after `ended`.
    [[nodiscard]] int status() const { return status_; }
    /// SIGTERM, after a second SIGKILL; waits for its end. Does nothing when it has ended.
    void end();

 private:
    Child() = default;
    void close_all();

    pid_t pid_{-1};
    int input_{-1}, output_{-1}, errors_{-1};
    int status_{0};
    bool reaped_{true};
};

/// The full path of a program in PATH, or where Debian puts it; empty if it is not there.
[[nodiscard]] std::string find_program(const std::string& name);

}  // namespace gf::ssh
