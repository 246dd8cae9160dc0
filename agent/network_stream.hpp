// One TCP connection to the daemon, with or without TLS, on an io_context of its own. For http_client.cpp and session.cpp.
#pragma once
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>
#include <memory>
#include <string>

#include "agent/tls.hpp"
#include "agent/url.hpp"
#include "model/time.hpp"

namespace gf::agent {

using PlainStream = boost::beast::tcp_stream;
using TlsStream = boost::beast::ssl_stream<boost::beast::tcp_stream>;

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

/// Resolves and connects. Errors: `unavailable`.
Result<void> connect_tcp(boost::asio::io_context& io, boost::beast::tcp_stream& stream, const Url& url, Millis limit);
/// The TLS handshake and the judgement of the peer. Errors: `unavailable`, `auth`.
Result<void> connect_tls(boost::asio::io_context& io, TlsStream& stream, const Url& url, const std::string& pin, Millis limit);

}  // namespace gf::agent
