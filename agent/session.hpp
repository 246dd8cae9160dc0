// The agent's conversation with the daemon: enrols, keeps one WebSocket open, and dials again for ever, with back-off and
// jitter so that ten thousand agents do not come back in the same second. It carries texts and decides nothing.
//
// One thread of its own; the callbacks run on it and must be quick.
#pragma once
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "agent/http_client.hpp"
#include "agent/settings.hpp"
#include "model/agent_protocol.hpp"
#include "model/id.hpp"

namespace gf::agent {

struct SessionEvents {
    std::function<void()> opened;      // the socket is up: send hello and what was not acknowledged
    std::function<void()> closed;
    std::function<void(agent_protocol::ToAgent)> message;
    /// The daemon has this machine: an enrolment, a WebSocket or a frame on it. A refusal is none, or a machine whose row is
    /// gone would knock for ever, on somebody's bill, and never see its dead-man switch fire.
    std::function<void()> contact;
    std::function<void(const std::string& token)> enrolled;
    std::function<void(const std::string& why)> refused;  // no common protocol version: nothing will ever work
};

class Session {
 public:
    /// `token` is that of an earlier session of this boot, or empty.
    Session(const Settings& settings, std::string boot_id, std::string token, SessionEvents events, std::uint64_t seed);
    ~Session();
    void start();
    /// Queues a text frame in order; dropped when there is no connection. Any thread.
    void send(std::string text);
    [[nodiscard]] bool connected() const { return connected_; }
    /// Bearer for bulk requests; empty before the first enrolment.
    [[nodiscard]] std::string token() const;
    /// A bulk request with this token was answered 401: the daemon has started anew and wants an enrolment.
    void token_refused(const std::string& token);

 private:
    struct Link;
    void run();
    Result<void> enrol();
    Result<void> converse();
    void pause();

    const Settings& settings_;
    const std::string boot_id_;
    SessionEvents events_;
    Entropy entropy_;
    std::thread thread_;
    std::atomic<bool> stopping_{false};
    std::atomic<bool> connected_{false};
    int failures_{0};

    mutable std::mutex mutex_;   // guards token_, link_ and the wait for stopping
    std::condition_variable wake_;
    std::string token_;
    std::shared_ptr<Link> link_;
};

}  // namespace gf::agent
