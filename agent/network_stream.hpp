// One TCP connection to the daemon, with or without TLS, on an io_context of its own. For http_client.cpp and session.cpp.
#pragma once
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>
#include <boost/beast/websocket/teardown.hpp>
#include <string>

#include "agent/tls.hpp"
#include "agent/url.hpp"
#include "model/time.hpp"

namespace gf::agent {

/// A stream that is TLS or plain by a flag and not by its type, so that HTTP and WebSocket are instantiated once: with two
/// types the agent was a megabyte larger.
class NetworkStream {
 public:
    using next_layer_type = boost::beast::ssl_stream<boost::beast::tcp_stream>;
    using executor_type = next_layer_type::executor_type;

    NetworkStream(boost::asio::io_context& io, boost::asio::ssl::context& context, bool tls) : tls_(tls), inner_(io, context) {}

    [[nodiscard]] executor_type get_executor() { return inner_.get_executor(); }
    [[nodiscard]] next_layer_type& next_layer() { return inner_; }
    [[nodiscard]] const next_layer_type& next_layer() const { return inner_; }
    [[nodiscard]] boost::beast::tcp_stream& tcp() { return inner_.next_layer(); }
    [[nodiscard]] bool is_tls() const { return tls_; }

    template <class Buffers, class Handler>
    void async_read_some(const Buffers& buffers, Handler&& handler) {
        if (tls_) inner_.async_read_some(buffers, std::forward<Handler>(handler));
        else tcp().async_read_some(buffers, std::forward<Handler>(handler));
    }
    template <class Buffers, class Handler>
    void async_write_some(const Buffers& buffers, Handler&& handler) {
        if (tls_) inner_.async_write_some(buffers, std::forward<Handler>(handler));
        else tcp().async_write_some(buffers, std::forward<Handler>(handler));
    }

    /// Beast's way to end a WebSocket: the connection is simply closed, the daemon needs no farewell.
    template <class Handler>
    friend void async_teardown(boost::beast::role_type role, NetworkStream& stream, Handler&& handler) {
        async_teardown(role, stream.tcp().socket(), std::forward<Handler>(handler));
    }
    friend void beast_close_socket(NetworkStream& stream) { stream.tcp().close(); }

 private:
    bool tls_;
    next_layer_type inner_;
};

/// Starts one asynchronous operation and runs the context until it is over; blocking, with the time limit of the stream.
/// Not `io.run()`: a WebSocket leaves a timer behind a refused handshake, for which that would wait half a minute.
template <class Start>
boost::system::error_code run_to_end(boost::asio::io_context& io, Start start) {
    boost::system::error_code result = boost::asio::error::operation_aborted;
    bool over = false;
    start([&](boost::system::error_code ec, auto&&...) {
        result = ec;
        over = true;
    });
    io.restart();
    while (!over && io.run_one() > 0) continue;
    return result;
}

/// Resolves, connects, and, where the URL says so, makes the TLS handshake and judges the peer. `limit` for each step.
/// Errors: `unavailable`, `auth` (certificate or pin).
Result<void> open_stream(boost::asio::io_context& io, NetworkStream& stream, const Url& url, const std::string& pin, Millis limit);

}  // namespace gf::agent
