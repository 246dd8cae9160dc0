// Commands of people and programs. Each is answered after the commit that makes it true.
#include <nlohmann/json.hpp>

#include "daemon/orchestrator/step.hpp"

namespace gf {
namespace {

constexpr std::int64_t kQueueSmall = 64;  // beyond one page, submissions do not start a placement pass of their own

std::string quoted(const std::string& text) {
    return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// Put together by hand: it is what every submission is answered with, and a tree of values would be most of its allocations.
std::string job_json(const JobRecord& job, bool repeated = false) {
    std::string body;
    body.reserve(320);
    body.append(R"({"attempts":)").append(std::to_string(job.attempts));
    body.append(R"(,"created_at":")").append(rfc3339(job.created_at));
    body.append(R"(","id":")").append(job.id.get());
    body.append(R"(","kind":")").append(text(job.kind));
    body.append(R"(","name":)").append(quoted(job.name));
    body.append(R"(,"project":)").append(quoted(job.project));
    body.append(R"(,"reason":)").append(quoted(job.reason));
    body.append(R"(,"state":")").append(text(job.state)).append("\"");
    if (repeated) body.append(R"(,"repeated":true)");
    return body.append("}");
}

}  // namespace

void Step::on(const SubmitJob& e, const StoredRows& rows) {
    GF_ASSERT(e.spec != nullptr);
    if (const auto& earlier = rows.idempotency) {
        if (earlier->body_sha256 != e.body_sha256)
            return refuse(e.request, 422,
                          Error{.kind = ErrorKind::conflict,
                                .message = "this Idempotency-Key was used with another body", .field = "Idempotency-Key"});
        GF_ASSERT(rows.job && rows.job->id == earlier->job);
        return reply(e.request, 201, job_json(*rows.job, true), "/v1/jobs/" + earlier->job.get());
    }
    JobRecord job{.id = JobId{w_.ids.make("job_", now_)}, .name = e.spec->name, .kind = e.spec->kind,
                  .project = e.spec->project, .state = JobState::queued, .reason = "submitted", .detail = {},
                  .priority = e.spec->priority, .spec = e.spec_text, .spec_is_yaml = e.spec_is_yaml,
                  .principal = e.principal, .local_allowed = e.local_allowed, .created_at = now_, .updated_at = now_};
    TaskRecord task{.id = TaskId{w_.ids.make("tsk_", now_)}, .job = job.id};
    task.reason = "submitted";
    task.waiting_since = now_;
    task.created_at = now_;
    task.priority = job.priority;
    const JobId id = job.id;
    reply(e.request, 201, job_json(job), "/v1/jobs/" + id.get());
    // The job before what refers to it: the store then has no reference to settle later.
    out_.rows.push_back(PutJob{std::move(job), std::nullopt});
    out_.rows.push_back(PutTask{std::move(task), std::nullopt});
    history({.at = now_, .kind = "job_state", .job = id, .state = "queued", .reason = "submitted", .detail = e.principal});
    if (!e.idempotency_key.empty())
        out_.rows.push_back(AddIdempotency{{.principal = e.principal, .key = e.idempotency_key, .body_sha256 = e.body_sha256,
                                            .job = id, .created_at = now_}});
    ++w_.queued_jobs;
    if (w_.queued_jobs <= kQueueSmall) w_.queue_dirty = true;
}

void Step::on(const CommandJob& e, const StoredRows& rows) {
    auto live = w_.jobs.find(e.job);
    if (live == w_.jobs.end()) {
        if (!rows.job)
            return refuse(e.request, 404, Error{.kind = ErrorKind::not_found, .message = "no job " + e.job.get()});
        live = w_.jobs.emplace(e.job, LiveJob{*rows.job, rows.spec}).first;
        for (const TaskRecord& row : rows.tasks) w_.tasks[row.id] = LiveTask{.row = row, .attempt = {}};
    }
    touched_.push_back(e.job);
    LiveJob& job = live->second;
    LiveTask* task = task_of_job(e.job);
    GF_ASSERT(task != nullptr);
    const JobState state = job.row.state;
    const auto impossible = [&](std::string_view why) {
        refuse(e.request, 409, Error{.kind = ErrorKind::conflict,
                                     .message = "cannot " + std::string(text(e.verb)) + " a job that is " +
                                                std::string(text(state)) + std::string(why)});
    };
    history({.at = now_, .kind = "command", .job = e.job, .reason = std::string(text(e.verb)), .detail = e.principal});
    if (w_.queue_holder && w_.queue_holder->job.id == e.job) w_.queue_holder.reset();
    switch (e.verb) {
        case JobVerb::cancel:
            if (state == JobState::cancelled) break;
            if (is_final(state)) return impossible(": it is over");
            job.row.cancel_requested = true;
            if (state != JobState::stopping || task->stop_reason != "cancelled") stop_job(job, *task, "cancelled");
            break;
        case JobVerb::hold:
            if (state == JobState::held) break;
            if (is_final(state) || state == JobState::stopping) return impossible("");
            job.row.hold_requested = true;
            stop_job(job, *task, "held");
            break;
        case JobVerb::release: {
            if (state != JobState::held) return impossible("");
            job.row.hold_requested = false;
            task->row.not_before.reset();
            task->row.waiting_since = now_;
            save(*task);
            w_.queue_dirty = true;
            move(job, task->row.attempt > 0 ? JobState::recovering : JobState::queued, "released");
            break;
        }
        case JobVerb::retry:
            if (state != JobState::failed && state != JobState::cancelled) return impossible("");
            job.row.cancel_requested = false;
            job.row.hold_requested = false;
            job.row.exit_code.reset();
            job.row.exit_signal.reset();
            task->stop_reason.clear();
            task->row.retries = {};
            task->row.not_before.reset();
            task->row.ran = Millis{0};
            move(*task, TaskState::waiting, "retry");
            move(job, JobState::queued, "retry");
            break;
    }
    reply(e.request, 200, job_json(job.row));
}

void Step::on(const CommandMachine& e, const StoredRows& rows) {
    const auto found = w_.machines.find(e.machine);
    if (found == w_.machines.end()) {
        if (rows.machines.empty())
            return refuse(e.request, 404, Error{.kind = ErrorKind::not_found, .message = "no machine " + e.machine.get()});
        if (e.verb == MachineVerb::destroy) return reply(e.request, 200, R"({"state":"gone"})");
        return refuse(e.request, 409, Error{.kind = ErrorKind::conflict, .message = "machine " + e.machine.get() + " is gone"});
    }
    LiveMachine& machine = found->second;
    history({.at = now_, .kind = "command", .job = machine.row.job, .machine = e.machine,
             .reason = e.verb == MachineVerb::destroy ? "destroy" : "adopt", .detail = e.principal});
    clear_alert("orphan/" + e.machine.get());
    if (e.verb == MachineVerb::adopt) {
        if (machine.row.state != MachineState::unknown || machine.row.provider_id.empty())
            return refuse(e.request, 409,
                          Error{.kind = ErrorKind::conflict,
                                .message = "only an orphan can be adopted; this machine is " + std::string(text(machine.row.state))});
        move(machine, MachineState::booting, "adopted");
        reserve_rolling(machine);
        return reply(e.request, 200, R"({"state":"booting"})");
    }
    if (machine.row.state == MachineState::gone) return reply(e.request, 200, R"({"state":"gone"})");
    if (machine.row.provider_id.empty())
        return refuse(e.request, 409,
                      Error{.kind = ErrorKind::conflict,
                            .message = "the provider has not told an id for this machine yet; it is destroyed the moment it is "
                                       "known if its job is cancelled"});
    LiveTask* task = holds_current(machine) ? task_of(machine) : nullptr;
    destroy(machine, "by_request", e.principal);
    if (task) {
        end_attempt(*task, Cause::host_fault, "the machine was destroyed by request");
        if (LiveJob* job = job_of(*task)) recover(*job, *task, Cause::host_fault, "the machine was destroyed by request");
    }
    reply(e.request, 202, R"({"state":"destroying"})");
}

void Step::on(const PutTokenCommand& e, const StoredRows&) {
    out_.rows.push_back(PutToken{e.token});
    history({.at = now_, .kind = "command", .reason = e.token.revoked_at ? "token_revoked" : "token_made", .detail = e.token.name});
    reply(e.request, e.token.revoked_at ? 200 : 201,
          nlohmann::json{{"id", e.token.id.get()}, {"name", e.token.name}, {"role", text(e.token.role)}}.dump());
}

}  // namespace gf
