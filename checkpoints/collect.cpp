#include "checkpoints/collect.hpp"

namespace gf::checkpoints {

Result<GcPlan> collect_garbage(CheckpointStore& store, const JobId& job, const std::vector<Digest>& drop,
                               const GcPins& pins) {
    for (const Digest& digest : drop)
        if (auto done = store.remove_manifest(job, digest); !done) return fail(std::move(done).error());

    // Packs are listed before manifests: a pack that comes in between is not in the list and cannot be
    // removed, and one that was listed can only be named by a manifest that is read here or is younger than
    // the pins allow.
    auto present = store.list_packs(job);
    if (!present) return fail(std::move(present).error());
    std::vector<Manifest> kept;
    auto manifests = store.list_manifests(job);
    if (!manifests) return fail(std::move(manifests).error());
    for (const Digest& digest : *manifests) {
        auto bytes = store.get_manifest(job, digest);
        if (!bytes) return fail(std::move(bytes).error());
        auto manifest = decode_manifest(*bytes);
        if (!manifest) return fail(std::move(manifest).error());
        kept.push_back(*std::move(manifest));
    }
    auto quarantined = store.list_quarantined(job);
    if (!quarantined) return fail(std::move(quarantined).error());
    for (const Digest& digest : *quarantined) {
        auto bytes = store.get_quarantined(job, digest);
        if (!bytes && bytes.error().kind != ErrorKind::malformed) return fail(std::move(bytes).error());
        if (!bytes) continue;
        if (auto manifest = decode_manifest(*bytes)) kept.push_back(*std::move(manifest));
    }
    GcPlan plan = plan_gc(kept, *present, pins);
    for (const StoredPack& pack : plan.remove)
        if (auto done = store.remove_pack(job, pack.key); !done) return fail(std::move(done).error());
    return plan;
}

}  // namespace gf::checkpoints
