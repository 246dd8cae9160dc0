// The REST face of the daemon: the TCP listener (bearer tokens; from other machines over TLS only) and the unix socket `gpuferry.sock` (the same uid or root
// is admitted as admin, principal "socket"). Handlers parse, authorise, make an event or read the store, and format the
// answer; they decide nothing. Owned by the runtime; started after the store is open, stopped before the store is closed.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/api/core_port.hpp"
#include "daemon/http/loop.hpp"
#include "daemon/http/tls.hpp"
#include "db/market_store.hpp"
#include "db/store.hpp"
#include "model/result.hpp"
#include "scheduler/gpu_names.hpp"

namespace gf {

namespace checkpoints {
class CheckpointStore;
}
class SecretSeal;

/// Totals since the start, for /metrics.
struct CommitCounters {
    std::int64_t commits{0};
    std::int64_t commits_failed{0};
    std::int64_t events{0};          // events applied
    std::int64_t micros{0};          // time spent in commits
};

struct ServerOptions {
    std::string listen;              // "127.0.0.1:8470", "[::1]:0"; empty = no TCP listener
    std::string socket_path;         // empty = no unix socket; an old socket file at this path is replaced
    std::string data_dir;            // blobs/ and logs/ are below it
    std::string version;             // of the daemon, shown by /healthz
    std::string advertise_url;       // shown with the providers; empty = rented machines cannot reach the daemon
    std::vector<std::string> allowed_hosts;  // further Host names that are accepted beside loopback and the listen address
    std::shared_ptr<http::TlsIdentity> tls;  // https on the TCP listener, told from http by the first byte; null = http only
    Millis dead_man{0};                      // shown with each machine; 0 = not known
    std::size_t body_max{1 << 20};           // bytes of a JSON or YAML body
    std::int64_t blob_max{4LL << 30};        // bytes of one blob
    int connections_max{4096};               // open connections per listener
    int streams_max{2048};                   // of these, how many may be following a log or the events
    std::function<Result<std::unique_ptr<Reader>>()> open_reader;  // called in start(), for the loop's and the blocking threads
    std::function<CommitCounters()> commit_counters;               // may be empty
    /// Reads the history of the market; blocks, called on a blocking thread. May be empty: then none is kept.
    std::function<Result<std::vector<MarketTrack>>(const MarketQuery&)> read_market;
    std::function<std::string()> extra_metrics;                    // Prometheus text to append; may be empty
    const GpuNames* gpus{nullptr};                                 // outlives the server; for /v1/gpus and specs
    checkpoints::CheckpointStore* store{nullptr};                            // outlives the server; for outputs
    const SecretSeal* seal{nullptr};                                         // outlives the server; null = no secrets are taken
};

class ApiServer {
 public:
    /// `loop` and `core` outlive the server.
    ApiServer(http::Loop& loop, CorePort& core, ServerOptions options);
    ~ApiServer();

    /// Opens the listeners. Errors: `io` with the address or path and the reason.
    Result<void> start();
    /// Stops accepting and ends all connections; waits for them. Idempotent. Call before the store is closed.
    void stop();

    /// The port that the TCP listener really has; 0 = none.
    [[nodiscard]] std::uint16_t port() const;

    /// Tells followers of /v1/events that the store has events up to `last_seq`. Any thread, cheap; called after commits.
    /// Without these calls followers still see new events, within a second.
    void events_committed(std::int64_t last_seq);
    /// Tells followers of a job's log that bytes were written. Any thread; the gateway's `log_grew` is wired to it.
    void log_grew(const JobId& job);

 private:
    struct Impl;
    std::shared_ptr<Impl> impl_;
};

}  // namespace gf
