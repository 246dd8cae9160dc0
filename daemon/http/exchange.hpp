// One HTTP exchange as the rooms above see it: plain values, no Boost. A Service looks at the head of a request and says
// what to do with the body, then gets the whole request and answers once. Everything here happens on the loop's thread
// unless it says otherwise.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/result.hpp"
#include "model/time.hpp"

namespace gf::http {

enum class Method : std::uint8_t { get, head, post, put, delete_, other };
[[nodiscard]] std::string_view text(Method m);

struct Peer {
    bool unix_socket{false};
    uid_t uid{0};               // of the other end; only for a unix socket
    bool loopback{false};       // both ends are loopback addresses
    bool tls{false};
    std::string address;        // for the log; empty for a unix socket
};

/// Takes a body piece by piece; for bodies too large for memory.
class BodySink {
 public:
    virtual ~BodySink() = default;
    /// Called on a blocking thread, one call at a time. An error ends the exchange: its answer is sent, the connection
    /// closed.
    virtual Result<void> write(std::string_view piece) = 0;
};

/// What a service found out about a request when it saw the head, and wants back with the body.
class Finding {
 public:
    virtual ~Finding() = default;
};

struct Request {
    Method method{Method::other};
    std::string path;                                          // as sent, without the query
    std::vector<std::string> segments;                         // of the path, percent-decoded: "/v1/jobs" = {"v1", "jobs"}
    std::vector<std::pair<std::string, std::string>> query;    // percent-decoded, in order
    std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
    std::optional<std::int64_t> content_length;
    std::string body;
    std::unique_ptr<BodySink> sink;                            // the one from BodyPlan, with all bytes in it
    std::unique_ptr<Finding> finding;                          // the one from BodyPlan
    Peer peer;
    bool http_1_0{false};                                      // or older

    /// Empty when absent; the first when given twice.
    [[nodiscard]] std::string_view header(std::string_view lower_case_name) const;
    [[nodiscard]] const std::string* query_value(std::string_view key) const;
};

/// Makes a body piece by piece.
class BodyStream {
 public:
    enum class State : std::uint8_t {
        more,    // ask again at once
        wait,    // nothing more now: ask again after a wake or `idle()`
        end,
        broken,  // cannot go on: the connection is cut, so that the reader sees that the body is not whole
    };
    virtual ~BodyStream() = default;
    /// Appends a piece (up to some 256 KiB) to `out`. On the loop's thread, and then quick, unless `blocking()`.
    virtual State next(std::string& out) = 0;
    [[nodiscard]] virtual bool blocking() const { return false; }
    /// True for bodies that wait for something: they count against the listener's `streams_max`, and the connection is
    /// watched for a reader who has left.
    [[nodiscard]] virtual bool follows() const { return false; }
    [[nodiscard]] virtual Millis idle() const { return Seconds{15}; }
    /// Called once, before the first `next`: `wake` may be called on the loop's thread when there is more.
    virtual void on_wake(std::function<void()> /*wake*/) {}
};

/// The other end of a WebSocket. Loop's thread only.
class SocketPeer {
 public:
    virtual ~SocketPeer() = default;
    /// Queues a text frame. More than 16 MiB waiting ends the connection: the reader is stuck.
    virtual void send(std::string text) = 0;
    /// Closes after what is queued was sent.
    virtual void close(std::string_view why) = 0;
};

class SocketHandler {
 public:
    virtual ~SocketHandler() = default;
    virtual void opened(std::shared_ptr<SocketPeer> peer) = 0;
    /// One text frame. An error ends the connection with its message as the close reason.
    virtual Result<void> message(std::string text) = 0;
    /// Called once, after the last `message`.
    virtual void closed() = 0;
};

struct Response {
    int status{200};
    std::string content_type{"application/json"};
    std::vector<std::pair<std::string, std::string>> headers;
    std::string body;
    std::unique_ptr<BodyStream> stream;           // instead of `body`
    std::optional<std::int64_t> stream_length;    // Content-Length of the stream; absent = chunked
    std::shared_ptr<SocketHandler> websocket;     // instead of an answer: upgrade
    std::size_t websocket_message_max{1 << 20};
    Millis websocket_silence{Seconds{90}};
    bool close{false};                            // end the connection after this answer
};

/// What to do with the body of a request.
struct BodyPlan {
    std::optional<Response> refuse;    // answer this at once; the body is not read
    std::int64_t body_max{0};          // larger bodies get 413 with this number
    std::unique_ptr<BodySink> sink;    // where it goes; null = into Request::body
    std::unique_ptr<Finding> finding;  // handed back in Request::finding
};

/// "Tue, 01 Dec 2026 08:00:00 GMT", as the header Date has it.
[[nodiscard]] std::string http_date(Instant at);

/// Call once, on the loop's thread; later calls do nothing.
using Answer = std::function<void(Response)>;

class Service {
 public:
    virtual ~Service() = default;
    /// The head is here, the body is not. Must not block.
    virtual BodyPlan admit(const Request& head) = 0;
    /// Must not block; answers now or later.
    virtual void serve(Request request, Answer answer) = 0;
};

}  // namespace gf::http
