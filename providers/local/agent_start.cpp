// Between fork and exec of a process with threads only async-signal-safe calls are allowed, so everything is
// laid out before: strings, vectors, paths. The child does nothing but system calls.
//
//   daemon --fork--> middle --fork--> agent-to-be: setsid, write machine.json, exec
//              wait for middle, which exits at once: the agent belongs to init, and nobody gets a zombie
//
// The pipe is closed by a successful exec; an errno in it means that it failed.
#include "providers/local/agent_start.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/close_range.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

namespace gf::local {
namespace {

struct Plan {
    const char* program;
    char* const* argv;
    char* const* envp;
    const char* folder;
    const char* record;        // machine.json
    const char* record_draft;  // machine.json.new
    const char* log;
    const RecordTemplate* text;
    int report;  // write end of the pipe
};

// ---- The child's side: system calls only. ----

bool write_all(int fd, const char* data, std::size_t size) {
    while (size > 0) {
        const auto n = ::write(fd, data, size);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        data += n;
        size -= static_cast<std::size_t>(n);
    }
    return true;
}

bool write_number(int fd, std::uint64_t value) {
    std::array<char, 24> digits{};
    std::size_t at = digits.size();
    do {
        digits[--at] = static_cast<char>('0' + value % 10);
        value /= 10;
    } while (value > 0);
    return write_all(fd, digits.data() + at, digits.size() - at);
}

/// Field 22 of our own stat line; 0 if it cannot be read.
std::uint64_t own_start_time() {
    const int fd = ::open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    std::array<char, 1024> line{};
    const auto size = ::read(fd, line.data(), line.size() - 1);
    ::close(fd);
    if (size <= 0) return 0;
    const char* at = std::strrchr(line.data(), ')');
    if (at == nullptr) return 0;
    for (int field = 2; field < 22; ++field) {
        at = std::strchr(at + 1, ' ');
        if (at == nullptr) return 0;
    }
    std::uint64_t value = 0;
    for (++at; *at >= '0' && *at <= '9'; ++at) value = value * 10 + static_cast<std::uint64_t>(*at - '0');
    return value;
}

[[noreturn]] void give_up(const Plan& plan, int error) {
    write_all(plan.report, reinterpret_cast<const char*>(&error), sizeof error);
    ::_exit(127);
}

bool write_record(const Plan& plan) {
    const int fd = ::open(plan.record_draft, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) return false;
    const auto start_time = own_start_time();
    const bool written =
        start_time > 0 && write_all(fd, plan.text->before_pid.data(), plan.text->before_pid.size()) &&
        write_number(fd, static_cast<std::uint64_t>(::getpid())) &&
        write_all(fd, plan.text->between.data(), plan.text->between.size()) && write_number(fd, start_time) &&
        write_all(fd, plan.text->after_start_time.data(), plan.text->after_start_time.size()) &&
        ::fsync(fd) == 0;
    ::close(fd);
    return written && ::rename(plan.record_draft, plan.record) == 0;
}

[[noreturn]] void become_agent(const Plan& plan) {
    ::setsid();
    for (int signal = 1; signal < NSIG; ++signal) {
        struct sigaction plain{};
        plain.sa_handler = SIG_DFL;
        ::sigaction(signal, &plain, nullptr);
    }
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::umask(077);
    if (::chdir(plan.folder) != 0) give_up(plan, errno);
    const int null = ::open("/dev/null", O_RDONLY);
    const int log = ::open(plan.log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (null < 0 || log < 0) give_up(plan, errno);
    if (::dup2(null, STDIN_FILENO) < 0 || ::dup2(log, STDOUT_FILENO) < 0 || ::dup2(log, STDERR_FILENO) < 0)
        give_up(plan, errno);
    // Sockets, the store, locks: nothing of the daemon may live on in the agent. On kernels before 5.11 the
    // loop does it.
    if (::syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC) != 0)
        for (int fd = 3; fd < 4096; ++fd) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
    if (!write_record(plan)) {
        const int error = errno != 0 ? errno : EIO;
        ::unlink(plan.record_draft);
        give_up(plan, error);
    }
    ::execve(plan.program, plan.argv, plan.envp);
    const int error = errno;
    ::unlink(plan.record);
    give_up(plan, error);
}

// ---- The daemon's side. ----

std::vector<char*> pointers(std::vector<std::string>& texts) {
    std::vector<char*> out;
    for (auto& text : texts) out.push_back(text.data());
    out.push_back(nullptr);
    return out;
}

}  // namespace

Result<void> start_agent(const AgentStart& start, const RecordTemplate& record) {
    std::vector<std::string> arguments{start.program.string()};
    arguments.insert(arguments.end(), start.arguments.begin(), start.arguments.end());
    std::vector<std::string> environment;
    for (const auto& [name, value] : start.environment) environment.push_back(name + "=" + value);
    auto argv = pointers(arguments);
    auto envp = pointers(environment);
    const std::string program = start.program.string();
    const std::string folder = start.folder.string();
    const std::string final_path = (start.folder / "machine.json").string();
    const std::string draft_path = (start.folder / "machine.json.new").string();
    const std::string log_path = (start.folder / "agent.log").string();
    std::array<int, 2> pipe{};
    if (::pipe2(pipe.data(), O_CLOEXEC) != 0)
        return fail(ErrorKind::io, fmt::format("local: no pipe: {}", std::strerror(errno)));
    const Plan plan{.program = program.c_str(),
                    .argv = argv.data(),
                    .envp = envp.data(),
                    .folder = folder.c_str(),
                    .record = final_path.c_str(),
                    .record_draft = draft_path.c_str(),
                    .log = log_path.c_str(),
                    .text = &record,
                    .report = pipe[1]};
    const pid_t middle = ::fork();
    if (middle == 0) {
        const pid_t agent =
            ::_Fork();  // unlike fork() in a child of a process with threads, this one may be called here
        if (agent == 0) become_agent(plan);
        if (agent < 0) give_up(plan, errno);
        ::_exit(0);
    }
    const int fork_error = errno;
    ::close(pipe[1]);
    if (middle < 0) {
        ::close(pipe[0]);
        return fail(ErrorKind::io,
                    fmt::format("local: no process for the agent: {}", std::strerror(fork_error)));
    }
    int status = 0;
    while (::waitpid(middle, &status, 0) < 0 && errno == EINTR) {
    }
    int error = 0;
    ssize_t got = 0;
    while ((got = ::read(pipe[0], &error, sizeof error)) < 0 && errno == EINTR) {
    }
    ::close(pipe[0]);
    if (got == 0) {
        // The rename reaches the disk with its folder; after a power cut there is no process either, so this
        // is for tidiness.
        if (const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); fd >= 0) {
            ::fsync(fd);
            ::close(fd);
        }
        return {};
    }
    return fail(ErrorKind::io,
                fmt::format("local: {} could not be started: {}", program, std::strerror(error)));
}

}  // namespace gf::local
