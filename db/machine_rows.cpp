#include <algorithm>
#include <string>

#include "db/columns.hpp"
#include "db/guard.hpp"
#include "db/machine_tables.hpp"
#include "db/offer_json.hpp"
#include "db/rows.hpp"

namespace gf::db {
namespace {

constexpr int kPageMax = 10'000;

constexpr char kColumns[] =
    "id, tag, provider, state, reason, provider_id, job, task, attempt, disk, image, bid, rate, call_seq, call, "
    "call_began, call_ended, absences, destroy_tries, read_alive, watch, created_at, ready_at, destroy_since, gone_at, "
    "idle_since, boot_id, agent_detail, seen_at, offer";

template <class Row, class Use>
void fields_before_offer(Row& r, Use use) {
    use(r.id, r.tag, r.provider, r.state, r.reason, r.provider_id, r.job, r.task, r.attempt, r.disk, r.image, r.bid,
        r.rate, r.call_seq, r.call, r.call_began, r.call_ended, r.absences, r.destroy_tries, r.read_alive, r.watch,
        r.created_at, r.ready_at, r.destroy_since, r.gone_at, r.idle_since, r.boot_id, r.agent_detail, r.seen_at);
}

void read_row(Query& q, MachineRecord& row) {
    fields_before_offer(row, [&](auto&... f) { q.read(f...); });
    const auto json = q.take_text();
    auto offer = parse_offer_json(json);
    if (!offer) q.unreadable(json);
    row.offer = *std::move(offer);
}

}  // namespace

void insert_machine(Connection& db, const MachineRecord& row) {
    static const std::string sql = std::string("INSERT INTO machines (") + kColumns +
                                   ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, "
                                   "?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30)";
    const auto offer = offer_json(row.offer);
    Query q(db, sql.c_str());
    fields_before_offer(row, [&](const auto&... f) { q.bind(f..., offer); });
    q.run();
}

void update_machine(Connection& db, const MachineRecord& row, MachineState was) {
    static constexpr char sql[] =
        "UPDATE machines SET tag = ?2, provider = ?3, state = ?4, reason = ?5, provider_id = ?6, job = ?7, task = ?8, "
        "attempt = ?9, disk = ?10, image = ?11, bid = ?12, rate = ?13, call_seq = ?14, call = ?15, call_began = ?16, "
        "call_ended = ?17, absences = ?18, destroy_tries = ?19, read_alive = ?20, watch = ?21, created_at = ?22, "
        "ready_at = ?23, destroy_since = ?24, gone_at = ?25, idle_since = ?26, boot_id = ?27, agent_detail = ?28, "
        "seen_at = ?29, offer = ?30 WHERE id = ?1 AND state = ?31";
    const auto offer = offer_json(row.offer);
    Query q(db, sql);
    fields_before_offer(row, [&](const auto&... f) { q.bind(f..., offer, was); });
    expect_one_row(db, q.run(), "machines", row.id.get(), text(was), "SELECT state FROM machines WHERE id = ?1");
}

std::optional<MachineRecord> machine_by_id(Connection& db, const MachineId& id) {
    static const std::string sql = std::string("SELECT ") + kColumns + " FROM machines WHERE id = ?1";
    Query q(db, sql.c_str());
    q.bind(id);
    return one_row<MachineRecord>(q, read_row);
}

std::vector<MachineRecord> machine_page(Connection& db, bool with_gone, const std::string& cursor, int limit) {
    // "~" sorts after every id, so one statement serves the first page and the later ones.
    static const std::string all =
        std::string("SELECT ") + kColumns + " FROM machines WHERE id < ?1 ORDER BY id DESC LIMIT ?2";
    static const std::string existing = std::string("SELECT ") + kColumns +
                                        " FROM machines INDEXED BY machines_live WHERE state <> 'gone' AND id < ?1 "
                                        "ORDER BY id DESC LIMIT ?2";
    const std::string before = cursor.empty() ? "~" : cursor;
    Query q(db, (with_gone ? all : existing).c_str());
    q.bind(before, std::clamp(limit, 1, kPageMax));
    return all_rows<MachineRecord>(q, read_row);
}

std::vector<MachineRecord> live_machines(Connection& db) {
    static const std::string sql =
        std::string("SELECT ") + kColumns + " FROM machines WHERE state <> 'gone' OR watch = 1 ORDER BY id";
    Query q(db, sql.c_str());
    return all_rows<MachineRecord>(q, read_row);
}

}  // namespace gf::db
