// The rows: what the store keeps and the orchestrator holds of live things. One struct per table, written whole.
// An upsert carries the expected old state where a wrong one would mean two writers (db/store.hpp).
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "model/offer.hpp"
#include "model/states.hpp"
#include "model/strong.hpp"

namespace gf {

struct JobRecord {
    JobId id;
    std::string name;
    JobKind kind{JobKind::training};
    std::string project;
    JobState state{JobState::queued};
    std::string reason;            // machine-readable: "submitted", "spot_lost", "no_offer", …
    std::string detail;            // for people
    int priority{50};
    std::string spec;              // as submitted
    bool spec_is_yaml{false};
    std::string principal;         // "socket" or the token's id
    bool local_allowed{false};     // came over the unix socket: may run with the daemon's own uid
    Instant created_at;
    Instant updated_at;
    std::optional<Instant> ended_at;
    std::optional<int> exit_code;  // of the last attempt
    std::optional<int> exit_signal;
    int attempts{0};
    bool cancel_requested{false};
    bool hold_requested{false};
};

struct RetryCounts {
    int spot_lost{0};
    int host_fault{0};
    int start_timeout{0};
    int gpu_oom{0};
    int host_oom{0};
    int no_progress{0};
    int user_error{0};
    int without_progress{0};  // losses in a row without a new checkpoint generation
    friend bool operator==(const RetryCounts&, const RetryCounts&) = default;
};

struct TaskRecord {
    TaskId id;
    JobId job;
    int index{0};
    TaskState state{TaskState::waiting};
    std::string reason;
    int attempt{0};                       // current attempt number = fencing token; 0 = none yet
    std::int64_t generation{0};           // newest committed checkpoint; 0 = none
    std::int64_t step{0};                 // step of that checkpoint
    RetryCounts retries;
    std::optional<Instant> not_before;    // back-off
    std::optional<Bytes> vram_above;      // after gpu_oom: more than this per GPU
    std::optional<Bytes> memory_above;    // after host_oom: more main memory than this
    Millis ran{0};                        // run time of ended attempts, for limits.duration
    Instant waiting_since;                // for limits.wait
    int priority{50};
    Instant created_at;
};

struct AttemptRecord {
    AttemptId id;
    TaskId task;
    JobId job;
    int number{0};
    AttemptState state{AttemptState::leased};
    std::optional<Cause> cause;           // set when ended
    std::string detail;                   // for people: what was seen
    MachineId machine;
    Instant created_at;
    std::optional<Instant> started_at;    // the command was started on the machine
    std::optional<Instant> ended_at;
    std::optional<int> exit_code;
    std::optional<int> exit_signal;
    std::int64_t start_generation{0};     // what it resumed from; 0 = from the beginning
    std::int64_t progress_step{0};
    std::int64_t progress_total{0};
};

struct MachineRecord {
    MachineId id;
    MachineTag tag;
    ProviderName provider;
    MachineState state{MachineState::requested};
    std::string reason;
    ProviderMachineId provider_id;        // empty until known
    JobId job;                            // whom it was rented for / works for
    TaskId task;
    int attempt{0};                       // attempt number it may run; fencing compares it with the task's
    Offer offer;                          // as chosen
    Bytes disk;                           // asked for
    std::string image;
    std::optional<UsdPerHour> bid;
    std::optional<UsdPerHour> rate;       // the real rate last seen, all lines together; absent = unknown
    // The call that is open, and what the last ones told.
    std::int64_t call_seq{0};
    CallKind call{CallKind::none};
    std::optional<Instant> call_began;
    std::optional<Instant> call_ended;    // when the create call ended (settle periods count from here)
    int absences{0};                      // trusted listings without it, after call_ended
    int destroy_tries{0};
    bool read_alive{false};               // a read, a listing or its agent has shown it alive at least once
    std::optional<Instant> seen_at;       // when one of them last did; the stored value may be minutes old
    bool watch{false};                    // outcome never established: destroyed if it ever shows up
    Instant created_at;
    std::optional<Instant> ready_at;
    std::optional<Instant> destroy_since;
    std::optional<Instant> gone_at;
    std::optional<Instant> idle_since;    // without work since
    std::string boot_id;                  // of the agent's last accepted hello
    std::string agent_detail;             // machine check findings, for people
};

/// Money held back for a machine until `until`; released when it is gone or renewed.
struct ReservationRecord {
    MachineId machine;
    JobId job;
    std::string project;
    Usd amount;
    Instant from;
    Instant until;
    std::optional<Instant> released_at;
};

/// One span of a machine at one real rate. `until` absent = still running.
struct LedgerRecord {
    MachineId machine;
    int number{0};             // 1, 2, … per machine
    JobId job;
    std::string project;
    ProviderName provider;
    Instant from;
    std::optional<Instant> until;
    UsdPerHour gpu_rate;
    UsdPerHour disk_rate;
    bool rate_known{true};     // false: the cost is "at least"
};

enum class CheckpointState : std::uint8_t { whole, quarantined, pruned };
GF_ENUM_NAMES(CheckpointState, {{E::whole, "whole"}, {E::quarantined, "quarantined"}, {E::pruned, "pruned"}});

struct CheckpointRecord {
    CheckpointId id;
    TaskId task;
    JobId job;
    std::int64_t generation{0};
    int attempt{0};
    std::int64_t step{0};
    Bytes size;                    // of the files, uncompressed
    std::string manifest_sha256;   // hex; the manifest lies in the checkpoint store under this name
    CheckpointState state{CheckpointState::whole};
    std::string detail;
    Instant committed_at;
};

struct OutputRecord {
    JobId job;
    TaskId task;
    int attempt{0};
    Bytes size;
    int files{0};
    std::string manifest_sha256;
    Instant published_at;
};

struct EventRecord {
    std::int64_t seq{0};           // given by the store
    Instant at;
    std::string kind;              // "job_state", "machine_state", "attempt_state", "checkpoint", "alert", …
    JobId job;
    TaskId task;
    int attempt{0};
    MachineId machine;
    std::string state;             // new state where it is a transition
    std::string reason;
    std::string detail;
};

struct AlertRecord {
    AlertId id;                    // stable event id
    Instant at;
    std::string kind;              // "orphan_found", "machine_will_not_die", "listing_not_trusted", …
    std::string severity;          // info | warning | critical
    std::string dedupe;            // one open alert per key
    JobId job;
    MachineId machine;
    ProviderName provider;
    std::string text;
    std::optional<Instant> cleared_at;
};

struct IdempotencyRecord {
    std::string principal;
    std::string key;
    std::string body_sha256;       // hex of the raw body and content type
    JobId job;
    Instant created_at;
};

/// What the last placement pass said about a job: JSON, for explain (scheduler/decision_text).
struct DecisionRecord {
    JobId job;
    Instant at;
    std::string json;
};

struct TokenRecord {
    TokenId id;
    std::string name;
    Role role{Role::viewer};
    std::string sha256;            // hex of the token; the token itself is shown once
    Instant created_at;
    std::optional<Instant> revoked_at;
};

/// What is remembered of a host, its owner or its data centre. Counts are in thousandths and decay with age: they are as of `at`
/// (scheduler/reputation.hpp).
struct HostMarkRecord {
    std::string key;  // "vastai/host/31877", "vastai/owner/70214", "runpod/dc/EU-RO-1"
    std::int64_t boot_failures{0};
    std::int64_t slow_pulls{0};
    std::int64_t early_losses{0};
    std::int64_t good_runs{0};
    std::string last;  // the newest thing that went wrong, for people
    Instant at;
    friend bool operator==(const HostMarkRecord&, const HostMarkRecord&) = default;
};

/// What runs have taught, for choosing the next machine. `value` is JSON; which kinds there are and what it says is
/// daemon/orchestrator/learned.hpp's affair.
struct LearnedRecord {
    std::string kind;
    std::string key;
    std::string value;
    Instant at;
    friend bool operator==(const LearnedRecord&, const LearnedRecord&) = default;
};

/// A user's secret. The value is sealed (daemon/secrets): this row alone is of no use to anybody.
struct SecretRecord {
    std::string name;
    std::string sealed;
    std::string principal;  // who put it there last
    Instant created_at;
    Instant updated_at;
    friend bool operator==(const SecretRecord&, const SecretRecord&) = default;
};

struct PutJob { JobRecord row; std::optional<JobState> was; };             // was absent = insert
struct PutTask { TaskRecord row; std::optional<TaskState> was; };
struct PutAttempt { AttemptRecord row; std::optional<AttemptState> was; };
struct PutMachine { MachineRecord row; std::optional<MachineState> was; };
struct PutReservation { ReservationRecord row; };                          // upsert by machine
struct PutLedger { LedgerRecord row; };                                    // upsert by (machine, number)
struct PutCheckpoint { CheckpointRecord row; };                            // insert; unique (task, generation)
/// Retention: of the whole generations the newest `keep` stay `whole`, the others become `pruned`.
struct PruneCheckpoints { TaskId task; int keep{1}; };
struct SetCheckpointState { TaskId task; std::int64_t generation{0}; CheckpointState state{}; std::string detail; };
struct PutOutput { OutputRecord row; };                                    // upsert by task
struct AddEvent { EventRecord row; };
struct PutAlert { AlertRecord row; };                                      // upsert by id
struct AddIdempotency { IdempotencyRecord row; };
struct PutDecision { DecisionRecord row; };
struct PutToken { TokenRecord row; };
struct PutMeta { std::string key; std::string value; };
struct PutHostMark { HostMarkRecord row; };                                // upsert by key
struct DropHostMark { std::string key; };
struct PutLearned { LearnedRecord row; };                                  // upsert by kind and key
struct DropLearned { std::string kind, key; };
struct PutSecret { SecretRecord row; };                                    // upsert by name
struct DropSecret { std::string name; };

using RowChange = std::variant<PutJob, PutTask, PutAttempt, PutMachine, PutReservation, PutLedger, PutCheckpoint,
                               SetCheckpointState, PruneCheckpoints, PutOutput, AddEvent, PutAlert, AddIdempotency, PutDecision,
                               PutToken, PutMeta, PutHostMark, DropHostMark, PutLearned, DropLearned, PutSecret,
                               DropSecret>;

}  // namespace gf
