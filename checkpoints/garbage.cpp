#include "checkpoints/garbage.hpp"

#include <algorithm>
#include <set>

namespace gf::checkpoints {

GcPlan plan_gc(const std::vector<Manifest>& kept, const std::vector<StoredPack>& present,
               const GcPins& pins) {
    std::set<PackKey> needed(pins.packs.begin(), pins.packs.end());
    for (const Manifest& m : kept)
        for (const PackEntry& p : m.packs) needed.insert({.attempt = p.attempt, .id = p.id});
    GcPlan plan;
    for (const StoredPack& p : present) {
        if (needed.contains(p.key) || std::ranges::find(pins.attempts, p.key.attempt) != pins.attempts.end())
            continue;
        if (pins.stored_since && p.stored_at >= *pins.stored_since) continue;
        plan.bytes += p.size;
        plan.remove.push_back(p);
    }
    std::ranges::sort(plan.remove, {}, &StoredPack::key);
    return plan;
}

}  // namespace gf::checkpoints
