// Which packs of a job may go. Pure: lists in, plan out.
#pragma once
#include <optional>
#include <vector>

#include "checkpoints/store.hpp"

namespace gf::checkpoints {

/// What must stay although no kept manifest names it.
struct GcPins {
    std::vector<PackKey> packs;  // of an open snapshot or restore
    std::vector<int> attempts;   // attempts that may still send a manifest: everything of theirs stays
    std::optional<Instant> stored_since;  // and everything stored at or after this instant
};

struct GcPlan {
    std::vector<StoredPack> remove;  // sorted by key
    std::int64_t bytes{0};
};

/// `kept`: every manifest of the job that is committed and not pruned, quarantined, or offered and not yet
/// decided, of all its tasks. A pack that any of them names stays, as does what `pins` says; the rest of
/// `present` may go.
[[nodiscard]] GcPlan plan_gc(const std::vector<Manifest>& kept, const std::vector<StoredPack>& present,
                             const GcPins& pins);

}  // namespace gf::checkpoints
