#include "agent/keeper.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "agent/clock.hpp"
#include "agent/command.hpp"
#include "agent/container_door.hpp"
#include "agent/ending.hpp"
#include "agent/job_process.hpp"
#include "agent/masker.hpp"
#include "agent/processes.hpp"

namespace gf::agent {
namespace {

constexpr int kSupervisorDied = SIGUSR2;
// A process in an uninterruptible call (a dead network disk, a wedged GPU driver) does not die of SIGKILL; after this the
// end is reported with that fact rather than never.
constexpr Millis kKillPatience{30'000};
// The first process of a container ends what runs in it at once; the engine is asked to when it does not.
constexpr Millis kInsidePatience{2'000};
constexpr Millis kRemoveAgain{5'000};
// Between the end of the container's first process and that of the client that was attached to it, in whichever order.
constexpr Millis kPartingPatience{10'000};
constexpr Millis kEngineLimit{30'000};
constexpr std::size_t kEngineWords = 8 * 1024;

class Keeper {
 public:
    Keeper(const JobOrder& order, Descriptor channel)
        : order_(order), channel_(std::move(channel)), masker_(order.secrets), spool_(order.spool, order.limits) {}

    [[noreturn]] void run(int signals) {
        signals_ = signals;
        oom_before_ = oom_kills();
        if (!start()) leave();
        while (!over()) step();
        // Told, or else when the first process was seen gone: an engine takes seconds to clear a container away, and with them what
        // was half written would look quiet.
        if (!end_.told) exit_.ended_ms = unix_millis(gone_at_.value_or(wall_time()));
        drain();
        exit_.log_bytes = spool_.size();
        exit_.oom = oom_kills() > oom_before_;
        if (order_.contained()) end_container();
        leave();
    }

 private:
    /// A container's memory is no part of our own control group: there the machine's count tells.
    [[nodiscard]] std::int64_t oom_kills() const { return order_.contained() ? machine_oom_kill_count() : oom_kill_count(); }

    bool start() {
        if (order_.contained() && !door_.open(order_.door)) {
            exit_.detail = "listen at " + order_.door + ": " + std::strerror(errno);
            return false;
        }
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
        if (leader_ == 0) become(order_.contained() ? client_start(order_) : job_start(order_), write_end.get(), report_write.get());
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
        leader_alive_ = true;
        if (!order_.contained()) tell_started();
        return true;
    }

    void tell_started() {
        exit_.started = true;
        channel_.send({.type = FrameType::job_started, .fields = {order_.mark, std::to_string(leader_)}});
    }

    [[nodiscard]] bool over() const {
        if (order_.contained()) return gave_up_ || (!leader_alive_ && childless_ && !door_.is_inside());
        return !leader_alive_ && (childless_ || gave_up_);
    }

    void step() {
        pollfd fds[4] = {{.fd = signals_, .events = POLLIN, .revents = 0},
                         {.fd = channel_.is_open() ? channel_.fd() : -1,
                          .events = static_cast<short>(POLLIN | (channel_.has_output() ? POLLOUT : 0)),
                          .revents = 0},
                         {.fd = output_ ? output_.get() : -1, .events = POLLIN, .revents = 0},
                         door_.to_poll()};
        ::poll(fds, 4, kill_since_ ? 20 : 1000);
        if (fds[0].revents != 0) take_signals();
        if (fds[1].revents != 0) take_orders();
        if (fds[2].revents != 0) take_output();
        if (fds[3].revents != 0) hear_inside();
        reap();
        if (order_.contained()) look_at_container();
        if (kill_since_) go_on_killing();
    }

    void take_signals() {
        signalfd_siginfo info{};
        while (::read(signals_, &info, sizeof info) == static_cast<ssize_t>(sizeof info))
            if (static_cast<int>(info.ssi_signo) == kSupervisorDied) obey_kill();
    }

    void take_orders() {
        const bool alive = channel_.receive() && channel_.flush();
        while (auto frame = channel_.next()) {
            if (frame->type == FrameType::kill_job) obey_kill();
            if (frame->type == FrameType::signal_job) pass_signal(static_cast<int>(frame->number(0)), frame->field(1) == "1");
        }
        if (!alive) {
            channel_.close();
            obey_kill();
        }
    }

    void obey_kill() {
        end_.kill_ordered = true;
        begin_kill();
    }

    void pass_signal(int number, bool leader_only) {
        // From here on the leader's end is not the end: a shell dies of the signal at once while the program below it
        // still writes its checkpoint. What remains has until the order to kill.
        stopping_ = true;
        if (order_.contained()) {
            // Not by the client, which would pass it to the first process alone, or twice when the group gets it too.
            if (!door_.is_inside()) return obey_kill();
            door_.send({.type = FrameType::signal_job, .fields = {std::to_string(number), leader_only ? "1" : "0"}});
        } else if (leader_only) {
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
                if (order_.contained() && !exit_.started) hear_engine({buffer, static_cast<std::size_t>(got)});
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
            if (order_.contained()) {
                end_.client_status = status;
                parting_since_ = boot_time();
                continue;
            }
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
        if (order_.contained()) return go_on_ending_container();
        const auto left = descendants_of(::getpid());
        // Only a kill that cut something short counts: leftovers of a leader that ended by itself do not.
        if (!left.empty() && (leader_alive_ || stopping_)) exit_.killed = true;
        kill_all(left);
        if (left.empty() && leader_alive_) ::kill(-leader_, SIGKILL);  // without /proc the group is all we know
        if (boot_time() - *kill_since_ > kKillPatience) {
            gave_up_ = exit_.unended = !leader_alive_;
            exit_.detail = std::to_string(left.size()) + " processes of the job do not die of SIGKILL";
        }
    }

    // ---- a job in a container ----

    /// What the engine says before the job runs: why it does not, when it does not.
    void hear_engine(std::string_view words) {
        engine_words_ += words;
        if (engine_words_.size() > kEngineWords) engine_words_.erase(0, engine_words_.size() - kEngineWords);
    }

    void hear_inside() {
        door_.serve(order_);
        while (auto frame = door_.next()) {
            if (frame->type == FrameType::job_started) tell_started();
            if (frame->type == FrameType::leader_exited) {
                exit_.wait_status = static_cast<int>(frame->number(1));
                end_.leader_told = true;
                channel_.send(*frame);
            }
            if (frame->type == FrameType::job_exited) {
                exit_ = exit_of(*frame);
                end_.told = true;
            }
        }
        if (!door_.is_gone()) return;
        if (!gone_at_) gone_at_ = wall_time();
        if (!parting_since_) parting_since_ = boot_time();
    }

    /// First process and client go together; where one stays behind the other for long, it is ended.
    void look_at_container() {
        if (!leader_alive_ && door_.is_inside() && !kill_since_) {
            hear_inside();  // it may be the end of both, of which only the client's was seen yet
            end_.client_lost = door_.is_inside() || end_.client_lost;
        }
        if (parting_since_ && !kill_since_ && boot_time() - *parting_since_ > kPartingPatience) begin_kill();
    }

    void go_on_ending_container() {
        const Millis now = boot_time();
        if (!door_.is_inside()) {
            door_.close();  // nothing starts now that was on its way
        } else if (!std::exchange(kill_told_, true)) {
            door_.send({.type = FrameType::kill_job});
        }
        const bool insist = !door_.is_inside() || now - *kill_since_ > kInsidePatience;
        if (insist && (!removed_at_ || now - *removed_at_ > kRemoveAgain)) {
            removed_at_ = now;
            ask_to_remove();
        }
        if (leader_alive_ && now - *kill_since_ > kPartingPatience) ::kill(-leader_, SIGKILL);
        if (now - *kill_since_ > kKillPatience) {
            gave_up_ = end_.gave_up = true;
        }
    }

    /// As a child that is reaped like any other.
    void ask_to_remove() {
        const pid_t pid = ::fork();
        if (pid != 0) return;
        const Descriptor null(::open("/dev/null", O_WRONLY | O_CLOEXEC));
        become({.argv = order_.remove, .env = order_.client_env, .folder = "/"}, null.get(), null.get());
    }

    /// Judges the end, and leaves nothing of the container.
    void end_container() {
        door_.close();
        const auto inspected = engine(order_.inspect);
        end_.oom = inspected.started && inspected.output.find("true") != std::string::npos;
        exit_ = judge_container(std::move(exit_), end_);
        if (!exit_.started && exit_.detail.empty()) exit_.detail = engine_words_;
        engine(order_.remove);
    }

    static CommandResult engine(const std::vector<std::string>& argv) {
        return run_command(argv.front(), {argv.begin() + 1, argv.end()}, kEngineLimit);
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
    ContainerDoor door_;
    std::string engine_words_;
    ContainerEnd end_;
    bool kill_told_{false};                // to the first process in the container
    std::optional<Instant> gone_at_;       // wall clock: when that was seen gone
    std::optional<Millis> parting_since_;  // one of first process and client is gone
    std::optional<Millis> removed_at_;
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
