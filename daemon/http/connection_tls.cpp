#include "daemon/http/connection.hpp"
#include "daemon/http/tls_stream.hpp"

namespace gf::http {

void start_tls(std::shared_ptr<Listener::Impl> listener, Socket socket, Peer peer, std::string first_bytes) {
    auto connection = std::make_shared<Connection<TlsStream>>(listener, std::move(peer), std::move(first_bytes),
                                                              std::move(socket), listener->options.tls->context);
    listener->add(connection);
    const auto executor = listener->loop.impl().io.get_executor();
    asio::co_spawn(executor, Connection<TlsStream>::run(std::move(connection)), asio::detached);
}

}  // namespace gf::http
