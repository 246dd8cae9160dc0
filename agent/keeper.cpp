#include "agent/keeper.hpp"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "agent/clock.hpp"
#include "agent/masker.hpp"
#include "agent/processes.hpp"

namespace gf::agent {
namespace {

constexpr int kSupervisorDied = SIGUSR2;
// A process in an uninterruptible call (a dead network disk, a wedged GPU driver) does not die of SIGKILL; after this the
// end is reported with that fact rather than never.
constexpr Millis kKillPatience{30'000};

/// In the child: becomes the command or reports errno through `report` (closed by a successful exec).
[[noreturn]] void become_command(const JobOrder& order, int output, int report) {
    const auto give_up = [report](const char* what) {
        std::string text = std::string(what) + ": " + std::strerror(errno);
        [[maybe_unused]] const auto put = ::write(report, text.data(), text.size());
        ::_exit(127);
    };
    ::setsid();
    struct sigaction fresh{};
    fresh.sa_handler = SIG_DFL;
    for (int s = 1; s < NSIG; ++s) ::sigaction(s, &fresh, nullptr);
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    const int null = ::open("/dev/null", O_RDONLY);
    if (null >= 0) ::dup2(null, STDIN_FILENO);
    else ::close(STDIN_FILENO);
    if (null > STDERR_FILENO) ::close(null);
    ::dup2(output, STDOUT_FILENO);
    ::dup2(output, STDERR_FILENO);
    if (::chdir(order.folder.c_str()) != 0) give_up("enter the job's folder");
    if (order.drop_user) {
        std::vector<gid_t> groups(order.groups.begin(), order.groups.end());
        if (::setgroups(groups.size(), groups.data()) != 0) give_up("set groups");
        if (::setgid(order.gid) != 0) give_up("set group");
        if (::setuid(order.uid) != 0) give_up("set user");
    }
    // After setuid, which clears it. If the keeper is killed, at least the leader goes with it; the supervisor, which
    // then inherits the rest, sees to the others.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::prctl(PR_SET_DUMPABLE, 1);
    std::vector<char*> env;
    for (const auto& e : order.env) env.push_back(const_cast<char*>(e.c_str()));
    env.push_back(nullptr);
    char shell[] = "/bin/sh", dash_c[] = "-c";
    char* argv[] = {shell, dash_c, const_cast<char*>(order.command.c_str()), nullptr};
    ::execve(shell, argv, env.data());
    give_up("start /bin/sh");
    ::_exit(127);
}

class Keeper {
 public:
    Keeper(const JobOrder& order, Descriptor channel)
        : order_(order), channel_(std::move(channel)), masker_(order.secrets), spool_(order.spool, order.limits) {}

    [[noreturn]] void run(int signals) {
        signals_ = signals;
        oom_before_ = oom_kill_count();
        if (!start()) leave();
        while (!over()) step();
        exit_.ended_ms = unix_millis(wall_time());
        drain();
        exit_.log_bytes = spool_.size();
        exit_.oom = oom_kill_count() > oom_before_;
        leave();
    }

 private:
    bool start() {
        int out[2], report[2];
        if (::pipe2(out, O_CLOEXEC) != 0 || ::pipe2(report, O_CLOEXEC) != 0) {
            exit_.detail = std::string("pipe: ") + std::strerror(errno);
            return false;
        }
        output_.reset(out[0]);
        const Descriptor write_end(out[1]), report_read(report[0]);
        Descriptor report_write(report[1]);
        ::fcntl(output_.get(), F_SETFL, O_NONBLOCK);
        ::fcntl(output_.get(), F_SETPIPE_SZ, 1 << 20);
        leader_ = ::fork();
        if (leader_ < 0) {
            exit_.detail = std::string("fork: ") + std::strerror(errno);
            return false;
        }
        if (leader_ == 0) become_command(order_, write_end.get(), report_write.get());
        report_write.reset();
        char text[256];
        ssize_t got = 0;
        do got = ::read(report_read.get(), text, sizeof text);
        while (got < 0 && errno == EINTR);
        if (got > 0) {
            exit_.detail.assign(text, static_cast<std::size_t>(got));
            ::waitpid(leader_, nullptr, 0);
            return false;
        }
        exit_.started = true;
        leader_alive_ = true;
        channel_.send({.type = FrameType::job_started, .fields = {order_.mark, std::to_string(leader_)}});
        return true;
    }

    [[nodiscard]] bool over() const { return !leader_alive_ && (childless_ || gave_up_); }

    void step() {
        pollfd fds[3] = {{.fd = signals_, .events = POLLIN, .revents = 0},
                         {.fd = channel_.is_open() ? channel_.fd() : -1,
                          .events = static_cast<short>(POLLIN | (channel_.has_output() ? POLLOUT : 0)),
                          .revents = 0},
                         {.fd = output_ ? output_.get() : -1, .events = POLLIN, .revents = 0}};
        ::poll(fds, 3, kill_since_ ? 20 : 1000);
        if (fds[0].revents != 0) take_signals();
        if (fds[1].revents != 0) take_orders();
        if (fds[2].revents != 0) take_output();
        reap();
        if (kill_since_) go_on_killing();
    }

    void take_signals() {
        signalfd_siginfo info{};
        while (::read(signals_, &info, sizeof info) == static_cast<ssize_t>(sizeof info))
            if (static_cast<int>(info.ssi_signo) == kSupervisorDied) begin_kill();
    }

    void take_orders() {
        const bool alive = channel_.receive() && channel_.flush();
        while (auto frame = channel_.next()) {
            if (frame->type == FrameType::kill_job) begin_kill();
            if (frame->type == FrameType::signal_job) pass_signal(static_cast<int>(frame->number(0)), frame->field(1) == "1");
        }
        if (!alive) {
            channel_.close();
            begin_kill();
        }
    }

    void pass_signal(int number, bool leader_only) {
        // From here on the leader's end is not the end: a shell dies of the signal at once while the program below it
        // still writes its checkpoint. What remains has until the order to kill.
        stopping_ = true;
        if (leader_only) {
            if (leader_alive_) ::kill(leader_, number);
        } else if (leader_alive_ || group_has_members(leader_)) {
            ::kill(-leader_, number);
        }
    }

    void take_output() {
        char buffer[256 * 1024];
        for (int round = 0; round < 8; ++round) {
            const auto got = ::read(output_.get(), buffer, sizeof buffer);
            if (got > 0) {
                spool_.append(masker_.feed({buffer, static_cast<std::size_t>(got)}));
                continue;
            }
            if (got == 0) output_.reset();
            return;
        }
    }

    void reap() {
        while (true) {
            int status = 0;
            const pid_t pid = ::waitpid(-1, &status, WNOHANG);
            if (pid < 0) {
                childless_ = errno == ECHILD;
                return;
            }
            if (pid == 0) return;
            if (pid != leader_) continue;
            leader_alive_ = false;
            exit_.wait_status = status;
            channel_.send({.type = FrameType::leader_exited, .fields = {order_.mark, std::to_string(status)}});
            if (!stopping_) begin_kill();
        }
    }

    void begin_kill() {
        if (kill_since_) return;
        kill_since_ = boot_time();
        go_on_killing();
    }

    void go_on_killing() {
        const auto left = descendants_of(::getpid());
        // Only a kill that cut something short counts: leftovers of a leader that ended by itself do not.
        if (!left.empty() && (leader_alive_ || stopping_)) exit_.killed = true;
        kill_all(left);
        if (left.empty() && leader_alive_) ::kill(-leader_, SIGKILL);  // without /proc the group is all we know
        if (boot_time() - *kill_since_ > kKillPatience) {
            gave_up_ = !leader_alive_;
            exit_.detail = std::to_string(left.size()) + " processes of the job do not die of SIGKILL";
        }
    }

    void drain() {
        // All writers are gone, unless the pipe was handed out of the job; what is in it now is the end.
        for (int round = 0; output_ && round < 64; ++round) {
            pollfd fd{.fd = output_.get(), .events = POLLIN, .revents = 0};
            if (::poll(&fd, 1, 0) <= 0) break;
            take_output();
        }
        spool_.append(masker_.finish());
        spool_.sync();
    }

    [[noreturn]] void leave() {
        if (channel_.is_open()) {
            channel_.send(frame_of(order_.mark, exit_));
            while (channel_.has_output()) {
                pollfd fd{.fd = channel_.fd(), .events = POLLOUT, .revents = 0};
                if (::poll(&fd, 1, 5000) <= 0 || !channel_.flush()) break;
            }
        }
        ::_exit(0);
    }

    const JobOrder& order_;
    FrameChannel channel_;
    Masker masker_;
    SpoolWriter spool_;
    int signals_{-1};
    Descriptor output_;
    pid_t leader_{0};
    bool leader_alive_{false};
    bool childless_{false};
    bool stopping_{false};
    bool gave_up_{false};
    std::optional<Millis> kill_since_;
    std::int64_t oom_before_{0};
    JobExit exit_;
};

}  // namespace

void run_keeper(const JobOrder& order, Descriptor channel, pid_t supervisor) {
    ::prctl(PR_SET_NAME, "gpuferry-keeper");
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    ::setsid();
    sigset_t mask;
    ::sigfillset(&mask);
    ::sigprocmask(SIG_SETMASK, &mask, nullptr);
    sigset_t wanted;
    ::sigemptyset(&wanted);
    ::sigaddset(&wanted, SIGCHLD);
    ::sigaddset(&wanted, kSupervisorDied);
    const int signals = ::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
    ::prctl(PR_SET_PDEATHSIG, kSupervisorDied);
    if (::getppid() != supervisor) ::_exit(0);  // it died before the kernel was asked to tell
    Keeper keeper(order, std::move(channel));
    keeper.run(signals);
}

}  // namespace gf::agent
