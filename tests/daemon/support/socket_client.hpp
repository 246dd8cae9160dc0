// A WebSocket client for tests: messages are read by a thread of its own and waited for with a bound.
#pragma once
#include <memory>
#include <optional>
#include <string>

namespace gf::test {

class SocketClient {
 public:
    /// Connects to wss (or ws) on loopback. `status()` tells how the upgrade went: 101 = open.
    SocketClient(int port, const std::string& token, bool tls);
    ~SocketClient();
    [[nodiscard]] int status() const;
    void send(const std::string& text);
    void send_binary(const std::string& bytes);
    /// The next message; nothing after `seconds` or when the connection is over.
    [[nodiscard]] std::optional<std::string> receive(int seconds = 10);
    /// Waits until the server has ended the connection.
    [[nodiscard]] bool ended(int seconds = 10);
    /// What the server said when it closed.
    [[nodiscard]] std::string reason() const;
    /// Cuts the connection without a word.
    void cut();

 private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace gf::test
