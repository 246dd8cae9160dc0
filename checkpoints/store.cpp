#include "checkpoints/store.hpp"

#include "checkpoints/pack.hpp"
#include "checkpoints/store_checks.hpp"

namespace gf::checkpoints {

Result<void> StoreSource::read(const PackEntry& pack, std::int64_t offset, std::int64_t length,
                               std::string& out) {
    return store_.read_pack(job_, {.attempt = pack.attempt, .id = pack.id}, offset, length, out);
}

Result<void> check_packs(CheckpointStore& store, const JobId& job, const Manifest& manifest) {
    for (const PackEntry& p : manifest.packs) {
        const std::string name = "pack " + p.id.hex() + " of attempt " + std::to_string(p.attempt);
        const auto broken = [&](const std::string& why) {
            return fail(ErrorKind::malformed, name + " " + why);
        };
        const PackKey key{.attempt = p.attempt, .id = p.id};
        const auto size = store.pack_size(job, key);
        if (!size && size.error().kind == ErrorKind::not_found) return broken("is not stored");
        if (!size) return fail(size.error());
        if (*size != p.size)
            return broken("has " + std::to_string(*size) + " bytes and not " + std::to_string(p.size));
        auto index = read_pack_index(*size, [&](std::int64_t offset, std::int64_t length, std::string& out) {
            return store.read_pack(job, key, offset, length, out);
        });
        if (!index && index.error().kind == ErrorKind::malformed)
            return broken("is broken: " + index.error().message);
        if (!index) return fail(std::move(index).error());
        // Both lists are in order of offset, so one walk finds each listed chunk.
        auto at = index->begin();
        for (const PackedChunk& c : p.chunks) {
            while (at != index->end() && at->offset < c.offset) ++at;
            if (at == index->end() || *at != c)
                return broken("does not have chunk " + c.sha256.hex() + " where the manifest says");
        }
    }
    return {};
}

Result<Manifest> check_generation(CheckpointStore& store, const JobId& job, const Digest& digest) {
    const auto broken = [&](const std::string& why) {
        return fail(ErrorKind::malformed, "manifest " + digest.hex() + ": " + why);
    };
    auto bytes = store.get_manifest(job, digest);
    if (!bytes && bytes.error().kind == ErrorKind::not_found) return broken("is not stored");
    if (!bytes) return fail(std::move(bytes).error());
    auto manifest = decode_manifest(*bytes);
    if (!manifest) return broken(manifest.error().message);
    if (auto ok = check_packs(store, job, *manifest); !ok) return fail(std::move(ok).error());
    return manifest;
}

Result<Manifest> verify_generation(CheckpointStore& store, const JobId& job, const Digest& digest) {
    auto manifest = check_generation(store, job, digest);
    if (!manifest) return manifest;
    StoreSource source{store, job};
    if (auto read = verify_contents(*manifest, source); !read) return fail(std::move(read).error());
    return manifest;
}

}  // namespace gf::checkpoints
