#include <algorithm>
#include <array>
#include <string>

#include "db/guard.hpp"
#include "db/job_fields.hpp"
#include "db/job_tables.hpp"
#include "db/rows.hpp"

namespace gf::db {
namespace {

constexpr int kPageMax = 1000;

// One text per combination of filters, so that each has its own plan and walks its own index.
enum FilterBit : unsigned { by_state = 1, by_kind = 2, by_project = 4, by_cursor = 8 };

std::string page_sql(unsigned filters) {
    std::string where;
    const auto add = [&](unsigned bit, const char* condition) {
        if ((filters & bit) != 0) where += (where.empty() ? " WHERE " : " AND ") + std::string(condition);
    };
    add(by_state, "state = ?1");
    // A unary plus keeps a column from choosing the index: with a state or a project as well, those are the finer ones.
    add(by_kind, (filters & (by_state | by_project)) != 0 ? "+kind = ?2" : "kind = ?2");
    add(by_project, "project = ?3");
    add(by_cursor, "id < ?4");
    return std::string("SELECT ") + kJobColumns + " FROM jobs" + where + " ORDER BY id DESC LIMIT ?5";
}

const std::array<std::string, 16>& page_statements() {
    static const auto statements = [] {
        std::array<std::string, 16> all;
        for (unsigned filters = 0; filters < all.size(); ++filters) all[filters] = page_sql(filters);
        return all;
    }();
    return statements;
}

}  // namespace

void insert_job(Connection& db, const JobRecord& row) {
    static constexpr char sql[] =
        "INSERT INTO jobs (id, name, kind, project, state, reason, detail, priority, principal, local_allowed, "
        "created_at, updated_at, ended_at, exit_code, exit_signal, attempts, cancel_requested, hold_requested, "
        "spec_is_yaml, spec) "
        "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20)";
    Query q(db, sql);
    job_fields(row, [&](const auto&... f) { q.bind(f...); });
    q.run();
}

void update_job(Connection& db, const JobRecord& row, JobState was) {
    static constexpr char sql[] =
        "UPDATE jobs SET state = ?2, reason = ?3, detail = ?4, priority = ?5, updated_at = ?6, ended_at = ?7, "
        "exit_code = ?8, exit_signal = ?9, attempts = ?10, cancel_requested = ?11, hold_requested = ?12 "
        "WHERE id = ?1 AND state = ?13";
    Query q(db, sql);
    q.bind(row.id, row.state, row.reason, row.detail, row.priority, row.updated_at, row.ended_at, row.exit_code,
           row.exit_signal, row.attempts, row.cancel_requested, row.hold_requested, was);
    expect_one_row(db, q.run(), "jobs", row.id.get(), text(was), "SELECT state FROM jobs WHERE id = ?1");
}

std::optional<JobRecord> job_by_id(Connection& db, const JobId& id) {
    static const std::string sql = std::string("SELECT ") + kJobColumns + " FROM jobs WHERE id = ?1";
    Query q(db, sql.c_str());
    q.bind(id);
    return one_row<JobRecord>(q, read_job);
}

std::vector<JobRecord> job_page(Connection& db, const JobFilter& filter) {
    unsigned filters = 0;
    if (filter.state) filters |= by_state;
    if (filter.kind) filters |= by_kind;
    if (!filter.project.empty()) filters |= by_project;
    if (!filter.cursor.empty()) filters |= by_cursor;
    Query q(db, page_statements()[filters].c_str());
    q.bind(filter.state, filter.kind, filter.project, filter.cursor, std::clamp(filter.limit, 1, kPageMax));
    return all_rows<JobRecord>(q, read_job);
}

std::vector<JobRecord> live_jobs(Connection& db) {
    static const std::string sql =
        std::string("SELECT ") + kJobColumns + " FROM jobs WHERE id IN (" + kLiveJobIds + ") ORDER BY id";
    Query q(db, sql.c_str());
    return all_rows<JobRecord>(q, read_job);
}

void add_to_tally(Connection& db, const std::map<JobState, std::int64_t>& changes) {
    static constexpr char sql[] = "UPDATE job_tally SET jobs = jobs + ?2 WHERE state = ?1";
    for (const auto& [state, by] : changes) {
        if (by == 0) continue;
        Query q(db, sql);
        q.bind(state, by);
        q.run();
    }
}

JobCounts job_tally(Connection& db) {
    static constexpr char sql[] = "SELECT jobs FROM job_tally WHERE state = ?1";
    JobCounts counts;
    for (const auto& [state, name] : EnumNames<JobState>::table) {
        Query q(db, sql);
        q.put_text(name);
        counts.by_state.emplace_back(state, q.step() ? q.take_integer() : 0);
    }
    return counts;
}

}  // namespace gf::db
