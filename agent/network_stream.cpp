#include "agent/network_stream.hpp"

#include <openssl/err.h>

namespace gf::agent {
namespace net = boost::asio;

namespace {

Result<void> connect_tcp(net::io_context& io, boost::beast::tcp_stream& stream, const Url& url, Millis limit) {
    net::ip::tcp::resolver resolver(io);
    net::ip::tcp::resolver::results_type found;
    const auto port = std::to_string(url.port);
    const auto resolved = run_to_end(io, [&](auto done) {
        resolver.async_resolve(url.host, port, [&found, done](boost::system::error_code ec, auto results) {
            found = std::move(results);
            done(ec);
        });
    });
    if (resolved) return fail(ErrorKind::unavailable, "resolve " + url.host + ": " + resolved.message());
    stream.expires_after(limit);
    const auto connected = run_to_end(io, [&](auto done) { stream.async_connect(found, done); });
    if (connected) return fail(ErrorKind::unavailable, "connect to " + url.authority() + ": " + connected.message());
    boost::system::error_code ignored;
    stream.socket().set_option(net::ip::tcp::no_delay(true), ignored);
    stream.socket().set_option(net::socket_base::keep_alive(true), ignored);
    return {};
}

Result<void> shake_hands(net::io_context& io, NetworkStream& stream, const Url& url, const std::string& pin, Millis limit) {
    auto& tls = stream.next_layer();
    auto prepared = prepare_tls(tls.native_handle(), url.host, pin);
    if (!prepared) return prepared;
    stream.tcp().expires_after(limit);
    const auto shaken = run_to_end(io, [&](auto done) { tls.async_handshake(net::ssl::stream_base::client, done); });
    if (shaken) {
        const bool refused = ERR_GET_REASON(static_cast<unsigned long>(shaken.value())) == SSL_R_CERTIFICATE_VERIFY_FAILED;
        return fail(refused ? ErrorKind::auth : ErrorKind::unavailable,
                    "TLS with " + url.authority() + ": " + shaken.message());
    }
    if (!check_pin(tls.native_handle(), pin))
        return fail(ErrorKind::auth, "TLS with " + url.authority() + ": its key is not the pinned one");
    return {};
}

}  // namespace

Result<void> open_stream(net::io_context& io, NetworkStream& stream, const Url& url, const std::string& pin, Millis limit) {
    auto reached = connect_tcp(io, stream.tcp(), url, limit);
    if (reached && stream.is_tls()) reached = shake_hands(io, stream, url, pin, limit);
    return reached;
}

}  // namespace gf::agent
