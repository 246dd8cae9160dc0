// Retention carried out: dropped generations leave the store, then the packs that nobody names any more.
#pragma once
#include <vector>

#include "checkpoints/garbage.hpp"

namespace gf::checkpoints {

/// Removes the manifests `drop` (with their seals), then each pack that no remaining manifest of the job
/// names, quarantined ones included, and that `pins` does not hold. Every manifest that is not dropped counts
/// as kept, whether committed, offered or left over, so a caller that forgets one loses nothing. What can
/// never be read again (a quarantined manifest that rotted) keeps nothing. If another manifest cannot be
/// read, no pack is removed: what it names is not known.
///
/// For a job with a live attempt a safe and tight pin is `stored_since` = the commit time of the task's
/// newest generation less a minute: an agent sends the packs of a generation only after the one before was
/// answered.
///
/// Answers what was removed. Errors: those of the store; what was done stays done, and the call can be
/// repeated.
Result<GcPlan> collect_garbage(CheckpointStore& store, const JobId& job, const std::vector<Digest>& drop,
                               const GcPins& pins);

}  // namespace gf::checkpoints
