// The columns of jobs and tasks in the one order in which they are bound and read. Both tables are read together by the
// queue, hence a header.
#pragma once
#include "db/columns.hpp"
#include "model/records.hpp"

namespace gf::db {

inline constexpr char kJobColumns[] =
    "jobs.id, jobs.name, jobs.kind, jobs.project, jobs.state, jobs.reason, jobs.detail, jobs.priority, jobs.principal, "
    "jobs.local_allowed, jobs.created_at, jobs.updated_at, jobs.ended_at, jobs.exit_code, jobs.exit_signal, "
    "jobs.attempts, jobs.cancel_requested, jobs.hold_requested, jobs.spec_is_yaml, jobs.spec";

template <class Row, class Use>
void job_fields(Row& r, Use use) {
    use(r.id, r.name, r.kind, r.project, r.state, r.reason, r.detail, r.priority, r.principal, r.local_allowed,
        r.created_at, r.updated_at, r.ended_at, r.exit_code, r.exit_signal, r.attempts, r.cancel_requested,
        r.hold_requested, r.spec_is_yaml, r.spec);
}

inline constexpr char kTaskColumns[] =
    "tasks.id, tasks.job, tasks.place, tasks.state, tasks.reason, tasks.attempt, tasks.generation, tasks.step, "
    "tasks.spot_lost, tasks.host_fault, tasks.start_timeout, tasks.gpu_oom, tasks.host_oom, tasks.no_progress, "
    "tasks.user_error, tasks.without_progress, tasks.not_before, tasks.vram_above, tasks.ran, tasks.waiting_since, "
    "tasks.priority, tasks.created_at, tasks.memory_above";

template <class Row, class Use>
void task_fields(Row& r, Use use) {
    auto& n = r.retries;
    use(r.id, r.job, r.index, r.state, r.reason, r.attempt, r.generation, r.step, n.spot_lost, n.host_fault,
        n.start_timeout, n.gpu_oom, n.host_oom, n.no_progress, n.user_error, n.without_progress, r.not_before,
        r.vram_above, r.ran, r.waiting_since, r.priority, r.created_at, r.memory_above);
}

inline void read_job(Query& q, JobRecord& row) {
    job_fields(row, [&](auto&... f) { q.read(f...); });
}
inline void read_task(Query& q, TaskRecord& row) {
    task_fields(row, [&](auto&... f) { q.read(f...); });
}

/// Ids of the jobs that a rebuild needs: neither queued nor final, or the owner of a machine that still is, or whose
/// outcome is watched.
inline constexpr char kLiveJobIds[] =
    "SELECT id FROM jobs WHERE state IN ('provisioning', 'starting', 'running', 'recovering', 'stopping', 'held') "
    "UNION SELECT job FROM machines WHERE (state <> 'gone' OR watch = 1) AND job IS NOT NULL";

}  // namespace gf::db
