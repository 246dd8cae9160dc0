#include "checkpoints/scan.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include "support.hpp"

using namespace gf;
using namespace gf::checkpoints;
using namespace gf::checkpoints::test;
namespace fs = std::filesystem;

namespace {

std::vector<std::string> paths(const Scan& scan) {
    std::vector<std::string> out;
    for (const ScannedEntry& e : scan.entries)
        if (!e.path.empty()) out.push_back(e.type == EntryType::directory ? e.path + "/" : e.path);
    return out;
}
using Paths = std::vector<std::string>;

Scan scan_of(const fs::path& root, const ScanRules& rules) {
    auto scan = scan_folder(root, rules);
    if (!scan) FAIL(scan.error().message);
    return *std::move(scan);
}

}  // namespace

TEST_CASE("excluded folders and files are not seen") {
    const TempFolder root;
    for (const char* p : {"a.pt", "a.tmp", "runs/events", "deep/runs/events", "deep/b.tmp", "deep/b.pt",
                          "runs.txt", "deep/only/x"})
        put_file(root / p, "x");
    CHECK(paths(scan_of(root.path(), {.exclude = {"runs/", "*.tmp"}})) ==
          Paths{"a.pt", "deep/", "deep/b.pt", "deep/only/", "deep/only/x", "runs.txt"});
    CHECK(paths(scan_of(root.path(), {.exclude = {"/runs/", "deep/*.tmp", "deep/only/"}})) ==
          Paths{"a.pt", "a.tmp", "deep/", "deep/b.pt", "deep/runs/", "deep/runs/events", "runs.txt"});
}

TEST_CASE("`only` takes the named folders and files and what leads to them") {
    const TempFolder root;
    for (const char* p : {"out/a", "out/b/c", "outer", "deep/out/x", "deep/y", "single"})
        put_file(root / p, "x");
    CHECK(paths(scan_of(root.path(), {.only = {"./out/", "single", "deep/out"}})) ==
          Paths{"deep/", "deep/out/", "deep/out/x", "out/", "out/a", "out/b/", "out/b/c", "single"});
    CHECK(scan_folder(root.path(), {.only = {"missing"}}).error().kind == ErrorKind::not_found);
    for (const char* bad : {"../x", "/etc", "..", "", "out/../../x"})
        CHECK(scan_folder(root.path(), {.only = {bad}}).error().kind == ErrorKind::invalid);
    CHECK(paths(scan_of(root.path(), {.only = {"."}})).size() == 10);
}

TEST_CASE("links are followed below the root when that is asked, and the others are told") {
    const TempFolder outside;
    put_file(outside / "secret", "x");
    const TempFolder root;
    for (const char* p : {"real/a", "real/sub/b", "blobs/c"}) put_file(root / p, "x");
    fs::create_directory_symlink(fs::canonical(root / "real"), root / "results");
    fs::create_symlink("../../blobs/c", root / "real/sub/link");
    fs::create_directory_symlink("..", root / "real/sub/up");
    fs::create_symlink(outside / "secret", root / "real/out");
    fs::create_symlink("nothing", root / "real/dangling");
    const Scan plain = scan_of(root.path(), {.only = {"results"}});
    CHECK(paths(plain) == Paths{"results"});
    CHECK(plain.dead_links.empty());
    const Scan scan = scan_of(root.path(), {.only = {"results"}, .follow_links = true});
    CHECK(paths(scan) == Paths{"results/", "results/a", "results/dangling", "results/out", "results/sub/", "results/sub/b",
                               "results/sub/link", "results/sub/up"});
    CHECK(std::set<std::string>(scan.dead_links.begin(), scan.dead_links.end()) ==
          std::set<std::string>{"results/dangling", "results/out", "results/sub/up"});
    for (const ScannedEntry& e : scan.entries) {
        if (e.path == "results/sub/link") CHECK(e.source == "blobs/c");
        if (e.path == "results/a") CHECK(e.source == "real/a");
    }
    // A part of what a link leads to.
    CHECK(paths(scan_of(root.path(), {.only = {"results/sub/b"}, .follow_links = true})) ==
          Paths{"results/", "results/sub/", "results/sub/b"});
    for (const char* bad : {"real/out", "real/dangling"}) {
        const auto refused = scan_folder(root.path(), {.only = {bad}, .follow_links = true});
        REQUIRE_FALSE(refused);
        CHECK(refused.error().kind == ErrorKind::invalid);
        CHECK(refused.error().message.find(bad) != std::string::npos);
    }
}

TEST_CASE("a path that a restore could not write is refused") {
    const TempFolder root;
    File at{::open(root.path().c_str(), O_RDONLY | O_DIRECTORY)};
    const std::string part(249, 'd');
    for (int depth = 0; depth < 14; ++depth) {  // 14 * 250 - 1 = 3499 bytes
        REQUIRE(::mkdirat(at.fd(), part.c_str(), 0755) == 0);
        at = File{::openat(at.fd(), part.c_str(), O_RDONLY | O_DIRECTORY)};
    }
    CHECK(scan_folder(root.path(), {}));
    REQUIRE(::mkdirat(at.fd(), "x", 0755) == 0);
    const auto refused = scan_folder(root.path(), {});
    REQUIRE_FALSE(refused);
    CHECK(refused.error().kind == ErrorKind::invalid);
    CHECK(refused.error().message.find("3501 bytes (at most 3500)") != std::string::npos);
}

TEST_CASE("with a marker only folders that hold it are taken, and loose files") {
    const TempFolder root;
    for (const char* p :
         {"checkpoint-1/m.bin", "checkpoint-1/state.json", "checkpoint-2/m.bin", "latest", "runs/e"})
        put_file(root / p, "x");
    const Scan scan = scan_of(root.path(), {.marker = "state.json"});
    CHECK(scan.complete);
    CHECK(scan.units == Paths{"checkpoint-1"});
    CHECK(paths(scan) == Paths{"checkpoint-1/", "checkpoint-1/m.bin", "checkpoint-1/state.json", "latest"});
    CHECK(scan.left_out.size() == 2);

    SUBCASE("unit folders named by the spec leave other folders alone") {
        const Scan named = scan_of(root.path(), {.marker = "state.json", .unit = {"checkpoint-*/"}});
        CHECK(paths(named) == Paths{"checkpoint-1/", "checkpoint-1/m.bin", "checkpoint-1/state.json",
                                    "latest", "runs/", "runs/e"});
    }
    SUBCASE("no marker anywhere means that nothing is complete") {
        CHECK_FALSE(scan_of(root.path(), {.marker = "other.json"}).complete);
    }
    SUBCASE("units may lie deeper") {
        for (const char* p : {"run/ck-1/state.json", "run/ck-2/m.bin", "run/log.txt"})
            put_file(root / p, "x");
        fs::remove(root / "checkpoint-1/state.json");
        CHECK(paths(scan_of(root.path(), {.marker = "state.json"})) ==
              Paths{"checkpoint-1/", "checkpoint-1/m.bin", "checkpoint-2/", "checkpoint-2/m.bin", "latest",
                    "run/", "run/ck-1/", "run/ck-1/state.json", "run/log.txt", "runs/", "runs/e"});
    }
}

TEST_CASE("a folder that says it is incomplete is left out") {
    const TempFolder root;
    for (const char* p : {"checkpoint-1/m", "checkpoint-2/m", "checkpoint-2/checkpoint-is-incomplete.txt"})
        put_file(root / p, "x");
    const ScanRules rules{.incomplete = "checkpoint-is-incomplete.txt"};
    CHECK(paths(scan_of(root.path(), rules)) == Paths{"checkpoint-1/", "checkpoint-1/m"});
    put_file(root / "checkpoint-is-incomplete.txt", "");
    CHECK_FALSE(scan_of(root.path(), rules).complete);
}

TEST_CASE("a set with a missing member is left out whole") {
    const TempFolder root;
    for (const char* p : {"G_0.pth", "D_0.pth", "G_200.pth", "D_200.pth", "G_400.pth", "G_x.pth",
                          "sub/D_200.pth", "config.json", "G_.pth"})
        put_file(root / p, "x");
    const Scan scan = scan_of(root.path(), {.unit = {"G_{n}.pth", "D_{n}.pth"}});
    CHECK(paths(scan) ==
          Paths{"D_0.pth", "D_200.pth", "G_.pth", "G_0.pth", "G_200.pth", "G_x.pth", "config.json", "sub/"});
    CHECK(scan.left_out == Paths{"set 400: a member is missing", "set sub/200: a member is missing"});
}

TEST_CASE("two looks at a still folder are equal and any change is seen") {
    const TempFolder root;
    put_file(root / "a", "1");
    put_file(root / "d/b", "2");
    const Scan before = scan_of(root.path(), {});
    CHECK(unchanged(before, scan_of(root.path(), {})));
    SUBCASE("content of the same size at the same mtime") {
        put_file(root / "a", "9");
    }
    SUBCASE("mode") {
        REQUIRE(::chmod((root / "a").c_str(), 0600) == 0);
    }
    SUBCASE("new file") {
        put_file(root / "c", "3");
    }
    SUBCASE("new empty folder") {
        fs::create_directory(root / "e");
    }
    SUBCASE("file gone") {
        fs::remove(root / "d/b");
    }
    SUBCASE("replaced by rename") {
        put_file(root / "t", "1");
        fs::rename(root / "t", root / "a");
    }
    SUBCASE("file became a link") {
        fs::remove(root / "a");
        fs::create_symlink("d/b", root / "a");
    }
    CHECK_FALSE(unchanged(before, scan_of(root.path(), {})));
}

TEST_CASE("the trainer may begin the next unit while the last one is read") {
    const TempFolder root;
    put_file(root / "ck-1/m", "1");
    put_file(root / "ck-1/done", "");
    const ScanRules rules{.marker = "done"};
    const Scan before = scan_of(root.path(), rules);
    put_file(root / "ck-2/m", "half");
    CHECK(unchanged(before, scan_of(root.path(), rules)));
    put_file(root / "ck-2/done", "");
    CHECK_MESSAGE(unchanged(before, scan_of(root.path(), rules)), "and finish it");
    put_file(root / "ck-1/extra", "x");
    CHECK_FALSE_MESSAGE(unchanged(before, scan_of(root.path(), rules)),
                        "but not touch the unit that was taken");
    fs::remove_all(root / "ck-1");
    CHECK_FALSE_MESSAGE(unchanged(before, scan_of(root.path(), rules)), "nor prune it");
}

TEST_CASE("links are never followed on the way to a file") {
    const TempFolder root;
    put_file(root / "in/secret", "x");
    fs::create_directory(root / "tree");
    fs::create_directory_symlink(root / "in", root / "tree/dir");
    fs::create_symlink(root / "in/secret", root / "tree/file");
    CHECK(paths(scan_of(root / "tree", {})) == Paths{"dir", "file"});
    const File tree{::open((root / "tree").c_str(), O_RDONLY | O_DIRECTORY)};
    CHECK_FALSE(open_below(tree, "dir/secret"));
    CHECK_FALSE(open_below(tree, "file"));
}

TEST_CASE("sockets, pipes and too deep folders have stated ends") {
    const TempFolder root;
    REQUIRE(::mkfifo((root / "pipe").c_str(), 0600) == 0);
    put_file(root / "a", "1");
    const Scan scan = scan_of(root.path(), {});
    CHECK(scan.special_files == 1);
    CHECK(paths(scan) == Paths{"a"});
    fs::path deep = root.path();
    for (int i = 0; i < 140; ++i) deep /= "d";
    fs::create_directories(deep);
    CHECK(scan_folder(root.path(), {}).error().kind == ErrorKind::invalid);
    CHECK(scan_folder(root / "nowhere", {}).error().kind == ErrorKind::not_found);
    CHECK(scan_folder(root / "a", {}).error().kind == ErrorKind::io);
}
