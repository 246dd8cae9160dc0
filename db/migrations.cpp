#include "db/migrations.hpp"

#include <string>

namespace gf::db {
namespace {

void check_owner(Connection& db, std::int64_t version, std::int64_t application_id) {
    const auto owner = db.number("PRAGMA application_id");
    const bool untouched = version == 0 && owner == 0 && db.number("SELECT count(*) FROM sqlite_schema") == 0;
    if (owner != application_id && !untouched)
        throw SqliteError({.kind = ErrorKind::io, .message = "the store file is another program's database"}, 0);
}

void apply(Connection& db, const Migration& migration, std::int64_t application_id) {
    db.run("BEGIN IMMEDIATE");
    try {
        db.run(migration.sql);
        db.run(("PRAGMA application_id = " + std::to_string(application_id)).c_str());
        db.run(("PRAGMA user_version = " + std::to_string(migration.number)).c_str());
        db.run("COMMIT");
    } catch (const SqliteError& failure) {
        db.roll_back();
        Error error = failure.error();
        error.message = std::string("migration ") + migration.name + ": " + error.message;
        throw SqliteError(std::move(error), failure.code());
    }
}

}  // namespace

void migrate(Connection& db) { migrate(db, migrations(), kStoreId); }

void migrate(Connection& db, std::span<const Migration> known, std::int64_t application_id) {
    const auto version = db.number("PRAGMA user_version");
    check_owner(db, version, application_id);
    if (version > known.back().number)
        throw SqliteError({.kind = ErrorKind::conflict,
                           .message = "the store was written by a newer gpuferry (schema " + std::to_string(version) +
                                      ", this one knows up to " + std::to_string(known.back().number) +
                                      "); nothing was changed"},
                          0);
    for (const auto& migration : known)
        if (migration.number > version) apply(db, migration, application_id);
}

}  // namespace gf::db
