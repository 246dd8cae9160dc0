#include "daemon/retention.hpp"

#include <set>

#include "checkpoints/garbage.hpp"

namespace gf {

Result<Freed> free_checkpoints(checkpoints::CheckpointStore& store, Reader& reader, const JobId& job, Instant stored_before) {
    const auto rows = reader.checkpoints(job);
    if (!rows) return fail(rows.error());
    const auto outputs = reader.outputs(job);
    if (!outputs) return fail(outputs.error());
    const auto listed = store.list_manifests(job);
    if (!listed) return fail(listed.error());

    std::set<std::string> wanted, pruned;
    for (const auto& row : *rows) (row.state == CheckpointState::pruned ? pruned : wanted).insert(row.manifest_sha256);
    for (const auto& row : *outputs) wanted.insert(row.manifest_sha256);

    Freed freed;
    std::vector<checkpoints::Manifest> kept;
    for (const auto& digest : *listed) {
        if (pruned.contains(digest.hex()) && !wanted.contains(digest.hex())) {
            if (auto removed = store.remove_manifest(job, digest); !removed) return fail(removed.error());
            ++freed.manifests;
            continue;
        }
        // Named by a row, or a candidate that is not decided yet: what it names stays.
        const auto bytes = store.get_manifest(job, digest);
        if (!bytes) return fail(bytes.error());
        auto manifest = checkpoints::decode_manifest(*bytes);
        if (!manifest) return fail(manifest.error());
        kept.push_back(*std::move(manifest));
    }
    const auto quarantined = store.list_quarantined(job);
    if (!quarantined) return fail(quarantined.error());
    for (const auto& digest : *quarantined) {
        const auto bytes = store.get_quarantined(job, digest);
        if (!bytes) continue;  // its manifest was lost; there is nothing that it could name
        if (auto manifest = checkpoints::decode_manifest(*bytes)) kept.push_back(*std::move(manifest));
    }
    const auto packs = store.list_packs(job);
    if (!packs) return fail(packs.error());
    const auto plan = checkpoints::plan_gc(kept, *packs, {.packs = {}, .attempts = {}, .stored_since = stored_before});
    for (const auto& pack : plan.remove) {
        if (auto removed = store.remove_pack(job, pack.key); !removed) return fail(removed.error());
        ++freed.packs;
        freed.bytes += pack.size;
    }
    return freed;
}

}  // namespace gf
