#include "cli/tar_writer.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/cli/scripted_server.hpp"

using namespace gf::cli;
using gf::test::read_file;
using gf::test::TemporaryFolder;

namespace {

struct Item {
    TarEntry entry;
    std::string bytes;
};

std::string write_tar(const std::string& path, const std::vector<Item>& items) {
    auto tar = TarWriter::create(path);
    REQUIRE(tar);
    for (const auto& item : items) {
        auto entry = item.entry;
        entry.size = static_cast<std::int64_t>(item.bytes.size());
        REQUIRE(tar->begin(entry));
        // In two pieces, because files come in pieces too.
        REQUIRE(tar->data(std::string_view(item.bytes).substr(0, item.bytes.size() / 2)));
        REQUIRE(tar->data(std::string_view(item.bytes).substr(item.bytes.size() / 2)));
    }
    auto sum = tar->finish();
    REQUIRE(sum);
    CHECK(tar->bytes() == static_cast<std::int64_t>(std::filesystem::file_size(path)));
    return *sum;
}

}  // namespace

TEST_CASE("the system's tar reads back what was written, whatever the names") {
    const TemporaryFolder folder;
    const std::string deep(140, 'd');
    const std::string name_300 =
        std::string(99, 'a') + "/" + std::string(99, 'b') + "/" + std::string(99, 'c') + "/end";
    const std::vector<Item> items{
        {{.name = "empty", .mtime_s = 1}, ""},
        {{.name = "a b/ü.txt", .mtime_s = 1'700'000'000}, "hello\n"},
        {{.name = "run.sh", .executable = true, .mtime_s = 5}, std::string(512, 'x')},
        {{.name = "one_more_than_a_block", .mtime_s = 5}, std::string(513, 'y')},
        {{.name = std::string(100, 'n'), .mtime_s = 5}, "exactly 100"},
        {{.name = std::string(101, 'n'), .mtime_s = 5}, "101, cannot be split"},
        {{.name = deep + "/" + std::string(90, 'f'), .mtime_s = 5}, "split into prefix and name"},
        {{.name = name_300, .mtime_s = 5}, "needs pax"},
        {{.name = "bytes-\xff\xfe", .mtime_s = 5}, "not UTF-8"},
    };
    const auto tar = folder.path() + "/x.tar";
    const auto sum = write_tar(tar, items);
    CHECK(sum == gf::test::sha256_hex(read_file(tar)));

    std::filesystem::create_directory(folder.path() + "/out");
    REQUIRE(std::system(
                ("tar -xf " + tar + " -C " + folder.path() + "/out 2>" + folder.path() + "/err").c_str()) ==
            0);
    CHECK(read_file(folder.path() + "/err").empty());
    for (const auto& item : items) {
        const auto path = folder.path() + "/out/" + item.entry.name;
        CAPTURE(item.entry.name);
        CHECK(std::filesystem::exists(path));
        CHECK(read_file(path) == item.bytes);
        const bool runs = (std::filesystem::status(path).permissions() &
                           std::filesystem::perms::owner_exec) != std::filesystem::perms::none;
        CHECK(runs == item.entry.executable);
    }
}

TEST_CASE("links are kept as links, also long ones") {
    const TemporaryFolder folder;
    const std::string target = "t/" + std::string(150, 'q');
    const auto tar = folder.path() + "/x.tar";
    write_tar(tar, {{{.name = "short", .kind = TarKind::link, .target = "a.txt"}, ""},
                    {{.name = "long", .kind = TarKind::link, .target = target}, ""}});
    std::filesystem::create_directory(folder.path() + "/out");
    REQUIRE(std::system(("tar -xf " + tar + " -C " + folder.path() + "/out").c_str()) == 0);
    CHECK(std::filesystem::read_symlink(folder.path() + "/out/short") == "a.txt");
    CHECK(std::filesystem::read_symlink(folder.path() + "/out/long") == target);
}

TEST_CASE("the same entries give the same bytes, another time gives others") {
    const TemporaryFolder folder;
    const std::vector<Item> items{{{.name = "a", .mtime_s = 7}, "one"}, {{.name = "b", .mtime_s = 8}, "two"}};
    auto later = items;
    later[0].entry.mtime_s = 9;
    const auto first = write_tar(folder.path() + "/1.tar", items);
    CHECK(first == write_tar(folder.path() + "/2.tar", items));
    CHECK(first != write_tar(folder.path() + "/3.tar", later));
}

TEST_CASE("a place that cannot be written is refused with the reason") {
    const auto tar = TarWriter::create("/nonexistent/x.tar");
    REQUIRE_FALSE(tar);
    CHECK(tar.error().exit_code == 1);
    CHECK(tar.error().text.find("/nonexistent/x.tar") != std::string::npos);
}
