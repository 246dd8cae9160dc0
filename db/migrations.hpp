// The history of a schema. Each db/migrations/NNNN_name.sql is embedded in the binary and applied once, in its own
// transaction, in order; PRAGMA user_version holds the number of the last one. There is no way back. The history of the market
// (db/market_store.hpp) is another file with migrations of its own, in db/market_migrations.
#pragma once
#include <span>

#include "db/sqlite.hpp"

namespace gf::db {

struct Migration {
    int number;        // 1, 2, …
    const char* name;  // the file's name
    const char* sql;
};

[[nodiscard]] std::span<const Migration> migrations();
[[nodiscard]] std::span<const Migration> market_migrations();

/// Marks a file as what it is, for file(1) and for the check that it is not another one.
inline constexpr std::int64_t kStoreId = 0x67667279;   // "gfry"
inline constexpr std::int64_t kMarketId = 0x67666d6b;  // "gfmk"

/// Brings the file up to date. Throws SqliteError: `conflict` for a file of a newer schema, `io` for a file that is
/// some other program's database.
void migrate(Connection& db);
void migrate(Connection& db, std::span<const Migration> known, std::int64_t application_id);

}  // namespace gf::db
