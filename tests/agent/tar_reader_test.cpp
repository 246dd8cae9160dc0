#include "agent/tar_reader.hpp"

#include <doctest/doctest.h>

#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "agent/workspace.hpp"
#include "agent_process.hpp"

namespace gf::agent {
namespace {

namespace fs = std::filesystem;

struct Entry {
    std::string path;
    char type{'0'};
    std::string data{};
    std::string link{};
};

/// A ustar archive by hand, so that it may say what tar would not write.
std::string archive(const std::vector<Entry>& entries) {
    std::string out;
    for (const auto& e : entries) {
        char block[512] = {};
        std::memcpy(block, e.path.data(), std::min<std::size_t>(e.path.size(), 100));
        std::snprintf(block + 100, 8, "%07o", 0644U);
        std::snprintf(block + 124, 12, "%011zo", e.data.size());
        std::snprintf(block + 136, 12, "%011o", 1'000'000'000U);
        block[156] = e.type;
        std::memcpy(block + 157, e.link.data(), std::min<std::size_t>(e.link.size(), 100));
        std::memcpy(block + 257, "ustar\0" "00", 8);
        std::memset(block + 148, ' ', 8);
        unsigned sum = 0;
        for (const char c : block) sum += static_cast<unsigned char>(c);
        std::snprintf(block + 148, 7, "%06o", sum);
        out.append(block, 512);
        out += e.data;
        out.append((512 - e.data.size() % 512) % 512, '\0');
    }
    out.append(1024, '\0');
    return out;
}

Result<void> unpack(const std::string& bytes, const std::string& folder, std::size_t step = 1000) {
    TarReader reader(folder);
    for (std::size_t at = 0; at < bytes.size(); at += step)
        if (auto fed = reader.feed(std::string_view(bytes).substr(at, step)); !fed) return fed;
    return reader.finish();
}

std::string slurp(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

TEST_CASE("an archive of GNU tar comes out as it was, in every form and whatever the pieces") {
    const agent_test::TemporaryFolder source;
    const std::string deep = std::string(90, 'd') + "/" + std::string(120, 'e') + "/" + std::string(100, 'f');
    fs::create_directories(source.path() + "/in/" + deep);
    std::ofstream(source.path() + "/in/" + deep + "/file") << "deep";
    std::ofstream(source.path() + "/in/Обучение №1 🎤") << "unicode";
    std::ofstream(source.path() + "/in/big") << std::string(300'000, 'b');
    std::ofstream(source.path() + "/in/run.sh") << "#!/bin/sh\n";
    fs::permissions(source.path() + "/in/run.sh", fs::perms(0755));
    fs::create_symlink("run.sh", source.path() + "/in/link");
    fs::create_hard_link(source.path() + "/in/big", source.path() + "/in/hard");
    fs::create_directories(source.path() + "/in/empty");
    for (const std::string format : {"gnu", "pax", "ustar"}) {
        for (const std::string compress : {"", "zstd -q --rm"}) {
            const std::string tar = source.path() + "/" + format + ".tar";
            const std::string leave_out = format == "ustar" ? " --exclude='" + std::string(90, 'd') + "'" : "";
            const std::string make = "tar --format=" + format + leave_out + " -C " + source.path() + "/in -cf " + tar + " .";
            REQUIRE(std::system((make + (compress.empty() ? "" : " && " + compress + " " + tar)).c_str()) == 0);
            const auto bytes = slurp(compress.empty() ? tar : tar + ".zst");
            for (const std::size_t step : {std::size_t{1}, std::size_t{511}, std::size_t{100'000}}) {
                if (step == 1 && compress.empty()) continue;  // the plain one is long
                CAPTURE(format);
                CAPTURE(step);
                const agent_test::TemporaryFolder out;
                const auto done = unpack(bytes, out.path(), step);
                CHECK(done.has_value());
                if (format != "ustar") CHECK(slurp(out.path() + "/" + deep + "/file") == "deep");
                CHECK(slurp(out.path() + "/Обучение №1 🎤") == "unicode");
                CHECK(slurp(out.path() + "/big").size() == 300'000);
                CHECK(slurp(out.path() + "/hard").size() == 300'000);
                CHECK((fs::status(out.path() + "/run.sh").permissions() & fs::perms::owner_exec) != fs::perms::none);
                CHECK(fs::read_symlink(out.path() + "/link") == "run.sh");
                CHECK(fs::is_directory(out.path() + "/empty"));
            }
            std::error_code ignored;
            fs::remove(tar, ignored);
            fs::remove(tar + ".zst", ignored);
        }
    }
}

TEST_CASE("nothing leaves the folder") {
    const std::vector<std::vector<Entry>> attacks{
        {{"../evil", '0', "x"}},
        {{"/tmp/gf-evil", '0', "x"}},
        {{"a/../../evil", '0', "x"}},
        {{"link", '2', "", "/etc"}},
        {{"link", '2', "", "../outside"}},
        {{"a/link", '2', "", "../../outside"}},
        {{"dir", '2', "", "."}, {"dir/../../evil", '0', "x"}},
        {{"sub/", '5'}, {"sub/out", '2', "", ".."}, {"sub/out/evil", '0', "x"}},  // through a link, even one inside
        {{"hard", '1', "", "../outside"}},
        {{"hard", '1', "", "/etc/passwd"}},
        {{"l", '2', "", "target"}, {"h", '1', "", "l"}},  // a hard link to a link
        {{"dev", '3'}},
        {{"fifo", '6'}},
        {{std::string("nul\0name", 8), 'x', "12 path=a\0b\n"}},
    };
    for (std::size_t i = 0; i < attacks.size(); ++i) {
        CAPTURE(i);
        const agent_test::TemporaryFolder outer;
        fs::create_directories(outer.path() + "/in");
        std::ofstream(outer.path() + "/outside") << "safe";
        const auto done = unpack(archive(attacks[i]), outer.path() + "/in");
        REQUIRE_FALSE(done.has_value());
        CHECK(done.error().kind == ErrorKind::invalid);
        CHECK_FALSE(fs::exists(outer.path() + "/evil"));
        CHECK(slurp(outer.path() + "/outside") == "safe");
    }
    CHECK_FALSE(fs::exists("/tmp/gf-evil"));
}

TEST_CASE("a link of the archive is replaced and not written through") {
    const agent_test::TemporaryFolder outer;
    fs::create_directories(outer.path() + "/in");
    const auto done = unpack(archive({{"a", '0', "old"}, {"l", '2', "", "a"}, {"l", '0', "new"}}), outer.path() + "/in");
    REQUIRE(done.has_value());
    CHECK(slurp(outer.path() + "/in/a") == "old");
    CHECK(slurp(outer.path() + "/in/l") == "new");
}

TEST_CASE("what is no archive, damaged or cut short is refused") {
    const agent_test::TemporaryFolder out;
    const auto good = archive({{"a", '0', std::string(5000, 'x')}, {"b", '0', "y"}});
    CHECK(unpack(good, out.path()).has_value());
    CHECK_FALSE(unpack("#!/bin/sh\necho this is no archive\n" + std::string(1000, ' '), out.path()).has_value());
    CHECK_FALSE(unpack("abc", out.path()).has_value());
    CHECK_FALSE(unpack(good.substr(0, 3000), out.path()).has_value());
    CHECK_FALSE(unpack(good.substr(0, 700), out.path()).has_value());
    auto damaged = good;
    damaged[3] ^= 1;
    CHECK_FALSE(unpack(damaged, out.path()).has_value());
    CHECK_FALSE(unpack(std::string("\x28\xB5\x2F\xFD", 4) + std::string(100, 'z'), out.path()).has_value());
    TarReader limited(out.path(), {.bytes_max = 100, .entries_max = 10});
    CHECK_FALSE(limited.feed(good).has_value());
    CHECK(unpack("", out.path()).has_value());
}

TEST_CASE("a workspace is chosen, locked, and made clean for each attempt") {
    const agent_test::TemporaryFolder folder;
    const std::string base = folder.path() + "/ws";
    auto first = Workspace::choose(base, {}, "gf-x");
    REQUIRE(first.usable());
    CHECK(first.base() == base);
    // A second agent must not share it, and with nothing else wanted there is none for it.
    CHECK_FALSE(Workspace::choose(base, {}, "gf-y").usable());
    CHECK_FALSE(Workspace::choose("/proc/nowhere", {}, "gf-y").usable());

    const std::string job = "job_00000000000000000000000001", other = "job_00000000000000000000000002";
    REQUIRE(first.prepare(job, {"log"}).has_value());
    std::ofstream(base + "/" + job + "/half.json") << "{";
    std::ofstream(base + "/.gpuferry/log/0.seg") << "old";
    fs::create_directories(base + "/" + other + "/deep");
    fs::create_directory_symlink("/etc", base + "/" + other + "/deep/etc");
    fs::create_directories(base + "/mine");
    REQUIRE(first.prepare(job, {"log"}).has_value());
    CHECK(fs::is_empty(base + "/" + job));
    CHECK(fs::is_empty(base + "/.gpuferry/log"));
    CHECK_FALSE(fs::exists(base + "/" + other));
    CHECK(fs::exists(base + "/mine"));  // nothing of ours: stays
    CHECK(fs::exists("/etc/passwd"));
}

TEST_CASE("a folder that a spec may name lies below the job's") {
    for (const char* good : {"ckpt", "a/b", "a/./b", ".", "..a", "a..", "a/"}) CHECK(is_safe_relative(good));
    for (const char* bad : {"", "/a", "..", "a/../b", "a/..", "../a"}) CHECK_FALSE(is_safe_relative(bad));
    CHECK(below("/w", "./a//b/") == "/w/a/b");
    CHECK(below("/w", ".") == "/w");
}

}  // namespace
}  // namespace gf::agent
