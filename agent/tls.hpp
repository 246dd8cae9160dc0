// TLS as both the HTTP client and the WebSocket use it. Includes Asio: for the .cpp files of the network only.
#pragma once
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <string>
#include <string_view>

#include "model/result.hpp"

namespace gf::agent {

/// A client context, TLS 1.2 or later. With a pin the peer is judged by `check_pin` after the handshake, else by the
/// embedded CA bundle (which is not loaded where no TLS is spoken).
[[nodiscard]] boost::asio::ssl::context make_tls_context(bool tls, const std::string& pin);
/// Server name and, without a pin, the host name that the certificate must have.
Result<void> prepare_tls(SSL* ssl, const std::string& host, const std::string& pin);
/// After the handshake and before the first byte: is it the pinned key? True without a pin.
[[nodiscard]] bool check_pin(SSL* ssl, const std::string& pin);

/// The CA certificates that the agent carries, PEM.
[[nodiscard]] std::string_view embedded_ca_bundle();

}  // namespace gf::agent
