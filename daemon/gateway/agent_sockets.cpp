#include "daemon/gateway/agent_sockets.hpp"

#include <variant>

#include "daemon/core.hpp"
#include "daemon/log.hpp"

namespace gf::gateway {

namespace ap = agent_protocol;

class AgentSockets::Socket final : public http::SocketHandler, public std::enable_shared_from_this<Socket> {
 public:
    Socket(std::weak_ptr<AgentSockets> all, Session session) : all_(std::move(all)), session_(std::move(session)) {}

    void opened(std::shared_ptr<http::SocketPeer> peer) override {
        peer_ = std::move(peer);
        const auto all = all_.lock();
        if (!all) return peer_->close("the daemon is going down");
        std::shared_ptr<Socket> older;
        {
            const std::scoped_lock lock(all->mutex_);
            auto& place = all->open_[session_.machine];
            older = std::exchange(place, shared_from_this());
        }
        if (older) older->close("another connection of this machine took over");
        log::debug("gateway.connected", {{"machine", session_.machine.get()}, {"boot_id", session_.boot_id}});
        all->tell(AgentConnected{.machine = session_.machine, .boot_id = session_.boot_id});
    }

    Result<void> message(std::string text) override {
        const auto all = all_.lock();
        if (!all) return fail(ErrorKind::unavailable, "the daemon is going down");
        if (closing_) return {};  // fenced or destroyed: what it still says is not heard
        if (!is_current(*all)) return fail(ErrorKind::conflict, "another connection of this machine took over");
        auto decoded = ap::decode_from_agent(text);
        if (!decoded && decoded.error().kind == ErrorKind::not_yet) return {};  // of a newer protocol: not for us
        if (!decoded) {
            log::warn("gateway.bad_message", {{"machine", session_.machine.get()}, {"reason", decoded.error().message}});
            return fail(ErrorKind::malformed, "cannot be read: " + decoded.error().message);
        }
        if (decoded->boot_id != session_.boot_id) return fail(ErrorKind::conflict, "boot_id is not that of the session");
        const bool hello = std::holds_alternative<ap::Hello>(decoded->body);
        if (!greeted_ && !hello) return fail(ErrorKind::malformed, "the first message must be hello");
        greeted_ = true;
        if (all->log_length_)
            std::visit(
                [&](const auto& m) {
                    if constexpr (requires { m.log_bytes; })
                        if (m.log_bytes > 0 && !m.attempt.empty()) all->log_length_(session_, m.attempt, m.log_bytes);
                },
                decoded->body);
        all->tell(AgentSaid{.machine = session_.machine, .message = *std::move(decoded)});
        return {};
    }

    void closed() override {
        peer_.reset();
        const auto all = all_.lock();
        if (!all) return;
        {
            const std::scoped_lock lock(all->mutex_);
            const auto found = all->open_.find(session_.machine);
            if (found == all->open_.end() || found->second.get() != this) return;  // replaced: the machine is still connected
            all->open_.erase(found);
        }
        log::debug("gateway.disconnected", {{"machine", session_.machine.get()}});
        all->tell(AgentDisconnected{.machine = session_.machine, .boot_id = session_.boot_id});
    }

    void send(std::string text) {
        if (peer_) peer_->send(std::move(text));
    }
    void close(std::string_view why) {
        closing_ = true;
        if (peer_) peer_->close(why);
    }

 private:
    [[nodiscard]] bool is_current(AgentSockets& all) const {
        const std::scoped_lock lock(all.mutex_);
        const auto found = all.open_.find(session_.machine);
        return found != all.open_.end() && found->second.get() == this;
    }

    std::weak_ptr<AgentSockets> all_;
    Session session_;
    std::shared_ptr<http::SocketPeer> peer_;
    bool greeted_{false};
    bool closing_{false};
};

std::shared_ptr<http::SocketHandler> AgentSockets::accept(Session session) {
    return std::make_shared<Socket>(weak_from_this(), std::move(session));
}

void AgentSockets::send(const MachineId& machine, std::string text) {
    std::shared_ptr<Socket> socket;
    {
        const std::scoped_lock lock(mutex_);
        if (const auto found = open_.find(machine); found != open_.end()) socket = found->second;
    }
    if (socket) socket->send(std::move(text));
}

void AgentSockets::close(const MachineId& machine, std::string_view why) {
    std::shared_ptr<Socket> socket;
    {
        const std::scoped_lock lock(mutex_);
        if (const auto found = open_.find(machine); found != open_.end()) socket = found->second;
    }
    if (socket) socket->close(why);
}

bool AgentSockets::connected(const MachineId& machine) const {
    const std::scoped_lock lock(mutex_);
    return open_.contains(machine);
}

int AgentSockets::count() const {
    const std::scoped_lock lock(mutex_);
    return static_cast<int>(open_.size());
}

void AgentSockets::tell(Event event) {
    if (!muted_) core_.post(std::move(event), nullptr);
}

}  // namespace gf::gateway
