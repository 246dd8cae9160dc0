#include <algorithm>
#include <string>

#include "db/columns.hpp"
#include "db/history_tables.hpp"
#include "db/rows.hpp"

namespace gf::db {
namespace {

constexpr int kEventsMax = 10'000;
constexpr int kAlertsMax = 10'000;

constexpr char kColumns[] = "seq, at, kind, job, task, attempt, machine, state, reason, detail";

void read_event(Query& q, EventRecord& r) {
    q.read(r.seq, r.at, r.kind, r.job, r.task, r.attempt, r.machine, r.state, r.reason, r.detail);
}

void read_mark(Query& q, EventMark& mark) { q.read(mark.seq, mark.at); }

constexpr char kAlertColumns[] = "id, at, kind, severity, dedupe, job, machine, provider, text, cleared_at";

template <class Row, class Use>
void alert_fields(Row& r, Use use) {
    use(r.id, r.at, r.kind, r.severity, r.dedupe, r.job, r.machine, r.provider, r.text, r.cleared_at);
}

}  // namespace

void insert_event(Connection& db, const EventRecord& r, std::int64_t seq) {
    static const std::string sql = std::string("INSERT INTO events (") + kColumns +
                                   ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
    Query q(db, sql.c_str());
    q.bind(seq, r.at, r.kind, r.job, r.task, r.attempt, r.machine, r.state, r.reason, r.detail);
    q.run();
}

std::vector<EventRecord> events_after(Connection& db, std::int64_t after, int limit) {
    static const std::string sql =
        std::string("SELECT ") + kColumns + " FROM events WHERE seq > ?1 ORDER BY seq LIMIT ?2";
    Query q(db, sql.c_str());
    q.bind(after, std::clamp(limit, 0, kEventsMax));
    return all_rows<EventRecord>(q, read_event);
}

std::vector<EventRecord> events_of_job(Connection& db, const JobId& job, std::int64_t after, int limit) {
    static const std::string sql =
        std::string("SELECT ") + kColumns + " FROM events WHERE job = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3";
    Query q(db, sql.c_str());
    q.bind(job, after, std::clamp(limit, 0, kEventsMax));
    return all_rows<EventRecord>(q, read_event);
}

std::optional<EventMark> newest_event(Connection& db) {
    static constexpr char sql[] = "SELECT seq, at FROM events ORDER BY seq DESC LIMIT 1";
    Query q(db, sql);
    return one_row<EventMark>(q, read_mark);
}

std::optional<EventMark> event_from(Connection& db, std::int64_t seq) {
    static constexpr char sql[] = "SELECT seq, at FROM events WHERE seq >= ?1 ORDER BY seq LIMIT 1";
    Query q(db, sql);
    q.bind(seq);
    return one_row<EventMark>(q, read_mark);
}

int delete_events(Connection& db, std::int64_t before_seq, Instant ended_before, int limit) {
    static constexpr char sql[] =
        "DELETE FROM events WHERE seq IN (SELECT seq FROM events LEFT JOIN jobs ON jobs.id = events.job "
        "WHERE seq < ?1 AND (jobs.id IS NULL OR jobs.ended_at < ?2) ORDER BY seq LIMIT ?3)";
    Query q(db, sql);
    q.bind(before_seq, ended_before, limit);
    return q.run();
}

void put_alert(Connection& db, const AlertRecord& row) {
    static const std::string sql =
        std::string("INSERT INTO alerts (") + kAlertColumns +
        ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) ON CONFLICT (id) DO UPDATE SET at = excluded.at, "
        "kind = excluded.kind, severity = excluded.severity, dedupe = excluded.dedupe, job = excluded.job, "
        "machine = excluded.machine, provider = excluded.provider, text = excluded.text, "
        "cleared_at = excluded.cleared_at";
    Query q(db, sql.c_str());
    alert_fields(row, [&](const auto&... f) { q.bind(f...); });
    q.run();
}

std::vector<AlertRecord> alerts(Connection& db, bool open_only, int limit) {
    static const std::string select = std::string("SELECT ") + kAlertColumns + " FROM alerts ";
    static const std::string all = select + "ORDER BY id DESC LIMIT ?1";
    static const std::string open = select + "WHERE cleared_at IS NULL ORDER BY id DESC LIMIT ?1";
    Query q(db, (open_only ? open : all).c_str());
    q.bind(std::clamp(limit, 0, kAlertsMax));
    return all_rows<AlertRecord>(q, [](Query& r, AlertRecord& row) {
        alert_fields(row, [&](auto&... f) { r.read(f...); });
    });
}

}  // namespace gf::db
