#include "daemon/http/connection.hpp"

namespace gf::http {

void start_plain(std::shared_ptr<Listener::Impl> listener, Socket socket, Peer peer, std::string first_bytes) {
    auto connection = std::make_shared<Connection<Socket>>(listener, std::move(peer), std::move(first_bytes), std::move(socket));
    listener->add(connection);
    const auto executor = listener->loop.impl().io.get_executor();
    asio::co_spawn(executor, Connection<Socket>::run(std::move(connection)), asio::detached);
}

}  // namespace gf::http
