#include "providers/container_sshd.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "local_bench.hpp"

using namespace gf;
namespace fs = std::filesystem;

namespace {

const std::string kPublicKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5 gpuferry";

std::string whole(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

/// A container in a folder: its own HOME, an sshd that says how it was called, a sleep that does not.
struct Container {
    Container() {
        fs::create_directories(folder.path() / "bin");
        fs::create_directories(home());
        tool("sshd", "echo \"$@\" >\"$HOME/sshd.new\"; mv \"$HOME/sshd.new\" \"$HOME/sshd.called\"");
        tool("ssh-keygen", "echo \"$@\" >\"$HOME/keygen.called\"");
        tool("sleep", "echo \"$@\" >\"$HOME/sleep.called\"");
        tool("mkdir", "case \"$*\" in *run/sshd*) ;; *) exec /bin/mkdir \"$@\";; esac");
    }
    void tool(const std::string& name, const std::string& does) const {
        static_cast<void>(folder.program("bin/" + name, "#!/bin/sh\n" + does + "\n"));
    }
    [[nodiscard]] fs::path home() const { return folder.path() / "home"; }
    [[nodiscard]] int run(const std::string& shell, const std::string& script) const {
        const auto file = folder.program("start", script);
        return std::system(fmt::format("env -i HOME={} PATH={}:/usr/bin:/bin {} {}", home().string(),
                                       (folder.path() / "bin").string(), shell, file.string())
                               .c_str());
    }
    [[nodiscard]] bool comes(const std::string& name) const {
        for (const auto end = std::chrono::steady_clock::now() + std::chrono::seconds{30};
             std::chrono::steady_clock::now() < end; ::usleep(2'000))
            if (fs::exists(home() / name)) return true;
        return fs::exists(home() / name);
    }
    gf::test::TemporaryFolder folder;
};

}  // namespace

TEST_CASE("a container with a key gets an sshd, runs its script, and stays up after it") {
    Container c;
    const auto script = with_sshd(kPublicKey, "echo \"it's $0\" >\"$HOME/ran\"; exec true");
    CHECK(script.size() < kPublicKey.size() + 900);
    for (const std::string shell : {"/bin/sh", "/bin/bash"}) {
        if (!fs::exists(shell)) continue;
        CHECK(c.run(shell + " -n", script) == 0);
    }
    CHECK(c.run("/bin/sh", script) == 0);
    CHECK(fs::exists(c.home() / "ran"));
    CHECK(whole(c.home() / "sleep.called") == "2147483647\n");
    CHECK(whole(c.home() / ".ssh" / "authorized_keys") == "\n" + kPublicKey + "\n");
    CHECK((fs::status(c.home() / ".ssh" / "authorized_keys").permissions() & fs::perms(077)) ==
          fs::perms::none);
    CHECK((fs::status(c.home() / ".ssh").permissions() & fs::perms(077)) == fs::perms::none);
    REQUIRE(c.comes("sshd.called"));
    CHECK(whole(c.home() / "sshd.called").find("PasswordAuthentication=no") != std::string::npos);
    CHECK(whole(c.home() / "keygen.called") == "-A\n");
}

TEST_CASE("keys that are none, or that would end the quotes, are not taken") {
    CHECK(is_plain_public_key(kPublicKey));
    for (const std::string bad : {"", "ssh-ed25519", "AAAA ssh-ed25519", "ssh-ed25519 AAAA'; reboot '",
                                  "ssh-ed25519 AAAA\nssh-rsa B", "ssh-ed25519 AAAA\"", "ssh-ed25519 \\AAAA"})
        CHECK(!is_plain_public_key(bad));
}
