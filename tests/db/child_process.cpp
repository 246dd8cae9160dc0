#include "tests/db/child_process.hpp"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

namespace gf::test {
namespace {

std::string read_all(int fd) {
    std::string all;
    std::array<char, 4096> part{};
    for (;;) {
        const auto got = ::read(fd, part.data(), part.size());
        if (got <= 0) break;
        all.append(part.data(), static_cast<std::size_t>(got));
    }
    ::close(fd);
    return all;
}

}  // namespace

RunningChild start_child(const std::function<void(int)>& body) {
    std::array<int, 2> ends{};
    REQUIRE(::pipe(ends.data()) == 0);
    const pid_t pid = ::fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        ::close(ends[0]);
        const rlimit no_core{0, 0};
        ::setrlimit(RLIMIT_CORE, &no_core);
        // doctest reports a caught SIGABRT as a failed test case; here the abort is what is expected.
        ::signal(SIGABRT, SIG_DFL);
        body(ends[1]);
        ::_exit(0);
    }
    ::close(ends[1]);
    return {.pid = pid, .read_fd = ends[0]};
}

std::string kill_child(const RunningChild& child) {
    ::kill(child.pid, SIGKILL);
    int status = 0;
    ::waitpid(child.pid, &status, 0);
    return read_all(child.read_fd);
}

ChildEnd run_child(const std::function<void()>& body) {
    const auto child = start_child([&](int write_fd) {
        ::dup2(write_fd, STDERR_FILENO);
        body();
    });
    ChildEnd end;
    end.stderr_text = read_all(child.read_fd);
    int status = 0;
    ::waitpid(child.pid, &status, 0);
    end.aborted = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
    if (WIFEXITED(status)) end.exit_code = WEXITSTATUS(status);
    return end;
}

}  // namespace gf::test
