// Runs a piece of a test in a forked process: for code that must abort, and for writers that are killed half-way.
#pragma once
#include <sys/types.h>

#include <functional>
#include <string>

namespace gf::test {

struct ChildEnd {
    bool aborted{false};     // ended by SIGABRT
    int exit_code{-1};       // -1 when it ended by a signal
    std::string stderr_text;
};

/// Runs `body` in a child to its end. The child exits with 0 after it.
[[nodiscard]] ChildEnd run_child(const std::function<void()>& body);

/// A child that runs until it is killed. `body` writes to the given descriptor; `read_fd` is the other end.
struct RunningChild {
    pid_t pid{-1};
    int read_fd{-1};
};
[[nodiscard]] RunningChild start_child(const std::function<void(int write_fd)>& body);
/// Kills with SIGKILL, waits, and returns all that was written before.
[[nodiscard]] std::string kill_child(const RunningChild& child);

}  // namespace gf::test
