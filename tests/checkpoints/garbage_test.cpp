#include "checkpoints/garbage.hpp"

#include <algorithm>

#include "support.hpp"

using namespace gf;
using namespace gf::checkpoints;

namespace {

StoredPack pack(int attempt, const char* name, std::int64_t at_s = 0) {
    return {
        .key = {.attempt = attempt, .id = sha256(name)}, .size = 100, .stored_at = instant_of(at_s * 1000)};
}
Manifest naming(const std::vector<StoredPack>& packs) {
    Manifest m;
    for (const StoredPack& p : packs)
        m.packs.push_back({.id = p.key.id, .size = p.size, .attempt = p.key.attempt, .chunks = {}});
    return m;
}
std::vector<PackKey> keys(const GcPlan& plan) {
    std::vector<PackKey> out;
    for (const StoredPack& p : plan.remove) out.push_back(p.key);
    return out;
}

}  // namespace

TEST_CASE("packs that no kept manifest names go, all others stay") {
    const std::vector<StoredPack> present = {pack(2, "d"), pack(1, "a"), pack(1, "b"), pack(2, "c"),
                                             pack(3, "e", 50)};
    struct Row {
        const char* what;
        std::vector<Manifest> kept;
        GcPins pins;
        std::vector<PackKey> removed;
    };
    const auto key = [](int attempt, const char* name) {
        return PackKey{.attempt = attempt, .id = sha256(name)};
    };
    std::vector<PackKey> all = {key(1, "a"), key(1, "b"), key(2, "c"), key(2, "d"), key(3, "e")};
    std::ranges::sort(all);
    const auto without = [&](std::vector<PackKey> kept) {
        std::vector<PackKey> out = all;
        std::erase_if(out, [&](const PackKey& k) { return std::ranges::find(kept, k) != kept.end(); });
        return out;
    };
    const Row rows[] = {
        {"nothing kept", {}, {}, all},
        {"one manifest over two attempts",
         {naming({pack(1, "a"), pack(2, "c")})},
         {},
         without({key(1, "a"), key(2, "c")})},
        {"two manifests that share a pack",
         {naming({pack(1, "a")}), naming({pack(1, "a"), pack(2, "d")})},
         {},
         without({key(1, "a"), key(2, "d")})},
        {"the same content under another attempt is another pack", {naming({pack(2, "a")})}, {}, all},
        {"an open snapshot's packs", {}, {.packs = {key(1, "b")}}, without({key(1, "b")})},
        {"an attempt that may still send", {}, {.attempts = {2}}, without({key(2, "c"), key(2, "d")})},
        {"stored lately", {}, {.stored_since = instant_of(50'000)}, without({key(3, "e")})},
        {"stored just before", {}, {.stored_since = instant_of(50'001)}, all},
        {"a manifest that names what is not there", {naming({pack(9, "z")})}, {}, all},
    };
    for (const Row& row : rows) {
        CAPTURE(row.what);
        const GcPlan plan = plan_gc(row.kept, present, row.pins);
        CHECK(keys(plan) == row.removed);
        CHECK(plan.bytes == static_cast<std::int64_t>(row.removed.size()) * 100);
    }
}

TEST_CASE("property: no kept manifest ever loses a pack") {
    for (std::uint64_t seed = 1; seed <= 300; ++seed) {
        Entropy e{seed};
        std::vector<StoredPack> present;
        for (int i = 0; i < 20; ++i)
            present.push_back(pack(1 + static_cast<int>(e.below(4)), std::to_string(i).c_str(),
                                   static_cast<std::int64_t>(e.below(100))));
        std::vector<Manifest> kept;
        for (auto n = e.below(5); n > 0; --n) {
            std::vector<StoredPack> some;
            for (const StoredPack& p : present)
                if (e.below(4) == 0) some.push_back(p);
            kept.push_back(naming(some));
        }
        const auto removed = keys(plan_gc(kept, present, {.attempts = {1}}));
        for (const Manifest& m : kept)
            for (const PackEntry& p : m.packs)
                CHECK(std::ranges::find(removed, PackKey{p.attempt, p.id}) == removed.end());
        for (const StoredPack& p : present) {
            const bool named = std::ranges::any_of(kept, [&](const Manifest& m) {
                return std::ranges::any_of(m.packs, [&](const PackEntry& x) {
                    return x.id == p.key.id && x.attempt == p.key.attempt;
                });
            });
            const bool gone = std::ranges::find(removed, p.key) != removed.end();
            CHECK(gone == (!named && p.key.attempt != 1));
        }
    }
}
