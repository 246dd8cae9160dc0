#include <string>

#include "db/guard.hpp"
#include "db/job_fields.hpp"
#include "db/job_tables.hpp"
#include "db/rows.hpp"

namespace gf::db {

void insert_task(Connection& db, const TaskRecord& row, const std::string& project) {
    static constexpr char sql[] =
        "INSERT INTO tasks (id, job, place, state, reason, attempt, generation, step, spot_lost, host_fault, "
        "start_timeout, gpu_oom, host_oom, no_progress, user_error, without_progress, not_before, vram_above, ran, "
        "waiting_since, priority, created_at, memory_above, project) "
        "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, "
        "?24)";
    Query q(db, sql);
    task_fields(row, [&](const auto&... f) { q.bind(f...); });
    q.bind(project);
    q.run();
}

void take_project_of_job(Connection& db, const TaskId& task) {
    // Without a job it keeps none: the reference is refused at the end of the transaction.
    static constexpr char sql[] =
        "UPDATE tasks SET project = coalesce((SELECT jobs.project FROM jobs WHERE jobs.id = tasks.job), '') WHERE id = ?1";
    Query q(db, sql);
    q.bind(task);
    q.run();
}

void update_task(Connection& db, const TaskRecord& row, TaskState was) {
    static constexpr char sql[] =
        "UPDATE tasks SET state = ?4, reason = ?5, attempt = ?6, generation = ?7, step = ?8, spot_lost = ?9, "
        "host_fault = ?10, start_timeout = ?11, gpu_oom = ?12, host_oom = ?13, no_progress = ?14, user_error = ?15, "
        "without_progress = ?16, not_before = ?17, vram_above = ?18, ran = ?19, waiting_since = ?20, priority = ?21, "
        "memory_above = ?23 WHERE id = ?1 AND state = ?24";
    Query q(db, sql);
    task_fields(row, [&](const auto&... f) { q.bind(f...); });
    q.bind(was);
    expect_one_row(db, q.run(), "tasks", row.id.get(), text(was), "SELECT state FROM tasks WHERE id = ?1");
}

std::vector<TaskRecord> tasks_of_job(Connection& db, const JobId& job) {
    static const std::string sql =
        std::string("SELECT ") + kTaskColumns + " FROM tasks WHERE job = ?1 ORDER BY place";
    Query q(db, sql.c_str());
    q.bind(job);
    return all_rows<TaskRecord>(q, read_task);
}

std::vector<TaskRecord> live_tasks(Connection& db) {
    static const std::string sql =
        std::string("SELECT ") + kTaskColumns + " FROM tasks WHERE job IN (" + kLiveJobIds + ") ORDER BY id";
    Query q(db, sql.c_str());
    return all_rows<TaskRecord>(q, read_task);
}

}  // namespace gf::db
