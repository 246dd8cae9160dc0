// Between fork and exec of a process with threads only async-signal-safe calls are allowed: everything is laid out before, and
// the child does nothing but system calls. The pipe `report` is closed by a successful exec; an errno in it means that it failed.
#include "daemon/ssh/child.hpp"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace gf::ssh {
namespace {

// Nothing of the daemon's own environment: no key of a provider, no agent of the user's, no askpass, no language.
constexpr const char* kEnvironment[] = {"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C", "HOME=/nonexistent", nullptr};

void close_fd(int& fd) {
    if (fd >= 0) ::close(fd);
    fd = -1;
}

struct Pipe {
    int read{-1}, write{-1};
    Pipe() = default;
    Pipe(const Pipe&) = delete;
    Pipe& operator=(const Pipe&) = delete;
    ~Pipe() {
        close_fd(read);
        close_fd(write);
    }
    bool open() {
        std::array<int, 2> fds{};
        if (::pipe2(fds.data(), O_CLOEXEC) != 0) return false;
        read = fds[0];
        write = fds[1];
        return true;
    }
};

[[noreturn]] void give_up(int report) {
    const int error = errno;
    [[maybe_unused]] const auto told = ::write(report, &error, sizeof error);
    ::_exit(127);
}

[[noreturn]] void become(char* const* argv, int in, int out, int err, int report, pid_t parent) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) ::_exit(127);  // it died before we could ask for the signal
    ::setpgid(0, 0);
    for (int number = 1; number < NSIG; ++number) {
        struct sigaction plain{};
        plain.sa_handler = SIG_DFL;
        ::sigaction(number, &plain, nullptr);
    }
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    if (::dup2(in, STDIN_FILENO) < 0 || ::dup2(out, STDOUT_FILENO) < 0 || ::dup2(err, STDERR_FILENO) < 0) give_up(report);
    if (::syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC) != 0)
        for (int fd = 3; fd < 4096; ++fd) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
    ::execve(argv[0], argv, const_cast<char* const*>(kEnvironment));
    give_up(report);
}

bool no_wait(int fd) { return ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK) == 0; }

}  // namespace

Result<Child> Child::start(const std::vector<std::string>& argv) {
    GF_ASSERT(!argv.empty());
    std::vector<std::string> texts = argv;
    std::vector<char*> pointers;
    for (auto& text : texts) pointers.push_back(text.data());
    pointers.push_back(nullptr);
    Pipe in, out, err, report;
    if (!in.open() || !out.open() || !err.open() || !report.open() || !no_wait(in.write) || !no_wait(out.read) || !no_wait(err.read))
        return fail(ErrorKind::io, argv[0] + ": no pipes: " + std::strerror(errno));
    const pid_t self = ::getpid();
    const pid_t pid = ::fork();
    if (pid == 0) become(pointers.data(), in.read, out.write, err.write, report.write, self);
    if (pid < 0) return fail(ErrorKind::io, argv[0] + ": no process: " + std::strerror(errno));
    close_fd(report.write);
    int error = 0;
    ssize_t got = 0;
    while ((got = ::read(report.read, &error, sizeof error)) < 0 && errno == EINTR) {
    }
    Child child;
    child.pid_ = pid;
    child.reaped_ = false;
    if (got > 0) {
        child.end();
        return fail(ErrorKind::io, argv[0] + " could not be started: " + std::strerror(error));
    }
    child.input_ = std::exchange(in.write, -1);
    child.output_ = std::exchange(out.read, -1);
    child.errors_ = std::exchange(err.read, -1);
    return child;
}

Child::Child(Child&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), input_(std::exchange(other.input_, -1)), output_(std::exchange(other.output_, -1)),
      errors_(std::exchange(other.errors_, -1)), status_(other.status_), reaped_(std::exchange(other.reaped_, true)) {}

Child& Child::operator=(Child&& other) noexcept {
    if (this == &other) return *this;
    end();
    close_all();
    pid_ = std::exchange(other.pid_, -1);
    input_ = std::exchange(other.input_, -1);
    output_ = std::exchange(other.output_, -1);
    errors_ = std::exchange(other.errors_, -1);
    status_ = other.status_;
    reaped_ = std::exchange(other.reaped_, true);
    return *this;
}

Child::~Child() {
    end();
    close_all();
}

void Child::close_all() {
    close_fd(input_);
    close_fd(output_);
    close_fd(errors_);
}

void Child::close_input() { close_fd(input_); }

std::optional<std::string> Child::read_some(int fd) {
    std::string piece(64 * 1024, '\0');
    const ssize_t got = ::read(fd, piece.data(), piece.size());
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return std::nullopt;
    piece.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
    return piece;
}

bool Child::ended() {
    if (reaped_) return true;
    int status = 0;
    const pid_t got = ::waitpid(pid_, &status, WNOHANG);
    if (got == 0 || (got < 0 && errno == EINTR)) return false;
    status_ = got < 0 ? 255 : WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    reaped_ = true;
    return true;
}

void Child::end() {
    if (ended()) return;
    ::kill(pid_, SIGTERM);
    for (int tries = 0; tries < 100; ++tries) {
        if (ended()) return;
        ::poll(nullptr, 0, 10);
    }
    ::kill(pid_, SIGKILL);
    while (!ended()) ::poll(nullptr, 0, 5);
}

std::string find_program(const std::string& name) {
    const char* set = std::getenv("PATH");
    const std::string path = std::string(set != nullptr ? set : "") + ":/usr/bin:/bin:/usr/local/bin";
    for (std::size_t at = 0; at <= path.size();) {
        const auto end = std::min(path.find(':', at), path.size());
        const auto candidate = path.substr(at, end - at) + "/" + name;
        if (candidate.starts_with('/') && ::access(candidate.c_str(), X_OK) == 0) return candidate;
        at = end + 1;
    }
    return {};
}

}  // namespace gf::ssh
