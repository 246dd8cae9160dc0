// Where packs, manifests and seals live. The daemon alone owns a store; packs come in from
// agents, all else is written by the daemon. Everything is written beside its final name, synced, and
// renamed, so that after a crash a thing is whole or not there. Nothing here knows which attempt is current:
// the one commit point is the database transaction.
//
// Blocking. Calls may come from several threads. Never throws.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoints/manifest.hpp"
#include "checkpoints/restore.hpp"
#include "model/strong.hpp"
#include "model/time.hpp"

namespace gf::checkpoints {

/// Names one pack of a job. Attempts of different tasks share the number's folder; packs are named by
/// content, so that is safe.
struct PackKey {
    int attempt{0};
    Digest id;
    friend auto operator<=>(const PackKey&, const PackKey&) = default;
};
struct StoredPack {
    PackKey key;
    std::int64_t size{0};
    Instant stored_at{};
};

/// One pack on its way in. Dropped without commit = nothing happened.
class PackWriter {
 public:
    virtual ~PackWriter() = default;
    /// Errors: `full`, `io`, `invalid` when more than kPackBytesMax came.
    virtual Result<void> append(std::string_view bytes) = 0;
    /// Checks the SHA-256 and makes the pack visible, durably. True = it was not there before (201), false =
    /// it was (200; it is replaced, so that sending a pack again also heals one that rotted). Errors:
    /// `invalid` (the bytes are not those of the name, or not a pack), `full`, `io`.
    virtual Result<bool> commit() = 0;
};

/// The record, beside the manifests, that a generation was committed. The database row is the truth; the seal
/// lets a store be read without the database. Written after the commit, and again whenever it is missing.
struct Seal {
    std::string task;
    std::int64_t generation{0};
    int attempt{0};
    std::int64_t step{0};
    Digest manifest;
    std::int64_t committed_at_ms{0};
    friend bool operator==(const Seal&, const Seal&) = default;
};

struct StoredManifest {
    Digest digest;
    std::int64_t step{0};
    std::int64_t bytes{0};  // of the files
    std::int64_t files{0};
};

class CheckpointStore {
 public:
    virtual ~CheckpointStore() = default;

    /// All calls: `invalid` for a job id that is not "job_" and 26 characters of its alphabet, or an attempt
    /// below 1.
    virtual Result<std::unique_ptr<PackWriter>> begin_pack(const JobId& job, int attempt,
                                                           const Digest& id) = 0;
    /// The size of a pack; `not_found` if it is not there.
    virtual Result<std::int64_t> pack_size(const JobId& job, const PackKey& pack) = 0;
    /// Errors: `not_found`, `invalid` (outside of the pack), `io`.
    virtual Result<void> read_pack(const JobId& job, const PackKey& pack, std::int64_t offset,
                                   std::int64_t length, std::string& out) = 0;

    /// Takes a candidate in: decodes it, checks that it is of this job, task and attempt, that every pack is
    /// there with its size and that its index has the chunks where the manifest says; then writes it under
    /// its hash. Idempotent. Errors: `invalid` (answer 422; the message says what), `full`, `io`.
    virtual Result<StoredManifest> put_manifest(const JobId& job, const TaskId& task, int attempt,
                                                std::string_view bytes) = 0;
    /// The encoded bytes, checked against the hash and decoded once. Errors: `not_found`, `malformed`
    /// (rotten), `io`.
    virtual Result<std::string> get_manifest(const JobId& job, const Digest& digest) = 0;
    virtual Result<std::vector<Digest>> list_manifests(const JobId& job) = 0;
    virtual Result<std::vector<StoredPack>> list_packs(const JobId& job) = 0;

    virtual Result<void> put_seal(const JobId& job, const Seal& seal) = 0;
    /// By task and generation. Seals that cannot be read are left out.
    virtual Result<std::vector<Seal>> list_seals(const JobId& job) = 0;

    /// Sets a broken generation aside: its manifest (if it is there) and its seal move to the job's
    /// quarantine together with `why`. Its packs stay: other generations may use them, and plan_gc counts
    /// quarantined manifests as kept.
    virtual Result<void> quarantine(const JobId& job, const Digest& manifest, std::string_view why) = 0;
    virtual Result<std::vector<Digest>> list_quarantined(const JobId& job) = 0;
    virtual Result<std::string> get_quarantined(const JobId& job, const Digest& digest) = 0;

    /// Retention. Absent is success. `remove_manifest` removes its seals too.
    virtual Result<void> remove_manifest(const JobId& job, const Digest& digest) = 0;
    virtual Result<void> remove_pack(const JobId& job, const PackKey& pack) = 0;
};

/// Reads packs of one job from a store.
class StoreSource final : public PackSource {
 public:
    StoreSource(CheckpointStore& store, JobId job) : store_(store), job_(std::move(job)) {}
    Result<void> read(const PackEntry& pack, std::int64_t offset, std::int64_t length,
                      std::string& out) override;

 private:
    CheckpointStore& store_;
    JobId job_;
};

/// Quick check of a generation: the manifest is there with its hash, and all its packs are there with their
/// sizes and indexes. Reads no chunk. Errors: `malformed` = broken, set it aside; `io` and others = could not
/// tell.
Result<Manifest> check_generation(CheckpointStore& store, const JobId& job, const Digest& manifest);
/// The same and every chunk and file read back. Errors as above.
Result<Manifest> verify_generation(CheckpointStore& store, const JobId& job, const Digest& manifest);

}  // namespace gf::checkpoints
