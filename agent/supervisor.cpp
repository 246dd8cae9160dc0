#include "agent/supervisor.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>

#include "agent/clock.hpp"
#include "agent/job_order.hpp"
#include "agent/keeper.hpp"
#include "agent/log.hpp"
#include "agent/processes.hpp"

namespace gf::agent {
namespace {

constexpr Millis kRestartFirst{100};
constexpr Millis kRestartMax{10'000};
constexpr Millis kStableAfter{60'000};
// After a SIGTERM the worker decides when all is said; this only ends an agent whose worker cannot.
constexpr Millis kTermPatience{120'000};

class Supervisor {
 public:
    Supervisor(std::string boot_id, const WorkerMain& worker) : boot_id_(std::move(boot_id)), worker_main_(worker) {}

    int run() {
        ::prctl(PR_SET_CHILD_SUBREAPER, 1);
        sigset_t mask;
        ::sigemptyset(&mask);
        for (const int s : {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGPIPE}) ::sigaddset(&mask, s);
        ::sigprocmask(SIG_SETMASK, &mask, nullptr);
        signals_.reset(::signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK));
        start_worker();
        while (!quit_) step();
        end_job();
        if (worker_ > 0) ::kill(worker_, SIGKILL);
        return exit_code_;
    }

 private:
    void step() {
        pollfd fds[3] = {{.fd = signals_.get(), .events = POLLIN, .revents = 0}, poll_of(to_worker_), poll_of(to_keeper_)};
        ::poll(fds, 3, timeout());
        if (fds[0].revents != 0) take_signals();
        if (fds[1].revents != 0) from_worker();
        if (fds[2].revents != 0) from_keeper();
        reap();
        if (restart_at_ && boot_time() >= *restart_at_) start_worker();
        if (term_at_ && boot_time() - *term_at_ > kTermPatience) quit_ = true;
    }

    static pollfd poll_of(const FrameChannel& channel) {
        return {.fd = channel.is_open() ? channel.fd() : -1,
                .events = static_cast<short>(POLLIN | (channel.has_output() ? POLLOUT : 0)),
                .revents = 0};
    }
    [[nodiscard]] int timeout() const {
        if (!restart_at_) return 1000;
        return static_cast<int>(std::clamp<std::int64_t>((*restart_at_ - boot_time()).count(), 0, 1000));
    }

    void start_worker() {
        restart_at_.reset();
        auto pair = make_channel_pair();
        const pid_t pid = ::fork();
        if (pid == 0) {
            to_keeper_.close();
            to_worker_.close();
            signals_.reset();
            pair.ours.reset();
            sigset_t none;
            ::sigemptyset(&none);
            ::sigprocmask(SIG_SETMASK, &none, nullptr);
            // A signal to the whole group of the agent is the supervisor's business alone.
            for (const int s : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGPIPE}) ::signal(s, SIG_IGN);
            ::prctl(PR_SET_NAME, "gpuferry-worker");
            ::_exit(worker_main_(std::move(pair.theirs)));
        }
        if (pid < 0) {
            log("error", "cannot start the worker: no process left");
            restart_at_ = boot_time() + kRestartMax;
            return;
        }
        worker_ = pid;
        worker_started_ = boot_time();
        to_worker_ = FrameChannel(std::move(pair.ours));
        send_state();
    }

    void send_state() {
        Frame state{.type = FrameType::state,
                    .fields = {boot_id_, job_state_, mark_, std::to_string(pid_), leader_status_}};
        for (const auto& [key, value] : kept_) {
            state.fields.push_back(key);
            state.fields.push_back(value);
        }
        to_worker_.send(state);
        if (exited_) to_worker_.send(*exited_);
        if (term_at_) to_worker_.send({.type = FrameType::notice, .fields = {std::to_string(SIGTERM)}});
    }

    void take_signals() {
        signalfd_siginfo info{};
        while (::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
            const int number = static_cast<int>(info.ssi_signo);
            // A hang-up is the end of the terminal that started the agent, not of the machine.
            if ((number != SIGTERM && number != SIGINT) || term_at_) continue;
            term_at_ = boot_time();
            if (to_worker_.is_open()) to_worker_.send({.type = FrameType::notice, .fields = {std::to_string(number)}});
        }
    }

    void from_worker() {
        const bool alive = to_worker_.receive() && to_worker_.flush();
        while (auto frame = to_worker_.next()) obey(*frame);
        if (!alive) to_worker_.close();
    }

    void obey(const Frame& frame) {
        switch (frame.type) {
            case FrameType::start_job: return start_job(order_of(frame));
            case FrameType::keep:
                if (frame.field(1).empty()) kept_.erase(frame.field(0));
                else kept_[frame.field(0)] = frame.field(1);
                return;
            case FrameType::signal_job:
            case FrameType::kill_job:
                if (to_keeper_.is_open()) to_keeper_.send(frame);
                return;
            case FrameType::forget_job:
                if (job_state_ == "exited") forget_job();
                return;
            case FrameType::quit:
                exit_code_ = static_cast<int>(frame.number(0));
                quit_ = true;
                return;
            case FrameType::state:
            case FrameType::notice:
            case FrameType::job_started:
            case FrameType::leader_exited:
            case FrameType::job_exited: return;
        }
    }

    void start_job(const JobOrder& order) {
        if (job_state_ == "starting" || job_state_ == "running") return;  // one job at a time; the worker knows
        forget_job();
        mark_ = order.mark;
        auto pair = make_channel_pair();
        const pid_t self = ::getpid();
        const pid_t pid = ::fork();
        if (pid == 0) {
            to_worker_.close();
            signals_.reset();
            pair.ours.reset();
            run_keeper(order, std::move(pair.theirs), self);
        }
        if (pid < 0) {
            JobExit exit;
            exit.detail = "cannot start the job's keeper: no process left";
            return job_over(frame_of(mark_, exit));
        }
        keeper_ = pid;
        job_state_ = "starting";
        to_keeper_ = FrameChannel(std::move(pair.ours));
    }

    void forget_job() {
        job_state_ = "none";
        mark_.clear();
        pid_ = 0;
        leader_status_.clear();
        exited_.reset();
    }

    void from_keeper() {
        const bool alive = to_keeper_.receive() && to_keeper_.flush();
        while (auto frame = to_keeper_.next()) {
            if (frame->type == FrameType::job_exited) {
                job_over(*frame);
                continue;
            }
            if (frame->type == FrameType::job_started) {
                job_state_ = "running";
                pid_ = frame->number(1);
            }
            if (frame->type == FrameType::leader_exited) leader_status_ = frame->field(1);
            if (to_worker_.is_open()) to_worker_.send(*frame);
        }
        if (!alive) to_keeper_.close();
    }

    void job_over(const Frame& frame) {
        job_state_ = "exited";
        exited_ = frame;
        if (to_worker_.is_open()) to_worker_.send(frame);
    }

    void reap() {
        while (true) {
            int status = 0;
            const pid_t pid = ::waitpid(-1, &status, WNOHANG);
            if (pid <= 0) break;
            if (pid == worker_) worker_died(status);
            if (pid == keeper_) keeper_died();
        }
    }

    void worker_died(int status) {
        worker_ = 0;
        to_worker_.close();
        // nvidia-smi and the like that the worker had started are ours now, and of no use.
        auto helpers = descendants_of(::getpid());
        const auto job = keeper_ > 0 ? descendants_of(keeper_) : std::vector<pid_t>{};
        std::erase_if(helpers, [&](pid_t p) { return p == keeper_ || std::ranges::find(job, p) != job.end(); });
        kill_all(helpers);
        if (boot_time() - worker_started_ > kStableAfter) restart_wait_ = kRestartFirst;
        log("warn", "the worker ended (wait status " + std::to_string(status) + "), starting it again in " +
                        std::to_string(restart_wait_.count()) + " ms; the job is not touched");
        restart_at_ = boot_time() + restart_wait_;
        restart_wait_ = std::min(restart_wait_ * 2, kRestartMax);
    }

    void keeper_died() {
        keeper_ = 0;
        if (to_keeper_.is_open()) from_keeper();  // its last words may still be in the socket
        to_keeper_.close();
        if (job_state_ != "starting" && job_state_ != "running") return;
        // Somebody killed the keeper: what it kept is ours now, and without it the attempt cannot go on.
        end_strays();
        JobExit exit;
        exit.started = job_state_ == "running";
        exit.wait_status = leader_status_.empty() ? SIGKILL : std::stoi(leader_status_);
        exit.killed = true;
        exit.detail = "the process that kept the job was killed";
        exit.ended_ms = unix_millis(wall_time());
        exit.keeper_lost = true;
        job_over(frame_of(mark_, exit));
    }

    /// Kills everything below this process but the worker and what the worker started, until nothing is left.
    void end_strays() {
        for (int round = 0; round < 250; ++round) {
            auto strays = descendants_of(::getpid());
            const auto helpers = worker_ > 0 ? descendants_of(worker_) : std::vector<pid_t>{};
            std::erase_if(strays, [&](pid_t p) {
                return p == worker_ || p == keeper_ || std::ranges::find(helpers, p) != helpers.end();
            });
            const auto marked = mark_.empty() ? std::vector<pid_t>{} : marked_processes(mark_);
            strays.insert(strays.end(), marked.begin(), marked.end());
            if (kill_all(strays) == 0) return;
            ::poll(nullptr, 0, 20);
            int status = 0;
            for (pid_t pid = ::waitpid(-1, &status, WNOHANG); pid > 0; pid = ::waitpid(-1, &status, WNOHANG))
                if (pid == worker_) worker_died(status);
        }
    }

    void end_job() {
        if (keeper_ > 0 && to_keeper_.is_open()) {
            to_keeper_.send({.type = FrameType::kill_job});
            for (int i = 0; i < 250 && keeper_ > 0; ++i) {
                ::poll(nullptr, 0, 20);
                int status = 0;
                if (::waitpid(keeper_, &status, WNOHANG) == keeper_) keeper_ = 0;
            }
        }
        end_strays();
    }

    const std::string boot_id_;
    const WorkerMain& worker_main_;
    Descriptor signals_;
    FrameChannel to_worker_;
    FrameChannel to_keeper_;
    pid_t worker_{0};
    pid_t keeper_{0};
    Millis worker_started_{0};
    Millis restart_wait_{kRestartFirst};
    std::optional<Millis> restart_at_;
    std::optional<Millis> term_at_;
    std::map<std::string, std::string> kept_;
    std::string job_state_{"none"};  // none, starting, running, exited
    std::string mark_;
    std::int64_t pid_{0};
    std::string leader_status_;      // empty while it lives
    std::optional<Frame> exited_;
    bool quit_{false};
    int exit_code_{0};
};

}  // namespace

int run_supervisor(const std::string& boot_id, const WorkerMain& worker) {
    Supervisor supervisor(boot_id, worker);
    return supervisor.run();
}

}  // namespace gf::agent
