// The first part of an attempt: from the lease to the running command.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "agent/attempt.hpp"
#include "agent/clock.hpp"
#include "agent/code_fetch.hpp"
#include "agent/engine_words.hpp"
#include "agent/job_environment.hpp"
#include "agent/log.hpp"

namespace gf::agent {
namespace ap = agent_protocol;

namespace {

constexpr Millis kLookEvery{100};

Result<void> make_folders(const std::string& root, const std::string& relative) {
    std::string path = root;
    std::string_view rest = relative;
    while (!rest.empty()) {
        const auto end = std::min(rest.find('/'), rest.size());
        path += "/" + std::string(rest.substr(0, end));
        rest.remove_prefix(std::min(end + 1, rest.size()));
        if (::mkdir(path.c_str(), 0755) != 0 && errno != EEXIST) return fail(system_error("make", path));
    }
    return {};
}

}  // namespace

/// Prepares and starts the job; false when it never ran, which has been told.
bool Attempt::launch() {
    if (kept_phase_ == "failed") {
        not_started();
        return false;
    }
    remember("preparing");
    auto ready = prepare();
    if (ready && !preparing_is_over()) ready = start_job();
    {
        const std::lock_guard lock(mutex_);
        if (pid_ || (exit_ && exit_->started)) return true;
    }
    Failed failed{.reason = !host_.workspace.usable() ? "unwritable" : spec_fault_ ? "spec" : "setup",
                  .detail = ready ? std::string() : ready.error().message};
    if (const auto order = stop_order()) failed = {.reason = order->reason, .detail = order->detail};
    if (fenced_) failed = {.reason = "stopped", .detail = fence_why_};
    {
        const std::lock_guard lock(mutex_);
        failed_ = std::move(failed);
    }
    remember("failed");
    not_started();
    return false;
}

void Attempt::not_started() {
    ap::Exited exited;
    exited.attempt = lease_.attempt;
    exited.reason = failed_->reason;
    exited.detail = failed_->detail;
    log("warn", "attempt " + lease_.attempt + " did not start: " + exited.reason + " " + exited.detail);
    local_done_ = true;
    over_by(exited);
}

std::unexpected<Error> Attempt::spec_fault(Error error) {
    spec_fault_ = true;
    return fail(std::move(error));
}

Result<UserAccount> Attempt::account() const {
    if (lease_.container && image_account_) return *image_account_;
    if (lease_.container) return UserAccount{.uid = 0, .gid = 0, .groups = {}, .name = {}};
    if (lease_.user.empty() || ::getuid() != 0) return UserAccount{.uid = ::getuid(), .gid = ::getgid(), .groups = {}, .name = {}};
    return find_user(lease_.user, read_small_file("/etc/passwd"), read_small_file("/etc/group"));
}

Result<void> Attempt::prepare() {
    if (!host_.workspace.usable()) return fail(ErrorKind::io, "no writable folder for the job on this machine");
    const auto& spec = lease_.checkpoint;
    const auto leaves = [this](const std::string& field, const std::string& path) {
        return spec_fault({.kind = ErrorKind::invalid, .message = field + " leaves the job's folder: " + path});
    };
    if (!is_safe_relative(spec.path)) return leaves("checkpoint.path", spec.path);
    if (!spec.trigger_touch.empty() && !is_safe_relative(spec.trigger_touch)) return leaves("checkpoint.trigger", spec.trigger_touch);
    if (!lease_.progress_file.empty() && !is_safe_relative(lease_.progress_file)) return leaves("progress.file", lease_.progress_file);
    if (lease_.container)
        if (auto found = find_engine(); !found) return found;
    if (auto wiped = wipe(); !wiped) return wiped;
    if (lease_.container)
        if (auto ready = prepare_image(); !ready) return ready;
    const auto user = account();
    if (!user) return spec_fault(user.error());
    // In a container nothing stands above the job's folder but what the engine made for it.
    if (user->uid != ::getuid() && !lease_.container)
        if (auto open = can_reach(folder_, *user); !open)
            return open.error().kind == ErrorKind::invalid ? spec_fault(open.error()) : fail(open.error());
    const auto stopped = [this] { return preparing_is_over(); };
    // A checkpoint of the whole folder takes the folder's place: then the code waits aside and fills in what is missing.
    const bool aside = spec.declared && lease_.generation > 0 && normal_relative(spec.path).empty();
    if (!lease_.code_sha256.empty()) {
        host_.outbox.push(ap::Preparing{.attempt = lease_.attempt, .phase = "code", .detail = {}});
        auto bulk = host_.bulk();
        bulk->set_cancelled(stopped);
        auto fetched = fetch_code(*bulk, lease_.code_sha256, private_path("code.blob"), aside ? private_path(kCodeAside) : folder_, stopped);
        if (!fetched) {
            if (fetched.error().message == "fenced") fence("the code is not ours to fetch any more");
            if (fetched.error().kind == ErrorKind::invalid) return spec_fault(fetched.error());  // the archive itself
            return fetched;
        }
    }
    make_checkpointing();
    if (spec.declared && lease_.generation > 0)
        if (auto restored = restore(); !restored) return restored;
    if (aside)
        if (auto filled = move_missing(private_path(kCodeAside), folder_); !filled) return filled;
    if (spec.declared)
        if (auto folder = make_folders(folder_, spec.path); !folder) return folder;
    const std::string out = output_folder(lease_);
    const auto name = out.substr(out.rfind('/') == std::string::npos ? 0 : out.rfind('/') + 1);
    // A first output without a dot in its name is taken for a folder; programs expect $GPUFERRY_OUTPUT_DIR to be there.
    if (is_safe_relative(out) && out.find('*') == std::string::npos && name.find('.') == std::string::npos)
        if (auto folder = make_folders(folder_, out); !folder) return folder;
    if (user->uid != ::getuid() && ::getuid() == 0)
        if (auto given = give_tree(folder_, user->uid, user->gid); !given) return given;
    return {};
}

Result<void> Attempt::restore() {
    const std::string path = normal_relative(lease_.checkpoint.path);
    host_.outbox.push(ap::Preparing{
        .attempt = lease_.attempt, .phase = "restore", .detail = "generation " + std::to_string(lease_.generation)});
    if (const auto slash = path.rfind('/'); slash != std::string::npos)
        if (auto parents = make_folders(folder_, path.substr(0, slash)); !parents) return parents;
    std::atomic<bool> done{false};
    std::thread watcher([&] {
        while (!done && !preparing_is_over()) std::this_thread::sleep_for(kLookEvery);
        if (!done) checkpoints_->abort(true);
    });
    auto restored = checkpoints_->restore();
    done = true;
    watcher.join();
    if (!restored) return fail(restored.error());
    generation_ = restored->generation;
    start_step_ = restored->step;
    step_ = start_step_;
    if (!restored->said.empty())
        host_.outbox.push(ap::Preparing{.attempt = lease_.attempt, .phase = "restore", .detail = restored->said});
    return {};
}

void Attempt::make_checkpointing() {
    const auto user = account();
    const bool other = user && user->uid != ::getuid() && ::getuid() == 0;
    checkpoints_ = std::make_unique<Checkpointing>(
        host_.bulk(), Checkpointing::Order{
                          .lease = lease_,
                          .job_folder = folder_,
                          .spool = private_path(kPackSpool),
                          .resumed = started_before_,
                          .uid = other ? std::int64_t{user->uid} : -1,
                          .gid = other ? std::int64_t{user->gid} : -1,
                          .step = [this] { return step_.load(); },
                          .fenced = [this] { fence("the daemon refused a checkpoint of this attempt"); },
                          .trouble =
                              [this](const std::string& what) {
                                  log("warn", what);
                                  host_.outbox.push(ap::Preparing{.attempt = lease_.attempt, .phase = "checkpoint", .detail = what});
                              }});
}

Result<void> Attempt::start_job() {
    const auto user = account();
    if (!user) return fail(user.error());
    JobOrder order;
    order.mark = mark();
    order.folder = folder_;
    order.command = lease_.run;
    order.drop_user = user->uid != ::getuid();
    order.uid = user->uid;
    order.gid = user->gid;
    order.groups = user->groups;
    order.spool = private_path(kLogSpool);
    order.limits = spool_limits(lease_.log_bytes_max);
    for (const auto& [name, value] : lease_.secret_env) order.secrets.push_back(value);
    order.env = job_environment(lease_, {.machine_env = lease_.container ? std::map<std::string, std::string>{} : host_.settings.env,
                                         .folder = folder_,
                                         .mark = mark(),
                                         .socket = ask_path(),
                                         .command_folder = private_path("bin"),
                                         .contained = lease_.container,
                                         .user = user->name,
                                         .home = user->home,
                                         .generation = generation_,
                                         .step = start_step_});
    if (lease_.container) contain(order);
    host_.to_supervisor(frame_of(order));
    std::unique_lock lock(mutex_);
    const auto known = [this] { return pid_ || exit_; };
    // A plain process starts at once or not at all; an engine may take its time over a container, and is told when it may not.
    if (lease_.container) {
        wake_.wait(lock, [&] { return known() || stop_ || fenced_; });
        if (!known()) host_.to_supervisor({.type = FrameType::kill_job});
    }
    wake_.wait(lock, known);
    if (!exit_ || exit_->started) return {};
    if (exit_->spec_fault) return spec_fault({.kind = ErrorKind::invalid, .message = exit_->detail});
    if (!lease_.container) return fail(ErrorKind::io, exit_->detail);
    const auto judged = judge_start(exit_->detail);
    if (judged.fault == EngineFault::spec) return spec_fault({.kind = ErrorKind::invalid, .message = judged.said});
    return fail(ErrorKind::io, "the container did not start: " + judged.said);
}

}  // namespace gf::agent
