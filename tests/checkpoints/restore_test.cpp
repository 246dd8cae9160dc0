#include "checkpoints/restore.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "support.hpp"

using namespace gf;
using namespace gf::checkpoints;
using namespace gf::checkpoints::test;
namespace fs = std::filesystem;

namespace {

/// A folder with one checkpoint of it in memory.
struct Fixture {
    TempFolder work;
    MemoryPacks packs;
    Manifest manifest;
    explicit Fixture(std::uint64_t seed = 31) {
        Entropy entropy{seed};
        put_file(work / "tree/b-new", random_bytes(entropy, 5000), 30);
        put_file(work / "tree/a-old", random_bytes(entropy, static_cast<std::size_t>(kChunkBytes) + 99), 10);
        put_file(work / "tree/sub/c-middle", std::string(200'000, 'c'), 20);
        manifest = take_and_send(request_for(work / "tree", work / "spool"), packs).manifest;
    }
    /// Only the target, and perhaps what it held: no half restored folder under any name.
    void check_no_leftovers() const {
        for (const auto& entry : fs::directory_iterator{work.path()}) {
            const std::string name = entry.path().filename().string();
            CAPTURE(name);
            CHECK((name == "tree" || name == "spool" || name == "back"));
        }
    }
};

}  // namespace

TEST_CASE("files are written oldest first, so that ctime has the order of mtime") {
    Fixture f;
    REQUIRE(restore(f.manifest, f.packs, f.work / "back"));
    const auto ctime = [&](const char* name) {
        struct stat st{};
        REQUIRE(::stat((f.work / "back" / name).c_str(), &st) == 0);
        return std::pair{st.st_ctim.tv_sec, st.st_ctim.tv_nsec};
    };
    CHECK(ctime("a-old") <= ctime("sub/c-middle"));
    CHECK(ctime("sub/c-middle") <= ctime("b-new"));
    CHECK(tree_text(f.work / "back") == tree_text(f.work / "tree"));

    // ctimes of one clock tick are equal, so the order is also checked where it is made.
    FaultDisk disk;
    REQUIRE(restore(f.manifest, f.packs, f.work / "back", {.disk = &disk}));
    std::vector<std::string> created;
    for (const std::string& line : disk.log)
        if (line.starts_with("create ")) created.push_back(line.substr(7));
    CHECK(created == std::vector<std::string>{"a-old", "c-middle", "b-new"});
}

TEST_CASE("neighbouring chunks come with one read") {
    Fixture f;
    f.packs.reads = 0;
    REQUIRE(restore(f.manifest, f.packs, f.work / "back"));
    CHECK(f.packs.reads == 1);
}

TEST_CASE("what was in the target before is gone, in one step") {
    Fixture f;
    put_file(f.work / "back/result.json", "{\"half");  // of an earlier try
    put_file(f.work / "back/deep/left-over", "x");
    SUBCASE("by swapping the names") {
        REQUIRE(restore(f.manifest, f.packs, f.work / "back"));
    }
    SUBCASE("where names cannot be swapped") {
        FaultDisk disk;
        disk.no_exchange = true;
        REQUIRE(restore(f.manifest, f.packs, f.work / "back", {.disk = &disk}));
    }
    CHECK(tree_text(f.work / "back") == tree_text(f.work / "tree"));
    f.check_no_leftovers();
}

TEST_CASE("a broken or missing pack names pack and file and leaves the target alone") {
    Fixture f;
    put_file(f.work / "back/before", "kept");
    const std::string before = tree_text(f.work / "back");
    REQUIRE(f.manifest.packs.size() == 1);
    const PackEntry& pack = f.manifest.packs[0];
    std::string& bytes = f.packs.packs.begin()->second;
    const PackedChunk last = pack.chunks.back();
    std::string file = "b-new";
    SUBCASE("flipped bit") {
        bytes[static_cast<std::size_t>(last.offset)] ^= 4;
    }
    SUBCASE("cut short") {
        bytes.resize(static_cast<std::size_t>(last.offset));
        file = "a-old";  // the read that fails covers all files
    }
    SUBCASE("missing") {
        f.packs.packs.clear();
        file = "a-old";
    }
    const auto result = restore(f.manifest, f.packs, f.work / "back");
    REQUIRE_FALSE(result);
    CHECK(result.error().kind == ErrorKind::malformed);
    CHECK(result.error().message.find(pack.id.hex()) != std::string::npos);
    CHECK(result.error().message.find(file) != std::string::npos);
    CHECK(tree_text(f.work / "back") == before);
    f.check_no_leftovers();
    CHECK(verify_contents(f.manifest, f.packs).error().kind == ErrorKind::malformed);
}

TEST_CASE("a file whose chunks are good but in another order is found by its own hash") {
    TempFolder work;
    MemoryPacks packs;
    Entropy entropy{32};
    put_file(work / "tree/f", random_bytes(entropy, static_cast<std::size_t>(2 * kChunkBytes)));
    Manifest m = take_and_send(request_for(work / "tree", work / "spool"), packs).manifest;
    std::swap(m.files[0].chunks[0], m.files[0].chunks[1]);
    REQUIRE(validate_manifest(m));
    CHECK(restore(m, packs, work / "back").error().kind == ErrorKind::malformed);
    CHECK_FALSE(fs::exists(work / "back"));
    CHECK(verify_contents(m, packs).error().message.find("file f") != std::string::npos);
}

TEST_CASE("trouble of the link is not taken for a broken checkpoint") {
    class Down final : public PackSource {
        Result<void> read(const PackEntry&, std::int64_t, std::int64_t, std::string&) override {
            return fail(ErrorKind::unavailable, "down");
        }
    };
    Fixture f;
    Down down;
    CHECK(restore(f.manifest, down, f.work / "back").error().kind == ErrorKind::unavailable);
    f.check_no_leftovers();
}

TEST_CASE("a manifest made by hand cannot write outside of the target") {
    Fixture f;
    Manifest m = f.manifest;
    m.files[0].path = "../escaped";
    CHECK(restore(m, f.packs, f.work / "back").error().kind == ErrorKind::malformed);
    CHECK(restore(f.manifest, f.packs, "relative").error().kind == ErrorKind::invalid);
    CHECK_FALSE(fs::exists(f.work / "escaped"));
}

TEST_CASE("a restore that is told to stop leaves nothing") {
    Fixture f;
    int asked = 0;
    std::int64_t seen = 0;
    const auto result = restore(f.manifest, f.packs, f.work / "back",
                                {.stop = [&] { return ++asked == 3; },
                                 .progress = [&](std::int64_t done, std::int64_t) { seen = done; }});
    REQUIRE_FALSE(result);
    CHECK(result.error().kind == ErrorKind::conflict);
    CHECK(seen > 0);
    CHECK_FALSE(fs::exists(f.work / "back"));
    f.check_no_leftovers();
}

TEST_CASE("a disk error at any step of a restore leaves the old folder or the new one, and no third") {
    for (const bool no_exchange : {false, true}) {
        Fixture f;
        FaultDisk counting;
        counting.no_exchange = no_exchange;
        REQUIRE(restore(f.manifest, f.packs, f.work / "back", {.durable = true, .disk = &counting}));
        put_file(f.work / "back/extra", "previous content");
        const std::string old = tree_text(f.work / "back");
        const std::string whole = tree_text(f.work / "tree");
        FaultDisk recount;
        recount.no_exchange = no_exchange;
        REQUIRE(restore(f.manifest, f.packs, f.work / "back", {.durable = true, .disk = &recount}));
        for (int at = 1; at <= recount.operations; ++at) {
            fs::remove_all(f.work / "back");
            fs::copy(f.work / "tree", f.work / "back", fs::copy_options::recursive);
            put_file(f.work / "back/extra", "previous content");
            const std::string before = tree_text(f.work / "back");
            FaultDisk faulty;
            faulty.no_exchange = no_exchange;
            faulty.fail_at = at;
            faulty.error = ENOSPC;
            CAPTURE(at);
            const auto result =
                restore(f.manifest, f.packs, f.work / "back", {.durable = true, .disk = &faulty});
            REQUIRE_FALSE(result);
            CHECK(result.error().kind == ErrorKind::full);
            const std::string after = tree_text(f.work / "back");
            CHECK((after == before || after == whole));
            // A failing rename back is the one case that may leave the old folder under a temporary name.
            REQUIRE(restore(f.manifest, f.packs, f.work / "back"));
            CHECK(tree_text(f.work / "back") == whole);
            f.check_no_leftovers();
        }
    }
}

TEST_CASE("a restore killed at any step leaves the old folder or the new one, and the next one cleans up") {
    Fixture f;
    FaultDisk counting;
    REQUIRE(restore(f.manifest, f.packs, f.work / "back", {.disk = &counting}));
    const std::string whole = tree_text(f.work / "tree");
    const int operations = counting.operations;
    for (int at = 1; at <= operations + 1; ++at) {
        fs::remove_all(f.work / "back");
        put_file(f.work / "back/old", "old");
        const std::string old = tree_text(f.work / "back");
        const int code = in_child([&] {
            FaultDisk dying;
            dying.fail_at = at;
            dying.die = true;
            const auto result = restore(f.manifest, f.packs, f.work / "back", {.disk = &dying});
            return result ? 0 : 1;
        });
        CAPTURE(at);
        CHECK((code == 99 || code == 0));
        const std::string after = tree_text(f.work / "back");
        CHECK((after == old || after == whole));
        REQUIRE(restore(f.manifest, f.packs, f.work / "back"));
        CHECK(tree_text(f.work / "back") == whole);
        f.check_no_leftovers();
    }
}

TEST_CASE("folders that forbid writing come back so, and can be replaced") {
    TempFolder work;
    MemoryPacks packs;
    put_file(work / "tree/locked/f", "x");
    REQUIRE(::chmod((work / "tree/locked").c_str(), 0500) == 0);
    REQUIRE(::chmod((work / "tree").c_str(), 0555) == 0);
    const Manifest m = take_and_send(request_for(work / "tree", work / "spool"), packs).manifest;
    REQUIRE(::chmod(work.path().c_str(), 0777) == 0);
    const int code = in_child([&] {
        if (::geteuid() == 0 && ::setresuid(65534, 65534, 65534) != 0) return 3;
        if (!restore(m, packs, work / "back")) return 1;
        if (!restore(m, packs, work / "back")) return 2;
        return 0;
    });
    CHECK(code == 0);
    CHECK(tree_text(work / "back") == tree_text(work / "tree"));
    int names = 0;
    for ([[maybe_unused]] const auto& entry : fs::directory_iterator{work.path()}) ++names;
    CHECK(names == 2);
}
