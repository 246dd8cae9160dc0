#include "daemon/orchestrator/step.hpp"

#include <algorithm>

namespace gf {

void Step::move(LiveJob& job, JobState to, std::string_view reason, std::string_view detail) {
    const JobState from = job.row.state;
    GF_ASSERT(may_become(from, to));
    if (from == to && job.row.reason == reason && job.row.detail == detail) return;
    job.row.state = to;
    job.row.reason = reason;
    job.row.detail = detail;
    job.row.updated_at = now_;
    if (is_final(to)) job.row.ended_at = now_;
    else job.row.ended_at.reset();
    // A queued job lives in the store only; the count saves a scan of a million rows.
    if (from == JobState::queued && to != JobState::queued) --w_.queued_jobs;
    if (from != JobState::queued && to == JobState::queued) ++w_.queued_jobs;
    out_.rows.push_back(PutJob{job.row, from});
    touched_.push_back(job.row.id);
    history({.at = now_, .kind = "job_state", .job = job.row.id, .state = std::string(text(to)),
             .reason = std::string(reason), .detail = std::string(detail)});
}

void Step::move(LiveTask& task, TaskState to, std::string_view reason) {
    const TaskState from = task.row.state;
    GF_ASSERT(may_become(from, to));
    task.row.state = to;
    task.row.reason = reason;
    if (to == TaskState::waiting && from != to) {
        task.row.waiting_since = now_;
        w_.queue_dirty = true;
    }
    out_.rows.push_back(PutTask{task.row, from});
}

void Step::move(LiveTask& task, AttemptState to, std::string_view reason) {
    GF_ASSERT(task.attempt.has_value());
    AttemptRecord& attempt = *task.attempt;
    const AttemptState from = attempt.state;
    GF_ASSERT(may_become(from, to));
    attempt.state = to;
    out_.rows.push_back(PutAttempt{attempt, from});
    history({.at = now_, .kind = "attempt_state", .job = attempt.job, .task = attempt.task, .attempt = attempt.number,
             .machine = attempt.machine, .state = std::string(text(to)), .reason = std::string(reason),
             .detail = attempt.detail});
}

void Step::move(LiveMachine& machine, MachineState to, std::string_view reason, std::string_view detail) {
    const MachineState from = machine.row.state;
    GF_ASSERT(may_become(from, to));
    machine.row.state = to;
    machine.row.reason = reason;
    if (to == MachineState::destroying && !machine.row.destroy_since) machine.row.destroy_since = now_;
    if (to == MachineState::gone) machine.row.gone_at = told_at_;
    else machine.row.gone_at.reset();
    out_.rows.push_back(PutMachine{machine.row, from});
    history({.at = now_, .kind = "machine_state", .job = machine.row.job, .task = machine.row.task,
             .attempt = machine.row.attempt, .machine = machine.row.id, .state = std::string(text(to)),
             .reason = std::string(reason), .detail = std::string(detail)});
    learn_life(machine, from, to);
}

void Step::save(LiveMachine& machine) { out_.rows.push_back(PutMachine{machine.row, machine.row.state}); }
void Step::save(LiveTask& task) { out_.rows.push_back(PutTask{task.row, task.row.state}); }
void Step::save_attempt(LiveTask& task) {
    GF_ASSERT(task.attempt.has_value());
    out_.rows.push_back(PutAttempt{*task.attempt, task.attempt->state});
}

void Step::history(EventRecord event) { out_.rows.push_back(AddEvent{std::move(event)}); }

void Step::alert(std::string_view kind, std::string_view severity, std::string dedupe, std::string message,
                 const LiveMachine* machine, const ProviderName& of) {
    if (w_.open_alerts.contains(dedupe)) return;
    AlertRecord row{.id = AlertId{w_.ids.make("alr_", now_)}, .at = now_, .kind = std::string(kind),
                    .severity = std::string(severity), .dedupe = dedupe,
                    .job = machine ? machine->row.job : JobId{}, .machine = machine ? machine->row.id : MachineId{},
                    .provider = machine ? machine->row.provider : of, .text = message, .cleared_at = {}};
    out_.rows.push_back(PutAlert{row});
    history({.at = now_, .kind = "alert", .job = row.job, .machine = row.machine, .state = std::string(severity),
             .reason = std::string(kind), .detail = message});
    note(severity == "info" ? "info" : "warn", std::string(kind) + ": " + message);
    w_.open_alerts.emplace(std::move(dedupe), std::move(row));
}

void Step::clear_alert(const std::string& dedupe) {
    const auto found = w_.open_alerts.find(dedupe);
    if (found == w_.open_alerts.end()) return;
    found->second.cleared_at = now_;
    out_.rows.push_back(PutAlert{found->second});
    w_.open_alerts.erase(found);
}

void Step::note(std::string_view level, std::string message) { effect(Note{std::string(level), std::move(message)}); }

void Step::reply(RequestId to, int status, std::string json, std::string location) {
    if (to == 0) return;
    effect(Reply{to, ApiResult{.status = status, .json = std::move(json), .location = std::move(location), .error = {}}});
}

void Step::refuse(RequestId to, int status, Error error) {
    if (to == 0) return;
    effect(Reply{to, ApiResult{.status = status, .json = {}, .location = {}, .error = std::move(error)}});
}

void Step::send(const LiveMachine& machine, agent_protocol::ToAgent message) {
    effect(SendToAgent{machine.row.id, std::move(message)});
}

LiveJob* Step::job_of(const LiveTask& task) {
    const auto found = w_.jobs.find(task.row.job);
    return found == w_.jobs.end() ? nullptr : &found->second;
}

LiveTask* Step::task_of(const LiveMachine& machine) {
    const auto found = w_.tasks.find(machine.row.task);
    return found == w_.tasks.end() ? nullptr : &found->second;
}

LiveMachine* Step::machine_of(const LiveTask& task) {
    if (!task.attempt) return nullptr;
    const auto found = w_.machines.find(task.attempt->machine);
    return found == w_.machines.end() ? nullptr : &found->second;
}

LiveTask* Step::task_of_job(const JobId& job) {
    for (auto& [id, task] : w_.tasks)
        if (task.row.job == job) return &task;
    return nullptr;
}

LiveProvider* Step::provider(const ProviderName& name) {
    const auto found = w_.providers.find(name.get());
    return found == w_.providers.end() ? nullptr : &found->second;
}

bool Step::holds_current(const LiveMachine& machine) {
    const LiveTask* task = task_of(machine);
    return task && task->attempt && task->attempt->machine == machine.row.id &&
           task->attempt->number == machine.row.attempt;
}

Millis Step::backoff(int tries) {
    Millis wait = w_.settings.backoff_first;
    for (int i = 1; i < tries && wait < w_.settings.backoff_max; ++i) wait *= 2;
    wait = std::min(wait, w_.settings.backoff_max);
    // A quarter of jitter, so that many machines that failed together do not come back together.
    return wait + Millis{static_cast<std::int64_t>(w_.entropy.below(static_cast<std::uint64_t>(wait.count() / 4 + 1)))};
}

Effects Step::take() {
    look_at_queue();
    drop_idle_jobs();
    return std::move(out_);
}

void Step::drop_idle_jobs() {
    // Only at the end of a step, so that no reference held inside it dies. Queued, held and final jobs live in the store.
    for (const JobId& id : touched_) {
        const auto found = w_.jobs.find(id);
        if (found == w_.jobs.end()) continue;
        const JobState state = found->second.row.state;
        if (!is_final(state) && state != JobState::queued && state != JobState::held) continue;
        std::erase_if(w_.tasks, [&](const auto& entry) { return entry.second.row.job == id; });
        w_.decisions_written.erase(id);
        if (w_.queue_read_open) w_.left_since_read.insert(id);
        w_.jobs.erase(found);
    }
}

}  // namespace gf
