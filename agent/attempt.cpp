#include "agent/attempt.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "agent/ask_socket.hpp"
#include "agent/clock.hpp"
#include "agent/engine_words.hpp"
#include "agent/log.hpp"
#include "agent/output_lines.hpp"
#include "agent/processes.hpp"
#include "agent/progress.hpp"

namespace gf::agent {
namespace ap = agent_protocol;

namespace {

constexpr Millis kLookEvery{100};
constexpr Millis kProgressEvery{500};
constexpr Millis kTriggerPatienceMax{60'000};
// What a notice leaves for snapshot and upload after the program had its time.
constexpr Millis kUploadReserve{3'000};
constexpr std::size_t kLastOutput = 256 * 1024;

}  // namespace

Attempt::Attempt(AttemptHost host, ap::Lease lease, std::string kept, bool started, std::function<void(const std::string&)> on_keep)
    : host_(std::move(host)), lease_(std::move(lease)), on_keep_(std::move(on_keep)), started_before_(started) {
    folder_ = host_.workspace.job_folder(lease_.job);
    const auto json = nlohmann::json::parse(kept, nullptr, false);
    if (!json.is_object()) return;
    kept_phase_ = json.value("phase", std::string());
    if (!kept_phase_.empty()) phase_ = kept_phase_;
    started_at_ = Millis{json.value("started_at", std::int64_t{0})};
    generation_ = json.value("generation", std::int64_t{0});
    start_step_ = json.value("step", std::int64_t{0});
    step_ = start_step_;
    if (const auto& account = json.value("account", std::string()); !account.empty())
        if (auto read = read_account(account)) image_account_ = *std::move(read);
    if (kept_phase_ == "failed")
        failed_ = {.reason = json.value("failed_reason", std::string("setup")), .detail = json.value("failed_detail", std::string())};
    if (json.value("stopping", false)) {
        // The former worker had begun to stop the job: go on from there, the grace counted from its signal.
        stop_ = StopOrder{.reason = json.value("reason", std::string("stopped")),
                          .detail = json.value("detail", std::string()),
                          .checkpoint = json.value("checkpoint", true),
                          .until = std::nullopt};
        const auto at = json.value("signalled_at", std::int64_t{0});
        if (at > 0) signalled_at_ = Millis{at};
        const auto wall = json.value("signalled_wall", std::int64_t{0});
        if (wall > 0) signalled_wall_ = instant_of(wall);
    }
}

Attempt::~Attempt() {
    if (thread_.joinable()) thread_.join();
}

void Attempt::start() {
    thread_ = std::thread([this] { run(); });
}

std::string Attempt::checkpoint_folder() const { return below(folder_, lease_.checkpoint.path); }

std::string Attempt::private_path(const std::string& name) const { return host_.workspace.private_folder() + "/" + name; }

std::string Attempt::state() const {
    const std::lock_guard lock(mutex_);
    if (phase_ == "failed") return "preparing";
    if (phase_ == "finishing") return "running";
    if (phase_ == "done") return "exited";
    return phase_;
}

std::int64_t Attempt::log_bytes() const {
    const std::lock_guard lock(mutex_);
    if (exit_) return exit_->log_bytes;
    return phase_ == "running" ? SpoolReader(private_path(kLogSpool)).end() : 0;
}

bool Attempt::has_unsent() const { return !over_; }

std::optional<StopOrder> Attempt::stop_order() const {
    const std::lock_guard lock(mutex_);
    return stop_;
}

bool Attempt::preparing_is_over() const {
    const std::lock_guard lock(mutex_);
    return stop_.has_value() || fenced_;
}

void Attempt::remember(const char* phase) {
    std::string state;
    {
        const std::lock_guard lock(mutex_);
        phase_ = phase;
        nlohmann::json json = {{"phase", phase_}, {"started_at", started_at_.count()}, {"generation", generation_}, {"step", step_.load()}};
        if (image_account_) json["account"] = account_line(*image_account_);
        if (failed_) {
            json["failed_reason"] = failed_->reason;
            json["failed_detail"] = failed_->detail;
        }
        if (stop_) {
            json["stopping"] = true;
            json["reason"] = stop_->reason;
            json["detail"] = stop_->detail;
            json["checkpoint"] = stop_->checkpoint;
            json["signalled_at"] = signalled_at_ ? signalled_at_->count() : 0;
            json["signalled_wall"] = signalled_wall_ ? unix_millis(*signalled_wall_) : 0;
        }
        state = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    }
    on_keep_(state);
}

void Attempt::on_frame(const Frame& frame) {
    {
        const std::lock_guard lock(mutex_);
        if (frame.field(0) != mark()) return;
        if (frame.type == FrameType::job_started) pid_ = frame.number(1);
        if (frame.type == FrameType::leader_exited) leader_gone_ = true;
        if (frame.type == FrameType::job_exited) exit_ = exit_of(frame);
    }
    wake_.notify_all();
}

void Attempt::stop(StopOrder order) {
    {
        const std::lock_guard lock(mutex_);
        // The first reason stays; a later order may only shorten the time, or give up the checkpoint.
        if (!stop_) {
            stop_ = std::move(order);
        } else {
            if (order.until && (!stop_->until || *order.until < *stop_->until)) stop_->until = order.until;
            stop_->checkpoint = stop_->checkpoint && order.checkpoint;
        }
    }
    wake_.notify_all();
}

void Attempt::checkpoint_now() {
    const std::lock_guard lock(mutex_);
    if (snapshots_) snapshots_->ask();
}

void Attempt::fence(const std::string& why) {
    {
        const std::lock_guard lock(mutex_);
        if (fenced_) return;
        fence_why_ = why;  // first: whoever sees the flag may read the reason
        fenced_ = true;
    }
    wake_.notify_all();
}

void Attempt::run() {
    if (!started_before_ && !launch()) {
        over_ = true;
        return;
    }
    // A worker that died between the start and this line left the phase behind.
    if (!started_before_ || kept_phase_ == "preparing") {
        started_at_ = boot_time();
        remember("running");
        std::int64_t pid = 0;
        {
            const std::lock_guard lock(mutex_);
            pid = pid_.value_or(0);
        }
        host_.outbox.push(ap::Started{.attempt = lease_.attempt, .pid = pid, .restored_generation = generation_});
    } else {
        remember("running");
    }
    make_helpers(started_before_);
    watch();
    finish();
    over_ = true;
}

void Attempt::make_helpers(bool resumed) {
    if (!checkpoints_) make_checkpointing();
    shipper_ = std::make_unique<LogShipper>(
        host_.bulk(), LogShipper::Order{.attempt = lease_.attempt,
                                        .spool = private_path(kLogSpool),
                                        .limits = spool_limits(lease_.log_bytes_max),
                                        .ask_first = resumed,
                                        .keep_from = [this] { return read_to_.load(); },
                                        .fenced = [this] { fence("the daemon refused this attempt's log"); }});
}

void Attempt::watch() {
    ProgressWatch progress(private_path(kLogSpool), lease_.progress_regex,
                           lease_.progress_file.empty() ? "" : folder_ + "/" + lease_.progress_file);
    const auto user = account();
    std::unique_ptr<AskSocket> socket;
    if (lease_.checkpoint.declared) {
        const auto& spec = lease_.checkpoint;
        const Millis every{lease_.checkpoint_every_ms};
        auto periodic = std::make_unique<PeriodicSnapshots>(
            *checkpoints_, every, spec.trigger_touch.empty() ? "" : folder_ + "/" + spec.trigger_touch,
            std::min({spec.grace, every / 2, kTriggerPatienceMax}));
        socket = std::make_unique<AskSocket>(ask_path(), user ? user->uid : ::getuid(), user ? user->gid : ::getgid(),
                                             [asked = periodic.get()] { return asked->ask_and_wait(); });
        const std::lock_guard lock(mutex_);
        snapshots_ = std::move(periodic);
    }
    Millis told_at{0};
    bool news = false;
    const auto look = [&] {
        news = progress.look() || news;
        read_to_ = progress.spool_read_to();
        if (const auto point = progress.newest()) step_ = point->step;
    };
    const auto tell = [&] {
        if (!news) return;
        news = false;
        told_at = boot_time();
        host_.outbox.set_progress({.attempt = lease_.attempt, .step = progress.newest()->step, .total = progress.newest()->total});
    };
    while (true) {
        {
            std::unique_lock lock(mutex_);
            if (exit_) break;
            const Millis now = boot_time();
            if (fenced_ && !kill_sent_) {
                kill_sent_ = true;
                host_.to_supervisor({.type = FrameType::kill_job});
            }
            if (!stop_ && lease_.duration_ms > 0 && now - started_at_ >= Millis{lease_.duration_ms})
                stop_ = StopOrder{.reason = "duration", .detail = "limits.duration reached", .checkpoint = true, .until = std::nullopt};
        }
        act_on_stop(boot_time());
        look();
        if (boot_time() - told_at >= kProgressEvery) tell();
        std::unique_lock lock(mutex_);
        wake_.wait_for(lock, kLookEvery, [this] { return exit_.has_value(); });
    }
    // First the thread, which answers whoever waits on the socket; then the socket; then both may go.
    if (snapshots_) snapshots_->stop();
    socket.reset();
    {
        const std::lock_guard lock(mutex_);
        snapshots_.reset();
    }
    look();
    tell();
}

void Attempt::act_on_stop(Millis now) {
    std::optional<Frame> order;
    bool changed = false;
    {
        const std::lock_guard lock(mutex_);
        if (!stop_ || exit_ || kill_sent_) return;
        const auto& spec = lease_.checkpoint;
        const bool notice = stop_->until.has_value();
        if (!signalled_at_) {
            if (spec.declared && stop_->checkpoint && !notice && !spec.trigger_touch.empty()) {
                // A program that saves on request is asked before it is told to end.
                const std::string trigger = folder_ + "/" + spec.trigger_touch;
                if (!touched_at_) {
                    // Without O_NONBLOCK a pipe of that name would hold this thread for ever; where nothing can be touched,
                    // nobody can be asked, and the signal comes at once.
                    const Descriptor made(
                        ::open(trigger.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666));
                    touched_at_ = made ? now : now - kTriggerPatienceMax;
                }
                const bool waiting = ::access(trigger.c_str(), F_OK) == 0;
                if (waiting && now - *touched_at_ < std::min(spec.grace, kTriggerPatienceMax)) return;
            }
            int number = signal_number(spec.signal);
            if (number == 0) number = SIGTERM;
            signalled_at_ = now;
            signalled_wall_ = wall_time();
            changed = true;
            order = Frame{.type = FrameType::signal_job, .fields = {std::to_string(number), spec.signal_leader_only ? "1" : "0"}};
        } else {
            Millis kill_at = *signalled_at_ + spec.grace;
            if (stop_->until) kill_at = std::min(kill_at, std::max(*signalled_at_, *stop_->until - kUploadReserve));
            if (now < kill_at) return;
            kill_sent_ = true;
            order = Frame{.type = FrameType::kill_job};
        }
    }
    if (changed) remember("running");
    if (order) host_.to_supervisor(*order);
}

void Attempt::finish() {
    remember("finishing");
    JobExit exit;
    std::optional<StopOrder> stopped;
    {
        const std::lock_guard lock(mutex_);
        exit = *exit_;
        stopped = stop_;
    }
    if (exit.keeper_lost && lease_.container) remove_container();
    shipper_->finish(exit.log_bytes);
    ap::Exited exited;
    exited.attempt = lease_.attempt;
    exited.exit_code = exit_code_of(exit);
    exited.signal = signal_of(exit);
    exited.detail = exit.detail;
    exited.log_bytes = exit.log_bytes;
    const bool good = exit_allowed(lease_, exit);
    if (!good) {
        exited.host_oom = exit.oom && (exited.signal == SIGKILL || exited.exit_code == 137 || exited.exit_code == 1);
        exited.gpu_oom = says_gpu_out_of_memory(SpoolReader(private_path(kLogSpool)).last_bytes(kLastOutput));
    }
    if (stopped) {
        exited.reason = stopped->reason;
        if (!stopped->detail.empty()) exited.detail = stopped->detail;
    }
    if (exit.keeper_lost && exited.reason.empty()) exited.reason = "keeper_lost";
    // A container that a former worker ordered and that never came to run its job.
    if (!exit.started && exited.reason.empty()) {
        const bool spec = exit.spec_fault || (lease_.container && judge_start(exit.detail).fault == EngineFault::spec);
        exited.reason = spec ? "spec" : "setup";
    }
    if (fenced_) {
        exited.reason = "stopped";
        exited.detail = fence_why_;
    } else {
        if (lease_.checkpoint.declared && (!stopped || stopped->checkpoint)) last_checkpoint(exited);
        local_done_ = true;
        if (good && !stopped && !exit.keeper_lost && !fenced_) publish(exited);
    }
    local_done_ = true;
    if (!fenced_) ship_log();
    if (fenced_ && exited.reason.empty()) {
        exited.reason = "stopped";
        exited.detail = fence_why_;
    }
    shipper_.reset();
    over_by(exited);
}

void Attempt::over_by(const ap::Exited& exited) {
    // In this order: a worker that dies in between leaves an end that is told twice, never one that is not told.
    host_.outbox.push(exited);
    remember("done");
    host_.to_supervisor({.type = FrameType::forget_job});
}

bool Attempt::is_done(const std::string& kept) {
    const auto json = nlohmann::json::parse(kept, nullptr, false);
    return json.is_object() && json.value("phase", std::string()) == "done";
}

void Attempt::last_checkpoint(ap::Exited& exited) {
    JobExit exit;
    LastWrites writes{.newest = newest_change(checkpoint_folder()), .signalled = {}, .ended = wall_time()};
    {
        const std::lock_guard lock(mutex_);
        exit = *exit_;
        // Not now: since then a snapshot was broken off, or this worker started anew, and a torn file would look quiet.
        if (exit.ended_ms > 0) writes.ended = instant_of(exit.ended_ms);
        if (exit.newest_ms > 0) writes.newest = instant_of(exit.newest_ms);
        writes.signalled = signalled_wall_;
    }
    if (!final_snapshot_is_safe(lease_, exit, writes)) {
        log("info", "no checkpoint at the end: the program failed or was killed while it may have been writing one");
        const auto sent = checkpoints_->send_waiting();
        if (!sent) log("info", "checkpoint: " + sent.error().message);
        return;
    }
    const auto taken = checkpoints_->checkpoint(CheckpointWhen::over);
    if (taken || taken.error().kind == ErrorKind::not_found || fenced_) return;
    log("warn", "the last checkpoint failed: " + taken.error().message);
    if (exited.detail.empty()) exited.detail = "the last checkpoint failed: " + taken.error().message;
}

void Attempt::publish(ap::Exited& exited) {
    if (!lease_.success_product.empty() && !product_exists(folder_, lease_.success_product)) {
        exited.reason = "output_failed";
        exited.detail = "the exit code is a success, but no file matches success.product " + lease_.success_product;
        return;
    }
    const auto sent = checkpoints_->outputs();
    if (sent || fenced_) return;
    exited.reason = "output_failed";
    exited.detail = "outputs: " + sent.error().message;
}

void Attempt::ship_log() {
    while (!shipper_->shipped() && !fenced_) std::this_thread::sleep_for(Millis{20});
}

}  // namespace gf::agent
