// The static agent inside of other root file systems: an older Debian with a hostile name service switch, and one with
// nothing but busybox. It runs in a mount and a PID namespace of its own, as PID 1, as in a container.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "agent/descriptor.hpp"
#include "agent_process.hpp"
#include "fake_daemon.hpp"
#include "tests/skip.hpp"

namespace gf::agent_test {
namespace {

namespace ap = agent_protocol;
namespace fs = std::filesystem;

bool run(const std::string& command) { return std::system((command + " >/dev/null 2>&1").c_str()) == 0; }

/// Why this cannot be tried here; empty = it can.
std::string obstacle() {
    if (GF_AGENT_STATIC == 0) return "built with a sanitizer, which cannot be static";
    if (::getuid() != 0) return "a root of its own needs root";
    if (!run("unshare --mount --pid --fork true")) return "no namespaces here";
    return {};
}

void furnish(const std::string& root) {
    for (const char* folder : {"proc", "dev", "tmp", "etc", "workspace"}) fs::create_directories(root + "/" + folder);
    fs::permissions(root + "/tmp", fs::perms(01777));
    std::ofstream(root + "/etc/hosts") << "127.0.0.1 localhost\n";
    // hesiod's module, and others of foreign systems, crash a static program that lets its C library load them.
    std::ofstream(root + "/etc/nsswitch.conf") << "passwd: files\nhosts: hesiod files\n";
    fs::copy_file(GF_AGENT_PATH, root + "/gpuferry-agent", fs::copy_options::overwrite_existing);
    fs::permissions(root + "/gpuferry-agent", fs::perms(0755));
}

/// Runs a lease in there and answers its log; the agent then leaves by SIGTERM, which as PID 1 it must have asked for.
struct RootRun {
    FakeDaemon daemon;
    std::string log;
    std::optional<ap::Hello> hello;
    std::optional<ap::Exited> exited;

    void go(const std::string& root, const std::string& command) {
        auto url = daemon.url();
        url.replace(url.find("127.0.0.1"), 9, "localhost");  // so that a name has to be looked up
        const std::string script = "mount -t proc proc " + root + "/proc && mount -t tmpfs tmpfs " + root + "/dev && touch " + root +
                                   "/dev/null && exec chroot " + root + " /gpuferry-agent";
        auto env = agent_environment(url, "/workspace");
        env["HOME"] = "/";
        env.erase("GPUFERRY_WORKSPACE");
        const std::string wrapper = root + "/../enter.sh";
        std::ofstream(wrapper) << "#!/bin/sh\nexec unshare --mount --pid --fork --kill-child sh -c '" << script << "'\n";
        fs::permissions(wrapper, fs::perms(0755));
        AgentProcess agent(wrapper, env);
        REQUIRE(daemon.wait([](const DaemonState& s) { return !s.hellos.empty(); }));
        ap::Lease lease;
        lease.attempt = "att_1";
        lease.number = 1;
        lease.job = "job_00000000000000000000000001";
        lease.task = "tsk_00000000000000000000000001";
        lease.run = command;
        lease.checkpoint.declared = true;
        daemon.send(lease);
        REQUIRE(daemon.wait([](const DaemonState& s) { return last<ap::Exited>(s).has_value(); }));
        daemon.with([&](DaemonState& s) {
            log = s.logs["att_1"].bytes;
            hello = s.hellos[0];
            exited = last<ap::Exited>(s);
        });
        // PID 1 of the namespace is a child of `unshare`.
        const pid_t inside = agent.child("gpuferry-agent");
        REQUIRE(inside > 0);
        ::kill(inside, SIGTERM);
        CHECK(agent.wait(30) == 0);
    }
};

TEST_CASE("the agent runs a job in a root with nothing but busybox") {
    if (const auto why = obstacle(); !why.empty()) {
        gf::test::skip(why);
        return;
    }
    const TemporaryFolder folder;
    const std::string root = folder.path() + "/root";
    fs::create_directories(root + "/bin");
    if (!fs::exists("/bin/busybox") || !run("ldd /bin/busybox 2>&1 | grep -q 'not a dynamic'")) {
        gf::test::skip("no static busybox here");
        return;
    }
    fs::copy_file("/bin/busybox", root + "/bin/busybox");
    for (const char* name : {"sh", "echo", "cat", "sleep", "ls", "id"}) fs::create_symlink("busybox", root + "/bin/" + name);
    furnish(root);
    RootRun there;
    there.go(root, "echo hello from $(id -u); echo 1 > checkpoints/f; gpuferry-agent checkpoint; exit 4");
    CHECK(there.log == "hello from 0\nok 1\n");
    CHECK(there.exited->exit_code == 4);
    CHECK(there.hello->report.cuda_probe == "no_loader");
    CHECK(there.hello->report.workspace == "/workspace");
}

TEST_CASE("the agent runs a job in Debian 11, whose C library is older, with a hostile name service switch") {
    if (const auto why = obstacle(); !why.empty()) {
        gf::test::skip(why);
        return;
    }
    const TemporaryFolder folder;
    const std::string root = folder.path() + "/root";
    const std::string archive = GF_ROOTS "/debian-11.tar";
    if (!fs::exists(archive)) {
        gf::test::skip(archive + " is not there; scripts/foreign-roots makes it");
        return;
    }
    fs::create_directories(root);
    REQUIRE(run("tar -C " + root + " -xf " + archive));
    furnish(root);
    std::ofstream(root + "/etc/passwd") << "root:x:0:0:root:/root:/bin/sh\n";
    RootRun there;
    there.go(root, "echo hello from $(cat /etc/debian_version); echo 1 > checkpoints/f; gpuferry-agent checkpoint");
    CHECK(there.log.starts_with("hello from 11."));
    CHECK(there.log.ends_with("ok 1\n"));
    CHECK(there.exited->exit_code == 0);
    CHECK(there.hello->report.cuda_probe == "no_libcuda");
}

TEST_CASE("the agent for arm64 enrols as that, runs an arm64 program and ships its checkpoint, in an emulator") {
    const std::string agent_path = GF_AGENT_PATH "-arm64";
    const std::string busybox = GF_ROOTS "/arm64/bin/busybox";
    if (GF_AGENT_STATIC == 0 || !fs::exists(agent_path) || !fs::exists(busybox)) {
        gf::test::skip("the agent for arm64 was not built here; scripts/arm64-root makes what it takes");
        return;
    }
    if (!run("qemu-aarch64-static " + busybox + " true")) {
        gf::test::skip("no qemu-aarch64-static here that runs arm64 programs");
        return;
    }
    const TemporaryFolder folder;
    const std::string wrapper = folder.path() + "/start.sh";
    std::ofstream(wrapper) << "#!/bin/sh\nexec qemu-aarch64-static " << agent_path << "\n";
    fs::permissions(wrapper, fs::perms(0755));
    FakeDaemon daemon;
    AgentProcess agent(wrapper, agent_environment(daemon.url(), folder.path()));
    REQUIRE(daemon.wait([](const DaemonState& s) { return !s.hellos.empty(); }, 120));
    daemon.with([](DaemonState& s) {
        CHECK(s.enrolments[0].arch == "arm64");
        CHECK(s.hellos[0].report.arch == "arm64");
    });
    ap::Lease lease;
    lease.attempt = "att_1";
    lease.number = 1;
    lease.job = "job_00000000000000000000000001";
    lease.task = "tsk_00000000000000000000000001";
    lease.run = "qemu-aarch64-static " + busybox + " uname -m; echo 1 > checkpoints/f";
    lease.checkpoint.declared = true;
    daemon.send(lease);
    REQUIRE(daemon.wait([](const DaemonState& s) { return last<ap::Exited>(s).has_value(); }, 120));
    daemon.with([](DaemonState& s) {
        CHECK(s.logs["att_1"].bytes == "aarch64\n");
        CHECK(last<ap::Exited>(s)->exit_code == 0);
        CHECK(s.manifests.size() == 1);
    });
    agent.signal(SIGTERM);
    CHECK(agent.wait(60) == 0);
}

TEST_CASE("the agent is small and needs no library of the machine") {
    if (GF_AGENT_STATIC == 0) {
        gf::test::skip("built with a sanitizer, which cannot be static");
        return;
    }
    CHECK(run(std::string("readelf -l ") + GF_AGENT_PATH + " | grep -q LOAD"));
    CHECK_FALSE(run(std::string("readelf -l ") + GF_AGENT_PATH + " | grep -q INTERP"));
    const auto bytes = fs::file_size(GF_AGENT_PATH);
    MESSAGE("agent: " << bytes << " bytes");
    if (GF_AGENT_OPTIMISED != 0) CHECK(bytes < 10'000'000);
}

}  // namespace
}  // namespace gf::agent_test
