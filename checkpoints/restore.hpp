// Restoring a generation: every chunk and every file is checked against its hash while it is written into a
// new folder beside the target, oldest file first with its own time and mode (trainers prune by mtime or
// ctime); then the folder takes the target's place in one step. The target is either what it was or the whole
// generation, never half of one.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "checkpoints/disk.hpp"
#include "checkpoints/manifest.hpp"

namespace gf::checkpoints {

/// The way of packs from the store; over HTTP in the agent, a FileStore in the daemon. Blocking.
class PackSource {
 public:
    virtual ~PackSource() = default;
    /// Exactly `length` bytes of the pack from `offset` into `out` (replaced). At most 16 MiB are asked for
    /// at once. Errors: `not_found` = the store does not have it (the generation is broken); all others = try
    /// again.
    virtual Result<void> read(const PackEntry& pack, std::int64_t offset, std::int64_t length,
                              std::string& out) = 0;
};

struct RestoreOptions {
    bool durable{false};  // fsync before the swap; for folders of the daemon
    std::int64_t uid{-1},
        gid{-1};                 // owner of what is restored; -1 = ours. For jobs that run under another user
    std::function<bool()> stop;  // asked between chunks; true ends the restore with `conflict`
    std::function<void(std::int64_t done, std::int64_t total)> progress;  // plain bytes
    Disk* disk{nullptr};                                                  // null = Disk::real()
};

struct Restored {
    std::int64_t files{0};
    std::int64_t bytes{0};
};

/// `target` is absolute; its parent must exist. What was in it before is removed after the swap. Left-overs
/// of an earlier, killed restore of the same target are removed first. Directories are swapped with
/// renameat2(RENAME_EXCHANGE); where the file system lacks it, the old one is moved aside first. Errors:
/// `malformed` = the stored generation is broken (names pack and file): set it aside and take the one before;
/// `full`, `io` = this disk; others from the source, unchanged.
Result<Restored> restore(const Manifest& manifest, PackSource& source, const std::filesystem::path& target,
                         const RestoreOptions& options = {});

/// Checks that every chunk and file can be read back with its hash, and writes nothing. Errors as `restore`.
Result<Restored> verify_contents(const Manifest& manifest, PackSource& source);

}  // namespace gf::checkpoints
