// A loopback HTTP/1.1 server whose answers a test decides, one by one: it can delay, cut, truncate, or send
// anything at all, and keeps every request that it got. One thread per connection; all joined in the
// destructor.
#pragma once
#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "model/time.hpp"
#include "providers/http_client.hpp"

namespace gf::test {

struct Received {
    std::string method;
    std::string target;               // path and query as sent
    std::vector<HttpHeader> headers;  // names in lower case
    std::string body;
    int connection{0};  // numbered from 1 in the order of accepting
    [[nodiscard]] std::string header(std::string_view name) const;
    [[nodiscard]] std::string path() const { return target.substr(0, target.find('?')); }
};

enum class Delivery : std::uint8_t {
    whole,
    nothing,      // the connection is closed without a byte
    cut_headers,  // closed in the middle of the status line
    cut_body,     // closed after half of the announced body
};

struct Answer {
    int status{200};
    std::string body{};
    std::string content_type{"application/json"};
    std::vector<HttpHeader> headers{};
    Delivery delivery{Delivery::whole};
    Millis delay{0};    // before answering; ended early by the server's destruction
    bool close{false};  // after a whole answer
};

class ScriptedServer {
 public:
    using Handler = std::function<Answer(const Received&)>;  // called by one thread at a time
    explicit ScriptedServer(Handler handler);
    ~ScriptedServer();
    ScriptedServer(const ScriptedServer&) = delete;
    ScriptedServer& operator=(const ScriptedServer&) = delete;

    [[nodiscard]] std::string url() const;
    [[nodiscard]] std::vector<Received> received() const;
    /// Requests with this method and path prefix.
    [[nodiscard]] int count(std::string_view method, std::string_view path) const;
    void handler(Handler handler);
    /// Waits for a call of the handler to end. Orders what a test has written before it in front of later
    /// calls, and what the handler has written in front of what the test reads after it; the request and
    /// answer in between are invisible to a thread sanitizer.
    void settle() { const std::lock_guard lock(handling_); }
    /// Refuses connections from now on, as a server that is not there.
    void go_away();

 private:
    void accept_loop();
    void serve(int socket, int number);
    Handler handler_;
    int listener_{-1};
    std::uint16_t port_{0};
    std::atomic<bool> stopping_{false};
    mutable std::mutex mutex_;  // guards received_, sockets_, threads_
    std::mutex handling_;       // one call of the handler at a time
    std::condition_variable wake_;
    std::vector<Received> received_;
    std::set<int> sockets_;
    std::vector<std::thread> threads_;
    std::thread acceptor_;
};

}  // namespace gf::test
