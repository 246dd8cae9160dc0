#include <string>

#include "db/columns.hpp"
#include "db/history_tables.hpp"
#include "db/rows.hpp"

namespace gf::db {
namespace {

void read_token(Query& q, TokenRecord& r) {
    q.read(r.id, r.name, r.role, r.sha256, r.created_at, r.revoked_at);
}

void read_secret(Query& q, SecretRecord& r) {
    q.read(r.name, r.sealed, r.principal, r.created_at, r.updated_at);
}

}  // namespace

void put_decision(Connection& db, const DecisionRecord& row) {
    static constexpr char sql[] =
        "INSERT INTO decisions (job, at, json) VALUES (?1, ?2, ?3) "
        "ON CONFLICT (job) DO UPDATE SET at = excluded.at, json = excluded.json";
    Query q(db, sql);
    q.bind(row.job, row.at, row.json);
    q.run();
}

std::optional<DecisionRecord> decision_of_job(Connection& db, const JobId& job) {
    static constexpr char sql[] = "SELECT job, at, json FROM decisions WHERE job = ?1";
    Query q(db, sql);
    q.bind(job);
    return one_row<DecisionRecord>(q, [](Query& r, DecisionRecord& row) { r.read(row.job, row.at, row.json); });
}

void insert_idempotency(Connection& db, const IdempotencyRecord& row) {
    static constexpr char sql[] =
        "INSERT INTO idempotency (principal, key, body_sha256, job, created_at) VALUES (?1, ?2, ?3, ?4, ?5)";
    Query q(db, sql);
    q.bind(row.principal, row.key, row.body_sha256, row.job, row.created_at);
    q.run();
}

std::optional<IdempotencyRecord> idempotency_by_key(Connection& db, const std::string& principal,
                                                    const std::string& key) {
    static constexpr char sql[] =
        "SELECT principal, key, body_sha256, job, created_at FROM idempotency WHERE principal = ?1 AND key = ?2";
    Query q(db, sql);
    q.bind(principal, key);
    return one_row<IdempotencyRecord>(q, [](Query& r, IdempotencyRecord& row) {
        r.read(row.principal, row.key, row.body_sha256, row.job, row.created_at);
    });
}

int delete_idempotency(Connection& db, Instant before, int limit) {
    static constexpr char sql[] =
        "DELETE FROM idempotency WHERE (principal, key) IN "
        "(SELECT principal, key FROM idempotency WHERE created_at < ?1 ORDER BY created_at LIMIT ?2)";
    Query q(db, sql);
    q.bind(before, limit);
    return q.run();
}

void put_token(Connection& db, const TokenRecord& row) {
    static constexpr char sql[] =
        "INSERT INTO tokens (id, name, role, sha256, created_at, revoked_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6) "
        "ON CONFLICT (id) DO UPDATE SET name = excluded.name, role = excluded.role, sha256 = excluded.sha256, "
        "created_at = excluded.created_at, revoked_at = excluded.revoked_at";
    Query q(db, sql);
    q.bind(row.id, row.name, row.role, row.sha256, row.created_at, row.revoked_at);
    q.run();
}

std::vector<TokenRecord> all_tokens(Connection& db) {
    static constexpr char sql[] = "SELECT id, name, role, sha256, created_at, revoked_at FROM tokens ORDER BY id";
    Query q(db, sql);
    return all_rows<TokenRecord>(q, read_token);
}

std::optional<TokenRecord> token_by_hash(Connection& db, const std::string& sha256) {
    static constexpr char sql[] =
        "SELECT id, name, role, sha256, created_at, revoked_at FROM tokens WHERE sha256 = ?1";
    Query q(db, sql);
    q.bind(sha256);
    return one_row<TokenRecord>(q, read_token);
}

void put_host_mark(Connection& db, const HostMarkRecord& row) {
    static constexpr char sql[] =
        "INSERT INTO host_marks (key, boot_failures, slow_pulls, early_losses, good_runs, last, at) "
        "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (key) DO UPDATE SET "
        "boot_failures = excluded.boot_failures, slow_pulls = excluded.slow_pulls, early_losses = excluded.early_losses, "
        "good_runs = excluded.good_runs, last = excluded.last, at = excluded.at";
    Query q(db, sql);
    q.bind(row.key, row.boot_failures, row.slow_pulls, row.early_losses, row.good_runs, row.last, row.at);
    q.run();
}

void drop_host_mark(Connection& db, const std::string& key) {
    static constexpr char sql[] = "DELETE FROM host_marks WHERE key = ?1";
    Query q(db, sql);
    q.bind(key);
    q.run();
}

std::vector<HostMarkRecord> all_host_marks(Connection& db) {
    static constexpr char sql[] =
        "SELECT key, boot_failures, slow_pulls, early_losses, good_runs, last, at FROM host_marks ORDER BY key";
    Query q(db, sql);
    return all_rows<HostMarkRecord>(q, [](Query& r, HostMarkRecord& row) {
        r.read(row.key, row.boot_failures, row.slow_pulls, row.early_losses, row.good_runs, row.last, row.at);
    });
}

void put_learned(Connection& db, const LearnedRecord& row) {
    static constexpr char sql[] =
        "INSERT INTO learned (kind, key, value, at) VALUES (?1, ?2, ?3, ?4) "
        "ON CONFLICT (kind, key) DO UPDATE SET value = excluded.value, at = excluded.at";
    Query q(db, sql);
    q.bind(row.kind, row.key, row.value, row.at);
    q.run();
}

void drop_learned(Connection& db, const DropLearned& change) {
    static constexpr char sql[] = "DELETE FROM learned WHERE kind = ?1 AND key = ?2";
    Query q(db, sql);
    q.bind(change.kind, change.key);
    q.run();
}

std::vector<LearnedRecord> all_learned(Connection& db) {
    static constexpr char sql[] = "SELECT kind, key, value, at FROM learned ORDER BY kind, key";
    Query q(db, sql);
    return all_rows<LearnedRecord>(q, [](Query& r, LearnedRecord& row) { r.read(row.kind, row.key, row.value, row.at); });
}

void put_secret(Connection& db, const SecretRecord& row) {
    static constexpr char sql[] =
        "INSERT INTO secrets (name, sealed, principal, created_at, updated_at) VALUES (?1, ?2, ?3, ?4, ?5) "
        "ON CONFLICT (name) DO UPDATE SET sealed = excluded.sealed, principal = excluded.principal, "
        "updated_at = excluded.updated_at";
    Query q(db, sql);
    q.bind(row.name, row.sealed, row.principal, row.created_at, row.updated_at);
    q.run();
}

void drop_secret(Connection& db, const std::string& name) {
    static constexpr char sql[] = "DELETE FROM secrets WHERE name = ?1";
    Query q(db, sql);
    q.bind(name);
    q.run();
}

std::vector<SecretRecord> all_secrets(Connection& db) {
    static constexpr char sql[] = "SELECT name, sealed, principal, created_at, updated_at FROM secrets ORDER BY name";
    Query q(db, sql);
    return all_rows<SecretRecord>(q, read_secret);
}

std::optional<SecretRecord> secret_by_name(Connection& db, const std::string& name) {
    static constexpr char sql[] =
        "SELECT name, sealed, principal, created_at, updated_at FROM secrets WHERE name = ?1";
    Query q(db, sql);
    q.bind(name);
    return one_row<SecretRecord>(q, read_secret);
}

void put_meta(Connection& db, const PutMeta& change) {
    static constexpr char sql[] =
        "INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = excluded.value";
    Query q(db, sql);
    q.bind(change.key, change.value);
    q.run();
}

std::vector<std::pair<std::string, std::string>> meta_with_prefix(Connection& db, const std::string& prefix) {
    static constexpr char sql[] = "SELECT key, value FROM meta WHERE key >= ?1 AND key < ?2 ORDER BY key";
    std::string after = prefix;
    after.back() = static_cast<char>(after.back() + 1);
    Query q(db, sql);
    q.bind(prefix, after);
    std::vector<std::pair<std::string, std::string>> found;
    while (q.step()) {
        std::string key(q.take_text());
        found.emplace_back(std::move(key), std::string(q.take_text()));
    }
    return found;
}

std::optional<std::string> meta_value(Connection& db, const std::string& key) {
    static constexpr char sql[] = "SELECT value FROM meta WHERE key = ?1";
    Query q(db, sql);
    q.bind(key);
    return one_row<std::string>(q, [](Query& r, std::string& value) { r.read(value); });
}

}  // namespace gf::db
