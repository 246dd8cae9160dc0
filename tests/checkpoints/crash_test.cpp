// Every step of storing a generation fails once and is the last thing that a process does once. Two models of
// the crash: the process dies (what was written stays), and the power goes (what was not synced is gone).
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <optional>
#include <set>

#include "support.hpp"

using namespace gf;
using namespace gf::checkpoints;
using namespace gf::checkpoints::test;
namespace fs = std::filesystem;

namespace {

/// Loses at the crash what was not synced: the content of a file that was not, and a name whose folder was
/// not. The worst that a journalling file system may do within POSIX.
class PowerDisk final : public Disk {
 public:
    int dies_at{0};
    int operations{0};
    struct PowerCut {};

    Result<File> create(const fs::path& path) override {
        step();
        auto file = Disk::create(path);
        unsynced_content_.insert(path);
        unsynced_names_[path.parent_path()].push_back({path, std::nullopt});
        return file;
    }
    Result<void> write(File& file, std::string_view bytes, const fs::path& path) override {
        step();
        unsynced_content_.insert(path);
        return Disk::write(file, bytes, path);
    }
    Result<void> sync(File& file, const fs::path& path) override {
        step();
        unsynced_content_.erase(path);
        return Disk::sync(file, path);
    }
    Result<void> sync_directory(const fs::path& path) override {
        step();
        unsynced_names_.erase(path);
        return Disk::sync_directory(path);
    }
    Result<void> rename(const fs::path& from, const fs::path& to) override {
        step();
        if (unsynced_content_.erase(from) > 0) unsynced_content_.insert(to);
        std::optional<std::string> before;
        if (fs::is_regular_file(to)) before = get_file(to);
        // The name that was made before is the same file: only the last name counts.
        std::erase_if(unsynced_names_[from.parent_path()], [&](const Name& n) { return n.path == from; });
        unsynced_names_[to.parent_path()].push_back({to, before});
        return Disk::rename(from, to);
    }
    Result<void> make_directory(const fs::path& path) override {
        step();
        const bool fresh = !fs::exists(path);
        auto made = Disk::make_directory(path);
        if (fresh) unsynced_names_[path.parent_path()].push_back({path, std::nullopt});
        return made;
    }
    Result<void> remove(const fs::path& path) override {
        step();
        return Disk::remove(path);
    }

    /// Puts the disk into the state that the next start finds.
    void lose_what_was_not_synced() {
        for (const fs::path& path : unsynced_content_)
            if (fs::is_regular_file(path)) fs::resize_file(path, fs::file_size(path) / 2);
        for (auto& [folder, names] : unsynced_names_)
            for (auto n = names.rbegin(); n != names.rend(); ++n) {
                fs::remove_all(n->path);
                if (n->before) put_file(n->path, *n->before);
            }
    }

 private:
    struct Name {
        fs::path path;
        std::optional<std::string> before;
    };
    void step() {
        if (++operations == dies_at) throw PowerCut{};
    }
    std::set<fs::path> unsynced_content_;
    std::map<fs::path, std::vector<Name>> unsynced_names_;
};

/// The bytes of one snapshot, kept so that each try stores the same.
struct Candidate {
    TempFolder work;
    std::vector<std::pair<Digest, std::string>> packs;
    Snapshot snapshot;
    Candidate() {
        Entropy entropy{51};
        put_file(work / "tree/weights", random_bytes(entropy, 200'000), 1);
        MemoryPacks memory;
        snapshot = take_and_send(request_for(work / "tree", work / "spool"), memory);
        packs.assign(memory.packs.begin(), memory.packs.end());
    }
    /// What the gateway does with a generation; stops at the first error.
    Result<void> store_in(const fs::path& root, Disk& disk) const {
        auto store = FileStore::open(root, &disk);
        if (!store) return fail(std::move(store).error());
        for (const auto& [id, bytes] : packs) {
            auto writer = (*store)->begin_pack(kJob, 1, id);
            if (!writer) return fail(std::move(writer).error());
            for (std::size_t at = 0; at < bytes.size(); at += 65'536)
                if (auto done = (*writer)->append(std::string_view{bytes}.substr(at, 65'536)); !done)
                    return done;
            if (auto done = (*writer)->commit(); !done) return fail(std::move(done).error());
        }
        if (auto done = (*store)->put_manifest(kJob, kTask, 1, snapshot.encoded); !done)
            return fail(std::move(done).error());
        return (*store)->put_seal(kJob, {.task = kTask.get(),
                                         .generation = 1,
                                         .attempt = 1,
                                         .step = 7,
                                         .manifest = snapshot.digest,
                                         .committed_at_ms = 1});
    }
    /// Whole or not there: a pack that is listed is good, a manifest that is listed can be read to the end, a
    /// seal names a whole generation, and storing again brings everything.
    void check_after_crash(const fs::path& root) const {
        auto store = FileStore::open(root);
        REQUIRE(store);
        for (const StoredPack& p : *(*store)->list_packs(kJob)) {
            std::string bytes;
            REQUIRE((*store)->read_pack(kJob, p.key, 0, p.size, bytes));
            CHECK(sha256(bytes) == p.key.id);
        }
        for (const Digest& d : *(*store)->list_manifests(kJob)) CHECK(verify_generation(**store, kJob, d));
        for (const Seal& s : *(*store)->list_seals(kJob)) CHECK(verify_generation(**store, kJob, s.manifest));
        store->reset();
        const auto again = store_in(root, Disk::real());
        if (!again) FAIL(again.error().message);
        auto reopened = FileStore::open(root);
        CHECK(verify_generation(**reopened, kJob, snapshot.digest));
        CHECK((*reopened)->list_seals(kJob)->size() == 1);
        for (const auto& entry : fs::recursive_directory_iterator{root})
            CHECK_FALSE(entry.path().filename().string().starts_with(".tmp-"));
    }
};

}  // namespace

TEST_CASE("the daemon dies at any step of storing a generation: each thing is whole or not there") {
    const Candidate candidate;
    FaultDisk counting;
    REQUIRE(candidate.store_in(candidate.work / "count", counting));
    CHECK(counting.operations > 15);
    for (int at = 1; at <= counting.operations; ++at) {
        CAPTURE(at);
        const fs::path root = candidate.work / ("s" + std::to_string(at));
        const int code = in_child([&] {
            FaultDisk dying;
            dying.fail_at = at;
            dying.die = true;
            return candidate.store_in(root, dying) ? 0 : 1;
        });
        CHECK(code == 99);
        candidate.check_after_crash(root);
    }
}

TEST_CASE(
    "the power goes at any step of storing a generation: what was acknowledged is there, the rest whole or "
    "not") {
    const Candidate candidate;
    PowerDisk counting;
    REQUIRE(candidate.store_in(candidate.work / "count", counting));
    for (int at = 1; at <= counting.operations + 1; ++at) {
        CAPTURE(at);
        const fs::path root = candidate.work / ("p" + std::to_string(at));
        fs::create_directory(root);  // the data folder was there before
        PowerDisk disk;
        disk.dies_at = at;
        bool acknowledged = false;
        try {
            acknowledged = candidate.store_in(root, disk).has_value();
        } catch (const PowerDisk::PowerCut&) {
            acknowledged = false;
        }
        disk.lose_what_was_not_synced();
        CHECK(acknowledged == (at > counting.operations));
        if (acknowledged) {
            auto store = FileStore::open(root);
            CHECK(verify_generation(**store, kJob, candidate.snapshot.digest));
            CHECK((*store)->list_seals(kJob)->size() == 1);
        }
        candidate.check_after_crash(root);
    }
}

TEST_CASE(
    "a full or failing disk at any step is told as such, keeps the old generation, and is over when there is "
    "space") {
    const Candidate candidate;
    FaultDisk counting;
    REQUIRE(candidate.store_in(candidate.work / "count", counting));
    for (const int error : {ENOSPC, EIO}) {
        for (int at = 1; at <= counting.operations; ++at) {
            CAPTURE(at);
            CAPTURE(counting.log[static_cast<std::size_t>(at - 1)]);
            const fs::path root = candidate.work / ("e" + std::to_string(error) + "-" + std::to_string(at));
            FaultDisk faulty;
            faulty.fail_at = at;
            faulty.error = error;
            const auto result = candidate.store_in(root, faulty);
            REQUIRE_FALSE(result);
            CHECK(result.error().kind == (error == ENOSPC ? ErrorKind::full : ErrorKind::io));
            if (fs::exists(root))
                for (const auto& entry : fs::recursive_directory_iterator{root})
                    CHECK_FALSE(entry.path().filename().string().starts_with(".tmp-"));
            candidate.check_after_crash(root);
        }
    }
}

TEST_CASE("the agent dies at any step of a snapshot: the next one is whole and the spool can be cleared") {
    const TempFolder work;
    Entropy entropy{52};
    put_file(work / "tree/weights", random_bytes(entropy, static_cast<std::size_t>(2 * kChunkBytes) + 5));
    FaultDisk counting;
    SnapshotRequest request = request_for(work / "tree", work / "spool");
    request.disk = &counting;
    {
        auto s = take_snapshot(request);
        REQUIRE(s);
        discard(*s);
    }
    for (int at = 1; at <= counting.operations; ++at) {
        CAPTURE(at);
        const int code = in_child([&] {
            FaultDisk dying;
            dying.fail_at = at;
            dying.die = true;
            request.disk = &dying;
            return take_snapshot(request) ? 0 : 1;
        });
        CHECK(code == 99);
        REQUIRE(clear_spool(work / "spool"));
        if (fs::exists(work / "spool")) CHECK(fs::is_empty(work / "spool"));
        request.disk = nullptr;
        MemoryPacks packs;
        const Snapshot s = take_and_send(request, packs);
        CHECK(verify_contents(s.manifest, packs));
    }
}

TEST_CASE("quarantine survives a death at any step") {
    const Candidate candidate;
    const auto run = [&](const fs::path& root, Disk& disk) -> bool {
        auto store = FileStore::open(root, &disk);
        return store && (*store)->quarantine(kJob, candidate.snapshot.digest, "test");
    };
    FaultDisk counting;
    const fs::path first = candidate.work / "q0";
    REQUIRE(candidate.store_in(first, Disk::real()));
    REQUIRE(run(first, counting));
    for (int at = 1; at <= counting.operations; ++at) {
        CAPTURE(at);
        const fs::path root = candidate.work / ("q" + std::to_string(at));
        REQUIRE(candidate.store_in(root, Disk::real()));
        const int code = in_child([&] {
            FaultDisk dying;
            dying.fail_at = at;
            dying.die = true;
            return run(root, dying) ? 0 : 1;
        });
        CHECK(code == 99);
        auto store = FileStore::open(root);
        REQUIRE(store);
        // The manifest is in exactly one of the two places.
        const bool live = (*store)->get_manifest(kJob, candidate.snapshot.digest).has_value();
        const bool aside = (*store)->get_quarantined(kJob, candidate.snapshot.digest).has_value();
        CHECK(live != aside);
        REQUIRE((*store)->quarantine(kJob, candidate.snapshot.digest, "again"));
        CHECK((*store)->list_seals(kJob)->empty());
    }
}
