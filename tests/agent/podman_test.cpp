// The same against a real engine: Debian's podman under the name of docker, with an image of busybox that is made here.
#include <cstdlib>

#include "docker_bench.hpp"

namespace gf::agent_test {
namespace {

bool run(const std::string& command) { return std::system(("{ " + command + "; } >/dev/null 2>&1").c_str()) == 0; }

/// podman with a store of its own. Limits that a container of this machine may not set itself are left out.
constexpr const char* kWrapper = R"py(#!/usr/bin/env python3
import os, sys
folder = os.path.dirname(os.path.dirname(os.path.abspath(sys.argv[0])))
words, at = [], 1
while at < len(sys.argv):
    if sys.argv[at] == "--ulimit":
        at += 2
        continue
    words.append(sys.argv[at])
    if sys.argv[at] == "run" and at == 1:
        words += ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=4096:4096"]
    at += 1
os.execvp("podman", ["podman", "--root", folder + "/store", "--runroot", folder + "/run", "--tmpdir", folder + "/tmp", "--storage-driver", "vfs", "--runtime",
                     "runc", "--cgroup-manager", "cgroupfs", *words])
)py";

struct PodmanBench : Bench {
    TemporaryFolder podman;
    [[nodiscard]] std::string docker() const { return podman.path() + "/bin/docker"; }
    ~PodmanBench() { run(docker() + " rm --force --all; " + docker() + " image rm --force --all"); }

    /// Why it cannot be tried here; empty = the image `localhost/gf-test:1` is there and runs.
    std::string obstacle() {
        if (GF_AGENT_STATIC == 0) return "an agent that was built with a sanitizer needs libraries that the image has not";
        if (::getuid() != 0) return "podman is used as root";
        if (!run("command -v podman && command -v runc")) return "no podman with runc here";
        if (!fs::exists("/bin/busybox") || !run("ldd /bin/busybox 2>&1 | grep -q 'not a dynamic'")) return "no static busybox here";
        const std::string root = podman.path() + "/image";
        for (const std::string name : {"/bin", "/etc", "/tmp"}) fs::create_directories(root + name);
        fs::create_directories(podman.path() + "/bin");
        fs::copy_file("/bin/busybox", root + "/bin/busybox");
        for (const char* name : {"sh", "cat", "sleep", "id", "ps", "touch"}) fs::create_symlink("busybox", root + "/bin/" + name);
        std::ofstream(root + "/etc/passwd") << "root:x:0:0:root:/root:/bin/sh\ntrainer:x:1234:1234::/home/trainer:/bin/sh\n";
        std::ofstream(docker()) << kWrapper;
        fs::permissions(docker(), fs::perms(0755));
        if (!run("tar -C " + root + " -c . | " + docker() + " import --change 'ENV OF_IMAGE=yes' - localhost/gf-test:1") ||
            !run(docker() + " run --rm --network host --entrypoint /bin/sh localhost/gf-test:1 -c true"))
            return "podman cannot run a container on this machine";
        env["PATH"] = podman.path() + "/bin:" + env["PATH"];
        fs::permissions(folder.path(), fs::perms(0755));
        return {};
    }
    [[nodiscard]] bool no_container() const {
        return eventually([&] { return run("test -z \"$(" + docker() + " ps --all --quiet)\""); });
    }
    ap::Lease lease(std::string command) {
        auto lease = contained_lease(std::move(command));
        lease.image = "localhost/gf-test:1";
        return lease;
    }
};

TEST_CASE("podman: a job in a real container sees the image, its folder and its checkpoints") {
    PodmanBench bench;
    if (const auto why = bench.obstacle(); !why.empty()) {
        gf::test::skip(why);
        return;
    }
    auto agent = bench.start();
    bench.enrolled();
    auto lease = bench.lease(
        "echo $OF_IMAGE $BATCH; id -u; echo 7 > ckpt/state; gpuferry-agent checkpoint; exit 3");
    lease.env = {{"BATCH", "8"}};
    lease.user = "trainer";
    lease.checkpoint.declared = true;
    lease.checkpoint.path = "ckpt";
    bench.daemon.send(lease);
    const auto exited = bench.exited();
    REQUIRE(exited.has_value());
    CHECK_MESSAGE(exited->exit_code == 3, exited->detail);
    const auto log = bench.log();
    CHECK(log.starts_with("yes 8\n1234\n"));
    CHECK(log.ends_with("ok 1\n"));
    CHECK(bench.no_container());
    bench.daemon.with([](DaemonState& s) { CHECK(s.manifests.size() == 1); });
}

TEST_CASE("podman: a stop reaches the program, and a killed agent takes the container with it") {
    PodmanBench bench;
    if (const auto why = bench.obstacle(); !why.empty()) {
        gf::test::skip(why);
        return;
    }
    {
        auto agent = bench.start();
        bench.enrolled();
        bench.daemon.send(bench.lease("trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done"));
        REQUIRE(bench.log_has("up"));
        bench.daemon.send(ap::Stop{.attempt = "att_1", .reason = "hold", .checkpoint = false});
        const auto stopped = bench.exited();
        REQUIRE(stopped.has_value());
        CHECK(stopped->exit_code == 0);
        CHECK(bench.log().ends_with("bye\n"));
        auto second = bench.lease("echo up; sleep 6641");
        second.attempt = "att_2";
        second.number = 2;
        bench.daemon.send(second);
        REQUIRE(bench.log_has("up", "att_2"));
        REQUIRE(eventually([] { return !processes_with("6641").empty(); }));
        // The agent's own processes; podman's, which hang below them, are not its to take along.
        std::vector<pid_t> all{agent.pid()};
        for (const char* name : {"gpuferry-worker", "gpuferry-keeper"}) all.push_back(agent.child(name));
        for (const pid_t pid : all) ::kill(pid, SIGSTOP);
        agent::kill_all(all);
    }
    CHECK(eventually([] { return processes_with("6641").empty(); }, 30));
    bench.daemon.with([](DaemonState& s) { CHECK(s.logs["att_2"].bytes == "up\n"); });
}

TEST_CASE("podman: an image without a shell is the spec's fault") {
    PodmanBench bench;
    if (const auto why = bench.obstacle(); !why.empty()) {
        gf::test::skip(why);
        return;
    }
    REQUIRE(run("tar -C " + bench.podman.path() + "/image -c ./etc ./tmp | " + bench.docker() + " import - localhost/gf-bare:1"));
    auto agent = bench.start();
    bench.enrolled();
    auto lease = bench.lease("true");
    lease.image = "localhost/gf-bare:1";
    bench.daemon.send(lease);
    const auto exited = bench.exited();
    REQUIRE(exited.has_value());
    CHECK(exited->reason == "spec");
    CHECK_MESSAGE(exited->detail.find("/bin/sh") != std::string::npos, exited->detail);
    CHECK(bench.no_container());
}

}  // namespace
}  // namespace gf::agent_test
