// Statements on what jobs leave behind (checkpoints, outputs, decisions), on history (events, alerts) and on access
// (idempotency keys, tokens, meta). A function is one statement; all throw SqliteError.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "db/sqlite.hpp"
#include "model/records.hpp"

namespace gf::db {

void insert_checkpoint(Connection& db, const CheckpointRecord& row);
/// Aborts when there is no such generation.
void set_checkpoint_state(Connection& db, const SetCheckpointState& change);
void prune_checkpoints(Connection& db, const PruneCheckpoints& change);
/// By task, oldest generation first.
[[nodiscard]] std::vector<CheckpointRecord> checkpoints_of_job(Connection& db, const JobId& job);
/// `at_most` 0 = no upper bound.
[[nodiscard]] std::optional<CheckpointRecord> newest_whole_checkpoint(Connection& db, const TaskId& task,
                                                                      std::int64_t at_most);
void put_output(Connection& db, const OutputRecord& row);
[[nodiscard]] std::vector<OutputRecord> outputs_of_job(Connection& db, const JobId& job);
void put_decision(Connection& db, const DecisionRecord& row);
[[nodiscard]] std::optional<DecisionRecord> decision_of_job(Connection& db, const JobId& job);

void insert_event(Connection& db, const EventRecord& row, std::int64_t seq);
[[nodiscard]] std::vector<EventRecord> events_after(Connection& db, std::int64_t after, int limit);
[[nodiscard]] std::vector<EventRecord> events_of_job(Connection& db, const JobId& job, std::int64_t after, int limit);
/// Sequence number and time of the newest event; absent in an empty history.
struct EventMark {
    std::int64_t seq{0};
    Instant at;
};
[[nodiscard]] std::optional<EventMark> newest_event(Connection& db);
/// The oldest event with a number not below `seq`.
[[nodiscard]] std::optional<EventMark> event_from(Connection& db, std::int64_t seq);
/// Deletes up to `limit` events before `seq` that belong to no job or to one that ended before `ended_before`.
int delete_events(Connection& db, std::int64_t before_seq, Instant ended_before, int limit);

void put_alert(Connection& db, const AlertRecord& row);
/// Newest first.
[[nodiscard]] std::vector<AlertRecord> alerts(Connection& db, bool open_only, int limit);

void insert_idempotency(Connection& db, const IdempotencyRecord& row);
[[nodiscard]] std::optional<IdempotencyRecord> idempotency_by_key(Connection& db, const std::string& principal,
                                                                  const std::string& key);
int delete_idempotency(Connection& db, Instant before, int limit);

void put_token(Connection& db, const TokenRecord& row);
[[nodiscard]] std::vector<TokenRecord> all_tokens(Connection& db);
[[nodiscard]] std::optional<TokenRecord> token_by_hash(Connection& db, const std::string& sha256);

void put_host_mark(Connection& db, const HostMarkRecord& row);
void drop_host_mark(Connection& db, const std::string& key);
[[nodiscard]] std::vector<HostMarkRecord> all_host_marks(Connection& db);

void put_learned(Connection& db, const LearnedRecord& row);
void drop_learned(Connection& db, const DropLearned& change);
[[nodiscard]] std::vector<LearnedRecord> all_learned(Connection& db);

void put_secret(Connection& db, const SecretRecord& row);
void drop_secret(Connection& db, const std::string& name);
[[nodiscard]] std::vector<SecretRecord> all_secrets(Connection& db);
[[nodiscard]] std::optional<SecretRecord> secret_by_name(Connection& db, const std::string& name);

void put_meta(Connection& db, const PutMeta& change);
/// Keys that begin with `prefix`, and their values, in order.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> meta_with_prefix(Connection& db, const std::string& prefix);
[[nodiscard]] std::optional<std::string> meta_value(Connection& db, const std::string& key);

}  // namespace gf::db
