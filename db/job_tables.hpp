// Statements on jobs, tasks and attempts. A function is one statement; all throw SqliteError. Guarded updates abort when
// the row is not in the state that the core believed it to be in (db/guard.hpp).
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "db/sqlite.hpp"
#include "db/store.hpp"
#include "model/records.hpp"

namespace gf::db {

void insert_job(Connection& db, const JobRecord& row);
/// Leaves id, name, kind, project, principal, origin, created_at and the spec as they were inserted: they never change.
void update_job(Connection& db, const JobRecord& row, JobState was);
[[nodiscard]] std::optional<JobRecord> job_by_id(Connection& db, const JobId& id);
[[nodiscard]] std::vector<JobRecord> job_page(Connection& db, const JobFilter& filter);
/// Jobs that are neither queued nor final, and those of live machines.
[[nodiscard]] std::vector<JobRecord> live_jobs(Connection& db);
/// Jobs per state, as they change by a batch.
void add_to_tally(Connection& db, const std::map<JobState, std::int64_t>& changes);
[[nodiscard]] JobCounts job_tally(Connection& db);

/// `project`: of its job; where that is not known yet, `take_project_of_job` comes before the end of the batch.
void insert_task(Connection& db, const TaskRecord& row, const std::string& project);
void take_project_of_job(Connection& db, const TaskId& task);
void update_task(Connection& db, const TaskRecord& row, TaskState was);
[[nodiscard]] std::vector<TaskRecord> tasks_of_job(Connection& db, const JobId& job);
/// Tasks of `live_jobs`.
[[nodiscard]] std::vector<TaskRecord> live_tasks(Connection& db);
[[nodiscard]] QueueRows queue_page(Connection& db, const QueueCursor& after, int limit, Instant now);

void insert_attempt(Connection& db, const AttemptRecord& row);
void update_attempt(Connection& db, const AttemptRecord& row, AttemptState was);
[[nodiscard]] std::vector<AttemptRecord> attempts_of_job(Connection& db, const JobId& job);
[[nodiscard]] std::optional<AttemptRecord> attempt_by_id(Connection& db, const AttemptId& id);
[[nodiscard]] std::vector<AttemptRecord> live_attempts(Connection& db);

}  // namespace gf::db
