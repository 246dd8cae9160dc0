// The store: the truth of everything. One writer (the runtime's core thread) commits batches; readers have their own
// read-only connections and may run on other threads. The only SQL in the tree is behind this interface.
#pragma once
#include <climits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/records.hpp"
#include "model/result.hpp"

namespace gf {

/// All live things: what the orchestrator is rebuilt from. Jobs that are queued and final ones are not in it.
struct LiveRows {
    std::vector<JobRecord> jobs;              // not queued, not final; plus jobs of live machines
    std::vector<TaskRecord> tasks;            // of those jobs
    std::vector<AttemptRecord> attempts;      // not ended
    std::vector<MachineRecord> machines;      // not gone, or gone and on the watch list
    std::vector<ReservationRecord> reservations;  // not released
    std::vector<LedgerRecord> ledgers;        // open intervals (the last one of each live machine)
    std::vector<AlertRecord> alerts;          // not cleared
    std::int64_t queued_jobs{0};
    std::string last_id_body;                 // largest id body in the store, so that new ids sort after it
    std::optional<Instant> last_commit;       // `at` of the newest event
    std::vector<HostMarkRecord> host_marks;
    std::vector<LearnedRecord> learned;
    std::map<std::string, Instant> listed;    // per provider: when its last good listing that was taken in began
};

/// A queued task with what is needed to place it.
struct QueuedTask {
    JobRecord job;
    TaskRecord task;
};

/// Position in the queue: highest priority first; at equal priority in rounds over the projects by name, each project's tasks oldest
/// first. As made = from the start; else as `QueueRows::next` gave it.
struct QueueCursor {
    int priority{INT_MAX};
    std::optional<std::string> project;        // in this round the projects up to this name had their turn; absent = none had
    bool first_round{true};                    // of this priority
    std::map<std::string, std::string> after;  // project -> its last task that was shown; those that may have more of this priority
    friend bool operator==(const QueueCursor&, const QueueCursor&) = default;
};

/// A page of the queue: a share of it for each project, so that what one project has waiting keeps no other one out of it.
struct QueueRows {
    std::vector<QueuedTask> tasks;    // by priority, then id
    std::optional<QueueCursor> next;  // absent = the end of the queue; a page before the end may be empty
};

/// So many projects of one priority are gone through to their last task. Of further ones the first share is seen in each walk.
inline constexpr std::size_t kQueueProjectsMax = 4096;

struct JobFilter {
    std::optional<JobState> state;
    std::optional<JobKind> kind;
    std::string project;
    std::string cursor;     // id of the last job of the page before (newest first); empty = newest
    int limit{50};          // 1..1000
};

/// Counts that must not be found by scanning a million rows at each request.
struct JobCounts {
    std::vector<std::pair<JobState, std::int64_t>> by_state;
};

/// Reads for handlers. Each call is one statement or one snapshot; safe on one thread at a time per Reader.
class Reader {
 public:
    virtual ~Reader() = default;
    virtual Result<std::vector<JobRecord>> jobs(const JobFilter& filter) = 0;
    virtual Result<std::optional<JobRecord>> job(const JobId& id) = 0;
    virtual Result<std::vector<TaskRecord>> tasks(const JobId& job) = 0;
    virtual Result<std::vector<AttemptRecord>> attempts(const JobId& job) = 0;
    virtual Result<std::optional<AttemptRecord>> attempt(const AttemptId& id) = 0;
    virtual Result<std::vector<CheckpointRecord>> checkpoints(const JobId& job) = 0;
    /// Newest whole generation not above `at_most` (0 = newest); nothing if there is none.
    virtual Result<std::optional<CheckpointRecord>> newest_checkpoint(const TaskId& task, std::int64_t at_most) = 0;
    virtual Result<std::vector<OutputRecord>> outputs(const JobId& job) = 0;
    /// Events after `after`, oldest first; `job` empty = all.
    virtual Result<std::vector<EventRecord>> events(const JobId& job, std::int64_t after, int limit) = 0;
    virtual Result<std::vector<MachineRecord>> machines(bool with_gone, const std::string& cursor, int limit) = 0;
    virtual Result<std::optional<MachineRecord>> machine(const MachineId& id) = 0;
    /// Ledger rows that overlap [from, to); `job` empty = all.
    virtual Result<std::vector<LedgerRecord>> ledger(const JobId& job, Instant from, Instant to) = 0;
    virtual Result<std::vector<ReservationRecord>> reservations(const JobId& job) = 0;
    virtual Result<std::optional<DecisionRecord>> decision(const JobId& job) = 0;
    virtual Result<std::vector<AlertRecord>> alerts(bool open_only, int limit) = 0;
    virtual Result<std::optional<IdempotencyRecord>> idempotency(const std::string& principal,
                                                                 const std::string& key) = 0;
    virtual Result<std::vector<TokenRecord>> tokens() = 0;
    virtual Result<std::optional<TokenRecord>> token_by_hash(const std::string& sha256) = 0;
    virtual Result<std::vector<HostMarkRecord>> host_marks() = 0;
    virtual Result<std::vector<SecretRecord>> secrets() = 0;
    virtual Result<std::optional<SecretRecord>> secret(const std::string& name) = 0;
    /// At most `limit` tasks that wait for a machine and may have one now. Takes as long whatever the length of the queue.
    virtual Result<QueueRows> queue(const QueueCursor& after, int limit, Instant now) = 0;
    virtual Result<JobCounts> job_counts() = 0;
};

/// What may be forgotten, and how much of it in one go.
struct PrunePolicy {
    Millis events{std::chrono::hours{24 * 180}};     // of jobs that ended this long ago, and of no job
    Millis idempotency{std::chrono::hours{24}};
    int rows_max{1000};                              // per kind and call: the writer is blocked meanwhile
};

/// Meta key under which the core keeps when a provider's last good listing began (milliseconds): `LiveRows::listed`.
inline constexpr char kListedPrefix[] = "listed/";

class Store {
 public:
    virtual ~Store() = default;
    /// All changes in one durable transaction, in order, or none. Guards (`was`) that do not match abort the process:
    /// they mean two writers or a broken core; so does a row that the schema refuses (a second live attempt of a task, a
    /// tag used twice, an end without a final state). References between the rows of one batch may be in any order, but a
    /// task's old attempt must be ended before the next one is put. Errors: `busy` (locked by another process beyond the
    /// busy time-out), `full` (disk full), `io`. Blocks for the fsync. Returns the sequence number of the last event
    /// written, 0 when there was none. A job's name, kind, project, principal, origin and spec are written at insert only.
    virtual Result<std::int64_t> commit(const std::vector<RowChange>& changes) = 0;
    /// Reads everything the orchestrator needs after a start or a failed commit.
    virtual Result<LiveRows> load_live() = 0;
    virtual Result<std::optional<std::string>> meta(const std::string& key) = 0;
    /// A reader that sees the writer's own last commit; used by the writer's thread.
    virtual Reader& reader() = 0;
    /// A further read-only connection for another thread. In-memory stores return one that shares the writer's, which is
    /// then only safe on the writer's thread.
    virtual Result<std::unique_ptr<Reader>> open_reader() = 0;
    /// Moves the write-ahead log into the database without blocking readers; called when idle.
    virtual void checkpoint_wal() = 0;
    /// Forgets what the policy allows, at most `rows_max` rows of each kind. Returns how many rows went; call again (later)
    /// while it is not 0. Errors as `commit`.
    virtual Result<int> prune(Instant now, const PrunePolicy& policy) = 0;
};

/// Opens or creates the database file; `path` ":memory:" for tests. Runs migrations. Errors: `io` with the path, and
/// `conflict` if the file was written by a newer schema.
Result<std::unique_ptr<Store>> open_sqlite_store(const std::string& path);

}  // namespace gf
