// Everything that time alone decides. Level-driven: each tick looks at the state that is there, so a missed tick costs a
// tick and nothing else.
#include <algorithm>

#include "daemon/orchestrator/step.hpp"

namespace gf {

void Step::on(const ClockJumped& e, const StoredRows&) {
    w_.observations_from = now_;
    for (auto& [id, machine] : w_.machines) {
        machine.last_heard = now_;
        free_boot_unseen(machine);
        if (machine.first_hello) machine.first_hello = now_;
        if (machine.row.state == MachineState::unknown && machine.row.absences > 0) {
            machine.row.absences = 0;
            save(machine);
        }
    }
    history({.at = now_, .kind = "clock_jumped", .reason = e.why});
    note("warn", "clock jumped: " + e.why + "; silence and settle periods count anew");
}

void Step::drive_machine(LiveMachine& machine) {
    MachineRecord& row = machine.row;
    if (row.state != MachineState::gone) renew(machine);
    switch (row.state) {
        case MachineState::gone:
            return;
        case MachineState::destroying: {
            drive_destroy(machine);
            const Millis trying = now_ - row.destroy_since.value_or(now_);
            const std::string key = "destroy/" + row.id.get();
            if (trying < w_.settings.destroy_alert || (machine.alerted && now_ - *machine.alerted < w_.settings.alert_repeat)) return;
            clear_alert(key);
            alert("machine_will_not_die", "critical", key,
                  row.provider.get() + " machine " + row.provider_id.get() + " (" + row.tag.get() + ") is still not gone after " +
                      duration_text(std::chrono::floor<Seconds>(trying)) + " and costs $" +
                      dollars(row.rate.value_or(row.offer.gpu_rate)) + "/h; destroying goes on",
                  &machine);
            machine.alerted = now_;
            return;
        }
        case MachineState::unknown: {
            if (row.reason == "orphan") return;
            const Instant since = std::max(row.call_ended.value_or(row.created_at), w_.observations_from);
            if (now_ - since < w_.settings.unknown_move || row.watch) return;
            // The task does not wait for ever. The row does: it keeps its reservation and stays on the watch list.
            row.watch = true;
            save(machine);
            if (holds_current(machine)) give_back(*task_of(machine), "create_outcome_unknown", "no answer about the machine yet");
            return;
        }
        case MachineState::requested:
            return;  // its call always ends, by an answer or by the client's time-out
        case MachineState::booting:
        case MachineState::ready:
        case MachineState::busy:
        case MachineState::draining:
        case MachineState::interrupted:
        case MachineState::lost:
            break;
    }
    LiveTask* task = holds_current(machine) ? task_of(machine) : nullptr;
    LiveJob* job = task ? job_of(*task) : nullptr;

    if (row.state == MachineState::interrupted) {
        if (now_ - row.idle_since.value_or(now_) >= w_.settings.patience) destroy(machine, "patience_over");
        return;
    }
    if (not_started_in_time(machine, task, job)) return;
    if (task && job) {
        leave_before_lease_ends(machine, *task, *job);
        if (leave_is_over(machine, *task, *job)) return;
    }
    if (!task && row.state == MachineState::ready) {
        if (may_hold_work(machine)) return;
        const bool wanted = w_.queued_jobs > 0 || std::ranges::any_of(w_.tasks, [](const auto& entry) {
            return entry.second.row.state == TaskState::waiting;
        });
        const Millis idle = now_ - row.idle_since.value_or(now_);
        if (idle >= w_.settings.idle_machine || (!wanted && row.reason != "agent_enrolled")) destroy(machine, "idle");
        return;
    }
    if (!task && (row.state == MachineState::busy || row.state == MachineState::draining)) {
        destroy(machine, "nobody_needs_it");
        return;
    }
    if (row.state == MachineState::booting) return;
    // Silence. The agent's silence alone proves nothing: the provider is asked, and only its own word, or a very long
    // silence, ends the attempt.
    const Millis silent = now_ - machine.last_heard;
    if (silent < w_.settings.silence) return;
    if (!machine.unreachable) {
        machine.unreachable = true;
        row.reason = "unreachable";
        save(machine);
        history({.at = now_, .kind = "machine_unreachable", .job = row.job, .task = row.task, .attempt = row.attempt,
                 .machine = row.id, .reason = "agent_silent"});
    }
    if (silent < w_.settings.long_silence) {
        if (now_ >= machine.next_call) call_read(machine);
        return;
    }
    const std::string detail = "no word from the agent for " + duration_text(std::chrono::floor<Seconds>(silent));
    if (row.state != MachineState::lost) move(machine, MachineState::lost, "long_silence", detail);
    mark_loss(machine, false, detail);
    cool(row.offer, "long_silence", true);
    destroy(machine, "long_silence", detail);
    if (task && job) {
        end_attempt(*task, Cause::host_fault, detail);
        recover(*job, *task, Cause::host_fault, detail);
    }
}

bool Step::not_started_in_time(LiveMachine& machine, LiveTask* task, LiveJob* job) {
    // From the create call (or the return) to the agent's word, from that to the report on the machine, and from that to the
    // start of the command.
    const MachineRecord& row = machine.row;
    const Instant created = std::max({row.call_ended.value_or(row.created_at), w_.observations_from, machine.back_at.value_or(Instant{})});
    const Instant greeted = std::max(machine.first_hello.value_or(created), w_.observations_from);
    const bool booting = row.state == MachineState::booting;
    const bool leased = task && task->attempt->state == AttemptState::leased;
    std::string detail;
    if (booting && machine.first_hello && !machine.checked && now_ - greeted >= w_.settings.machine_check)
        detail = "the agent connected, but did not report on the machine within " + duration_text(w_.settings.machine_check);
    else if (booting && now_ - created >= w_.settings.start)
        detail = (row.read_alive ? "no word from the agent within " : "the machine never appeared and its agent said no word within ") +
                 duration_text(w_.settings.start);
    else if (leased && !booting && now_ - greeted >= w_.settings.start)
        detail = "the command did not start within " + duration_text(w_.settings.start);
    if (detail.empty() || may_hold_work(machine)) return false;
    if (booting && !machine.first_hello && !machine.tunnel_trouble.empty()) detail += "; " + machine.tunnel_trouble;
    // The provider has shown it, and nobody spoke there: a container without its image says nothing either.
    const bool of_image = booting && !machine.first_hello && row.read_alive && task && job && image_at_fault(machine, *task, false);
    if (of_image)
        detail = "the image " + row.image + " has never come up, on " + std::to_string(task->image_doubted.size()) +
                 " machines: is it there, public or with image_auth, and for " + row.offer.arch + "? The last: " + detail;
    if (booting && !of_image) {
        mark_host(machine, HostEvent::boot_failure, detail);
        create_failed(machine, detail);
        learn_start(StartPhase::boot, machine, w_.settings.start);  // at least that long
    }
    const Cause cause = of_image ? Cause::user_error : Cause::start_timeout;
    if (!of_image) cool(row.offer, "start_timeout", true);
    destroy(machine, of_image ? "image_does_not_start" : "start_timeout", detail);
    if (task && job) {
        end_attempt(*task, cause, detail);
        recover(*job, *task, cause, detail);
    }
    return true;
}

bool Step::may_hold_work(const LiveMachine& machine) {
    const LiveTask* task = task_of(machine);
    return task && !task->attempt && task->row.state == TaskState::waiting && task->row.attempt == machine.row.attempt &&
           task->row.generation == 0 && task->row.not_before && now_ < *task->row.not_before && machine.back_at;
}

void Step::drive_task(LiveTask& task) {
    LiveJob* job = job_of(task);
    if (!job) return;
    if (!job->spec && task.attempt && task.attempt->state == AttemptState::leased) {
        LiveMachine* machine = machine_of(task);
        end_attempt(task, Cause::not_started, "the stored spec no longer parses");
        recover(*job, task, Cause::not_started, {});
        if (machine) destroy(*machine, "spec_unreadable");
        return;
    }
    // A stop that was decided before the daemon died, or whose commit failed, is asked for again.
    if (!task.stop_reason.empty() && task.attempt && !task.stop_sent) return stop_job(*job, task, std::string(task.stop_reason));
    if (task.stop_sent && task.stop_deadline && now_ >= *task.stop_deadline && task.attempt) {
        // It was asked and had its grace. The machine goes, and the attempt with it.
        LiveMachine* machine = machine_of(task);
        end_attempt(task, task.stop_reason == "duration" ? Cause::duration : Cause::cancelled, "did not stop in time");
        stop_over(*job, task);
        if (machine) destroy(*machine, "stop_timeout");
        return;
    }
    if (!task.attempt || task.attempt->state != AttemptState::running || !job->spec || task.stop_sent) return;
    look_at_deadline(*job, task);
    if (!job->spec->limits.duration) return;
    // The agent ends it by itself at the limit; this is for one that does not.
    const Millis ran = task.row.ran + (now_ - task.attempt->started_at.value_or(now_));
    if (ran > *job->spec->limits.duration + job->spec->checkpoint.grace + w_.settings.stop_slack) stop_job(*job, task, "duration");
}

void Step::on(const Tick&, const StoredRows&) {
    // Ids first: what is driven may leave the map.
    std::vector<MachineId> machines;
    machines.reserve(w_.machines.size());
    for (const auto& [id, machine] : w_.machines) machines.push_back(id);
    for (const MachineId& id : machines)
        if (const auto found = w_.machines.find(id); found != w_.machines.end()) drive_machine(found->second);
    std::vector<TaskId> tasks;
    tasks.reserve(w_.tasks.size());
    for (const auto& [id, task] : w_.tasks) tasks.push_back(id);
    for (const TaskId& id : tasks)
        if (const auto found = w_.tasks.find(id); found != w_.tasks.end()) drive_task(found->second);
    for (auto& [name, p] : w_.providers) drive_provider(p);
    forget_faint_marks();
}

}  // namespace gf
