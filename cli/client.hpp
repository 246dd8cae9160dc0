// A thin HTTP client of the daemon's REST API over libcurl. One Client per command; not for several threads.
// Every call blocks until its answer is there, its time is over, or Ctrl-C was pressed where that is caught.
//
// A call that got an answer of any status is an Answer; a Failure means that there is none: connection (120),
// time-out (122), unexpected (123). `get_json` and `send_json` also turn refusals into Failures: 401 and 403
// are auth (121), every other status above 299 is refused (1), and a success that is not JSON is unexpected
// (123).
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/endpoint.hpp"
#include "cli/environment.hpp"
#include "cli/failure.hpp"

namespace gf::cli {

using Query = std::vector<std::pair<std::string, std::string>>;  // empty values are left out

struct Call {
    std::string method{"GET"};
    std::string path;  // with its query, already encoded: see path_of
    std::string body;
    std::string content_type;
    std::vector<std::pair<std::string, std::string>> headers;
    std::string upload_file;                     // streamed from disk instead of `body`
    std::function<bool(std::string_view)> sink;  // takes the body of a 2xx answer; false ends the call
    std::chrono::milliseconds total{30'000};     // 0 = no limit on the whole, but see `stall`
    std::chrono::milliseconds stall{60'000};     // with total 0: longest time without a byte
    std::function<void(std::int64_t, std::int64_t)>
        progress;  // bytes sent or received, and the whole (0 = not known)
};

struct Answer {
    int status{0};
    std::map<std::string, std::string> headers;  // names in lower case
    std::string body;                            // empty where the sink took it
    bool stopped{false};                         // the sink or Ctrl-C ended it before the server did
};

class Client {
 public:
    Client(Endpoint endpoint, Environment& env);
    ~Client();
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;

    [[nodiscard]] Outcome<Answer> send(const Call& call);
    [[nodiscard]] Outcome<nlohmann::json> get_json(const std::string& path);
    [[nodiscard]] Outcome<nlohmann::json> send_json(const Call& call);
    /// All items of a list, following `next_cursor`, at most `items_max`. Answers {"items": […]}.
    [[nodiscard]] Outcome<nlohmann::json> get_all(const std::string& path, Query query,
                                                  std::size_t items_max);

    [[nodiscard]] const Endpoint& endpoint() const { return endpoint_; }
    /// What time it was for the daemon at its last answer that told, in milliseconds since 1970.
    [[nodiscard]] std::optional<std::int64_t> daemon_ms() const { return daemon_ms_; }

 private:
    struct Handle;
    Endpoint endpoint_;
    Environment& env_;
    std::optional<std::int64_t> daemon_ms_;
    std::unique_ptr<Handle> handle_;
};

/// "/v1/jobs/<id>/logs?offset=7": every part of the path and every value percent-encoded, so that what a user
/// typed stays one part of the path.
[[nodiscard]] std::string path_of(const std::vector<std::string_view>& parts, const Query& query = {});

/// A refusal (status above 299) as a Failure with its problem+json. `what` says what was asked for.
[[nodiscard]] Failure refusal(const Answer& answer, std::string_view what);

}  // namespace gf::cli
