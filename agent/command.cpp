#include "agent/command.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "agent/clock.hpp"
#include "agent/settings.hpp"

namespace gf::agent {
namespace {

constexpr std::size_t kOutputMax = 1 << 20;
constexpr Millis kLookEvery{100};
// A program that sudo runs is not ours to kill, and may not care for being asked.
constexpr Millis kSudoPatience{5'000};

struct Surroundings {
    std::string path{"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"};
    std::vector<std::string> env{"PATH=" + path, "LC_ALL=C"};
};
Surroundings& surroundings() {
    static Surroundings s;  // written once, before threads exist
    return s;
}

}  // namespace

std::string find_program(const std::string& program) {
    if (program.find('/') != std::string::npos) return program;
    // Images set odd PATHs; nvidia-smi is injected into /usr/bin by the container runtime whatever the image says.
    const std::string all = surroundings().path + ":/usr/local/nvidia/bin:/usr/local/bin:/usr/bin:/bin";
    std::size_t at = 0;
    while (at <= all.size()) {
        const auto end = std::min(all.find(':', at), all.size());
        const std::string file = all.substr(at, end - at) + "/" + program;
        at = end + 1;
        if (file.front() == '/' && ::access(file.c_str(), X_OK) == 0) return file;
    }
    return {};
}

const std::vector<std::string>& command_environment() { return surroundings().env; }

void set_command_environment(const std::map<std::string, std::string>& env) {
    auto& s = surroundings();
    if (const auto path = env.find("PATH"); path != env.end() && !path->second.empty()) s.path = path->second;
    s.env = {"PATH=" + s.path, "LC_ALL=C"};
    for (const auto& [name, value] : env)
        if (!is_withheld(name) && name != "PATH" && name != "LC_ALL") s.env.push_back(name + "=" + value);
}

RunningCommand::RunningCommand(const std::string& program, const std::vector<std::string>& arguments, const CommandOptions& options) {
    if (options.input.size() > kCommandInputMax) {
        start_error_ = E2BIG;
        return;
    }
    const std::string file = find_program(program);
    if (file.empty()) {
        start_error_ = ENOENT;
        return;
    }
    // Everything is made before the fork: between fork and exec of a program with threads nothing may allocate.
    std::vector<char*> envp, argv{const_cast<char*>(program.c_str())};
    for (const auto& e : surroundings().env) envp.push_back(const_cast<char*>(e.c_str()));
    envp.push_back(nullptr);
    for (const auto& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
    argv.push_back(nullptr);
    int in[2], out[2], report[2];
    if (::pipe2(in, O_CLOEXEC) != 0) {
        start_error_ = errno;
        return;
    }
    const Descriptor input_read(in[0]);
    Descriptor input_write(in[1]);
    if (::pipe2(out, O_CLOEXEC) != 0 || ::pipe2(report, O_CLOEXEC) != 0) {
        start_error_ = errno;
        return;
    }
    output_.reset(out[0]);
    Descriptor write_end(out[1]), report_read(report[0]), report_write(report[1]);
    if (!options.input.empty() &&
        ::write(input_write.get(), options.input.data(), options.input.size()) != static_cast<ssize_t>(options.input.size())) {
        start_error_ = errno;
        return;
    }
    input_write.reset();
    const pid_t pid = ::fork();
    if (pid == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        const int null = ::open("/dev/null", O_RDWR);
        ::dup2(options.input.empty() && null >= 0 ? null : input_read.get(), STDIN_FILENO);
        ::dup2(write_end.get(), STDOUT_FILENO);
        if (options.with_errors) ::dup2(write_end.get(), STDERR_FILENO);
        else if (null >= 0) ::dup2(null, STDERR_FILENO);
        sigset_t nothing;
        ::sigemptyset(&nothing);
        ::sigprocmask(SIG_SETMASK, &nothing, nullptr);
        for (const int s : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGPIPE}) ::signal(s, SIG_DFL);
        ::execve(file.c_str(), argv.data(), envp.data());
        const int error = errno;
        [[maybe_unused]] const auto put = ::write(report_write.get(), &error, sizeof error);
        ::_exit(127);
    }
    report_write.reset();
    if (pid < 0) {
        start_error_ = errno;
        return;
    }
    int error = 0;
    ssize_t got = 0;
    do got = ::read(report_read.get(), &error, sizeof error);
    while (got < 0 && errno == EINTR);
    if (got == static_cast<ssize_t>(sizeof error)) {
        start_error_ = error;
        ::waitpid(pid, nullptr, 0);
        return;
    }
    pid_ = pid;
}

RunningCommand::~RunningCommand() {
    if (pid_ > 0) [[maybe_unused]] const int status = end(true);
}

bool RunningCommand::read(std::string& out, Millis wait) {
    out.clear();
    pollfd fd{.fd = output_.get(), .events = POLLIN, .revents = 0};
    if (::poll(&fd, 1, static_cast<int>(wait.count())) <= 0) return true;
    char buffer[16 * 1024];
    const auto got = ::read(output_.get(), buffer, sizeof buffer);
    if (got < 0) return errno == EINTR;
    if (got == 0) return false;
    out.assign(buffer, static_cast<std::size_t>(got));
    return true;
}

int RunningCommand::end(bool kill) {
    if (pid_ <= 0) return -1;
    const pid_t pid = std::exchange(pid_, 0);
    int status = -1;
    if (kill && ::kill(pid, SIGKILL) != 0 && errno == EPERM) {
        RunningCommand asking("sudo", {"-n", "kill", "-TERM", std::to_string(pid)});
        if (asking.started()) [[maybe_unused]] const int asked = asking.end(false);
        for (const Millis until = boot_time() + kSudoPatience; boot_time() < until; ::poll(nullptr, 0, 20))
            if (::waitpid(pid, &status, WNOHANG) == pid) return status;
        return -1;
    }
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
    return status;
}

CommandResult run_command(const std::string& program, const std::vector<std::string>& arguments, Millis limit,
                          const CommandOptions& options) {
    CommandResult result;
    RunningCommand running(program, arguments, options);
    result.started = running.started();
    result.start_error = running.start_error();
    if (!result.started) return result;
    const Millis deadline = boot_time() + limit;
    std::string piece;
    while (true) {
        const Millis left = deadline - boot_time();
        if (left.count() <= 0 || (options.cancelled && options.cancelled())) {
            result.timed_out = true;
            break;
        }
        if (!running.read(piece, options.cancelled ? std::min(left, kLookEvery) : left)) break;
        if (options.heard && !piece.empty()) options.heard(piece);
        result.output.append(piece, 0, kOutputMax - result.output.size());
    }
    result.wait_status = running.end(result.timed_out);
    return result;
}

}  // namespace gf::agent
