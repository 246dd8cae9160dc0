#include <string>

#include "db/columns.hpp"
#include "db/machine_tables.hpp"
#include "db/rows.hpp"

namespace gf::db {
namespace {

constexpr char kReservationColumns[] = "machine, job, project, amount, from_at, until_at, released_at";

template <class Row, class Use>
void reservation_fields(Row& r, Use use) {
    use(r.machine, r.job, r.project, r.amount, r.from, r.until, r.released_at);
}
void read_reservation(Query& q, ReservationRecord& row) {
    reservation_fields(row, [&](auto&... f) { q.read(f...); });
}

constexpr char kLedgerColumns[] =
    "machine, number, job, project, provider, from_at, until_at, gpu_rate, disk_rate, rate_known";

template <class Row, class Use>
void ledger_fields(Row& r, Use use) {
    use(r.machine, r.number, r.job, r.project, r.provider, r.from, r.until, r.gpu_rate, r.disk_rate, r.rate_known);
}
void read_ledger(Query& q, LedgerRecord& row) {
    ledger_fields(row, [&](auto&... f) { q.read(f...); });
}

}  // namespace

void put_reservation(Connection& db, const ReservationRecord& row) {
    static const std::string sql =
        std::string("INSERT INTO reservations (") + kReservationColumns +
        ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (machine) DO UPDATE SET job = excluded.job, "
        "project = excluded.project, amount = excluded.amount, from_at = excluded.from_at, "
        "until_at = excluded.until_at, released_at = excluded.released_at";
    Query q(db, sql.c_str());
    reservation_fields(row, [&](const auto&... f) { q.bind(f...); });
    q.run();
}

std::vector<ReservationRecord> reservations_of_job(Connection& db, const JobId& job) {
    static const std::string sql =
        std::string("SELECT ") + kReservationColumns + " FROM reservations WHERE job = ?1 ORDER BY machine";
    Query q(db, sql.c_str());
    q.bind(job);
    return all_rows<ReservationRecord>(q, read_reservation);
}

std::vector<ReservationRecord> open_reservations(Connection& db) {
    static const std::string sql =
        std::string("SELECT ") + kReservationColumns + " FROM reservations WHERE released_at IS NULL ORDER BY machine";
    Query q(db, sql.c_str());
    return all_rows<ReservationRecord>(q, read_reservation);
}

void put_ledger(Connection& db, const LedgerRecord& row) {
    static const std::string sql =
        std::string("INSERT INTO ledger (") + kLedgerColumns +
        ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) ON CONFLICT (machine, number) DO UPDATE SET "
        "job = excluded.job, project = excluded.project, provider = excluded.provider, from_at = excluded.from_at, "
        "until_at = excluded.until_at, gpu_rate = excluded.gpu_rate, disk_rate = excluded.disk_rate, "
        "rate_known = excluded.rate_known";
    Query q(db, sql.c_str());
    ledger_fields(row, [&](const auto&... f) { q.bind(f...); });
    q.run();
}

std::vector<LedgerRecord> ledger_in(Connection& db, Instant from, Instant to) {
    // Two halves, so that each seeks in the index on the end: a month is read without walking the years before it.
    static const std::string columns = kLedgerColumns;
    static const std::string sql = "SELECT " + columns + " FROM ledger WHERE until_at > ?1 AND from_at < ?2 UNION ALL SELECT " +
                                   columns + " FROM ledger WHERE until_at IS NULL AND from_at < ?2 " +
                                   "ORDER BY from_at, machine, number";
    Query q(db, sql.c_str());
    q.bind(from, to);
    return all_rows<LedgerRecord>(q, read_ledger);
}

std::vector<LedgerRecord> ledger_of_job(Connection& db, const JobId& job, Instant from, Instant to) {
    static const std::string sql = std::string("SELECT ") + kLedgerColumns +
                                   " FROM ledger INDEXED BY ledger_by_job WHERE job = ?1 AND from_at < ?3 AND (until_at IS NULL OR "
                                   "until_at > ?2) ORDER BY from_at, machine, number";
    Query q(db, sql.c_str());
    q.bind(job, from, to);
    return all_rows<LedgerRecord>(q, read_ledger);
}

std::vector<LedgerRecord> last_ledger_of_live(Connection& db) {
    static const std::string sql =
        std::string("SELECT ") + kLedgerColumns +
        " FROM ledger WHERE (machine, number) IN (SELECT machines.id, (SELECT max(number) FROM ledger AS all_of "
        "WHERE all_of.machine = machines.id) FROM machines WHERE state <> 'gone' OR watch = 1) ORDER BY machine";
    Query q(db, sql.c_str());
    return all_rows<LedgerRecord>(q, read_ledger);
}

}  // namespace gf::db
