// A daemon for the agent's tests: the agent's side of the gateway in memory, on a free loopback port, with the faults that
// a test orders. Thread-safe; everything waits on events, never on time alone.
#pragma once
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "model/agent_protocol.hpp"

namespace gf::agent_test {

struct LogState {
    std::string bytes;                         // as acknowledged, holes left out
    std::int64_t offset{0};                    // holes included
    std::vector<std::pair<std::int64_t, std::int64_t>> holes;  // at, count
};

struct OtherRequest {
    std::string method, target, authorization, body;
};

struct DaemonState {
    std::vector<agent_protocol::EnrolRequest> enrolments;
    std::vector<agent_protocol::Hello> hellos;
    std::vector<agent_protocol::FromAgent> messages;  // each (boot, seq) once
    int repeats{0};                            // messages that came again
    int heartbeats{0};
    std::optional<agent_protocol::Heartbeat> heartbeat;
    std::map<std::string, LogState> logs;      // by attempt
    std::map<std::string, std::string> packs;  // by hash
    std::vector<std::string> manifests;        // committed, in order: generation is the index + 1
    std::vector<std::string> outputs;
    std::vector<std::int64_t> broken;
    std::map<std::string, std::string> blobs;  // by hash
    int connections{0};                        // WebSockets that were opened
    std::map<std::string, std::string> binaries;  // served as /agent/bin/<key>
    int binary_requests{0};
    std::vector<OtherRequest> others;          // paths that are no agent's

    // Faults, set by the test.
    bool refuse_sessions{false};               // 401 to every token until the next enrolment
    bool refuse_enrolments{false};             // 401, as for a machine without a row
    bool acknowledge{true};
    std::set<std::string> fenced;              // attempts that get 409
    int log_answers_lost{0};                   // bodies taken in, connection cut before the answer
    bool welcome{true};
    int other_status{200};
    agent_protocol::Welcome welcome_message{};
};

class FakeDaemon {
 public:
    FakeDaemon();
    ~FakeDaemon();
    [[nodiscard]] std::string url() const;
    /// Waits until `done` is true of the state; false after `seconds`.
    bool wait(const std::function<bool(const DaemonState&)>& done, int seconds = 60);
    /// Reads or changes the state.
    void with(const std::function<void(DaemonState&)>& use);
    void send(const agent_protocol::ToAgent& message);
    /// Cuts every connection.
    void cut();
    /// Cuts and refuses connections until `back`.
    void away();
    void back();

 private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

/// The last message of a kind, from the state.
template <class M>
std::optional<M> last(const DaemonState& state) {
    std::optional<M> found;
    for (const auto& message : state.messages)
        if (const auto* m = std::get_if<M>(&message.body)) found = *m;
    return found;
}

}  // namespace gf::agent_test
