// What every handler works with. One `Call` per request; handlers are plain functions in the files named for their subject
// and are listed in routes.cpp. They run on the loop's thread; what takes longer goes to `in_background`.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "daemon/api/core_port.hpp"
#include "daemon/api/server.hpp"
#include "daemon/http/exchange.hpp"
#include "daemon/http/problem.hpp"
#include "daemon/http/wakeups.hpp"
#include "model/id.hpp"

namespace gf::api {

struct Caller {
    std::string principal;      // "socket" or the token's id
    Role role{Role::viewer};
    bool local{false};          // over the unix socket
};

struct Context {
    Context(http::Loop& l, CorePort& c, ServerOptions o);

    http::Loop& loop;
    CorePort& core;
    ServerOptions options;
    std::unique_ptr<Reader> reader;              // the loop's thread only
    std::mutex background_mutex;                 // guards background_readers
    std::vector<std::unique_ptr<Reader>> background_readers;  // of the blocking threads; each is used by one at a time
    std::shared_ptr<http::Wakeups> wakeups;
    IdMaker ids;                                 // of tokens
    std::uint64_t tokens_epoch{0};               // grows when a token was made or revoked: remembered ones are void
    std::atomic<std::int64_t> last_event{0};     // newest event that is known to be in the store
    std::map<int, std::int64_t> answers;         // by status, for /metrics; loop's thread
    std::function<int()> connections;            // open now
};

struct Call {
    std::shared_ptr<Context> api;
    http::Request request;
    Caller caller;
    std::vector<std::string> path;               // the values of the route's {…} parts, in order
    http::Answer answer;

    Context& context() const { return *api; }
    Reader& reader() const { return *api->reader; }
    [[nodiscard]] JobId job() const { return JobId{path.at(0)}; }
};

/// Answers with a JSON body / an error.
void answer_json(const Call& call, int status, std::string body);
void fail_with(const Call& call, const Error& error);

/// Runs `work` on a blocking thread with a reader of its own and answers with what it returns.
void in_background(Call call, std::function<http::Response(const Call&, Reader&)> work);

/// Hands `event` to the core and answers with what comes back: its JSON and status, or its error as a problem.
void ask_core(Call call, Event event);
[[nodiscard]] http::Response response_of(const ApiResult& result);

/// The job of the path; answers 404 (or the store's error) and returns nothing when there is none.
[[nodiscard]] std::optional<JobRecord> find_job(const Call& call);

/// A query value as a whole number in [low, high]; `fallback` when absent. Errors: `invalid` naming key and range.
Result<std::int64_t> number_in_query(const http::Request& request, std::string_view key, std::int64_t fallback,
                                     std::int64_t low, std::int64_t high);
/// "1", "true" / "0", "false"; false when absent. Errors: `invalid`.
Result<bool> flag_in_query(const http::Request& request, std::string_view key);

/// A time, or a day for its beginning in UTC; `fallback` when absent. Errors: `malformed` naming the key.
Result<Instant> instant_in_query(const http::Request& request, std::string_view key, Instant fallback);
/// The canonical names of what `gpu` names, an alias included; empty when absent. Errors: `malformed` with names that are like it.
Result<std::vector<std::string>> cards_in_query(const Call& call);

/// `limit` and `cursor` of a list; the cursor is an opaque text.
struct Page {
    int limit{50};
    std::string cursor;
};
inline constexpr int kPageMax = 1000;
Result<Page> page_of(const http::Request& request);
/// The cursor of a list whose cursors are numbers; 0 when there is none. Errors: `malformed` naming the cursor.
Result<std::int64_t> number_of_cursor(const Page& page);
/// Whether the cursor is empty or an id with this prefix ("job_"). Errors: the same.
Result<void> check_id_cursor(const Page& page, std::string_view prefix);

}  // namespace gf::api
