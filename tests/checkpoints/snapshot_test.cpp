#include "checkpoints/snapshot.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "checkpoints/restore.hpp"
#include "support.hpp"

using namespace gf;
using namespace gf::checkpoints;
using namespace gf::checkpoints::test;
namespace fs = std::filesystem;

namespace {

bool empty_folder(const fs::path& path) {
    return !fs::exists(path) || fs::is_empty(path);
}

}  // namespace

TEST_CASE("a random tree comes back exactly: names, bytes, modes, times, links, empty folders") {
    for (std::uint64_t seed = 1; seed <= 12; ++seed) {
        CAPTURE(seed);
        Entropy entropy{seed};
        const TempFolder work;
        make_random_tree(work / "tree", entropy);
        const std::string before = tree_text(work / "tree");
        MemoryPacks packs;
        const Snapshot snapshot = take_and_send(request_for(work / "tree", work / "spool"), packs);
        CHECK(empty_folder(work / "spool"));
        const auto decoded = decode_manifest(snapshot.encoded);
        REQUIRE(decoded);
        CHECK(*decoded == snapshot.manifest);
        CHECK(snapshot.digest == sha256(snapshot.encoded));
        const auto restored = restore(*decoded, packs, work / "back");
        if (!restored) FAIL(restored.error().message);
        CHECK(tree_text(work / "back") == before);
        CHECK(tree_text(work / "tree") == before);
        CHECK(restored->bytes == total_bytes(*decoded));

        // What is restored makes the same checkpoint again: nothing new to store.
        SnapshotRequest again = request_for(work / "back", work / "spool");
        again.previous = &*decoded;
        again.attempt = 2;
        const Snapshot second = take_and_send(again, packs);
        CHECK(second.same_as_previous);
        CHECK(second.bytes_new == 0);
    }
}

TEST_CASE("unchanged chunks are not stored again and old packs are named with their attempt") {
    const TempFolder work;
    Entropy entropy{21};
    const std::string big = random_bytes(entropy, static_cast<std::size_t>(3 * kChunkBytes));
    put_file(work / "tree/weights", big, 1);
    MemoryPacks packs;
    SnapshotRequest request = request_for(work / "tree", work / "spool");
    const Snapshot first = take_and_send(request, packs);
    CHECK(first.bytes_new == 3 * kChunkBytes);
    CHECK_FALSE(first.same_as_previous);

    std::string changed = big;
    changed[static_cast<std::size_t>(kChunkBytes) + 5] ^= 1;
    put_file(work / "tree/weights", changed, 2);
    request.previous = &first.manifest;
    request.attempt = 4;
    const Snapshot second = take_and_send(request, packs);
    CHECK(second.bytes_new == kChunkBytes);
    REQUIRE(second.manifest.packs.size() == 2);
    CHECK(second.manifest.packs[0].attempt == 1);
    CHECK(second.manifest.packs[0].chunks.size() == 2);
    CHECK(second.manifest.packs[1].attempt == 4);
    REQUIRE(restore(second.manifest, packs, work / "back"));
    CHECK(get_file(work / "back/weights") == changed);
}

TEST_CASE("a pack of which little is still used is not used again, so that it can go") {
    const TempFolder work;
    Entropy entropy{22};
    for (int i = 0; i < 5; ++i)
        put_file(work / ("tree/f" + std::to_string(i)),
                 random_bytes(entropy, static_cast<std::size_t>(kChunkBytes)), i);
    MemoryPacks packs;
    SnapshotRequest request = request_for(work / "tree", work / "spool");
    const Snapshot first = take_and_send(request, packs);
    for (int i = 1; i < 5; ++i) fs::remove(work / ("tree/f" + std::to_string(i)));
    request.previous = &first.manifest;
    const Snapshot second = take_and_send(request, packs);
    CHECK(second.bytes_new == 0);
    request.previous = &second.manifest;
    const Snapshot third = take_and_send(request, packs);
    CHECK(third.bytes_new == kChunkBytes);
    REQUIRE(third.manifest.packs.size() == 1);
    CHECK(third.manifest.packs[0].id != first.manifest.packs[0].id);
}

TEST_CASE("equal chunks and holes are stored once, and a hole comes back as a hole") {
    const TempFolder work;
    put_file(work / "tree/sparse", "x");
    REQUIRE(::truncate((work / "tree/sparse").c_str(), 40LL << 20) == 0);
    put_file(work / "tree/copy", std::string(static_cast<std::size_t>(kChunkBytes), 'c'));
    put_file(work / "tree/copy2", std::string(static_cast<std::size_t>(kChunkBytes), 'c'));
    MemoryPacks packs;
    const Snapshot s = take_and_send(request_for(work / "tree", work / "spool"), packs);
    CHECK(s.bytes_new == 3 * kChunkBytes);
    REQUIRE(restore(s.manifest, packs, work / "back"));
    struct stat st{};
    REQUIRE(::stat((work / "back/sparse").c_str(), &st) == 0);
    CHECK(st.st_size == 40LL << 20);
    CHECK(st.st_blocks * 512 <= 2 * kChunkBytes);
    CHECK(get_file(work / "back/sparse") == get_file(work / "tree/sparse"));
}

TEST_CASE("a folder that moves between the scans is waited for, and in the end given up") {
    const TempFolder work;
    put_file(work / "tree/a", "1");
    SnapshotRequest request = request_for(work / "tree", work / "spool");
    int waits = 0;
    request.wait = [&](Millis time) {
        if (time.count() > 0 && ++waits <= 3) put_file(work / "tree/a", std::to_string(waits));
        return true;
    };
    const auto settled = take_snapshot(request);
    REQUIRE(settled);
    CHECK(waits == 4);
    request.wait = [&](Millis time) {
        if (time.count() > 0) put_file(work / "tree/a", std::to_string(++waits));
        return true;
    };
    request.scans_max = 5;
    const auto never = take_snapshot(request);
    REQUIRE_FALSE(never);
    CHECK(never.error().kind == ErrorKind::conflict);
    CHECK(never.error().message.find("never was still") != std::string::npos);
}

TEST_CASE("whatever moves while it is read throws the snapshot away and leaves nothing in the spool") {
    struct Row {
        const char* what;
        std::function<void(const fs::path&)> change;
    };
    const Row rows[] = {
        {"grows", [](const fs::path& t) { put_file(t / "b", std::string(20, 'x')); }},
        {"shrinks", [](const fs::path& t) { REQUIRE(::truncate((t / "b").c_str(), 1) == 0); }},
        {"vanishes", [](const fs::path& t) { fs::remove(t / "b"); }},
        {"replaced",
         [](const fs::path& t) {
             put_file(t / "tmp", "0123456789");
             fs::rename(t / "tmp", t / "b");
         }},
        {"rewritten in place, same size", [](const fs::path& t) { put_file(t / "b", "9876543210"); }},
        {"read before and rewritten after", [](const fs::path& t) { put_file(t / "a", "9876543210"); }},
        {"a new file", [](const fs::path& t) { put_file(t / "c", "new"); }},
        {"became a folder",
         [](const fs::path& t) {
             fs::remove(t / "b");
             fs::create_directory(t / "b");
         }},
        {"whole folder gone", [](const fs::path& t) { fs::remove_all(t); }},
    };
    for (const Row& row : rows) {
        CAPTURE(row.what);
        const TempFolder work;
        put_file(work / "tree/a", "0123456789", 1);
        put_file(work / "tree/b", "0123456789", 2);
        SnapshotRequest request = request_for(work / "tree", work / "spool");
        int chunks = 0;
        request.wait = [&](Millis time) {
            if (time.count() == 0 && ++chunks == 2) row.change(work / "tree");  // a was read, b is open
            return true;
        };
        const auto result = take_snapshot(request);
        REQUIRE_FALSE(result);
        CHECK(result.error().kind == ErrorKind::conflict);
        CHECK(empty_folder(work / "spool"));
    }
}

TEST_CASE("with a marker one look is enough, and an incomplete unit stays out") {
    const TempFolder work;
    put_file(work / "tree/checkpoint-100/model", "whole", 1);
    put_file(work / "tree/checkpoint-100/trainer_state.json", "{}", 2);
    put_file(work / "tree/checkpoint-200/model", "hal", 3);
    SnapshotRequest request = request_for(work / "tree", work / "spool");
    request.spec.marker = "trainer_state.json";
    int waits = 0;
    request.wait = [&](Millis time) {
        waits += time.count() > 0 ? 1 : 0;
        put_file(work / "tree/checkpoint-200/model",
                 std::string(static_cast<std::size_t>(++waits), 'x'));  // still being written
        waits -= 1;
        return true;
    };
    MemoryPacks packs;
    const Snapshot s = take_and_send(request, packs);
    CHECK(waits == 0);
    CHECK(s.left_out.size() == 1);
    REQUIRE(restore(s.manifest, packs, work / "back"));
    CHECK(fs::exists(work / "back/checkpoint-100/model"));
    CHECK_FALSE(fs::exists(work / "back/checkpoint-200"));
}

TEST_CASE("a marker in the root does not replace stillness") {
    const TempFolder work;
    put_file(work / "tree/latest", "global_step1", 1);
    put_file(work / "tree/weights", "1", 2);
    SnapshotRequest request = request_for(work / "tree", work / "spool");
    request.spec.marker = "latest";
    int waits = 0;
    request.wait = [&](Millis time) {
        if (time.count() > 0 && ++waits == 1) put_file(work / "tree/weights", "22", 3);
        return true;
    };
    const auto s = take_snapshot(request);
    REQUIRE(s);
    CHECK(waits == 2);
}

TEST_CASE("half a set is never in a snapshot") {
    const TempFolder work;
    for (const char* f : {"G_100.pth", "D_100.pth", "G_200.pth"}) put_file(work / "tree" / f, f);
    SnapshotRequest request = request_for(work / "tree", work / "spool");
    request.spec.unit = {"G_{n}.pth", "D_{n}.pth"};
    MemoryPacks packs;
    const Snapshot s = take_and_send(request, packs);
    REQUIRE(s.manifest.files.size() == 2);
    CHECK(s.manifest.files[0].path == "D_100.pth");
    CHECK(s.manifest.files[1].path == "G_100.pth");
}

TEST_CASE("nothing to take is told apart from trouble") {
    const TempFolder work;
    SnapshotRequest request = request_for(work / "tree", work / "spool");
    CHECK(take_snapshot(request).error().kind == ErrorKind::not_found);
    fs::create_directories(work / "tree/empty");
    CHECK(take_snapshot(request).error().kind == ErrorKind::not_found);
    request.allow_empty = true;
    const auto empty = take_snapshot(request);
    REQUIRE(empty);
    CHECK(empty->packs.empty());
    CHECK(empty->manifest.directories.size() == 2);
    request.spec.marker = "done";
    CHECK(take_snapshot(request).error().kind == ErrorKind::not_found);
    request.spec.marker.clear();
    request.wait = [](Millis) { return false; };
    CHECK(take_snapshot(request).error().kind == ErrorKind::conflict);
    request.spool = work / "tree/spool";
    CHECK(take_snapshot(request).error().kind == ErrorKind::invalid);
    request.only = {"empty"};
    CHECK(take_snapshot(request).error().kind != ErrorKind::invalid);
}

TEST_CASE("a file that cannot be read refuses the snapshot and is named") {
    const TempFolder work;
    put_file(work / "tree/readable", "1");
    put_file(work / "tree/secret", "2");
    fs::create_directory(work / "spool");
    REQUIRE(::chmod((work / "tree/secret").c_str(), 0) == 0);
    for (const char* p : {".", "tree", "spool"}) REQUIRE(::chmod((work / p).c_str(), 0777) == 0);
    const int code = in_child([&] {
        if (::geteuid() == 0 && ::setresuid(65534, 65534, 65534) != 0) return 3;
        const auto result = take_snapshot(request_for(work / "tree", work / "spool"));
        if (result) return 1;
        return result.error().kind == ErrorKind::io &&
                       result.error().message.find("secret") != std::string::npos
                   ? 0
                   : 2;
    });
    CHECK(code == 0);
    CHECK(empty_folder(work / "spool"));
}

TEST_CASE("a full or failing spool disk is named as such, at every step, and leaves nothing behind") {
    const TempFolder work;
    Entropy entropy{23};
    put_file(work / "tree/a", random_bytes(entropy, static_cast<std::size_t>(2 * kChunkBytes)));
    FaultDisk counting;
    SnapshotRequest request = request_for(work / "tree", work / "spool");
    request.disk = &counting;
    REQUIRE(take_snapshot(request));
    REQUIRE(clear_spool(work / "spool"));
    const int operations = counting.operations;
    CHECK(operations >= 6);
    for (int at = 1; at <= operations; ++at) {
        for (const int error : {ENOSPC, EDQUOT, EIO}) {
            CAPTURE(at);
            FaultDisk faulty;
            faulty.fail_at = at;
            faulty.error = error;
            request.disk = &faulty;
            const auto result = take_snapshot(request);
            REQUIRE_FALSE(result);
            CHECK(result.error().kind == (error == EIO ? ErrorKind::io : ErrorKind::full));
            CHECK(empty_folder(work / "spool"));
        }
    }
}

TEST_CASE("sending stops at a broken link and goes on from there") {
    const TempFolder work;
    Entropy entropy{24};
    put_file(work / "tree/a", random_bytes(entropy, static_cast<std::size_t>(31 * kChunkBytes)));
    auto s = take_snapshot(request_for(work / "tree", work / "spool"));
    REQUIRE(s);
    CHECK(s->packs.size() == 3);
    MemoryPacks packs;
    packs.put_limit = 1;
    CHECK(send_packs(*s, packs).error().kind == ErrorKind::unavailable);
    CHECK(s->packs.size() == 2);
    packs.put_limit = 10;
    REQUIRE(send_packs(*s, packs));
    CHECK(packs.packs.size() == 3);
    CHECK(empty_folder(work / "spool"));
    REQUIRE(restore(s->manifest, packs, work / "back"));
    CHECK(get_file(work / "back/a") == get_file(work / "tree/a"));
}

TEST_CASE("packs lie in the spool under their hash, beside what the caller keeps there") {
    const TempFolder work;
    put_file(work / "tree/a", "same");
    auto one = take_snapshot(request_for(work / "tree", work / "spool"));
    REQUIRE(one);
    REQUIRE(one->packs.size() == 1);
    CHECK(one->packs[0].file == work / "spool" / (one->packs[0].id.hex() + ".pack"));
    put_file(work / "spool/manifest.json", one->encoded);
    discard(*one);
    CHECK(fs::exists(work / "spool/manifest.json"));
    fs::remove(work / "spool/manifest.json");
    auto two = take_snapshot(request_for(work / "tree", work / "spool"));
    REQUIRE(two);
    MemoryPacks packs;
    REQUIRE(send_packs(*two, packs));
    CHECK_FALSE(fs::exists(work / "spool"));
    CHECK(packs.packs.size() == 1);
}

TEST_CASE("files that did not change are not read again, and any change is") {
    const TempFolder work;
    put_file(work / "tree/old", std::string(5000, 'o'), 1);
    put_file(work / "tree/new", "n", 2);
    MemoryPacks packs;
    SnapshotMemory memory;
    SnapshotRequest request = request_for(work / "tree", work / "spool");
    request.memory = &memory;
    const Snapshot first = take_and_send(request, packs);
    // Their ctime is younger than two seconds, so nothing may be trusted yet.
    CHECK(memory.files.empty());
    request.previous = &first.manifest;
    CHECK(take_and_send(request, packs).bytes_read == 5001);

    // The same entries, as if they had been read long ago: make them old by hand, since ctime cannot be set.
    for (const FileEntry& f : first.manifest.files) {
        struct stat st{};
        REQUIRE(::stat((work / "tree" / f.path).c_str(), &st) == 0);
        memory.files[f.path] = {.inode = st.st_ino,
                                .size = st.st_size,
                                .mtime_ns = f.mtime_ns,
                                .ctime_ns = st.st_ctim.tv_sec * 1'000'000'000 + st.st_ctim.tv_nsec,
                                .entry = f};
    }
    const auto kept = memory;
    const Snapshot second = take_and_send(request, packs);
    CHECK(second.bytes_read == 0);
    CHECK(second.same_as_previous);
    memory = kept;
    put_file(work / "tree/old", std::string(5000, 'p'), 1);  // same size, same mtime
    const Snapshot third = take_and_send(request, packs);
    CHECK(third.bytes_read == 5000);
    CHECK_FALSE(third.same_as_previous);
}

TEST_CASE("sockets and pipes are left out and counted") {
    const TempFolder work;
    put_file(work / "tree/a", "1");
    REQUIRE(::mkfifo((work / "tree/pipe").c_str(), 0600) == 0);
    MemoryPacks packs;
    const Snapshot s = take_and_send(request_for(work / "tree", work / "spool"), packs);
    CHECK(s.special_files == 1);
    CHECK(s.manifest.files.size() == 1);
}

TEST_CASE("what a followed link names is taken under the link's name") {
    const TempFolder work;
    put_file(work / "job/real/a", "first");
    put_file(work / "job/blob", "second");
    fs::create_directory_symlink("real", work / "job/results");
    fs::create_symlink("../blob", work / "job/real/b");
    fs::create_symlink("/etc/passwd", work / "job/real/foreign");
    SnapshotRequest request = request_for(work / "job", work / "spool");
    request.only = {"results"};
    request.kind = ManifestKind::output;
    request.follow_links = true;
    MemoryPacks packs;
    const Snapshot s = take_and_send(request, packs);
    REQUIRE(s.manifest.files.size() == 2);
    CHECK(s.manifest.files[0].path == "results/a");
    CHECK(s.manifest.files[0].sha256 == sha256("first"));
    CHECK(s.manifest.files[1].path == "results/b");
    CHECK(s.manifest.files[1].sha256 == sha256("second"));
    CHECK(s.dead_links == std::vector<std::string>{"results/foreign"});
}
