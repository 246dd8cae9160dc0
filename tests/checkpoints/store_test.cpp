#include "checkpoints/store.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "checkpoints/collect.hpp"
#include "checkpoints/pack.hpp"
#include "support.hpp"

using namespace gf;
using namespace gf::checkpoints;
using namespace gf::checkpoints::test;
namespace fs = std::filesystem;

namespace {

/// A store with `generations` checkpoints of a folder that changes by one chunk each time.
struct Fixture {
    TempFolder work;
    std::unique_ptr<FileStore> store;
    std::vector<Snapshot> snapshots;
    std::vector<std::string> trees;

    explicit Fixture(int generations = 1) {
        auto opened = FileStore::open(work / "store");
        REQUIRE(opened);
        store = *std::move(opened);
        Entropy entropy{41};
        put_file(work / "tree/fixed", random_bytes(entropy, static_cast<std::size_t>(kChunkBytes)), 1);
        for (int i = 1; i <= generations; ++i) add(entropy, i);
    }
    void add(Entropy& entropy, int attempt) {
        put_file(work / "tree/moving", random_bytes(entropy, 3000), attempt + 1);
        SnapshotRequest request = request_for(work / "tree", work / "spool");
        request.attempt = attempt;
        request.step = 100 * attempt;
        if (!snapshots.empty()) request.previous = &snapshots.back().manifest;
        StoreSink sink{*store, attempt};
        snapshots.push_back(take_and_send(request, sink));
        const auto stored = store->put_manifest(kJob, kTask, attempt, snapshots.back().encoded);
        if (!stored) FAIL(stored.error().message);
        CHECK(stored->digest == snapshots.back().digest);
        CHECK(stored->step == 100 * attempt);
        CHECK(stored->files == 2);
        CHECK(stored->bytes == kChunkBytes + 3000);
        REQUIRE(store->put_seal(kJob, seal(attempt)));
        trees.push_back(tree_text(work / "tree"));
    }
    Seal seal(int generation) const {
        return {.task = kTask.get(),
                .generation = generation,
                .attempt = generation,
                .step = 100 * generation,
                .manifest = snapshots[static_cast<std::size_t>(generation - 1)].digest,
                .committed_at_ms = 5};
    }
    fs::path manifest_file(std::size_t i) const {
        return work / "store" / kJob.get() / "manifests" / (snapshots[i].digest.hex() + ".json");
    }
    fs::path pack_file(const PackEntry& p) const { return *store->pack_path(kJob, {p.attempt, p.id}); }
};

void flip(const fs::path& path, std::size_t at) {
    std::string bytes = get_file(path);
    REQUIRE(at < bytes.size());
    bytes[at] = static_cast<char>(bytes[at] ^ 16);
    put_file(path, bytes);
}

}  // namespace

TEST_CASE("a generation goes in, is read back, and restores") {
    Fixture f{3};
    for (std::size_t i = 0; i < 3; ++i) {
        const auto manifest = verify_generation(*f.store, kJob, f.snapshots[i].digest);
        if (!manifest) FAIL(manifest.error().message);
        CHECK(*manifest == f.snapshots[i].manifest);
        StoreSource source{*f.store, kJob};
        REQUIRE(restore(*manifest, source, f.work / "back"));
        CHECK(tree_text(f.work / "back") == f.trees[i]);
    }
    CHECK(f.store->list_manifests(kJob)->size() == 3);
    CHECK(f.store->list_packs(kJob)->size() == 3);
    const auto seals = f.store->list_seals(kJob);
    REQUIRE(seals);
    CHECK(*seals == std::vector<Seal>{f.seal(1), f.seal(2), f.seal(3)});
}

TEST_CASE("nothing but an id names a path") {
    Fixture f;
    const Digest id = sha256("x");
    for (const std::string& job :
         {std::string{}, std::string{"../x"}, std::string{"job_"},
          std::string{"job_../../../../etc/passwd00"}, std::string{"tsk_01hzzzzzzzzzzzzzzzzzzzzzzz"},
          kJob.get() + "/", std::string{"job_01HZZZZZZZZZZZZZZZZZZZZZZZ"}}) {
        CAPTURE(job);
        const JobId bad{job};
        std::string out;
        CHECK(f.store->begin_pack(bad, 1, id).error().kind == ErrorKind::invalid);
        CHECK(f.store->pack_size(bad, {1, id}).error().kind == ErrorKind::invalid);
        CHECK(f.store->read_pack(bad, {1, id}, 0, 1, out).error().kind == ErrorKind::invalid);
        CHECK(f.store->put_manifest(bad, kTask, 1, "{}").error().kind == ErrorKind::invalid);
        CHECK(f.store->get_manifest(bad, id).error().kind == ErrorKind::invalid);
        CHECK(f.store->list_packs(bad).error().kind == ErrorKind::invalid);
        CHECK(f.store->quarantine(bad, id, "").error().kind == ErrorKind::invalid);
        CHECK(f.store->remove_pack(bad, {1, id}).error().kind == ErrorKind::invalid);
        CHECK(f.store->remove_job(bad).error().kind == ErrorKind::invalid);
    }
    CHECK(f.store->begin_pack(kJob, 0, id).error().kind == ErrorKind::invalid);
    CHECK(f.store->put_seal(kJob, {.task = "../x", .generation = 1}).error().kind == ErrorKind::invalid);
    CHECK_FALSE(FileStore::open("relative"));
}

TEST_CASE("a pack must be what its name says, and a pack") {
    Fixture f;
    const auto put = [&](const Digest& id, const std::string& bytes) -> Result<bool> {
        auto writer = f.store->begin_pack(kJob, 1, id);
        REQUIRE(writer);
        if (auto done = (*writer)->append(bytes); !done) return fail(std::move(done).error());
        return (*writer)->commit();
    };
    const PackEntry& known = f.snapshots[0].manifest.packs[0];
    const std::string good = get_file(f.pack_file(known));
    CHECK(put(sha256("other"), good).error().message.find("another SHA-256") != std::string::npos);
    CHECK(put(sha256("text"), "text").error().message.find("not a pack") != std::string::npos);
    CHECK(put(sha256(""), "").error().kind == ErrorKind::invalid);
    const std::string cut = good.substr(0, good.size() - 1);
    CHECK(put(sha256(cut), cut).error().kind == ErrorKind::invalid);
    const std::string large(static_cast<std::size_t>(kPackBytesMax) + 1, 'x');
    CHECK(put(sha256(large), large).error().message.find("64 MiB") != std::string::npos);
    CHECK(f.store->list_packs(kJob)->size() == 1);
    for (const auto& entry : fs::directory_iterator{f.pack_file(known).parent_path()})
        CHECK(entry.path().extension() == ".pack");

    const auto again = put(known.id, good);
    REQUIRE(again);
    CHECK_FALSE(*again);
    flip(f.pack_file(known), 100);
    CHECK_FALSE(verify_generation(*f.store, kJob, f.snapshots[0].digest));
    REQUIRE(put(known.id, good));
    CHECK_MESSAGE(verify_generation(*f.store, kJob, f.snapshots[0].digest), "sending it again heals it");
}

TEST_CASE("a pack that is still coming is not there") {
    Fixture f;
    const PackEntry& known = f.snapshots[0].manifest.packs[0];
    const std::string bytes = get_file(f.pack_file(known));
    {
        auto writer = f.store->begin_pack(kJob, 7, known.id);
        REQUIRE(writer);
        REQUIRE((*writer)->append(bytes));
        CHECK(f.store->pack_size(kJob, {7, known.id}).error().kind == ErrorKind::not_found);
    }
    CHECK(fs::is_empty(f.work / "store" / kJob.get() / "a7"));
    // Two senders of one pack at once: both succeed, one pack.
    auto one = f.store->begin_pack(kJob, 7, known.id);
    auto two = f.store->begin_pack(kJob, 7, known.id);
    REQUIRE((*one)->append(bytes));
    REQUIRE((*two)->append(bytes));
    CHECK(*(*one)->commit());
    CHECK_FALSE(*(*two)->commit());
    CHECK_FALSE((*two)->commit());
    CHECK(*f.store->pack_size(kJob, {7, known.id}) == known.size);
}

TEST_CASE("ranges outside of a pack are refused") {
    Fixture f;
    const PackEntry& p = f.snapshots[0].manifest.packs[0];
    const PackKey key{p.attempt, p.id};
    std::string out;
    REQUIRE(f.store->read_pack(kJob, key, 0, p.size, out));
    CHECK(sha256(out) == p.id);
    REQUIRE(f.store->read_pack(kJob, key, p.size, 0, out));
    CHECK(out.empty());
    struct Range {
        std::int64_t offset, length;
    };
    for (const Range r : {Range{-1, 5},
                          {0, -5},
                          {0, p.size + 1},
                          {p.size, 1},
                          {INT64_MAX, INT64_MAX},
                          {INT64_MAX, 1},
                          {1, INT64_MAX}})
        CHECK(f.store->read_pack(kJob, key, r.offset, r.length, out).error().kind == ErrorKind::invalid);
    CHECK(f.store->read_pack(kJob, {9, p.id}, 0, 1, out).error().kind == ErrorKind::not_found);
}

TEST_CASE("a candidate is taken in only if all of it is there and is this attempt's") {
    Fixture f;
    Manifest m = f.snapshots[0].manifest;
    const auto put = [&](const Manifest& manifest, int attempt = 1) {
        const auto bytes = encode_manifest(manifest);
        REQUIRE(bytes);
        return f.store->put_manifest(kJob, kTask, attempt, *bytes);
    };
    REQUIRE(put(m));
    CHECK(put(m, 2).error().kind == ErrorKind::invalid);
    CHECK(f.store->put_manifest(kJob, TaskId{"tsk_01hyyyyyyyyyyyyyyyyyyyyyyy"}, 1, *encode_manifest(m))
              .error()
              .kind == ErrorKind::invalid);
    CHECK(f.store->put_manifest(kJob, kTask, 1, "{}").error().kind == ErrorKind::invalid);
    SUBCASE("a pack that was not sent") {
        m.packs[0].id = sha256("never sent");
        CHECK(put(m).error().message.find("is not stored") != std::string::npos);
    }
    SUBCASE("a pack of another size") {
        m.packs[0].size += 1;
        CHECK(put(m).error().message.find("bytes and not") != std::string::npos);
    }
    SUBCASE("chunks that lie elsewhere") {
        m.packs[0].chunks.back().offset += 1;
        CHECK(put(m).error().message.find("where the manifest says") != std::string::npos);
    }
    SUBCASE("a pack of another attempt") {
        m.attempt = 2;
        m.packs[0].attempt = 2;
        CHECK(put(m, 2).error().message.find("is not stored") != std::string::npos);
    }
    SUBCASE("a pack whose index rotted") {
        const fs::path file = f.pack_file(m.packs[0]);
        flip(file, get_file(file).size() - 70);
        CHECK(put(m).error().message.find("is broken") != std::string::npos);
    }
    CHECK(f.store->list_manifests(kJob)->size() == 1);
}

TEST_CASE(
    "the newest generation is broken in some way: it is found, set aside, and the one before restores") {
    Fixture f{2};
    const Manifest& newest = f.snapshots[1].manifest;
    const auto own = std::ranges::find_if(newest.packs, [](const PackEntry& p) { return p.attempt == 2; });
    REQUIRE(own != newest.packs.end());
    bool quick = true;  // found without reading the chunks
    SUBCASE("manifest missing") {
        fs::remove(f.manifest_file(1));
    }
    SUBCASE("manifest with a wrong hash") {
        flip(f.manifest_file(1), 40);
    }
    SUBCASE("manifest of another generation under its name") {
        put_file(f.manifest_file(1), f.snapshots[0].encoded);
    }
    SUBCASE("manifest cut") {
        fs::resize_file(f.manifest_file(1), 100);
    }
    SUBCASE("manifest empty") {
        fs::resize_file(f.manifest_file(1), 0);
    }
    SUBCASE("pack missing") {
        fs::remove(f.pack_file(*own));
    }
    SUBCASE("pack cut") {
        fs::resize_file(f.pack_file(*own), static_cast<std::uintmax_t>(own->size) - 1);
    }
    SUBCASE("pack index flipped") {
        flip(f.pack_file(*own), static_cast<std::size_t>(own->size) - 100);
    }
    SUBCASE("pack chunk flipped") {
        flip(f.pack_file(*own), 20);
        quick = false;
    }
    const auto checked = check_generation(*f.store, kJob, f.snapshots[1].digest);
    CHECK(checked.has_value() == !quick);
    const auto verified = verify_generation(*f.store, kJob, f.snapshots[1].digest);
    REQUIRE_FALSE(verified);
    CHECK(verified.error().kind == ErrorKind::malformed);

    REQUIRE(f.store->quarantine(kJob, f.snapshots[1].digest, verified.error().message));
    REQUIRE(
        f.store->quarantine(kJob, f.snapshots[1].digest, verified.error().message));  // twice changes nothing
    CHECK(f.store->get_manifest(kJob, f.snapshots[1].digest).error().kind == ErrorKind::not_found);
    CHECK(*f.store->list_seals(kJob) == std::vector<Seal>{f.seal(1)});
    const fs::path aside = f.work / "store" / kJob.get() / "quarantine";
    CHECK(get_file(aside / (f.snapshots[1].digest.hex() + ".why")) == verified.error().message);

    const auto before = verify_generation(*f.store, kJob, f.snapshots[0].digest);
    REQUIRE(before);
    StoreSource source{*f.store, kJob};
    REQUIRE(restore(*before, source, f.work / "back"));
    CHECK(tree_text(f.work / "back") == f.trees[0]);
}

TEST_CASE("retention removes manifest, seal and the packs that nobody else names") {
    Fixture f{3};
    REQUIRE(f.store->remove_manifest(kJob, f.snapshots[0].digest));
    REQUIRE(f.store->remove_manifest(kJob, f.snapshots[0].digest));
    CHECK(*f.store->list_seals(kJob) == std::vector<Seal>{f.seal(2), f.seal(3)});
    REQUIRE(f.store->quarantine(kJob, f.snapshots[1].digest, "test"));
    CHECK(*f.store->list_quarantined(kJob) == std::vector<Digest>{f.snapshots[1].digest});
    std::vector<Manifest> kept = {f.snapshots[2].manifest};
    kept.push_back(*decode_manifest(*f.store->get_quarantined(kJob, f.snapshots[1].digest)));
    CHECK_MESSAGE(plan_gc(kept, *f.store->list_packs(kJob), {}).remove.empty(),
                  "attempt 1's pack holds the fixed file of all three");
    kept.pop_back();
    const GcPlan plan = plan_gc(kept, *f.store->list_packs(kJob), {});
    REQUIRE(plan.remove.size() == 1);
    CHECK(plan.remove[0].key.attempt == 2);
    for (const StoredPack& p : plan.remove) REQUIRE(f.store->remove_pack(kJob, p.key));
    REQUIRE(f.store->remove_pack(kJob, plan.remove[0].key));
    CHECK(verify_generation(*f.store, kJob, f.snapshots[2].digest));
}

TEST_CASE("opening sweeps what was half written and keeps the rest") {
    Fixture f;
    const fs::path job = f.work / "store" / kJob.get();
    put_file(job / "a1/.tmp-1-1", "half");
    put_file(job / "manifests/.tmp-1-2", "half");
    put_file(job / "outputs/.tmp-restore-tsk-01234567/f", "half");
    put_file(f.work / "store/.tmp-1-3/a1/x", "half");
    f.store.reset();
    auto opened = FileStore::open(f.work / "store");
    REQUIRE(opened);
    CHECK_FALSE(fs::exists(job / "a1/.tmp-1-1"));
    CHECK_FALSE(fs::exists(job / "manifests/.tmp-1-2"));
    CHECK_FALSE(fs::exists(job / "outputs/.tmp-restore-tsk-01234567"));
    CHECK_FALSE(fs::exists(f.work / "store/.tmp-1-3"));
    CHECK(verify_generation(**opened, kJob, f.snapshots[0].digest));
    REQUIRE((*opened)->remove_job(kJob));
    REQUIRE((*opened)->remove_job(kJob));
    CHECK(fs::is_empty(f.work / "store"));
    CHECK((*opened)->list_packs(kJob)->empty());
}

TEST_CASE("seals that cannot be read are left out of the list") {
    Fixture f{2};
    const fs::path seals = f.work / "store" / kJob.get() / "seals";
    put_file(seals / "junk.json", "junk");
    put_file(seals / (kTask.get() + ".000000000009.json"), "{}");
    put_file(seals / (kTask.get() + ".000000000008.json"),
             get_file(seals / (kTask.get() + ".000000000001.json")));
    CHECK(*f.store->list_seals(kJob) == std::vector<Seal>{f.seal(1), f.seal(2)});
}

TEST_CASE("dropped generations go with the packs that nobody else needs, and nothing else goes") {
    Fixture f{4};
    const auto packs = [&] { return f.store->list_packs(kJob)->size(); };
    REQUIRE(packs() == 4);
    SUBCASE("what is pinned by time stays") {
        const auto plan =
            collect_garbage(*f.store, kJob, {f.snapshots[1].digest}, {.stored_since = instant_of(0)});
        REQUIRE(plan);
        CHECK(plan->remove.empty());
        CHECK(packs() == 4);
    }
    SUBCASE("without pins the pack of a dropped generation goes") {
        const auto plan = collect_garbage(*f.store, kJob, {f.snapshots[0].digest, f.snapshots[1].digest}, {});
        REQUIRE(plan);
        REQUIRE(plan->remove.size() == 1);
        CHECK(plan->remove[0].key.attempt == 2);
        CHECK(*f.store->list_seals(kJob) == std::vector<Seal>{f.seal(3), f.seal(4)});
    }
    SUBCASE("a quarantined generation keeps its packs") {
        REQUIRE(f.store->quarantine(kJob, f.snapshots[1].digest, "test"));
        REQUIRE(collect_garbage(*f.store, kJob, {}, {}));
        CHECK(packs() == 4);
    }
    SUBCASE("a manifest that cannot be read stops the removal of packs") {
        flip(f.manifest_file(2), 50);
        CHECK(collect_garbage(*f.store, kJob, {f.snapshots[1].digest}, {}).error().kind ==
              ErrorKind::malformed);
        CHECK(packs() == 4);
        REQUIRE(f.store->quarantine(kJob, f.snapshots[2].digest, "rotten"));
        REQUIRE(collect_garbage(*f.store, kJob, {}, {}));
        CHECK(packs() == 2);
    }
    CHECK(verify_generation(*f.store, kJob, f.snapshots[3].digest));
}
