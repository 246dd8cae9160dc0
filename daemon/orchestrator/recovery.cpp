// How an attempt ends and what the task does next: recovery by cause, each with its own count (DESIGN 6.4), and the ways
// out (cancel, hold, limits).
#include <algorithm>

#include "daemon/orchestrator/step.hpp"

namespace gf {
namespace {

struct Allowance {
    int* used;
    int limit;
    std::string_view words;
};

Allowance allowance(Cause cause, RetryCounts& used, const RetrySpec& spec) {
    switch (cause) {
        case Cause::spot_lost: return {&used.spot_lost, spec.spot_lost, "spot machine lost"};
        case Cause::host_fault: return {&used.host_fault, spec.host_fault, "host fault"};
        case Cause::start_timeout: return {&used.start_timeout, spec.start_timeout, "machine did not come up"};
        case Cause::gpu_oom: return {&used.gpu_oom, spec.gpu_oom, "GPU out of memory"};
        case Cause::host_oom: return {&used.host_oom, spec.host_oom, "host out of memory"};
        case Cause::no_progress: return {&used.no_progress, spec.no_progress, "no progress"};
        case Cause::user_error: return {&used.user_error, spec.user_error, "user error"};
        case Cause::succeeded:
        case Cause::not_started:
        case Cause::budget:
        case Cause::duration:
        case Cause::cancelled:
            return {nullptr, 0, "ended"};
    }
    return {nullptr, 0, "ended"};
}

/// A program that fails by itself does so with or without checkpoints; only what the machine did to it counts as a loss.
bool counts_as_loss(Cause cause) { return cause != Cause::user_error && cause != Cause::gpu_oom; }

}  // namespace

void Step::end_attempt(LiveTask& task, Cause cause, std::string_view detail) {
    GF_ASSERT(task.attempt.has_value());
    AttemptRecord& attempt = *task.attempt;
    attempt.cause = cause;
    attempt.detail = detail;
    attempt.ended_at = now_;
    if (attempt.started_at) task.row.ran += std::max(Millis{0}, now_ - *attempt.started_at);
    if (const LiveMachine* machine = machine_of(task)) {
        learn_end(task, *machine, cause == Cause::succeeded);
        learn_memory(task, *machine, cause);
    }
    task.look.reset();
    task.gpu_peak = 0;
    task.restore_from.reset();
    move(task, AttemptState::ended, text(cause));
    if (LiveJob* job = job_of(task)) {
        job->row.exit_code = attempt.exit_code;
        job->row.exit_signal = attempt.exit_signal;
    }
    task.attempt.reset();
    task.stop_sent.reset();
    task.stop_deadline.reset();
    w_.queue_dirty = true;
}

void Step::give_back(LiveTask& task, std::string_view reason, std::string_view detail) {
    LiveJob* job = job_of(task);
    GF_ASSERT(job != nullptr);
    end_attempt(task, Cause::not_started, detail);
    if (job->row.cancel_requested || job->row.hold_requested) {
        stop_over(*job, task);
        return;
    }
    // The machine was never had: for limits.wait the wait goes on.
    const Instant waiting_since = task.row.waiting_since;
    move(task, TaskState::waiting, reason);
    task.row.waiting_since = waiting_since;
    save(task);
    // Nothing was lost: a job that never ran is simply queued again; one that did goes on recovering.
    const bool ran = task.row.ran > Millis{0} || task.row.generation > 0 || !(task.row.retries == RetryCounts{});
    move(*job, ran ? JobState::recovering : JobState::queued, reason, detail);
}

void Step::recover(LiveJob& job, LiveTask& task, Cause cause, std::string_view detail, bool counted) {
    GF_ASSERT(!task.attempt);
    if (job.row.cancel_requested || job.row.hold_requested || !task.stop_reason.empty()) {
        stop_over(job, task);
        return;
    }
    if (!job.spec) {
        finish(job, task, TaskState::failed, JobState::failed, "spec_unreadable", "the stored spec no longer parses");
        return;
    }
    if (job.spec->limits.duration && task.row.ran >= *job.spec->limits.duration) {
        finish(job, task, TaskState::failed, JobState::failed, "duration", "limits.duration reached");
        return;
    }
    const Allowance allowed = allowance(cause, task.row.retries, job.spec->retry);
    if (!allowed.used) {
        finish(job, task, TaskState::failed, JobState::failed, text(cause), detail);
        return;
    }
    if (cause == Cause::gpu_oom && job.spec->retry.gpu_oom_bigger && !task.row.vram_above) {
        finish(job, task, TaskState::failed, JobState::failed, text(cause),
               "how much memory it had is not known, so no card is known to be bigger; " + std::string(detail));
        return;
    }
    if (!counted) {
        move(task, TaskState::waiting, text(cause));
        move(job, JobState::recovering, text(cause), detail);
        return;
    }
    *allowed.used += 1;
    const std::string count = std::string(allowed.words) + ", " + std::to_string(*allowed.used) + " of " +
                              std::to_string(allowed.limit + 1) + (detail.empty() ? "" : ": " + std::string(detail));
    if (*allowed.used > allowed.limit) {
        finish(job, task, TaskState::failed, JobState::failed, text(cause), count);
        return;
    }
    if (counts_as_loss(cause)) task.row.retries.without_progress += 1;
    std::string why = count;
    if (task.row.retries.without_progress > w_.settings.losses_without_progress) {
        RetryCounts& used = task.row.retries;
        why = "no progress, " + std::to_string(used.no_progress + 1) + " of " + std::to_string(job.spec->retry.no_progress + 1) + ": " +
              std::to_string(used.without_progress) + " losses in a row without a new checkpoint; the last: " + count;
        // More of the same would only cost more. What may still help is to leave spot, where that is left to us.
        const bool elsewhere = job.spec->resources.spot == SpotChoice::automatic && used.no_progress < job.spec->retry.no_progress;
        used.no_progress += 1;
        if (!elsewhere) {
            finish(job, task, TaskState::failed, JobState::failed, "recovery_limit", why);
            return;
        }
        used.without_progress = 0;
        why += "; on demand from here on";
    }
    // A market that takes a machine back is no reason to wait; everything else may be the same trouble again.
    if (cause == Cause::spot_lost) task.row.not_before.reset();
    else task.row.not_before = now_ + backoff(*allowed.used);
    move(task, TaskState::waiting, text(cause));
    move(job, JobState::recovering, text(cause), why);
}

void Step::finish(LiveJob& job, LiveTask& task, TaskState task_state, JobState job_state, std::string_view reason,
                  std::string_view detail) {
    GF_ASSERT(!task.attempt);
    if (task_state == TaskState::done && task.row.state == TaskState::assigned)
        move(task, TaskState::running, "started");
    if (job_state == JobState::succeeded && job.row.state != JobState::running && job.row.state != JobState::stopping)
        move(job, JobState::running, "started");
    move(task, task_state, reason);
    move(job, job_state, reason, detail);
    w_.queue_dirty = true;
}

void Step::stop_job(LiveJob& job, LiveTask& task, std::string_view reason) {
    task.stop_reason = reason;
    LiveMachine* machine = machine_of(task);
    const bool has_agent = machine && (machine->row.state == MachineState::busy || machine->row.state == MachineState::draining);
    if (!task.attempt || !has_agent) {
        // Nothing runs yet (or any more): no need to ask anybody.
        if (task.attempt) end_attempt(task, Cause::cancelled, reason);
        if (machine) destroy(*machine, reason);
        // A machine that was kept for what it may still hold is kept no longer: nobody waits for it.
        for (auto& [id, kept] : w_.machines)
            if (kept.row.task == task.row.id && kept.row.state != MachineState::gone) destroy(kept, reason);
        stop_over(job, task);
        return;
    }
    if (job.row.state != JobState::stopping) move(job, JobState::stopping, reason);
    if (machine->row.state == MachineState::busy) move(*machine, MachineState::draining, reason);
    const Millis grace = job.spec ? job.spec->checkpoint.grace : Millis{Seconds{60}};
    task.stop_sent = now_;
    task.stop_deadline = now_ + grace + w_.settings.stop_slack;
    send(*machine, agent_protocol::Stop{.attempt = task.attempt->id.get(), .reason = std::string(reason),
                                        .checkpoint = reason != "cancelled"});
}

void Step::stop_over(LiveJob& job, LiveTask& task) {
    GF_ASSERT(!task.attempt);
    // What the user asked for last wins: a cancel beats a hold.
    if (job.row.cancel_requested) {
        finish(job, task, TaskState::cancelled, JobState::cancelled, "cancelled", "by request");
        return;
    }
    if (job.row.hold_requested) {
        task.stop_reason.clear();
        if (task.row.state != TaskState::waiting) move(task, TaskState::waiting, "held");
        move(job, JobState::held, "held", "by request");
        return;
    }
    const std::string reason = task.stop_reason.empty() ? "stopped" : task.stop_reason;
    finish(job, task, TaskState::failed, JobState::failed, reason,
           reason == "duration" ? "limits.duration reached" : reason);
}

void Step::leave_before_lease_ends(LiveMachine& machine, LiveTask& task, LiveJob& job) {
    // Without checkpoints there is nothing to take along: it runs as long as it may, and ends perhaps.
    if (!machine.row.offer.lease_end || !job.spec || !job.spec->checkpoint.declared) return;
    if (*machine.row.offer.lease_end - now_ > tail(*job.spec)) return;
    leave(machine, task, "lease_ends", "the provider's lease ends " + rfc3339(*machine.row.offer.lease_end) + ": checkpoint, then move");
}

void Step::leave(LiveMachine& machine, LiveTask& task, std::string_view reason, const std::string& detail) {
    if (machine.leave_stop || task.stop_sent || !task.stop_reason.empty() || task.attempt->state != AttemptState::running) return;
    machine.leave_stop = now_;
    machine.leave_reason = reason;
    history({.at = now_, .kind = std::string(reason), .job = machine.row.job, .task = machine.row.task, .attempt = machine.row.attempt,
             .machine = machine.row.id, .reason = std::string(reason), .detail = detail});
    send(machine, agent_protocol::Stop{.attempt = task.attempt->id.get(), .reason = std::string(reason), .checkpoint = true});
}

bool Step::leave_is_over(LiveMachine& machine, LiveTask& task, LiveJob& job) {
    if (!machine.leave_stop || !job.spec || task.stop_sent || !task.stop_reason.empty() || !task.attempt) return false;
    if (now_ - *machine.leave_stop < job.spec->checkpoint.grace + w_.settings.stop_slack) return false;
    left(machine, task, job);
    return true;
}

void Step::left(LiveMachine& machine, LiveTask& task, LiveJob& job) {
    const std::string reason = machine.leave_reason;
    const bool lease = reason == "lease_ends";
    const std::string detail = lease ? "the machine's lease at its provider ends" : "another machine, or none, is better for its deadline";
    end_attempt(task, machine.row.offer.spot ? Cause::spot_lost : Cause::host_fault, detail);
    if (lease) cool(machine.row.offer, "lease_ends", false);
    destroy(machine, reason, detail);
    if (job.row.cancel_requested || job.row.hold_requested) return stop_over(job, task);
    task.row.not_before.reset();
    move(task, TaskState::waiting, reason);
    move(job, JobState::recovering, reason, detail);
}

void Step::release_machine(LiveMachine& machine, std::string_view reason, bool reusable) {
    const bool work_waits = w_.queued_jobs > 0 || std::ranges::any_of(w_.tasks, [](const auto& entry) {
        return entry.second.row.state == TaskState::waiting;
    });
    if (!reusable || !work_waits ||
        (machine.row.state != MachineState::busy && machine.row.state != MachineState::draining &&
         machine.row.state != MachineState::ready)) {
        destroy(machine, reason);
        return;
    }
    machine.row.task = TaskId{};
    machine.row.attempt = 0;
    machine.row.idle_since = now_;
    // What it costs until somebody needs it is no job's (DESIGN 10).
    if (machine.ledger) bill_to(machine, JobId{}, std::string(machine.ledger->project));
    move(machine, MachineState::ready, "idle");
    w_.queue_dirty = true;
}

}  // namespace gf
