// A small blocking HTTP/1.1 server: one thread accepts, one thread per connection. Made for a handful of
// clients that keep their connections; a handler may block (faults do), and then blocks only its own
// connection.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "model/result.hpp"
#include "simulator/http.hpp"

namespace gf::sim {

class HttpServer {
 public:
    /// Listens at once. Port 0 takes a free one. Bodies over `body_max` are read and dropped, and marked too
    /// large.
    [[nodiscard]] static Result<std::unique_ptr<HttpServer>> listen(const std::string& address,
                                                                    std::uint16_t port, HttpHandler handler,
                                                                    std::size_t body_max);
    /// Closes the listener and all connections, and waits for the handlers: they must not block for ever.
    virtual ~HttpServer() = default;
    [[nodiscard]] virtual std::uint16_t port() const = 0;
};

}  // namespace gf::sim
