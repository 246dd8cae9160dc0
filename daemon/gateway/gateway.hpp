// The agents' door: the listener `agent_listen` with exactly the paths of model/agent_protocol.hpp. It admits an agent by
// its machine's enrol token, keeps one WebSocket per machine, moves bulk bytes between the agents and the disk, and hands
// what has a meaning to the core as events. It decides nothing but "is this session, attempt and hash the right one".
//
// Sessions live in memory only: after a restart of the daemon agents get 401 and enrol again. A later enrol of a machine
// fences its older sessions, its WebSocket included.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/api/core_port.hpp"
#include "daemon/http/loop.hpp"
#include "db/store.hpp"
#include "model/agent_protocol.hpp"
#include "model/secret.hpp"

namespace gf {

namespace checkpoints {
class CheckpointStore;
}

/// What admission needs to know of a machine row.
struct MachineGate {
    MachineId id;
    MachineState state{MachineState::requested};
    JobId job;                    // empty = no work now
    TaskId task;
    AttemptId attempt;            // the attempt that it may run or has just run; others get 409
    int attempt_number{0};
    std::string code_sha256;      // the job's code blob; empty = none
};

struct GatewayOptions {
    std::string listen;           // "0.0.0.0:8471", "127.0.0.1:0"
    std::string data_dir;         // logs/, blobs/, tls/ are below it
    std::string tls_cert;         // PEM files; both empty = self-signed, made once in data_dir/tls
    std::string tls_key;
    Secret install_key;           // enrol tokens are derived from it
    std::int64_t log_bytes_max{1LL << 30};        // of one job's log over all attempts, see LogFiles; dropped with a mark
    std::int64_t pack_bytes_max{128LL << 20};     // one pack as stored
    int connections_max{20'000};
    Millis silence{Seconds{90}};                  // a WebSocket without a frame or pong for this long is ended (real time)
    /// Thread-safe, quick: the row of a tag, from the runtime's snapshot. Nothing = no such machine.
    std::function<std::optional<MachineGate>(const std::string& tag)> machine_lookup;
    std::function<Result<std::unique_ptr<Reader>>()> open_reader;
    std::function<void(const JobId&)> log_grew;   // may be empty; any thread
    checkpoints::CheckpointStore* store{nullptr};           // outlives the gateway
};

/// The token that the machine's environment carries (GPUFERRY_ENROL): hex HMAC-SHA256(install key, machine id).
[[nodiscard]] std::string enrol_token(const Secret& install_key, const MachineId& machine);

class Gateway {
 public:
    /// `loop` and `core` outlive the gateway.
    Gateway(http::Loop& loop, CorePort& core, GatewayOptions options);
    ~Gateway();

    /// Makes or loads the certificate and opens the listener. Errors: `io` with the file or address.
    Result<void> start();
    /// Closes the listener and all sessions, flushes logs. Idempotent.
    void stop();

    [[nodiscard]] std::uint16_t port() const;
    /// SHA-256 of the certificate's public key (SPKI), hex: GPUFERRY_PIN. Valid after start().
    [[nodiscard]] std::string spki_pin() const;

    /// Copies an agent binary to data_dir/agents, from where it and the newest before it are served by their hashes, also
    /// after a restart. Returns the SHA-256 (hex). Blocks. Errors: `not_found`, `io`.
    Result<std::string> add_agent_binary(const std::string& path);

    /// Queues a message to the machine's WebSocket; dropped silently when there is none (the core sends again at the next
    /// AgentConnected). Any thread; order per machine is kept. A lease's log quota is lowered to what is left of the job's.
    void send(const MachineId& machine, const agent_protocol::ToAgent& message);
    /// Ends the machine's sessions: its tokens are void and its WebSocket is closed after what was queued before. If the machine
    /// is interrupted, being destroyed or gone, output that it had spoken of and not sent is marked as lost in the log.
    void close(const MachineId& machine);
    [[nodiscard]] bool connected(const MachineId& machine) const;
    [[nodiscard]] int connected_count() const;

 private:
    struct Impl;
    std::shared_ptr<Impl> impl_;
};

}  // namespace gf
