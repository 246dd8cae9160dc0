// A thin layer over SQLite: a connection that caches its prepared statements, and a query that resets its statement when
// it goes out of scope. Inside db/ a failure is thrown as SqliteError and caught at the edge of each Store or Reader
// call (`guarded`), because a table function with a status check after every bind would hide what it does.
#pragma once
#include <sqlite3.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "model/result.hpp"

namespace gf::db {

/// What SQLite refused, already sorted into the kinds that callers act on: `busy`, `full`, `io`, `conflict`.
class SqliteError : public std::exception {
 public:
    SqliteError(Error error, int code) : error_(std::move(error)), code_(code) {}
    [[nodiscard]] const char* what() const noexcept override { return error_.message.c_str(); }
    [[nodiscard]] const Error& error() const { return error_; }
    /// The primary result code; 0 when the failure was found by our own check.
    [[nodiscard]] int code() const { return code_; }

 private:
    Error error_;
    int code_;
};

/// `busy` for a lock held elsewhere, `full` for SQLITE_FULL and for input/output errors whose cause was a full disk or
/// quota, `io` for all else.
[[nodiscard]] ErrorKind kind_of(int code, int system_errno);

class Connection {
 public:
    /// Opens or creates the file (mode 0600, in a directory made 0700 if it is missing); ":memory:" is private to this
    /// connection. Throws SqliteError with the path in it.
    explicit Connection(const std::string& path);
    ~Connection();
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    /// Runs a script of statements without results. Throws SqliteError.
    void run(const char* sql);
    /// One integer from a statement that gives one row, such as a PRAGMA.
    [[nodiscard]] std::int64_t number(const char* sql);
    /// The statement for this text, prepared on first use and kept. The pointer is the key: `sql` must be a constant.
    [[nodiscard]] sqlite3_stmt* prepared(const char* sql);
    /// Rows changed by the statement that ran last, without those changed by triggers.
    [[nodiscard]] int changes() const { return sqlite3_changes(handle_); }
    [[nodiscard]] bool in_transaction() const { return sqlite3_get_autocommit(handle_) == 0; }
    /// Ends an open transaction without keeping it; never throws, since it runs while another failure is handled.
    void roll_back() noexcept;
    [[nodiscard]] bool in_memory() const { return in_memory_; }
    [[nodiscard]] sqlite3* handle() const { return handle_; }
    [[noreturn]] void raise(int code, const char* doing) const;

 private:
    struct Finalize {
        void operator()(sqlite3_stmt* s) const { sqlite3_finalize(s); }
    };
    std::string path_;
    bool in_memory_;
    sqlite3* handle_{nullptr};
    std::unordered_map<const char*, std::unique_ptr<sqlite3_stmt, Finalize>> statements_;
};

/// One use of a prepared statement. Bound texts are not copied: they must live until the query is gone.
class Query {
 public:
    Query(Connection& connection, const char* sql) : connection_(connection), statement_(connection.prepared(sql)) {}
    ~Query() {
        sqlite3_reset(statement_);
        sqlite3_clear_bindings(statement_);
    }
    Query(const Query&) = delete;
    Query& operator=(const Query&) = delete;

    /// Binds the values to ?1, ?2, … in order. A second call goes on where the first ended.
    template <class... Values>
    Query& bind(const Values&... values) {
        (put(*this, values), ...);  // overloads in db/columns.hpp
        return *this;
    }
    /// True while there is a row.
    bool step();
    /// For statements that give no row. Returns the rows changed.
    int run();
    /// Reads the next columns of the row in order.
    template <class... Values>
    void read(Values&... values) {
        (take(*this, values), ...);
    }

    void put_null() { ++parameter_; }
    void put_integer(std::int64_t value);
    void put_text(std::string_view value);
    [[nodiscard]] bool next_is_null() const { return sqlite3_column_type(statement_, column_) == SQLITE_NULL; }
    void skip() { ++column_; }
    [[nodiscard]] std::int64_t take_integer() { return sqlite3_column_int64(statement_, column_++); }
    [[nodiscard]] std::string_view take_text();
    /// For a column whose content cannot have been written by this program.
    [[noreturn]] void unreadable(std::string_view content) const;

 private:
    Connection& connection_;
    sqlite3_stmt* statement_;
    int parameter_{0};
    int column_{0};
};

inline constexpr char kBegin[] = "BEGIN";
inline constexpr char kBeginWrite[] = "BEGIN IMMEDIATE";

/// Runs `body` between BEGIN and COMMIT; whatever it throws leaves nothing behind.
template <class Body>
void in_transaction(Connection& db, const char* begin, Body body) {
    try {
        Query(db, begin).run();
        body();
        Query(db, "COMMIT").run();
    } catch (const SqliteError&) {
        db.roll_back();
        throw;
    }
}

/// Runs `body` and turns what it throws into the Error of a Result: the one that `told` makes of it.
template <class Body, class Told>
auto guarded(Body body, Told told) -> Result<decltype(body())> {
    try {
        if constexpr (std::is_void_v<decltype(body())>) {
            body();
            return {};
        } else {
            return body();
        }
    } catch (const SqliteError& failure) {
        return std::unexpected(told(failure));
    }
}

/// The same with the error as it was thrown.
template <class Body>
auto guarded(Body body) {
    return guarded(std::move(body), [](const SqliteError& failure) { return failure.error(); });
}

}  // namespace gf::db
