// Taking a checkpoint: waits until the folder is still or says that it is complete, reads it once, writes
// packs of the chunks that are not stored yet into a spool folder, and looks again. If anything moved
// meanwhile all is thrown away. Sending comes after, from the spool, so that a slow link never holds the
// trainer's files.
//
// Memory is bounded (about 20 MB plus the manifest), whatever the size of the files. Blocking; one call at a
// time per spool.
//
// What is taken: regular files, directories (empty ones too) and symbolic links as links; never through a
// link, unless the request says so. Sockets, pipes and devices are left out and counted. A file that cannot be read refuses the snapshot:
// a checkpoint without it would not be whole. Holes read as zeros, cost one stored chunk, and come back as
// holes. Hard links come back as separate files.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "checkpoints/disk.hpp"
#include "checkpoints/manifest.hpp"
#include "model/job_spec.hpp"
#include "model/time.hpp"

namespace gf::checkpoints {

/// What the agent keeps between snapshots of one attempt, so that files that did not change are not read
/// again. Trusted only for files whose inode, size, mtime and ctime are the same and were older than two
/// seconds when they were read.
struct SnapshotMemory {
    struct Seen {
        std::uint64_t inode{0};
        std::int64_t size{0}, mtime_ns{0}, ctime_ns{0};
        FileEntry entry;
    };
    std::map<std::string, Seen> files;
};

struct SnapshotRequest {
    std::filesystem::path root;  // absolute; the checkpoint's folder (for outputs: the job's working folder)
    std::vector<std::string> only;  // relative files or folders to take; empty = everything below root
    std::filesystem::path spool;    // a folder of this snapshot alone, not below root; created (one level) if
                                  // missing; the packs land here as <sha256>.pack
    CheckpointSpec spec;  // marker, incomplete, unit, exclude are obeyed; `path` is not read
    ManifestKind kind{ManifestKind::checkpoint};
    std::string job;
    std::string task;
    int attempt{0};
    std::int64_t step{0};
    Instant now{};  // stamped as created_at
    const Manifest* previous{
        nullptr};  // newest committed (or restored) generation: its chunks are not stored again
    SnapshotMemory* memory{nullptr};  // optional; updated on success only
    bool allow_empty{false};          // an output may have no files
    bool follow_links{false};         // as ScanRules: for outputs, whose readers look for files
    Millis still_for{1000};           // between the two scans
    int scans_max{30};                // then `conflict`: it never was still
    /// Waits between scans, and is asked with 0 between chunks; false = stop now. The default sleeps.
    std::function<bool(Millis)> wait;
    Disk* disk{nullptr};  // null = Disk::real()
};

struct SpooledPack {
    Digest id;
    std::int64_t size{0};
    std::filesystem::path file;
};

struct Snapshot {
    Manifest manifest;
    std::string encoded;             // of the manifest: POST these bytes
    Digest digest;                   // of `encoded`
    std::vector<SpooledPack> packs;  // new ones only, to be sent before the manifest
    bool same_as_previous{false};    // paths, times and contents equal `previous`: nothing to commit
    std::int64_t bytes_read{0};
    std::int64_t bytes_new{0};  // plain bytes of chunks that were not stored before
    int special_files{0};       // sockets, pipes, devices left out
    std::vector<std::string> dead_links;  // with follow_links: kept as links, what they name was not taken
    std::vector<std::string>
        left_out;  // incomplete units (at most 100): a folder without its marker, half a set
};

/// Errors: `not_found` (no folder, or nothing complete in it yet), `conflict` (moved while it was read, never
/// still, or told to stop: try again later), `full` (spool), `invalid` (request), `io` (unreadable file). On
/// error the spool holds nothing of this call, and is removed if it is empty.
Result<Snapshot> take_snapshot(const SnapshotRequest& request);

/// The way of packs to the store; the agent implements it over HTTP, tests in memory. Blocking.
class PackSink {
 public:
    virtual ~PackSink() = default;
    /// Sends one pack. Success means stored for good under <job>/a<attempt>/<id>. Sending one again changes
    /// nothing.
    virtual Result<void> put(const SpooledPack& pack) = 0;
};

/// Sends every pack of the snapshot and removes each from the spool once it is stored. Stops at the first
/// error (the sink's); what was not sent stays in `snapshot.packs` and in the spool, so the call can simply
/// be repeated.
Result<void> send_packs(Snapshot& snapshot, PackSink& sink);

/// Removes the packs of a snapshot that will not be sent, and the spool if nothing else is in it.
void discard(Snapshot& snapshot);

/// Removes the packs, whole and half written, that a killed process left in a spool. Only for a spool that
/// nobody uses.
Result<void> clear_spool(const std::filesystem::path& spool);

}  // namespace gf::checkpoints
