// Frees what retention has let go: manifests of pruned generations, and packs that nothing names any more. It cannot race
// a writer: an attempt sends one snapshot after the other, so whatever was stored before the newest commit belongs to a
// committed generation or to none.
#pragma once
#include "checkpoints/garbage.hpp"
#include "db/store.hpp"

namespace gf {

/// Sweeps one job. `stored_before`: packs stored at or after this instant (real time, as the file system has it) stay; pass the
/// instant at which the newest generation was committed. Blocks for file work; errors leave the rest for the next sweep.
Result<checkpoints::GcPlan> free_checkpoints(checkpoints::CheckpointStore& store, Reader& reader, const JobId& job,
                                             Instant stored_before);

}  // namespace gf
