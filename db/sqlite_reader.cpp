#include "db/history_tables.hpp"
#include "db/job_tables.hpp"
#include "db/machine_tables.hpp"
#include "db/sqlite_store.hpp"

namespace gf::db {

Result<std::vector<JobRecord>> SqliteReader::jobs(const JobFilter& filter) {
    return guarded([&] { return job_page(*connection_, filter); });
}
Result<std::optional<JobRecord>> SqliteReader::job(const JobId& id) {
    return guarded([&] { return job_by_id(*connection_, id); });
}
Result<std::vector<TaskRecord>> SqliteReader::tasks(const JobId& job) {
    return guarded([&] { return tasks_of_job(*connection_, job); });
}
Result<std::vector<AttemptRecord>> SqliteReader::attempts(const JobId& job) {
    return guarded([&] { return attempts_of_job(*connection_, job); });
}
Result<std::optional<AttemptRecord>> SqliteReader::attempt(const AttemptId& id) {
    return guarded([&] { return attempt_by_id(*connection_, id); });
}
Result<std::vector<CheckpointRecord>> SqliteReader::checkpoints(const JobId& job) {
    return guarded([&] { return checkpoints_of_job(*connection_, job); });
}
Result<std::optional<CheckpointRecord>> SqliteReader::newest_checkpoint(const TaskId& task, std::int64_t at_most) {
    return guarded([&] { return newest_whole_checkpoint(*connection_, task, at_most); });
}
Result<std::vector<OutputRecord>> SqliteReader::outputs(const JobId& job) {
    return guarded([&] { return outputs_of_job(*connection_, job); });
}
Result<std::vector<EventRecord>> SqliteReader::events(const JobId& job, std::int64_t after, int limit) {
    return guarded([&] {
        return job.empty() ? events_after(*connection_, after, limit) : events_of_job(*connection_, job, after, limit);
    });
}
Result<std::vector<MachineRecord>> SqliteReader::machines(bool with_gone, const std::string& cursor, int limit) {
    return guarded([&] { return machine_page(*connection_, with_gone, cursor, limit); });
}
Result<std::optional<MachineRecord>> SqliteReader::machine(const MachineId& id) {
    return guarded([&] { return machine_by_id(*connection_, id); });
}
Result<std::vector<LedgerRecord>> SqliteReader::ledger(const JobId& job, Instant from, Instant to) {
    return guarded([&] {
        return job.empty() ? ledger_in(*connection_, from, to) : ledger_of_job(*connection_, job, from, to);
    });
}
Result<std::vector<ReservationRecord>> SqliteReader::reservations(const JobId& job) {
    return guarded([&] { return reservations_of_job(*connection_, job); });
}
Result<std::optional<DecisionRecord>> SqliteReader::decision(const JobId& job) {
    return guarded([&] { return decision_of_job(*connection_, job); });
}
Result<std::vector<AlertRecord>> SqliteReader::alerts(bool open_only, int limit) {
    return guarded([&] { return db::alerts(*connection_, open_only, limit); });
}
Result<std::optional<IdempotencyRecord>> SqliteReader::idempotency(const std::string& principal,
                                                                   const std::string& key) {
    return guarded([&] { return idempotency_by_key(*connection_, principal, key); });
}
Result<std::vector<HostMarkRecord>> SqliteReader::host_marks() {
    return guarded([&] { return all_host_marks(*connection_); });
}

Result<std::vector<SecretRecord>> SqliteReader::secrets() {
    return guarded([&] { return all_secrets(*connection_); });
}

Result<std::optional<SecretRecord>> SqliteReader::secret(const std::string& name) {
    return guarded([&] { return secret_by_name(*connection_, name); });
}

Result<std::vector<TokenRecord>> SqliteReader::tokens() {
    return guarded([&] { return all_tokens(*connection_); });
}
Result<std::optional<TokenRecord>> SqliteReader::token_by_hash(const std::string& sha256) {
    return guarded([&] { return db::token_by_hash(*connection_, sha256); });
}
Result<QueueRows> SqliteReader::queue(const QueueCursor& after, int limit, Instant now) {
    return guarded([&] { return queue_page(*connection_, after, limit, now); });
}
Result<JobCounts> SqliteReader::job_counts() {
    return guarded([&] { return job_tally(*connection_); });
}

}  // namespace gf::db
