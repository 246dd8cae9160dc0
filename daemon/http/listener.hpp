// A listening socket and the connections that came through it: limits, deadlines, keep-alive, TLS by first byte. Each
// request goes to one Service.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "daemon/http/exchange.hpp"
#include "daemon/http/loop.hpp"
#include "daemon/http/tls.hpp"

namespace gf::http {

struct ListenOptions {
    std::string address;           // "127.0.0.1:8470", "[::]:0"; or
    std::string unix_path;         // a socket file, mode 0600; an old one is replaced
    std::shared_ptr<TlsIdentity> tls;  // connections that begin with a TLS record get it; null = plain only
    int connections_max{4096};
    int streams_max{2048};
    std::uint32_t header_max{16 * 1024};   // bytes; more gets 431
    Millis first_request{Seconds{15}};     // from accept to a whole head
    Millis keep_alive{Seconds{60}};        // from an answer to the next whole head
    Millis progress{Seconds{60}};          // longest time without a byte moving in a body, either way
    std::function<Instant()> now;          // the time in Date, on the loop's thread; empty = answers carry none
};

class Listener {
 public:
    /// `loop` and `service` outlive the listener. The loop must be running for start and stop.
    Listener(Loop& loop, Service& service, ListenOptions options);
    ~Listener();
    /// Errors: `io` with the address and the reason.
    Result<void> start();
    /// Closes the socket and every connection, and waits until they are gone. Not on the loop's thread. Idempotent.
    void stop();
    [[nodiscard]] std::uint16_t port() const;
    [[nodiscard]] int connections() const;  // open now; any thread

    struct Impl;

 private:
    std::shared_ptr<Impl> impl_;
};

}  // namespace gf::http
