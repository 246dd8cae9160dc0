#include "db/sqlite_store.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <string>
#include <variant>

#include "db/guard.hpp"
#include "db/history_tables.hpp"
#include "db/job_tables.hpp"
#include "db/machine_tables.hpp"
#include "db/migrations.hpp"
#include "model/id.hpp"

namespace gf::db {
namespace {

constexpr int kBusyTimeoutMs = 5'000;
// A checkpoint costs two fsyncs of its own, so it is worth having many pages to move (measured: with SQLite's default of
// 1,000 pages half of the durable commits per second are lost). 10,000 pages are 40 MB.
constexpr int kCheckpointPages = 10'000;
// Past this the log is cut back to nothing even if that means to wait a little for a reader. Below it the file keeps its
// length and is written over from its start: a sync of blocks that exist already costs the disk half of one that makes the
// file longer (measured: 5,200 against 2,400 a second).
constexpr int kTruncatePages = 4 * kCheckpointPages;
constexpr int kTruncateWaitMs = 100;
constexpr int kOpenAlertsMax = 10'000;

void set_up_writer(Connection& db) {
    sqlite3_busy_timeout(db.handle(), kBusyTimeoutMs);
    db.run("PRAGMA foreign_keys = ON");
    db.run("PRAGMA temp_store = MEMORY");
    if (db.in_memory()) return db.run("PRAGMA synchronous = OFF");
    db.run("PRAGMA journal_mode = WAL");
    db.run("PRAGMA synchronous = FULL");
    db.run("PRAGMA journal_size_limit = 67108864");
    db.run("PRAGMA cache_size = -4000");
}

void set_up_reader(Connection& db) {
    sqlite3_busy_timeout(db.handle(), kBusyTimeoutMs);
    db.run("PRAGMA query_only = ON");
    db.run("PRAGMA temp_store = MEMORY");
}

struct Apply {
    Connection& db;
    std::int64_t& seq;
    struct Batch {
        std::map<JobState, std::int64_t> tally{};  // by how much the jobs in each state change
        const JobRecord* inserted{nullptr};        // the last one
        std::vector<const TaskId*> of_no_project{};  // tasks that were not put right after their job
    };
    Batch& batch;

    void operator()(const PutJob& c) const {
        c.was ? update_job(db, c.row, *c.was) : insert_job(db, c.row);
        batch.tally[c.row.state] += 1;
        if (c.was) batch.tally[*c.was] -= 1;
        else batch.inserted = &c.row;
    }
    void operator()(const PutTask& c) const {
        if (c.was) return update_task(db, c.row, *c.was);
        const bool known = batch.inserted != nullptr && batch.inserted->id == c.row.job;
        insert_task(db, c.row, known ? batch.inserted->project : std::string());
        if (!known) batch.of_no_project.push_back(&c.row.id);
    }
    void operator()(const PutAttempt& c) const {
        c.was ? update_attempt(db, c.row, *c.was) : insert_attempt(db, c.row);
    }
    void operator()(const PutMachine& c) const {
        c.was ? update_machine(db, c.row, *c.was) : insert_machine(db, c.row);
    }
    void operator()(const PutReservation& c) const { put_reservation(db, c.row); }
    void operator()(const PutLedger& c) const { put_ledger(db, c.row); }
    void operator()(const PutCheckpoint& c) const { insert_checkpoint(db, c.row); }
    void operator()(const SetCheckpointState& c) const { set_checkpoint_state(db, c); }
    void operator()(const PruneCheckpoints& c) const { prune_checkpoints(db, c); }
    void operator()(const PutOutput& c) const { put_output(db, c.row); }
    void operator()(const AddEvent& c) const { insert_event(db, c.row, ++seq); }
    void operator()(const PutAlert& c) const { put_alert(db, c.row); }
    void operator()(const AddIdempotency& c) const { insert_idempotency(db, c.row); }
    void operator()(const PutDecision& c) const { put_decision(db, c.row); }
    void operator()(const PutToken& c) const { put_token(db, c.row); }
    void operator()(const PutHostMark& c) const { put_host_mark(db, c.row); }
    void operator()(const DropHostMark& c) const { drop_host_mark(db, c.key); }
    void operator()(const PutLearned& c) const { put_learned(db, c.row); }
    void operator()(const DropLearned& c) const { drop_learned(db, c); }
    void operator()(const PutSecret& c) const { put_secret(db, c.row); }
    void operator()(const DropSecret& c) const { drop_secret(db, c.name); }
    void operator()(const PutMeta& c) const { put_meta(db, c); }
};

/// A row that the schema refuses is as bad as a guard that does not match.
[[noreturn]] void refused_by_schema(const SqliteError& failure, std::size_t change, std::size_t changes) {
    broken_invariant("change " + std::to_string(change + 1) + " of " + std::to_string(changes) + " in a batch: " +
                     failure.error().message);
}

std::string largest_id_body(Connection& db) {
    static constexpr std::array tables{
        "SELECT max(id) FROM jobs",        "SELECT max(id) FROM tasks",  "SELECT max(id) FROM attempts",
        "SELECT max(id) FROM machines",    "SELECT max(id) FROM alerts", "SELECT max(id) FROM tokens",
        "SELECT max(id) FROM checkpoints",
    };
    std::string largest;
    for (const char* sql : tables) {
        Query q(db, sql);
        if (!q.step()) continue;
        const auto id = q.take_text();
        largest = std::max(largest, std::string(id_body(id)));
    }
    return largest;
}

std::map<std::string, Instant> listed_providers(Connection& db) {
    std::map<std::string, Instant> listed;
    for (const auto& [key, value] : meta_with_prefix(db, kListedPrefix)) {
        std::int64_t at = 0;
        const auto [end, failed] = std::from_chars(value.data(), value.data() + value.size(), at);
        if (failed == std::errc{}) listed[key.substr(std::size(kListedPrefix) - 1)] = instant_of(at);
    }
    return listed;
}

int note_wal_pages(void* pages, sqlite3*, const char*, int now_in_log) {
    *static_cast<int*>(pages) = now_in_log;
    return SQLITE_OK;
}

/// First event that is not older than `at`, by bisection: the history is in order of time, and an index on the time
/// would cost every event that is ever written.
std::int64_t first_event_since(Connection& db, Instant at, std::int64_t last_seq) {
    std::int64_t low = 0;
    std::int64_t high = last_seq;  // the newest event always stays: its number must never be given again
    while (low < high) {
        const auto middle = low + (high - low) / 2;
        const auto mark = event_from(db, middle);
        if (mark && mark->at < at) low = mark->seq + 1;
        else high = middle;
    }
    return std::min(low, last_seq);
}

}  // namespace

SqliteStore::SqliteStore(const std::string& path)
    : path_(path), connection_(std::make_shared<Connection>(path)), reader_(connection_),
      next_checkpoint_pages_(kCheckpointPages) {
    set_up_writer(*connection_);
    migrate(*connection_);
    if (const auto newest = newest_event(*connection_)) last_seq_ = newest->seq;
    if (!connection_->in_memory()) sqlite3_wal_hook(connection_->handle(), note_wal_pages, &wal_pages_);
}

Result<std::int64_t> SqliteStore::commit(const std::vector<RowChange>& changes) {
    if (changes.empty()) return 0;
    std::int64_t seq = last_seq_;
    std::size_t at = 0;
    try {
        in_transaction(*connection_, kBeginWrite, [&] {
            Apply::Batch batch;
            for (; at < changes.size(); ++at) std::visit(Apply{*connection_, seq, batch}, changes[at]);
            for (const TaskId* task : batch.of_no_project) take_project_of_job(*connection_, *task);
            add_to_tally(*connection_, batch.tally);
        });
    } catch (const SqliteError& failure) {
        if (failure.code() == SQLITE_CONSTRAINT) refused_by_schema(failure, at, changes.size());
        return std::unexpected(failure.error());
    }
    const auto written = seq == last_seq_ ? 0 : seq;
    last_seq_ = seq;
    after_commit();
    return written;
}

void SqliteStore::after_commit() {
    if (wal_pages_ < next_checkpoint_pages_) {
        if (wal_pages_ < kCheckpointPages) next_checkpoint_pages_ = kCheckpointPages;
        return;
    }
    // While a reader holds an old snapshot the log cannot be cut; trying again at each commit would only cost.
    next_checkpoint_pages_ = wal_pages_ + kCheckpointPages;
    if (wal_pages_ < kTruncatePages) return move_wal(SQLITE_CHECKPOINT_PASSIVE, 0);
    move_wal(SQLITE_CHECKPOINT_TRUNCATE, kTruncateWaitMs);
}

void SqliteStore::checkpoint_wal() {
    if (wal_pages_ == 0) return;
    move_wal(wal_pages_ < kTruncatePages ? SQLITE_CHECKPOINT_PASSIVE : SQLITE_CHECKPOINT_TRUNCATE, 0);
}

void SqliteStore::move_wal(int mode, int wait_ms) {
    sqlite3_busy_timeout(connection_->handle(), wait_ms);
    int pages_in_log = -1;
    int pages_moved = -1;
    // A failure (a reader in the way, a full disk) loses nothing: the pages stay in the log until the next time.
    sqlite3_wal_checkpoint_v2(connection_->handle(), nullptr, mode, &pages_in_log, &pages_moved);
    if (pages_in_log >= 0) wal_pages_ = pages_in_log == pages_moved ? 0 : pages_in_log;
    sqlite3_busy_timeout(connection_->handle(), kBusyTimeoutMs);
}

Result<LiveRows> SqliteStore::load_live() {
    return guarded([&] {
        LiveRows live;
        auto& db = *connection_;
        in_transaction(db, kBegin, [&] {
            live.jobs = live_jobs(db);
            live.tasks = live_tasks(db);
            live.attempts = live_attempts(db);
            live.machines = live_machines(db);
            live.reservations = open_reservations(db);
            live.ledgers = last_ledger_of_live(db);
            live.alerts = alerts(db, true, kOpenAlertsMax);
            for (const auto& [state, count] : job_tally(db).by_state)
                if (state == JobState::queued) live.queued_jobs = count;
            live.last_id_body = largest_id_body(db);
            if (const auto newest = newest_event(db)) live.last_commit = newest->at;
            live.host_marks = all_host_marks(db);
            live.learned = all_learned(db);
            live.listed = listed_providers(db);
        });
        return live;
    });
}

Result<std::optional<std::string>> SqliteStore::meta(const std::string& key) {
    return guarded([&] { return meta_value(*connection_, key); });
}

Result<std::unique_ptr<Reader>> SqliteStore::open_reader() {
    return guarded([&]() -> std::unique_ptr<Reader> {
        if (connection_->in_memory()) return std::make_unique<SqliteReader>(connection_);
        auto own = std::make_shared<Connection>(path_);
        set_up_reader(*own);
        return std::make_unique<SqliteReader>(std::move(own));
    });
}

Result<int> SqliteStore::prune(Instant now, const PrunePolicy& policy) {
    return guarded([&] {
        int gone = 0;
        auto& db = *connection_;
        in_transaction(db, kBeginWrite, [&] {
            const auto cutoff = now - policy.events;
            gone += delete_events(db, first_event_since(db, cutoff, last_seq_), cutoff, policy.rows_max);
            gone += delete_idempotency(db, now - policy.idempotency, policy.rows_max);
        });
        return gone;
    });
}

}  // namespace gf::db

namespace gf {

Result<std::unique_ptr<Store>> open_sqlite_store(const std::string& path) {
    auto opened = db::guarded([&]() -> std::unique_ptr<Store> { return std::make_unique<db::SqliteStore>(path); });
    if (opened) return opened;
    Error error = std::move(opened).error();
    if (error.message.find(path) == std::string::npos) error.message = path + ": " + error.message;
    return fail(std::move(error));
}

}  // namespace gf
