#include "agent/worker.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <deque>
#include <map>
#include <set>

#include "agent/attempt.hpp"
#include "agent/clock.hpp"
#include "agent/dead_man.hpp"
#include "agent/log.hpp"
#include "agent/machine_report.hpp"
#include "agent/monitor.hpp"
#include "agent/processes.hpp"
#include "agent/supervisor_link.hpp"

namespace gf::agent {
namespace ap = agent_protocol;

namespace {

constexpr Millis kTick{50};
constexpr Millis kContactKept{10'000};
// How long an attempt may take to get its job down after it lost its right, before the agent goes anyway.
constexpr Millis kDrainPatience{45'000};
constexpr Millis kLastWords{3'000};
constexpr int kSelfEndRounds = 30;

std::uint64_t random_seed() {
    std::uint64_t seed = 0;
    if (::getrandom(&seed, sizeof seed, 0) != static_cast<ssize_t>(sizeof seed)) seed = static_cast<std::uint64_t>(boot_time().count());
    return seed ^ (static_cast<std::uint64_t>(::getpid()) << 32);
}

class Worker {
 public:
    Worker(const Settings& settings, const Workspace& workspace, Descriptor channel)
        : settings_(settings),
          workspace_(workspace),
          link_(
              std::move(channel), [this](Frame f) { post([this, f = std::move(f)] { on_frame(f); }); },
              [this] { supervisor_lost(); }) {}

    int run() {
        while (true) {
            std::deque<std::function<void()>> todo;
            {
                std::unique_lock lock(mutex_);
                wake_.wait_for(lock, kTick, [this] { return !queue_.empty(); });
                todo.swap(queue_);
            }
            for (auto& task : todo) task();
            if (session_) tick(boot_time());
        }
    }

 private:
    void post(std::function<void()> task) {
        {
            const std::lock_guard lock(mutex_);
            queue_.push_back(std::move(task));
        }
        wake_.notify_all();
    }

    /// The keeper kills the job when the supervisor dies; should it have died too, the environment mark finds the rest.
    void supervisor_lost() {
        std::string mark;
        {
            const std::lock_guard lock(mark_mutex_);
            mark = mark_;
        }
        for (int round = 0; round < 100 && !mark.empty(); ++round) {
            if (kill_all(marked_processes(mark)) == 0) break;
            std::this_thread::sleep_for(Millis{20});
        }
        ::_exit(0);
    }

    void on_frame(const Frame& frame) {
        if (frame.type == FrameType::state) return begin(frame);
        if (frame.type == FrameType::notice) return on_notice();
        if (attempt_) attempt_->on_frame(frame);
    }

    void begin(const Frame& state) {
        boot_id_ = state.field(0);
        for (std::size_t i = 5; i + 1 < state.fields.size(); i += 2) kept_[state.field(i)] = state.field(i + 1);
        put_command();
        // A registry's password, where this worker's forerunner was killed while it pulled an image.
        if (workspace_.usable()) remove_tree(workspace_.private_folder() + "/" + Attempt::kLogin);
        outbox_ = std::make_unique<Outbox>(
            boot_id_, kept_["outbox"], [this](std::string text) { session_->send(std::move(text)); },
            [this](const std::string& s) { link_.keep("outbox", s); });
        last_contact_ = kept_number("contact", boot_time().count());
        silence_max_ = Millis{kept_number("silence", ap::Welcome{}.dead_man_ms)};
        session_ = std::make_unique<Session>(
            settings_, boot_id_, kept_["session"],
            SessionEvents{.opened = [this] { opened(); },
                          .closed = [this] { outbox_->closed(); },
                          .message = [this](ap::ToAgent m) { post([this, m = std::move(m)] { on_message(m); }); },
                          .contact = [this] { last_contact_ = boot_time().count(); },
                          .enrolled = [this](const std::string& token) { link_.keep("session", token); },
                          .refused = [this](const std::string& why) { post([this, why] { drain(why); }); }},
            random_seed());
        const bool looked = recall_report();  // first: an attempt is told of the GPUs
        resume_attempt(state);
        if (!looked) make_report();
        tell();
        monitor_ = std::make_unique<Monitor>(workspace_.base(), !report_.gpus.empty());
        session_->start();
    }

    bool recall_report() {
        const auto kept = ap::decode_from_agent(kept_["report"]);
        if (!kept || !std::holds_alternative<ap::Hello>(kept->body)) return false;
        report_ = std::get<ap::Hello>(kept->body).report;
        return true;
    }

    /// Once per boot: it can take a minute, in which a worker that took over from another would watch over nothing.
    void make_report() {
        report_ = make_machine_report(workspace_.base());
        ap::Hello hello;
        hello.report = report_;
        link_.keep("report", ap::encode(ap::FromAgent{.boot_id = boot_id_, .seq = 0, .body = hello}));
    }

    /// What the session's thread says in a hello.
    void tell() {
        const std::lock_guard lock(told_mutex_);
        told_.attempt = attempt_ ? attempt_->lease().attempt : last_lease_;
        told_.attempt_number = attempt_ ? attempt_->lease().number : last_number_;
        told_.attempt_state = attempt_ ? attempt_->state() : (last_lease_.empty() ? "" : "exited");
        told_.log_bytes = attempt_ ? attempt_->log_bytes() : 0;
    }

    [[nodiscard]] std::int64_t kept_number(const std::string& key, std::int64_t otherwise) {
        const auto& text = kept_[key];
        std::int64_t value = otherwise;
        std::from_chars(text.data(), text.data() + text.size(), value);
        return value;
    }

    void resume_attempt(const Frame& state) {
        const auto lease = kept_["lease"].empty() ? Result<ap::ToAgent>(ap::Drain{}) : ap::decode_to_agent(kept_["lease"]);
        last_lease_ = kept_["last"];
        if (!lease || !std::holds_alternative<ap::Lease>(*lease)) return;
        const auto& old = std::get<ap::Lease>(*lease);
        if (Attempt::is_done(kept_["attempt"])) {
            // The former worker died after the end was told and before it had let go of the lease.
            last_lease_ = old.attempt;
            last_number_ = old.number;
            link_.send({.type = FrameType::forget_job});
            return let_go();
        }
        const std::string mark = boot_id_ + "." + old.attempt;
        const bool started = state.field(1) != "none" && state.field(2) == mark;
        begin_attempt(old, kept_["attempt"], started, kept_number("leased", boot_time().count()));
        if (started && state.number(3) > 0)
            attempt_->on_frame({.type = FrameType::job_started, .fields = {mark, state.field(3)}});
    }

    void begin_attempt(const ap::Lease& lease, const std::string& kept, bool started, std::int64_t leased_at) {
        if (monitor_) monitor_->forget_peaks();
        attempt_ = std::make_unique<Attempt>(
            AttemptHost{.settings = settings_,
                        .workspace = workspace_,
                        .boot_id = boot_id_,
                        .gpus = report_.gpus.empty() ? std::string() : container_gpus(settings_.env),
                        .outbox = *outbox_,
                        .bulk = [this] { return std::make_unique<BulkClient>(settings_, *session_, [this] { last_contact_ = boot_time().count(); }); },
                        .to_supervisor = [this](const Frame& f) { link_.send(f); }},
            lease, kept, started, [this](const std::string& s) { link_.keep("attempt", s); });
        {
            const std::lock_guard lock(mark_mutex_);
            mark_ = attempt_->mark();
        }
        reserved_end_.reset();
        if (lease.dead_man_ms > 0) reserved_end_ = Millis{leased_at + lease.dead_man_ms};
        attempt_->start();
    }

    /// On the session's thread: the socket is up.
    void opened() {
        ap::Hello hello;
        hello.report = report_;
        const std::lock_guard lock(told_mutex_);
        hello.attempt_number = told_.attempt_number;
        hello.attempt = told_.attempt;
        hello.attempt_state = told_.attempt_state;
        hello.log_bytes = told_.log_bytes;
        outbox_->opened(hello);
    }

    void on_message(const ap::ToAgent& message) {
        std::visit([this](const auto& m) { on(m); }, message);
    }
    void on(const ap::Welcome& m) {
        heartbeat_ = Millis{std::max(1, m.heartbeat_ms)};
        silence_max_ = Millis{std::max<std::int64_t>(1, m.dead_man_ms)};
        link_.keep("silence", std::to_string(silence_max_.count()));
        if (monitor_) monitor_->set_interval(heartbeat_);
        outbox_->acknowledged(m.acked_seq);
    }
    void on(const ap::Ack& m) { outbox_->acknowledged(m.seq); }
    void on(const ap::Lease& m) {
        if (draining_ || term_at_ || m.attempt == last_lease_ || (attempt_ && attempt_->lease().attempt == m.attempt)) return;
        if (attempt_) {
            const auto& running = attempt_->lease();
            if (m.task == running.task && m.number < running.number) return;  // late, from before
            // Two attempts never run side by side: the old one has lost its right by this message.
            attempt_->fence("attempt " + std::to_string(m.number) + " was given the machine");
            next_lease_ = m;
            return;
        }
        link_.keep("lease", ap::encode(ap::ToAgent{m}));
        link_.keep("leased", std::to_string(boot_time().count()));
        link_.keep("attempt", "");
        begin_attempt(m, {}, false, boot_time().count());
    }
    void on(const ap::Stop& m) {
        if (next_lease_ && next_lease_->attempt == m.attempt) next_lease_.reset();
        if (!attempt_ || attempt_->lease().attempt != m.attempt) return;
        attempt_->stop({.reason = "stopped", .detail = m.reason, .checkpoint = m.checkpoint, .until = std::nullopt});
        if (m.reason == "fenced") attempt_->fence("the daemon says so");
    }
    void on(const ap::CheckpointNow& m) {
        if (attempt_ && attempt_->lease().attempt == m.attempt) attempt_->checkpoint_now();
    }
    void on(const ap::Drain& m) { drain(m.reason); }

    void drain(const std::string& why) {
        if (draining_) return;
        log("info", "draining: " + why);
        draining_ = boot_time();
        next_lease_.reset();
        if (attempt_) attempt_->fence("drained: " + why);
    }

    void on_notice() {
        if (term_at_) return;
        term_at_ = boot_time();
        log("warn", "SIGTERM: this machine is being taken away");
        outbox_->push(ap::Notice{.kind = "sigterm", .deadline_ms = settings_.notice.count()});
        next_lease_.reset();
        if (attempt_)
            attempt_->stop({.reason = "notice", .detail = "SIGTERM", .checkpoint = true, .until = *term_at_ + settings_.notice});
    }

    void tick(Millis now) {
        if (attempt_ && attempt_->over()) attempt_over();
        tell();
        if (now - beat_at_ >= heartbeat_) {
            beat_at_ = now;
            if (session_->connected() && monitor_) {
                auto beat = monitor_->sample();
                if (attempt_) {
                    beat.attempt = attempt_->lease().attempt;
                    beat.log_bytes = attempt_->log_bytes();
                }
                outbox_->push_heartbeat(beat);
            }
        }
        if (now - contact_kept_ >= kContactKept) {
            contact_kept_ = now;
            link_.keep("contact", std::to_string(last_contact_.load()));
        }
        if (term_at_ && !attempt_ && (outbox_->empty() || now - *term_at_ > settings_.notice + kLastWords)) quit();
        if (draining_ && (!attempt_ || now - *draining_ > kDrainPatience)) quit();
        look_at_dead_man(now);
    }

    void attempt_over() {
        last_lease_ = attempt_->lease().attempt;
        last_number_ = attempt_->lease().number;
        let_go();
        attempt_.reset();
        reserved_end_.reset();
        dead_man_fired_ = false;
        {
            const std::lock_guard lock(mark_mutex_);
            mark_.clear();
        }
        if (!next_lease_) return;
        const auto lease = *std::move(next_lease_);
        next_lease_.reset();
        on(lease);
    }

    void let_go() {
        link_.keep("last", last_lease_);
        link_.keep("lease", "");
        link_.keep("attempt", "");
    }

    void look_at_dead_man(Millis now) {
        const DeadManClock clock{.last_contact = Millis{last_contact_.load()}, .silence_max = silence_max_, .reserved_end = reserved_end_};
        const auto verdict = dead_man_verdict(clock, now);
        if (verdict == DeadManVerdict::alive) dead_man_fired_ = false;
        if (verdict == DeadManVerdict::alive || term_at_ || draining_) return;
        if (!dead_man_fired_) {
            dead_man_fired_ = true;
            log("warn", "dead-man switch: " + std::string(verdict == DeadManVerdict::stop_job ? "the reserved time is over" : "no word from the daemon for too long"));
            if (attempt_) attempt_->stop({.reason = "dead_man", .detail = "dead-man switch", .checkpoint = true, .until = std::nullopt});
        }
        if (verdict == DeadManVerdict::stop_job || (attempt_ && !attempt_->local_work_done()) || self_end_.joinable()) return;
        const bool unsent = attempt_ != nullptr || !outbox_->empty();
        const auto calls = self_end_calls(settings_.env, unsent);
        if (calls.empty()) {
            // Nothing ends the bill from inside. With data to hand over the agent stays and goes on dialling.
            if (!unsent) quit();
            return;
        }
        self_end_ = std::thread([this, calls] {
            // A word from the daemon meanwhile ends this: then it is the daemon's again.
            const auto heard = [this] { return boot_time() - Millis{last_contact_.load()} < silence_max_; };
            if (!end_this_machine(calls, kSelfEndRounds, heard)) {
                if (!heard()) log("error", "dead-man switch: the provider accepts no call, leaving");
                else return post([this] { self_end_.join(); self_end_ = {}; });
            }
            post([this] { quit(); });
        });
    }

    void quit() {
        link_.send({.type = FrameType::quit, .fields = {"0"}});
        // The supervisor ends this process; nothing is to be done until then.
        while (true) ::pause();
    }

    /// The agent's own binary under the name that jobs call.
    void put_command() {
        if (!workspace_.usable()) return;
        const std::string folder = workspace_.private_folder() + "/bin";
        const std::string file = folder + "/gpuferry-agent";
        ::mkdir(folder.c_str(), 0755);
        ::chmod(folder.c_str(), 0755);
        const std::string bytes = read_small_file("/proc/self/exe", std::size_t{256} << 20);
        if (bytes.empty() || !replace_file(file, bytes, 0755)) log("info", "`gpuferry-agent` will not be in the job's PATH");
        ::chmod(file.c_str(), 0755);
    }

    struct Told {
        std::string attempt, attempt_state;
        std::int64_t attempt_number{0}, log_bytes{0};
    };

    const Settings& settings_;
    const Workspace& workspace_;
    std::string boot_id_;
    std::map<std::string, std::string> kept_;
    ap::MachineReport report_;
    std::unique_ptr<Outbox> outbox_;
    std::unique_ptr<Session> session_;
    std::unique_ptr<Monitor> monitor_;
    std::unique_ptr<Attempt> attempt_;
    std::optional<ap::Lease> next_lease_;
    std::string last_lease_;
    std::int64_t last_number_{0};
    std::atomic<std::int64_t> last_contact_{0};
    Millis heartbeat_{10'000};
    Millis silence_max_{7'200'000};
    Millis beat_at_{0};
    Millis contact_kept_{0};
    std::optional<Millis> reserved_end_;
    std::optional<Millis> term_at_;
    std::optional<Millis> draining_;
    bool dead_man_fired_{false};
    std::thread self_end_;

    std::mutex told_mutex_;  // guards told_: written by the main thread, read by the session's
    Told told_;
    std::mutex mark_mutex_;  // guards mark_
    std::string mark_;
    std::mutex mutex_;       // guards queue_
    std::condition_variable wake_;
    std::deque<std::function<void()>> queue_;
    SupervisorLink link_;    // last: its thread uses the rest
};

}  // namespace

int run_worker(const Settings& settings, const Workspace& workspace, Descriptor channel) {
    Worker worker(settings, workspace, std::move(channel));
    return worker.run();
}

}  // namespace gf::agent
