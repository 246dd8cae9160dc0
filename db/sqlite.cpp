#include "db/sqlite.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace gf::db {
namespace {

// SQLite gives a new file the process's umask and copies the mode of the database to its -wal and -shm files, so the
// file is made with the right mode before SQLite sees it. A file that is there is never opened here: closing any descriptor
// of it drops every lock that SQLite holds on it in this process (POSIX), and the next process to close its connection would
// take itself for the last one and delete the log that we are writing to.
void make_private_file(const std::string& path) {
    std::error_code ignored;  // a failure shows in the open below, with its own reason
    const auto parent = std::filesystem::path(path).parent_path();
    if (!parent.empty() && !std::filesystem::exists(parent, ignored)) {
        std::filesystem::create_directories(parent, ignored);
        std::filesystem::permissions(parent, std::filesystem::perms::owner_all, ignored);
    }
    if (::chmod(path.c_str(), 0600) == 0) return;
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 && errno != EEXIST) {
        const int cause = errno;
        throw SqliteError({.kind = kind_of(SQLITE_CANTOPEN, cause),
                           .message = "cannot open the store " + path + ": " + std::strerror(cause)},
                          SQLITE_CANTOPEN);
    }
    if (fd >= 0) ::close(fd);
}

// SQLite counts every byte that it allocates under one mutex for all connections, unless told not to before its first
// use. Nobody reads that figure; without it a commit costs a tenth less.
void set_up_library() {
    [[maybe_unused]] static const int once = sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
}

}  // namespace

ErrorKind kind_of(int code, int system_errno) {
    switch (code & 0xff) {
        case SQLITE_BUSY:
        case SQLITE_LOCKED: return ErrorKind::busy;
        case SQLITE_FULL: return ErrorKind::full;
        case SQLITE_IOERR:
        case SQLITE_CANTOPEN:
            return system_errno == ENOSPC || system_errno == EDQUOT ? ErrorKind::full : ErrorKind::io;
        default: return ErrorKind::io;
    }
}

Connection::Connection(const std::string& path) : path_(path), in_memory_(path == ":memory:") {
    set_up_library();
    if (!in_memory_) make_private_file(path);
    // No mutex: a connection is used by one thread at a time (db/store.hpp).
    const int code = sqlite3_open_v2(path.c_str(), &handle_,
                                     SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
    if (code == SQLITE_OK) {
        sqlite3_extended_result_codes(handle_, 1);
        return;
    }
    Error error{.kind = kind_of(code, sqlite3_system_errno(handle_)),
                .message = "cannot open the store " + path + ": " + sqlite3_errmsg(handle_)};
    sqlite3_close_v2(handle_);
    throw SqliteError(std::move(error), code & 0xff);
}

Connection::~Connection() {
    statements_.clear();
    sqlite3_close_v2(handle_);
}

void Connection::raise(int code, const char* doing) const {
    const int cause = sqlite3_system_errno(handle_);
    Error error{.kind = kind_of(code, cause),
                .message = "store " + path_ + ": " + sqlite3_errmsg(handle_) + " (code " + std::to_string(code) + ")"};
    if (cause != 0 && (code & 0xff) == SQLITE_IOERR) error.message += std::string(", ") + std::strerror(cause);
    constexpr std::size_t shown_max = 160;  // a migration is a long text, and its start says which one it is
    error.message += " at: " + std::string(std::string_view(doing).substr(0, shown_max));
    if (error.kind == ErrorKind::busy) error.retry_after = Seconds{1};
    throw SqliteError(std::move(error), code & 0xff);
}

void Connection::run(const char* sql) {
    const int code = sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr);
    if (code != SQLITE_OK) raise(code, sql);
}

std::int64_t Connection::number(const char* sql) {
    sqlite3_stmt* raw = nullptr;
    if (const int code = sqlite3_prepare_v2(handle_, sql, -1, &raw, nullptr); code != SQLITE_OK) raise(code, sql);
    const std::unique_ptr<sqlite3_stmt, Finalize> statement(raw);
    if (const int code = sqlite3_step(raw); code != SQLITE_ROW) raise(code, sql);
    return sqlite3_column_int64(raw, 0);
}

sqlite3_stmt* Connection::prepared(const char* sql) {
    auto& slot = statements_[sql];
    if (slot) return slot.get();
    sqlite3_stmt* raw = nullptr;
    const int code = sqlite3_prepare_v3(handle_, sql, -1, SQLITE_PREPARE_PERSISTENT, &raw, nullptr);
    if (code != SQLITE_OK) raise(code, sql);
    slot.reset(raw);
    return raw;
}

void Connection::roll_back() noexcept {
    // After SQLITE_FULL and some input/output errors SQLite has rolled back by itself already.
    if (in_transaction()) sqlite3_exec(handle_, "ROLLBACK", nullptr, nullptr, nullptr);
}

bool Query::step() {
    column_ = 0;
    const int code = sqlite3_step(statement_);
    if (code == SQLITE_ROW) return true;
    if (code != SQLITE_DONE) connection_.raise(code, sqlite3_sql(statement_));
    return false;
}

int Query::run() {
    GF_ASSERT(!step());
    return connection_.changes();
}

void Query::put_integer(std::int64_t value) {
    const int code = sqlite3_bind_int64(statement_, ++parameter_, value);
    if (code != SQLITE_OK) connection_.raise(code, sqlite3_sql(statement_));
}

void Query::put_text(std::string_view value) {
    // A null pointer would bind NULL, and an empty view may hold one.
    const char* data = value.data() != nullptr ? value.data() : "";
    const int code = sqlite3_bind_text64(statement_, ++parameter_, data, value.size(), SQLITE_STATIC, SQLITE_UTF8);
    if (code != SQLITE_OK) connection_.raise(code, sqlite3_sql(statement_));
}

std::string_view Query::take_text() {
    const auto* data = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column_));
    const auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement_, column_));
    ++column_;
    return data != nullptr ? std::string_view(data, size) : std::string_view();
}

void Query::unreadable(std::string_view content) const {
    throw SqliteError({.kind = ErrorKind::io,
                       .message = "store: column " + std::to_string(column_) + " holds '" + std::string(content) +
                                  "', which this program does not know, at: " + sqlite3_sql(statement_)},
                      0);
}

}  // namespace gf::db
