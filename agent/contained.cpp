#include "agent/contained.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>

#include "agent/clock.hpp"
#include "agent/container_door.hpp"
#include "agent/container_engine.hpp"
#include "agent/ending.hpp"
#include "agent/job_process.hpp"
#include "agent/processes.hpp"
#include "agent/settings.hpp"
#include "agent/user_account.hpp"
#include "agent/workspace.hpp"

namespace gf::agent {
namespace {

constexpr int kCannotServe = 125;  // docker's own code for "it was not the program"
constexpr Millis kFarewell{5'000};

/// The image's environment, then the job's. The job's PATH is the image's with the folder of `gpuferry-agent`, unless the
/// spec has one.
std::vector<std::string> merged_environment(const JobOrder& order) {
    std::map<std::string, std::string> env;
    for (const auto& [name, value] : environment_of(environ))
        if (!is_withheld(name)) env[name] = value;
    auto& path = env["PATH"];
    if (path.empty()) path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    if (!order.path_more.empty()) path += ":" + order.path_more;
    for (const auto& line : order.env) {
        const auto equals = line.find('=');
        env[line.substr(0, equals)] = line.substr(equals + 1);
    }
    std::vector<std::string> lines;
    for (const auto& [name, value] : env) lines.push_back(name + "=" + value);
    return lines;
}

class Contained {
 public:
    explicit Contained(Descriptor line) : keeper_(std::move(line)) {}

    int run(int signals) {
        signals_ = signals;
        if (!take_order()) return kCannotServe;
        if (start()) {
            while (!(childless_ && !leader_alive_)) step();
            note_end();
            give_back();
        }
        tell_end();
        return code();
    }

 private:
    bool take_order() {
        while (!order_) {
            pollfd fd{.fd = keeper_.fd(), .events = POLLIN, .revents = 0};
            ::poll(&fd, 1, -1);
            const bool alive = keeper_.receive();
            while (auto frame = keeper_.next())
                if (frame->type == FrameType::start_job) order_ = order_of(*frame);
            if (!alive) return order_.has_value();
        }
        return true;
    }

    bool start() {
        ProcessStart job = job_start(*order_);
        job.env = merged_environment(*order_);
        // The user's home and name came with the order; whatever the agent could not give to the user itself is given here.
        if (job.drop_user) [[maybe_unused]] const auto given = give_tree(order_->folder, job.uid, job.gid);
        int report[2];
        if (::pipe2(report, O_CLOEXEC) != 0) {
            exit_.detail = std::string("pipe: ") + std::strerror(errno);
            return false;
        }
        const Descriptor read_end(report[0]);
        Descriptor write_end(report[1]);
        leader_ = ::fork();
        if (leader_ < 0) {
            exit_.detail = std::string("fork: ") + std::strerror(errno);
            return false;
        }
        if (leader_ == 0) become(job, STDOUT_FILENO, write_end.get());
        write_end.reset();
        char text[512];
        ssize_t got = 0;
        do got = ::read(read_end.get(), text, sizeof text);
        while (got < 0 && errno == EINTR);
        if (got > 0) {
            exit_.detail = "in the image: " + std::string(text, static_cast<std::size_t>(got));
            exit_.spec_fault = std::string_view(text, static_cast<std::size_t>(got)).starts_with(kCannotStart);
            ::waitpid(leader_, nullptr, 0);
            return false;
        }
        exit_.started = leader_alive_ = true;
        keeper_.send({.type = FrameType::job_started, .fields = {order_->mark, std::to_string(leader_)}});
        return true;
    }

    void step() {
        pollfd fds[2] = {{.fd = signals_, .events = POLLIN, .revents = 0},
                         {.fd = keeper_.is_open() ? keeper_.fd() : -1,
                          .events = static_cast<short>(POLLIN | (keeper_.has_output() ? POLLOUT : 0)),
                          .revents = 0}};
        ::poll(fds, 2, killing_ ? 20 : 1000);
        if (fds[0].revents != 0) take_signals();
        if (fds[1].revents != 0) take_orders();
        reap();
        if (killing_) go_on_killing();
    }

    /// `docker stop`, the engine going down, or the machine with it. The job gets that signal once, and its answer is no end of its
    /// own: a program that saves and exits 0 then has not done its work.
    void take_signals() {
        signalfd_siginfo info{};
        bool asked = false;
        while (::read(signals_, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) asked = asked || info.ssi_signo == SIGTERM;
        if (!asked) return;
        reap();  // what had ended before is an end of its own
        if (stopping_ || killing_) return;
        exit_.keeper_lost = stopped_from_outside_ = true;
        exit_.detail = "the container was stopped from outside: by hand, or with the engine or the machine";
        pass_signal(SIGTERM, false);
    }

    void take_orders() {
        const bool alive = keeper_.receive() && keeper_.flush();
        while (auto frame = keeper_.next()) {
            if (frame->type == FrameType::kill_job) begin_kill();
            if (frame->type != FrameType::signal_job) continue;
            const int number = static_cast<int>(frame->number(0));
            // The machine goes down: the engine and the keeper both stop the job, in whichever order.
            if (!(stopped_from_outside_ && number == SIGTERM)) pass_signal(number, frame->field(1) == "1");
        }
        if (alive) return;
        keeper_.close();  // killed, or the agent with it: whoever gets this task next must be its only writer
        begin_kill();
    }

    void pass_signal(int number, bool leader_only) {
        stopping_ = true;
        if (leader_only) {
            if (leader_alive_) ::kill(leader_, number);
        } else if (leader_alive_ || group_has_members(leader_)) {
            ::kill(-leader_, number);
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
            if (keeper_.is_open())
                keeper_.send({.type = FrameType::leader_exited, .fields = {order_->mark, std::to_string(status)}});
            if (!stopping_) begin_kill();
        }
    }

    void begin_kill() {
        if (killing_) return;
        killing_ = true;
        go_on_killing();
    }

    void go_on_killing() {
        const auto left = descendants_of(::getpid());
        if (!left.empty() && (leader_alive_ || stopping_)) exit_.killed = true;
        kill_all(left);
        if (left.empty() && leader_alive_) ::kill(-leader_, SIGKILL);
    }

    /// The last of it is gone. Before the folder is given back, which changes the time of every file in it.
    void note_end() {
        exit_.ended_ms = unix_millis(wall_time());
        if (!order_->give_back || order_->saves_in.empty()) return;
        if (const auto newest = newest_change(order_->saves_in)) exit_.newest_ms = unix_millis(*newest);
    }

    void give_back() {
        if (order_->give_back) [[maybe_unused]] const auto given = give_tree(order_->folder, order_->owner_uid, order_->owner_gid);
    }

    void tell_end() {
        if (!keeper_.is_open()) return;
        keeper_.send(frame_of(order_->mark, exit_));
        const Millis until = boot_time() + kFarewell;
        while (keeper_.has_output() && boot_time() < until) {
            pollfd fd{.fd = keeper_.fd(), .events = POLLOUT, .revents = 0};
            ::poll(&fd, 1, 100);
            if (!keeper_.flush()) return;
        }
    }

    [[nodiscard]] int code() const {
        if (!exit_.started) return kCannotServe;
        return WIFEXITED(exit_.wait_status) ? WEXITSTATUS(exit_.wait_status) : 128 + WTERMSIG(exit_.wait_status);
    }

    FrameChannel keeper_;
    int signals_{-1};
    std::optional<JobOrder> order_;
    pid_t leader_{0};
    bool leader_alive_{false};
    bool childless_{false};
    bool stopping_{false};
    bool stopped_from_outside_{false};
    bool killing_{false};
    JobExit exit_;
};

}  // namespace

int run_contained(const std::string& door) {
    ::prctl(PR_SET_NAME, "gpuferry-first");
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // where the engine puts a process of its own at PID 1
    ::prctl(PR_SET_DUMPABLE, 0);         // the job's secrets pass through here
    sigset_t mask;
    ::sigemptyset(&mask);
    for (const int s : {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGPIPE}) ::sigaddset(&mask, s);
    ::sigprocmask(SIG_SETMASK, &mask, nullptr);
    const int signals = ::signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    Descriptor line = knock_at(door);
    if (!line) {
        std::fprintf(stderr, "gpuferry-agent: cannot reach the agent at %s: %s\n", door.c_str(), std::strerror(errno));
        return kCannotServe;
    }
    return Contained(std::move(line)).run(signals);
}

int print_account(const std::string& user) {
    const auto found = find_user(user, read_small_file("/etc/passwd"), read_small_file("/etc/group"));
    if (!found) {
        std::fprintf(stderr, "%s\n", found.error().message.c_str());
        return 1;
    }
    std::puts(account_line(*found).c_str());
    return 0;
}

}  // namespace gf::agent
