// The WebSockets of the agents: at most one per machine, messages in order both ways. Loop's thread, but `connected`.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "daemon/api/core_port.hpp"
#include "daemon/gateway/sessions.hpp"
#include "daemon/http/exchange.hpp"

namespace gf::gateway {

class AgentSockets : public std::enable_shared_from_this<AgentSockets> {
 public:
    explicit AgentSockets(CorePort& core) : core_(core) {}

    /// The handler of a connection that is being upgraded for `session`. Once open it takes the place of an older one.
    [[nodiscard]] std::shared_ptr<http::SocketHandler> accept(Session session);
    void send(const MachineId& machine, std::string text);
    void close(const MachineId& machine, std::string_view why);
    [[nodiscard]] bool connected(const MachineId& machine) const;  // any thread
    [[nodiscard]] int count() const;                               // any thread
    /// Told of every length of an attempt's output that an agent speaks of. Set before the first connection.
    void on_log_length(std::function<void(const Session&, const std::string& attempt, std::int64_t bytes)> fn) { log_length_ = std::move(fn); }
    /// From now on the core hears nothing more.
    void mute() { muted_ = true; }

 private:
    class Socket;
    void tell(Event event);

    CorePort& core_;
    std::function<void(const Session&, const std::string&, std::int64_t)> log_length_;
    bool muted_{false};
    mutable std::mutex mutex_;  // guards open_
    std::map<MachineId, std::shared_ptr<Socket>> open_;
};

}  // namespace gf::gateway
