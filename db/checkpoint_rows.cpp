#include <limits>
#include <string>

#include "db/columns.hpp"
#include "db/guard.hpp"
#include "db/history_tables.hpp"
#include "db/rows.hpp"

namespace gf::db {
namespace {

constexpr char kColumns[] =
    "id, task, job, generation, attempt, step, size, manifest_sha256, state, detail, committed_at";

template <class Row, class Use>
void fields(Row& r, Use use) {
    use(r.id, r.task, r.job, r.generation, r.attempt, r.step, r.size, r.manifest_sha256, r.state, r.detail,
        r.committed_at);
}
void read_row(Query& q, CheckpointRecord& row) {
    fields(row, [&](auto&... f) { q.read(f...); });
}

constexpr char kOutputColumns[] = "job, task, attempt, size, files, manifest_sha256, published_at";

template <class Row, class Use>
void output_fields(Row& r, Use use) {
    use(r.job, r.task, r.attempt, r.size, r.files, r.manifest_sha256, r.published_at);
}

}  // namespace

void insert_checkpoint(Connection& db, const CheckpointRecord& row) {
    static const std::string sql = std::string("INSERT INTO checkpoints (") + kColumns +
                                   ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
    Query q(db, sql.c_str());
    fields(row, [&](const auto&... f) { q.bind(f...); });
    q.run();
}

void set_checkpoint_state(Connection& db, const SetCheckpointState& change) {
    static constexpr char sql[] =
        "UPDATE checkpoints SET state = ?3, detail = ?4 WHERE task = ?1 AND generation = ?2";
    Query q(db, sql);
    q.bind(change.task, change.generation, change.state, change.detail);
    if (q.run() != 1)
        broken_invariant("checkpoints: task " + change.task.get() + " has no generation " +
                         std::to_string(change.generation) + " to become '" + std::string(text(change.state)) + "'");
}

void prune_checkpoints(Connection& db, const PruneCheckpoints& change) {
    static constexpr char sql[] =
        "UPDATE checkpoints SET state = 'pruned', detail = 'retention' WHERE task = ?1 AND state = 'whole' AND generation <= "
        "(SELECT generation FROM checkpoints WHERE task = ?1 AND state = 'whole' ORDER BY generation DESC LIMIT 1 OFFSET ?2)";
    Query q(db, sql);
    q.bind(change.task, change.keep);
    q.run();
}

std::vector<CheckpointRecord> checkpoints_of_job(Connection& db, const JobId& job) {
    static const std::string sql =
        std::string("SELECT ") + kColumns + " FROM checkpoints WHERE job = ?1 ORDER BY task, generation";
    Query q(db, sql.c_str());
    q.bind(job);
    return all_rows<CheckpointRecord>(q, read_row);
}

std::optional<CheckpointRecord> newest_whole_checkpoint(Connection& db, const TaskId& task, std::int64_t at_most) {
    static const std::string sql = std::string("SELECT ") + kColumns +
                                   " FROM checkpoints WHERE task = ?1 AND generation <= ?2 AND state = 'whole' "
                                   "ORDER BY generation DESC LIMIT 1";
    Query q(db, sql.c_str());
    q.bind(task, at_most == 0 ? std::numeric_limits<std::int64_t>::max() : at_most);
    return one_row<CheckpointRecord>(q, read_row);
}

void put_output(Connection& db, const OutputRecord& row) {
    static const std::string sql =
        std::string("INSERT INTO outputs (") + kOutputColumns +
        ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (task) DO UPDATE SET job = excluded.job, "
        "attempt = excluded.attempt, size = excluded.size, files = excluded.files, "
        "manifest_sha256 = excluded.manifest_sha256, published_at = excluded.published_at";
    Query q(db, sql.c_str());
    output_fields(row, [&](const auto&... f) { q.bind(f...); });
    q.run();
}

std::vector<OutputRecord> outputs_of_job(Connection& db, const JobId& job) {
    static const std::string sql =
        std::string("SELECT ") + kOutputColumns + " FROM outputs WHERE job = ?1 ORDER BY task";
    Query q(db, sql.c_str());
    q.bind(job);
    return all_rows<OutputRecord>(q, [](Query& r, OutputRecord& row) {
        output_fields(row, [&](auto&... f) { r.read(f...); });
    });
}

}  // namespace gf::db
