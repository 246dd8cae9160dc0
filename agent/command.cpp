#include "agent/command.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "agent/clock.hpp"
#include "agent/settings.hpp"

namespace gf::agent {
namespace {

constexpr std::size_t kOutputMax = 1 << 20;

struct Surroundings {
    std::string path{"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"};
    std::vector<std::string> env{"PATH=" + path, "LC_ALL=C"};
};
Surroundings& surroundings() {
    static Surroundings s;  // written once, before threads exist
    return s;
}

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

}  // namespace

void set_command_environment(const std::map<std::string, std::string>& env) {
    auto& s = surroundings();
    if (const auto path = env.find("PATH"); path != env.end() && !path->second.empty()) s.path = path->second;
    s.env = {"PATH=" + s.path, "LC_ALL=C"};
    for (const auto& [name, value] : env)
        if (!is_withheld(name) && name != "PATH" && name != "LC_ALL") s.env.push_back(name + "=" + value);
}

RunningCommand::RunningCommand(const std::string& program, const std::vector<std::string>& arguments) {
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
    int out[2], report[2];
    if (::pipe2(out, O_CLOEXEC) != 0 || ::pipe2(report, O_CLOEXEC) != 0) {
        start_error_ = errno;
        return;
    }
    output_.reset(out[0]);
    Descriptor write_end(out[1]), report_read(report[0]), report_write(report[1]);
    const pid_t pid = ::fork();
    if (pid == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        const int null = ::open("/dev/null", O_RDWR);
        if (null >= 0) {
            ::dup2(null, STDIN_FILENO);
            ::dup2(null, STDERR_FILENO);
        }
        ::dup2(write_end.get(), STDOUT_FILENO);
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
    if (kill) ::kill(pid_, SIGKILL);
    int status = -1;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) continue;
    pid_ = 0;
    return status;
}

CommandResult run_command(const std::string& program, const std::vector<std::string>& arguments, Millis limit) {
    CommandResult result;
    RunningCommand running(program, arguments);
    result.started = running.started();
    result.start_error = running.start_error();
    if (!result.started) return result;
    const Millis deadline = boot_time() + limit;
    std::string piece;
    while (result.output.size() < kOutputMax) {
        const Millis left = deadline - boot_time();
        if (left.count() <= 0) {
            result.timed_out = true;
            break;
        }
        if (!running.read(piece, left)) break;
        result.output += piece;
    }
    result.wait_status = running.end(result.timed_out || result.output.size() >= kOutputMax);
    return result;
}

}  // namespace gf::agent
