// What a listener and its connections share. The http room's own.
#pragma once
#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/beast/http/fields.hpp>
#include <future>
#include <memory>
#include <set>
#include <string>
#include <variant>

#include "daemon/http/listener.hpp"
#include "daemon/http/loop_impl.hpp"
#include "daemon/http/tls_context.hpp"

namespace gf::http {

/// One connection as the listener sees it. Loop's thread only.
class ConnectionBase {
 public:
    virtual ~ConnectionBase() = default;
    /// Ends it soon, whatever it is doing.
    virtual void abort() = 0;
    [[nodiscard]] SteadyClock::time_point deadline() const { return deadline_; }

 protected:
    SteadyClock::time_point deadline_{SteadyClock::time_point::max()};
};

struct Listener::Impl : std::enable_shared_from_this<Listener::Impl> {
    Impl(Loop& l, Service& s, ListenOptions o) : loop(l), service(s), options(std::move(o)), sweeper(loop.impl().io) {}

    Loop& loop;
    Service& service;
    ListenOptions options;
    Timer sweeper;  // once a second: ends the connections whose deadline has passed
    std::function<void()> close_acceptor;
    std::set<std::shared_ptr<ConnectionBase>> open;
    std::atomic<int> open_count{0};
    int streams{0};
    std::uint16_t port{0};
    bool stopping{false};
    std::shared_ptr<std::promise<void>> all_gone;

    void add(std::shared_ptr<ConnectionBase> connection);
    void remove(const std::shared_ptr<ConnectionBase>& connection);
};

/// Starts the conversation on a fresh socket. The two are in their own files: each is a costly instantiation.
void start_plain(std::shared_ptr<Listener::Impl> listener, Socket socket, Peer peer, std::string first_bytes);
void start_tls(std::shared_ptr<Listener::Impl> listener, Socket socket, Peer peer, std::string first_bytes);

/// Fills in method, path, segments, query and headers. Errors: `malformed` for a target that is not one.
Result<Request> make_request(std::string_view method, std::string_view target, const boost::beast::http::fields& fields);

}  // namespace gf::http
