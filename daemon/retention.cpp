#include "daemon/retention.hpp"

#include <set>

#include "checkpoints/collect.hpp"

namespace gf {

Result<checkpoints::GcPlan> free_checkpoints(checkpoints::CheckpointStore& store, Reader& reader, const JobId& job,
                                             Instant stored_before) {
    const auto rows = reader.checkpoints(job);
    if (!rows) return fail(rows.error());
    const auto outputs = reader.outputs(job);
    if (!outputs) return fail(outputs.error());
    // The same manifest may stand under a pruned generation and a newer one, or be an output: then it stays.
    std::set<std::string> wanted, pruned;
    for (const auto& row : *rows) (row.state == CheckpointState::pruned ? pruned : wanted).insert(row.manifest_sha256);
    for (const auto& row : *outputs) wanted.insert(row.manifest_sha256);
    std::vector<checkpoints::Digest> drop;
    for (const auto& hex : pruned)
        if (const auto digest = checkpoints::Digest::from_hex(hex); digest && !wanted.contains(hex)) drop.push_back(*digest);
    return checkpoints::collect_garbage(store, job, drop, {.packs = {}, .attempts = {}, .stored_since = stored_before});
}

}  // namespace gf
