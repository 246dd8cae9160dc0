// The Store on SQLite. Only db/ and its tests include this; everyone else has open_sqlite_store.
#pragma once
#include <memory>
#include <string>

#include "db/sqlite.hpp"
#include "db/store.hpp"

namespace gf::db {

class SqliteReader final : public Reader {
 public:
    explicit SqliteReader(std::shared_ptr<Connection> connection) : connection_(std::move(connection)) {}
    Result<std::vector<JobRecord>> jobs(const JobFilter& filter) override;
    Result<std::optional<JobRecord>> job(const JobId& id) override;
    Result<std::vector<TaskRecord>> tasks(const JobId& job) override;
    Result<std::vector<AttemptRecord>> attempts(const JobId& job) override;
    Result<std::optional<AttemptRecord>> attempt(const AttemptId& id) override;
    Result<std::vector<CheckpointRecord>> checkpoints(const JobId& job) override;
    Result<std::optional<CheckpointRecord>> newest_checkpoint(const TaskId& task, std::int64_t at_most) override;
    Result<std::vector<OutputRecord>> outputs(const JobId& job) override;
    Result<std::vector<EventRecord>> events(const JobId& job, std::int64_t after, int limit) override;
    Result<std::vector<MachineRecord>> machines(bool with_gone, const std::string& cursor, int limit) override;
    Result<std::optional<MachineRecord>> machine(const MachineId& id) override;
    Result<std::vector<LedgerRecord>> ledger(const JobId& job, Instant from, Instant to) override;
    Result<std::vector<ReservationRecord>> reservations(const JobId& job) override;
    Result<std::optional<DecisionRecord>> decision(const JobId& job) override;
    Result<std::vector<AlertRecord>> alerts(bool open_only, int limit) override;
    Result<std::optional<IdempotencyRecord>> idempotency(const std::string& principal,
                                                         const std::string& key) override;
    Result<std::vector<HostMarkRecord>> host_marks() override;
    Result<std::vector<SecretRecord>> secrets() override;
    Result<std::optional<SecretRecord>> secret(const std::string& name) override;
    Result<std::vector<TokenRecord>> tokens() override;
    Result<std::optional<TokenRecord>> token_by_hash(const std::string& sha256) override;
    Result<QueueRows> queue(const QueueCursor& after, int limit, Instant now) override;
    Result<JobCounts> job_counts() override;

 private:
    std::shared_ptr<Connection> connection_;
};

class SqliteStore final : public Store {
 public:
    /// Opens, sets the pragmas and migrates. Throws SqliteError.
    explicit SqliteStore(const std::string& path);
    Result<std::int64_t> commit(const std::vector<RowChange>& changes) override;
    Result<LiveRows> load_live() override;
    Result<std::optional<std::string>> meta(const std::string& key) override;
    Reader& reader() override { return reader_; }
    Result<std::unique_ptr<Reader>> open_reader() override;
    void checkpoint_wal() override;
    Result<int> prune(Instant now, const PrunePolicy& policy) override;

    [[nodiscard]] Connection& connection() { return *connection_; }

 private:
    void after_commit();
    void move_wal(int mode, int wait_ms);

    std::string path_;
    std::shared_ptr<Connection> connection_;
    SqliteReader reader_;
    std::int64_t last_seq_{0};   // of the newest committed event
    int wal_pages_{0};           // in the write-ahead log and not yet moved, after the last commit
    int next_checkpoint_pages_;  // length at which the log is moved next
};

}  // namespace gf::db
