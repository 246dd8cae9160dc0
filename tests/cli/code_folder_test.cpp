#include "cli/code_folder.hpp"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/cli/scripted_server.hpp"

using namespace gf::cli;
using gf::test::read_file;
using gf::test::TemporaryFolder;

namespace {

namespace fs = std::filesystem;

void shell(const std::string& folder, const std::string& command) {
    CAPTURE(command);
    REQUIRE(std::system(("cd '" + folder + "' && { " + command + "; } >/dev/null 2>&1").c_str()) == 0);
}

std::vector<std::string> paths_of(const std::string& folder) {
    auto listing = list_code(folder);
    REQUIRE(listing);
    return listing->paths;
}

using Paths = std::vector<std::string>;

}  // namespace

TEST_CASE("a plain folder is walked and its .gitignore files are obeyed") {
    const TemporaryFolder folder;
    folder.write("train.py", "print(1)");
    folder.write("data/big.bin", "x");
    folder.write("src/a.py", "x");
    folder.write("src/__pycache__/a.pyc", "x");
    folder.write("src/.gitignore", "__pycache__/\n");
    folder.write(".gitignore", "/data\n");
    CHECK(paths_of(folder.path()) == Paths{".gitignore", "src/.gitignore", "src/a.py", "train.py"});
    CHECK_FALSE(list_code(folder.path())->by_git);
}

TEST_CASE("in a git work tree git says what is sent: tracked and untracked, not ignored, not deleted") {
    const TemporaryFolder folder;
    shell(folder.path(), "git init -q . && git config user.email a@example.org && git config user.name a");
    folder.write("tracked.py", "1");
    folder.write("deleted.py", "1");
    folder.write(".gitignore", "*.ckpt\n");
    folder.write("sub/forced.ckpt", "tracked although ignored");
    shell(
        folder.path(),
        "git add -f tracked.py deleted.py .gitignore sub/forced.ckpt && git commit -q -m x && rm deleted.py");
    folder.write("new \xc3\xa4\n.py", "an untracked file with a line break in its name");
    folder.write("model.ckpt", "ignored");
    const auto listing = list_code(folder.path());
    REQUIRE(listing);
    CHECK(listing->by_git);
    CHECK(listing->paths == Paths{".gitignore", "new \xc3\xa4\n.py", "sub/forced.ckpt", "tracked.py"});
    // A part of the work tree may be the code folder.
    CHECK(paths_of(folder.path() + "/sub") == Paths{"forced.ckpt"});
}

TEST_CASE("a repository inside the repository is listed too, its .git is not") {
    const TemporaryFolder folder;
    folder.write("inner/a.py", "1");
    folder.write("inner/skip.log", "1");
    folder.write("inner/.gitignore", "*.log\n");
    folder.write("top.py", "1");
    shell(folder.path(), "git init -q . && cd inner && git init -q .");
    CHECK(paths_of(folder.path()) == Paths{"inner/.gitignore", "inner/a.py", "top.py"});
}

TEST_CASE("a folder that the repository around it ignores is sent when it is named") {
    const TemporaryFolder folder;
    folder.write(".gitignore", "gen/\n");
    folder.write("gen/a.py", "1");
    shell(folder.path(), "git init -q .");
    CHECK(paths_of(folder.path() + "/gen") == Paths{"a.py"});
}

TEST_CASE("packing twice gives one hash, and a changed byte another") {
    const TemporaryFolder folder;
    folder.write("src/b.py", "b");
    folder.write("src/a.py", "a");
    const TemporaryFolder out;
    const auto first = pack_code(folder.path() + "/src", out.path() + "/1");
    const auto second = pack_code(folder.path() + "/src", out.path() + "/2");
    REQUIRE(first);
    REQUIRE(second);
    CHECK(first->sha256 == second->sha256);
    CHECK(first->files == 2);
    CHECK(first->sha256 == gf::test::sha256_hex(read_file(out.path() + "/1")));
    folder.write("src/a.py", "A");
    CHECK(pack_code(folder.path() + "/src", out.path() + "/3")->sha256 != first->sha256);
}

TEST_CASE("links that lead out, pipes and sockets are left out and said") {
    const TemporaryFolder folder;
    folder.write("a.py", "1");
    folder.write("sub/b.py", "1");
    REQUIRE(symlink("/etc/passwd", (folder.path() + "/absolute").c_str()) == 0);
    REQUIRE(symlink("../x", (folder.path() + "/up").c_str()) == 0);
    REQUIRE(symlink("../../x", (folder.path() + "/sub/up2").c_str()) == 0);
    REQUIRE(symlink("../a.py", (folder.path() + "/sub/inside").c_str()) == 0);
    REQUIRE(symlink("b/../../../x", (folder.path() + "/sub/round").c_str()) == 0);
    REQUIRE(mkfifo((folder.path() + "/pipe").c_str(), 0600) == 0);
    const TemporaryFolder out;
    const auto pack = pack_code(folder.path(), out.path() + "/1");
    REQUIRE(pack);
    CHECK(pack->files == 3);
    REQUIRE(pack->notes.size() == 5);
    CHECK(pack->notes[0].find("absolute") != std::string::npos);
    CHECK(pack->notes[1].find("pipe") != std::string::npos);
    fs::create_directory(out.path() + "/x");
    REQUIRE(std::system(("tar -xf " + out.path() + "/1 -C " + out.path() + "/x").c_str()) == 0);
    CHECK(fs::read_symlink(out.path() + "/x/sub/inside") == "../a.py");
    CHECK_FALSE(fs::exists(fs::symlink_status(out.path() + "/x/absolute")));
}

TEST_CASE("more than 4 GiB is refused before a byte is read, with the largest files named") {
    const TemporaryFolder folder;
    folder.write("small.py", "1");
    folder.write("huge.bin", "");
    REQUIRE(truncate((folder.path() + "/huge.bin").c_str(), 5LL << 30) == 0);
    const TemporaryFolder out;
    const auto pack = pack_code(folder.path(), out.path() + "/1");
    REQUIRE_FALSE(pack);
    CHECK(pack.error().text.find("4 GiB (4294967296 bytes)") != std::string::npos);
    CHECK(pack.error().text.find("huge.bin") != std::string::npos);
    CHECK_FALSE(fs::exists(out.path() + "/1"));
}

TEST_CASE("what is no folder, or an empty one, is refused in plain words") {
    const TemporaryFolder folder;
    const auto file = folder.write("a.py", "1");
    CHECK(list_code(file).error().text.find("is not a folder") != std::string::npos);
    CHECK(list_code(folder.path() + "/none").error().text.find("No such file") != std::string::npos);
    fs::create_directory(folder.path() + "/empty");
    CHECK(pack_code(folder.path() + "/empty", folder.path() + "/t").error().text.find("nothing to send") !=
          std::string::npos);
}
