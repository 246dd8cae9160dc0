// One machine's tunnel: the thread that makes its connection, holds it, and makes it again. Used by Tunnels only.
#pragma once
#include <poll.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "daemon/ssh/child.hpp"
#include "daemon/ssh/command_line.hpp"
#include "daemon/ssh/refusal.hpp"
#include "daemon/ssh/tunnels.hpp"
#include "model/id.hpp"

namespace gf::ssh {

class Tunnel {
 public:
    /// `owner` outlives it. The thread starts at once. Throws std::system_error when the system has no thread or descriptor left.
    Tunnel(Tunnels& owner, MachineId machine, SshEndpoint to, std::uint64_t seed);
    ~Tunnel();  // `leave(now)` and waits

    /// Goes there from now on; at once, if it is another place.
    void move(const SshEndpoint& to);
    enum class Leave : std::uint8_t { now, soon };
    void leave(Leave when);
    /// The thread has nothing more to do.
    [[nodiscard]] bool over() const { return over_; }

 private:
    using Clock = std::chrono::steady_clock;
    /// Why a wait ended.
    enum class Woken : std::uint8_t { ready, timeout, told };
    enum class Went : std::uint8_t { ok, failed, told };

    void run();
    /// One connection from its beginning to its end. True = it stood.
    bool connect_and_hold();
    Went wait_for_master(Child& master, std::string& said);
    Went forward(std::string& said);
    Went ask_forward(int port, int& given, std::string& said);
    void free_port();
    Went push_agent();
    Went talk(Child& shell, AgentPush& push);
    void look_after_agent(Child& master, const std::string& at);
    void hold(Child& master, std::string& said);

    /// Runs a short command of ours to its end, at most `patience`. `told` = a word came meanwhile.
    Went finish(Child& child, std::chrono::milliseconds patience, std::string& out, std::string& err);
    /// Until one of the descriptors is ready, a word comes, or the time is over.
    Woken wait(std::vector<pollfd>& fds, Clock::time_point until);
    void pause(std::chrono::milliseconds how_long);
    /// True when this connection is to be given up: another place, or leaving.
    [[nodiscard]] bool must_go();
    void tell(bool up, std::string_view reason, const std::string& detail);
    void tell_refusal(std::string_view said, bool was_up);
    void heard(std::string& said, const std::string& piece) const;

    Tunnels& owner_;
    const MachineId machine_;
    Entropy entropy_;
    int word_{-1};                       // an eventfd: somebody has something to say
    std::mutex mutex_;                   // guards wanted_, leave_at_
    SshEndpoint wanted_;
    std::optional<Clock::time_point> leave_at_;
    // Of the thread:
    Machine now_;
    std::string told_;                   // the last news, so that a repetition is none
    std::string agent_detail_;
    std::atomic<bool> over_{false};
    std::thread thread_;                 // last: it uses all above
};

}  // namespace gf::ssh
