// The schema's history. Each db/migrations/NNNN_name.sql is embedded in the binary and applied once, in its own
// transaction, in order; PRAGMA user_version holds the number of the last one. There is no way back.
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

/// Brings the file up to date. Throws SqliteError: `conflict` for a file of a newer schema, `io` for a file that is
/// some other program's database.
void migrate(Connection& db);

}  // namespace gf::db
