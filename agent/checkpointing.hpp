// Checkpoints and outputs of one attempt: snapshots into a spool on this disk, packs and manifest to the daemon, and the
// way back at the start. What is not sent yet survives a crash of the worker and the daemon's absence.
//
//   <private>/spool/<n>/<sha256>.pack, manifest.json    one snapshot; manifest.json is written last
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "agent/bulk_client.hpp"
#include "checkpoints/restore.hpp"
#include "checkpoints/snapshot.hpp"
#include "model/agent_protocol.hpp"

namespace gf::agent {

struct RestoredGeneration {
    std::int64_t generation{0};  // 0 = from the beginning
    std::int64_t step{0};
    std::string said;            // why it is not the newest, for people; empty = all as expected
};

enum class CheckpointWhen : std::uint8_t {
    running,  // the program goes on writing: wait until the folder is still
    over,     // nothing writes any more
};

class Checkpointing {
 public:
    struct Order {
        agent_protocol::Lease lease;
        std::string job_folder;
        std::string spool;                        // folder, exists
        bool resumed{false};                      // a worker before this one may have committed generations
        std::int64_t uid{-1}, gid{-1};            // whose the restored files are, from the first; -1 = ours
        std::function<std::int64_t()> step;       // newest progress
        std::function<void()> fenced;             // 409
        std::function<void(const std::string&)> trouble;  // something a person should know
    };
    Checkpointing(std::unique_ptr<BulkClient> bulk, Order order);

    /// Fetches and unpacks the newest whole generation that the lease allows. A broken one is reported and the one before
    /// is taken. Blocks while the daemon is away. Errors: `conflict` (aborted, fenced), `full`, `io` (this disk).
    Result<RestoredGeneration> restore();

    /// Takes a snapshot and sends it; what an earlier call could not send goes first. Success is the generation, or 0 when
    /// there was nothing (new) to take. Blocks while the daemon is away. Errors: `not_found` (nothing there yet), `conflict`
    /// (aborted, fenced, never still), `full`, `io`, `invalid` (the daemon refused it).
    Result<std::int64_t> checkpoint(CheckpointWhen when);
    /// Sends what waits, without a new snapshot.
    Result<std::int64_t> send_waiting();
    /// The outputs of the lease, published by the daemon when the task is done. Links are followed within the job's folder.
    /// Errors as above; `not_found` = missing, `invalid` = an output that is a link out of the job's folder.
    Result<void> outputs();

    /// Ends the call in progress with `conflict` soon, and every later one at once until it is taken back. Thread-safe.
    void abort(bool on) { aborted_ = on; }
    /// Snapshots on this disk that the daemon does not have. Thread-safe.
    [[nodiscard]] bool has_unsent() const { return unsent_; }

 private:
    struct Waiting {
        std::string folder;
        checkpoints::Snapshot snapshot;
    };
    [[nodiscard]] bool stopped() const { return aborted_ || fenced_; }
    void find_waiting();
    void find_previous();
    Result<std::int64_t> send(Waiting& waiting, const std::string& target);
    Result<std::int64_t> post_manifest(const Waiting& waiting, const std::string& target);
    void drop_waiting();
    void lost_right();
    [[nodiscard]] checkpoints::SnapshotRequest request(CheckpointWhen when);
    Result<std::optional<RestoredGeneration>> restore_at_most(std::int64_t generation, std::string& said);
    Result<HttpResponse> patient_call(const HttpRequest& request);
    void report_broken(std::int64_t generation, const std::string& detail);
    std::string new_folder();

    std::unique_ptr<BulkClient> bulk_;
    Order order_;
    std::atomic<bool> aborted_{false};
    std::atomic<bool> fenced_{false};
    std::atomic<bool> unsent_{false};
    std::mutex mutex_;  // one call at a time
    std::int64_t next_folder_{1};
    std::int64_t generation_{0};
    std::optional<checkpoints::Manifest> previous_;
    bool previous_known_{false};
    checkpoints::SnapshotMemory memory_;
    std::optional<Waiting> waiting_;
};

}  // namespace gf::agent
