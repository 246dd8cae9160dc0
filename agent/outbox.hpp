// Messages to the daemon that must arrive: numbered per boot, kept until their number is acknowledged, sent again on each
// new connection, and remembered by the supervisor over a crash of the worker. Thread-safe.
#pragma once
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "model/agent_protocol.hpp"

namespace gf::agent {

class Outbox {
 public:
    /// `send` queues a frame on the connection, `keep` remembers a state that the next worker is given as `kept`.
    Outbox(std::string boot_id, const std::string& kept, std::function<void(std::string)> send,
           std::function<void(std::string)> keep);

    void push(agent_protocol::FromAgentBody body);
    /// Only the newest progress matters: while there is no connection it waits here without a number.
    void set_progress(const agent_protocol::Progress& progress);
    /// Unnumbered; dropped without a connection.
    void push_heartbeat(const agent_protocol::Heartbeat& heartbeat);
    /// A connection is up: `hello` goes first, then all that was not acknowledged.
    void opened(const agent_protocol::Hello& hello);
    void closed();
    void acknowledged(std::int64_t seq);
    [[nodiscard]] bool empty() const;

 private:
    struct Waiting {
        std::int64_t seq;
        std::string text;
    };
    void put(agent_protocol::FromAgentBody body);
    void remember();

    const std::string boot_id_;
    std::function<void(std::string)> send_;
    std::function<void(std::string)> keep_;
    mutable std::mutex mutex_;  // guards all below, and the order of sending
    std::int64_t last_seq_{0};
    std::deque<Waiting> waiting_;
    std::optional<agent_protocol::Progress> progress_;
    bool open_{false};
};

}  // namespace gf::agent
