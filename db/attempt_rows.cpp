#include <string>

#include "db/columns.hpp"
#include "db/guard.hpp"
#include "db/job_tables.hpp"
#include "db/rows.hpp"

namespace gf::db {
namespace {

constexpr char kColumns[] =
    "id, task, job, number, state, cause, detail, machine, created_at, started_at, ended_at, exit_code, exit_signal, "
    "start_generation, progress_step, progress_total";

template <class Row, class Use>
void fields(Row& r, Use use) {
    use(r.id, r.task, r.job, r.number, r.state, r.cause, r.detail, r.machine, r.created_at, r.started_at, r.ended_at,
        r.exit_code, r.exit_signal, r.start_generation, r.progress_step, r.progress_total);
}

void read_row(Query& q, AttemptRecord& row) {
    fields(row, [&](auto&... f) { q.read(f...); });
}

}  // namespace

void insert_attempt(Connection& db, const AttemptRecord& row) {
    static const std::string sql = std::string("INSERT INTO attempts (") + kColumns +
                                   ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)";
    Query q(db, sql.c_str());
    fields(row, [&](const auto&... f) { q.bind(f...); });
    q.run();
}

void update_attempt(Connection& db, const AttemptRecord& row, AttemptState was) {
    static constexpr char sql[] =
        "UPDATE attempts SET state = ?5, cause = ?6, detail = ?7, machine = ?8, started_at = ?10, ended_at = ?11, "
        "exit_code = ?12, exit_signal = ?13, start_generation = ?14, progress_step = ?15, progress_total = ?16 "
        "WHERE id = ?1 AND state = ?17";
    Query q(db, sql);
    fields(row, [&](const auto&... f) { q.bind(f...); });
    q.bind(was);
    expect_one_row(db, q.run(), "attempts", row.id.get(), text(was), "SELECT state FROM attempts WHERE id = ?1");
}

std::vector<AttemptRecord> attempts_of_job(Connection& db, const JobId& job) {
    static const std::string sql = std::string("SELECT ") + kColumns + " FROM attempts WHERE job = ?1 ORDER BY id";
    Query q(db, sql.c_str());
    q.bind(job);
    return all_rows<AttemptRecord>(q, read_row);
}

std::optional<AttemptRecord> attempt_by_id(Connection& db, const AttemptId& id) {
    static const std::string sql = std::string("SELECT ") + kColumns + " FROM attempts WHERE id = ?1";
    Query q(db, sql.c_str());
    q.bind(id);
    return one_row<AttemptRecord>(q, read_row);
}

std::vector<AttemptRecord> live_attempts(Connection& db) {
    static const std::string sql =
        std::string("SELECT ") + kColumns + " FROM attempts INDEXED BY attempts_one_live WHERE state <> 'ended' ORDER BY id";
    Query q(db, sql.c_str());
    return all_rows<AttemptRecord>(q, read_row);
}

}  // namespace gf::db
