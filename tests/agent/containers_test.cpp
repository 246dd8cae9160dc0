// Jobs in containers, with a docker that records what it is told and really runs what is to run.
#include <algorithm>

#include "agent/descriptor.hpp"
#include "docker_bench.hpp"

namespace gf::agent_test {
namespace {

bool has(const std::vector<std::string>& words, std::initializer_list<std::string> run) {
    return std::ranges::search(words, run).begin() != words.end();
}
bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// Whether the bytes are in any file below a folder.
bool lies_in(const std::string& folder, const std::string& bytes) {
    for (fs::recursive_directory_iterator it(folder), end; it != end; ++it) {
        if (!it->is_regular_file()) continue;
        std::stringstream text;
        text << std::ifstream(it->path()).rdbuf();
        if (contains(text.str(), bytes)) return true;
    }
    return false;
}

TEST_CASE("a job with an image on a virtual machine runs in a container that has what training needs") {
    DockerBench bench;
    auto agent = bench.start();
    bench.enrolled();
    auto lease = contained_lease("env; pwd; echo err >&2; touch made; exit 7");
    lease.env = {{"BATCH", "8"}, {"LINES", "one\ntwo = three\n"}};
    lease.secret_env = {{"HF_TOKEN", "hf_EXAMPLE0000"}};
    bench.daemon.send(lease);
    const auto exited = bench.exited();
    REQUIRE(exited.has_value());
    CHECK(exited->exit_code == 7);
    CHECK(exited->reason.empty());
    const auto log = bench.log();
    const std::string folder = bench.folder.path() + "/" + lease.job;
    for (const std::string& line : {std::string("BATCH=8\n"), std::string("LINES=one\ntwo = three\n"), std::string("OF_IMAGE=yes\n"),
                                   std::string("HF_TOKEN=**************\n"), std::string("GPUFERRY_RESUME=0\n"),
                                   "PATH=/usr/local/bin:/usr/bin:/bin:/image/bin:" + bench.folder.path() + "/.gpuferry/bin\n",
                                   "GPUFERRY_CHECKPOINT_DIR=" + folder, "\n" + folder + "\n", std::string("err\n")})
        CHECK_MESSAGE(contains(log, line), line);
    CHECK(fs::exists(folder + "/made"));
    const auto runs = bench.calls("run");
    REQUIRE(runs.size() == 1);
    const auto& run = runs[0];
    CHECK(has(run, {"--name", "gpuferry-att_1"}));
    CHECK(has(run, {"--label", "io.gpuferry.machine=gf-abcd1234-00000000000000000000000000"}));
    CHECK(has(run, {"--network", "host"}));
    CHECK(has(run, {"--ipc", "host"}));
    CHECK(has(run, {"--ulimit", "memlock=-1", "--ulimit", "stack=67108864"}));
    CHECK(has(run, {"--volume", folder + ":" + folder}));
    CHECK(has(run, {"--pull", "never"}));
    CHECK_FALSE(has(run, {"--gpus"}));  // this machine has none
    // What the job is and knows is in no command line, where every user of the machine could read it.
    const auto calls = bench.file("calls.jsonl");
    for (const char* hidden : {"hf_EXAMPLE0000", "BATCH", "touch made"}) CHECK_FALSE(contains(calls, hidden));
    CHECK(bench.said("image").size() >= 2);
    CHECK(bench.said("image").back().ends_with("of 2 layers ready"));
    CHECK(bench.no_container());
}

TEST_CASE("a registry's password goes to docker's stdin, and nothing of it stays") {
    DockerBench bench;
    auto agent = bench.start();
    bench.enrolled();
    auto lease = contained_lease("env; cat /proc/1/cmdline | tr '\\0' ' '");
    lease.registry = ap::RegistryAccess{.server = "ghcr.io", .username = "bot", .password = "pw-EXAMPLE-9000"};
    bench.daemon.send(lease);
    REQUIRE(bench.exited().has_value());
    const auto logins = bench.calls("login");
    REQUIRE(logins.size() == 1);
    REQUIRE(has(logins[0], {"login", "--username", "bot", "--password-stdin", "ghcr.io"}));
    CHECK(contains(bench.file("calls.jsonl"), "\"stdin\": \"pw-EXAMPLE-9000\""));
    CHECK(has(bench.calls("pull").at(0), {"--config", logins[0][1], "pull", lease.image}));
    CHECK_FALSE(fs::exists(logins[0][1]));
    CHECK_FALSE(lies_in(bench.folder.path(), "pw-EXAMPLE-9000"));
    CHECK_FALSE(lies_in(bench.folder.path(), "kept-by-docker"));
    CHECK_FALSE(contains(bench.log(), "pw-EXAMPLE-9000"));
    for (const auto& argv : {bench.calls("login"), bench.calls("pull"), bench.calls("run")})
        for (const auto& words : argv)
            for (const auto& word : words) CHECK_FALSE(contains(word, "pw-EXAMPLE-9000"));
}

TEST_CASE("shared memory, user and entrypoint are as the spec says") {
    DockerBench bench;
    auto agent = bench.start();
    bench.enrolled();
    auto lease = contained_lease("id -u; echo $HOME $FROM_ENTRYPOINT; echo x > mine && gpuferry-agent checkpoint");
    lease.shm_bytes = 16'000'000'000;
    lease.user = "nobody";
    lease.keep_entrypoint = true;
    lease.checkpoint.declared = true;
    lease.checkpoint.path = ".";
    fs::permissions(bench.folder.path(), fs::perms(0755));
    bench.daemon.send(lease);
    const auto exited = bench.exited();
    REQUIRE(exited.has_value());
    CHECK(exited->exit_code == 0);
    CHECK(bench.log() == "65534\n/nonexistent yes\nok 1\n");
    const auto run = bench.calls("run").back();
    CHECK(has(run, {"--shm-size", "16000000000"}));
    CHECK_FALSE(has(run, {"--ipc"}));
}

TEST_CASE("what docker cannot do is laid to the job or to the machine, by what it says") {
    struct Row {
        const char* verb;
        const char* says;
        const char* reason;
        const char* detail;
    };
    const Row rows[] = {
        {"pull", "Error response from daemon: manifest for ghcr.io/example/train:1 not found: manifest unknown: manifest unknown", "spec",
         "manifest unknown"},
        {"pull", "no matching manifest for linux/arm64/v8 in the manifest list entries", "spec", "no matching manifest"},
        {"pull", "failed to register layer: write /usr/lib/libcudnn.so: no space left on device", "setup", "the disk is full"},
        {"run", "docker: Error response from daemon: could not select device driver \"\" with capabilities: [[gpu]].", "setup",
         "NVIDIA container toolkit"},
        {"run", "docker: Error response from daemon: exec /work: exec format error.", "spec", "another architecture"},
        {"run", "docker: Error response from daemon: failed to create task for container: OCI runtime create failed", "setup",
         "OCI runtime create failed"},
    };
    for (const auto& row : rows) {
        CAPTURE(row.says);
        DockerBench bench;
        bench.answer(row.verb, row.says, std::string(row.verb) == "run" ? 125 : 1);
        auto agent = bench.start();
        bench.enrolled();
        bench.daemon.send(contained_lease("echo never"));
        const auto exited = bench.exited();
        REQUIRE(exited.has_value());
        CHECK(exited->reason == row.reason);
        CHECK_MESSAGE(contains(exited->detail, row.detail), exited->detail);
        CHECK_FALSE(exited->exit_code.has_value());
        CHECK_FALSE(contains(bench.log(), "never"));
    }
}

TEST_CASE("a registry that has had enough is asked again") {
    DockerBench bench;
    bench.answer("pull", "Error response from daemon: toomanyrequests: You have reached your pull rate limit.", 1);
    auto agent = bench.start();
    bench.enrolled();
    bench.daemon.send(contained_lease("echo pulled"));
    REQUIRE(bench.exited().has_value());
    CHECK(bench.log() == "pulled\n");
    CHECK(bench.calls("pull").size() == 2);
    CHECK(std::ranges::any_of(bench.said("image"), [](const auto& d) { return contains(d, "trying again"); }));
}

TEST_CASE("an image for another architecture, or without a shell, is the spec's fault") {
    DockerBench bench;
    bench.put("arch", "riscv64");
    auto agent = bench.start();
    bench.enrolled();
    bench.daemon.send(contained_lease("true"));
    const auto exited = bench.exited();
    REQUIRE(exited.has_value());
    CHECK(exited->reason == "spec");
    CHECK(contains(exited->detail, "riscv64"));
    CHECK(bench.calls("run").empty());
    bench.put("arch", "amd64");
    bench.put("entrypoint", "[\"/none/such\"]");
    auto lease = contained_lease("true");
    lease.keep_entrypoint = true;
    lease.attempt = "att_2";
    lease.number = 2;
    bench.daemon.send(lease);
    const auto second = bench.exited("att_2");
    REQUIRE(second.has_value());
    CHECK(second->reason == "spec");
    CHECK_MESSAGE(contains(second->detail, "/none/such"), second->detail);
    CHECK(bench.no_container());
}

TEST_CASE("the job's own exit codes are its own, those that docker uses too") {
    for (const int code : {125, 126, 127, 137}) {
        DockerBench bench;
        auto agent = bench.start();
        bench.enrolled();
        bench.daemon.send(contained_lease("exit " + std::to_string(code)));
        const auto exited = bench.exited();
        REQUIRE(exited.has_value());
        CHECK(exited->exit_code == code);
        CHECK(exited->reason.empty());
    }
}

TEST_CASE("a stop reaches the whole group once, waits for the program to save, and leaves no container") {
    for (const bool leader_only : {false, true}) {
        DockerBench bench;
        auto agent = bench.start();
        bench.enrolled();
        auto lease = contained_lease(
            "sh -c 'trap \"echo child\" USR1; echo up; while :; do sleep 0.05; done' & "
            "trap 'echo leader; sleep 0.5; echo saved > ckpt/state; exit 0' USR1; while :; do sleep 0.05; done");
        lease.checkpoint.declared = true;
        lease.checkpoint.path = "ckpt";
        lease.checkpoint.signal = "SIGUSR1";
        lease.checkpoint.signal_leader_only = leader_only;
        bench.daemon.send(lease);
        REQUIRE(bench.log_has("up"));
        bench.daemon.send(ap::Stop{.attempt = "att_1", .reason = "budget", .checkpoint = true});
        const auto exited = bench.exited();
        REQUIRE(exited.has_value());
        CHECK(exited->reason == "stopped");
        const auto log = bench.log();
        CHECK(contains(log, "leader\n"));
        CHECK(contains(log, "child\n") == !leader_only);
        CHECK(log.find("leader", log.find("leader") + 1) == std::string::npos);
        bench.daemon.with([](DaemonState& s) { CHECK(s.manifests.size() == 1); });
        CHECK(bench.no_container());
    }
}

TEST_CASE("a program that ignores the signal ends with its container after the grace") {
    DockerBench bench;
    auto agent = bench.start();
    bench.enrolled();
    auto lease = contained_lease("trap '' TERM; echo up; while :; do sleep 0.05; done");
    lease.checkpoint.grace = Millis{300};
    bench.daemon.send(lease);
    REQUIRE(bench.log_has("up"));
    bench.daemon.send(ap::Stop{.attempt = "att_1", .reason = "cancelled", .checkpoint = false});
    const auto exited = bench.exited();
    REQUIRE(exited.has_value());
    CHECK(exited->signal == SIGKILL);
    CHECK(exited->reason == "stopped");
    CHECK(bench.no_container());
}

TEST_CASE("whatever of the agent is killed, the container ends") {
    for (const std::string who : {"supervisor", "keeper", "all"}) {
        CAPTURE(who);
        DockerBench bench;
        auto agent = bench.start();
        bench.enrolled();
        const std::string mark = who == "supervisor" ? "6611" : who == "keeper" ? "6612" : "6613";
        bench.daemon.send(contained_lease("(setsid sleep " + mark + " &); echo up; sleep " + mark));
        REQUIRE(bench.log_has("up"));
        REQUIRE(eventually([&] { return processes_with(mark).size() >= 2; }));
        const pid_t keeper = agent.child("gpuferry-keeper");
        REQUIRE(keeper > 0);
        if (who == "all") {
            // Nobody is left who could ask docker for anything: the cut line alone ends the container.
            auto all = agent::descendants_of(agent.pid());
            all.push_back(agent.pid());
            for (const pid_t pid : all) ::kill(pid, SIGSTOP);
            agent::kill_all(all);
        } else if (who == "keeper") {
            ::kill(keeper, SIGKILL);
        } else {
            agent.signal(SIGKILL);
        }
        CHECK(eventually([&] { return processes_with(mark).empty(); }, 30));
        if (who != "keeper") continue;
        const auto exited = bench.exited();
        REQUIRE(exited.has_value());
        CHECK(exited->reason == "keeper_lost");
        CHECK(bench.no_container());
    }
}

TEST_CASE("a container that was left by an agent's death is removed before the next job runs") {
    DockerBench bench;
    {
        auto agent = bench.start();
        bench.enrolled();
        bench.daemon.send(contained_lease("echo up; sleep 6621"));
        REQUIRE(bench.log_has("up"));
        auto all = agent::descendants_of(agent.pid());
        all.push_back(agent.pid());
        for (const pid_t pid : all) ::kill(pid, SIGSTOP);
        agent::kill_all(all);
        // Each of them holds the workspace's lock as long as it is there, which is not the supervisor's time alone.
        all.pop_back();
        REQUIRE(eventually([&] { return std::ranges::all_of(all, [](pid_t pid) {
            // Empty when it is gone, and when it only waits to be reaped.
            return agent::read_small_file("/proc/" + std::to_string(pid) + "/cmdline").empty();
        }); }));
    }
    CHECK(bench.file("containers") == "gpuferry-att_1\n");
    auto agent = bench.start();
    REQUIRE(bench.daemon.wait([](const DaemonState& s) { return s.hellos.size() == 2; }));
    auto lease = contained_lease("echo second");
    lease.attempt = "att_2";
    lease.number = 2;
    bench.daemon.send(lease);
    const auto exited = bench.exited("att_2");
    REQUIRE(exited.has_value());
    CHECK(exited->exit_code == 0);
    CHECK(bench.no_container());
    CHECK(bench.calls("pull").size() == 1);  // the image was there
}

TEST_CASE("a container that is ended over the agent's head is the machine's fault, or memory's") {
    for (const bool memory : {false, true}) {
        DockerBench bench;
        auto agent = bench.start();
        bench.enrolled();
        bench.daemon.send(contained_lease("echo up; sleep 6631"));
        REQUIRE(bench.log_has("up"));
        if (memory) bench.put("oom", "");
        ::kill(DockerBench::first_process(), SIGKILL);
        const auto exited = bench.exited();
        REQUIRE(exited.has_value());
        CHECK(exited->signal == SIGKILL);
        CHECK(exited->host_oom == memory);
        CHECK(exited->reason == (memory ? "" : "keeper_lost"));
        CHECK(bench.no_container());
    }
}

TEST_CASE("a job that ends because its container was stopped from outside has not done its work") {
    // What `docker stop` and a docker that goes down begin with.
    for (const bool saves : {true, false}) {
        DockerBench bench;
        auto agent = bench.start();
        bench.enrolled();
        auto lease = contained_lease(std::string(saves ? "trap 'echo saved > out.txt; exit 0' TERM; " : "") +
                                     "touch out.txt; echo up; while :; do sleep 0.05; done");
        lease.outputs.push_back({.from = "out.txt", .to = {}});
        bench.daemon.send(lease);
        REQUIRE(bench.log_has("up"));
        ::kill(DockerBench::first_process(), SIGTERM);
        const auto exited = bench.exited();
        REQUIRE(exited.has_value());
        CHECK(exited->reason == "keeper_lost");
        CHECK_MESSAGE(contains(exited->detail, "stopped from outside"), exited->detail);
        CHECK(exited->exit_code == (saves ? std::optional(0) : std::nullopt));
        CHECK(exited->signal == (saves ? std::nullopt : std::optional(SIGTERM)));
        bench.daemon.with([](DaemonState& s) { CHECK(s.outputs.empty()); });
        CHECK(bench.no_container());
    }
}

TEST_CASE("a machine that goes down stops a job twice, and the job hears of it once") {
    for (const bool outside_first : {false, true}) {
        DockerBench bench;
        auto agent = bench.start();
        bench.enrolled();
        auto lease = contained_lease("trap 'echo got' TERM; echo up; while :; do sleep 0.05; done");
        lease.checkpoint.grace = Millis{2'000};
        bench.daemon.send(lease);
        REQUIRE(bench.log_has("up"));
        const pid_t first = DockerBench::first_process();
        const ap::Stop stop{.attempt = "att_1", .reason = "hold", .checkpoint = false};
        if (outside_first) ::kill(first, SIGTERM);
        else bench.daemon.send(stop);
        REQUIRE(bench.log_has("got\n"));
        if (outside_first) bench.daemon.send(stop);
        else ::kill(first, SIGTERM);
        const auto exited = bench.exited();  // killed when the grace is over: time enough for a second signal
        REQUIRE(exited.has_value());
        CHECK(exited->reason == "stopped");
        CHECK(exited->signal == SIGKILL);
        const auto log = bench.log();
        CHECK(log.find("got", log.find("got") + 1) == std::string::npos);
    }
}

TEST_CASE("an engine that takes its time over a container's end makes no torn checkpoint look whole") {
    for (const bool told : {true, false}) {
        DockerBench bench;
        bench.put("linger", "3");
        auto agent = bench.start();
        bench.enrolled();
        auto lease = contained_lease("(while :; do echo more >> ckpt/state; done) & sleep 0.2; echo up; " +
                                     std::string(told ? "exit 1" : "sleep 6661"));
        lease.checkpoint.declared = true;
        lease.checkpoint.path = "ckpt";
        bench.daemon.send(lease);
        REQUIRE(bench.log_has("up"));
        if (!told) ::kill(DockerBench::first_process(), SIGKILL);
        const auto exited = bench.exited();
        REQUIRE(exited.has_value());
        CHECK(exited->exit_code == (told ? std::optional(1) : std::nullopt));
        bench.daemon.with([](DaemonState& s) { CHECK(s.manifests.empty()); });
    }
}

TEST_CASE("the death of docker's client is not laid to the program") {
    DockerBench bench;
    auto agent = bench.start();
    bench.enrolled();
    bench.daemon.send(contained_lease("echo up; sleep 6671"));
    REQUIRE(bench.log_has("up"));
    const pid_t keeper = agent.child("gpuferry-keeper");
    REQUIRE(keeper > 0);
    const auto below = agent::descendants_of(keeper);
    REQUIRE(below.size() == 1);
    ::kill(below[0], SIGKILL);
    const auto exited = bench.exited();
    REQUIRE(exited.has_value());
    CHECK(exited->reason == "keeper_lost");
    CHECK_MESSAGE(contains(exited->detail, "client"), exited->detail);
    CHECK(eventually([] { return processes_with("6671").empty(); }));
    CHECK(bench.no_container());
}

TEST_CASE("a container that does not end is no success, is not taken a checkpoint of, and is removed in the end") {
    DockerBench bench;
    bench.put("stuck", "");
    auto agent = bench.start();
    bench.enrolled();
    auto lease = contained_lease("echo x > ckpt/state; echo up; sleep 6681");
    lease.checkpoint.declared = true;
    lease.checkpoint.path = "ckpt";
    lease.checkpoint.grace = Millis{200};
    bench.daemon.send(lease);
    REQUIRE(bench.log_has("up"));
    ::kill(DockerBench::first_process(), SIGSTOP);  // deaf to the keeper, as under a wedged driver
    bench.daemon.send(ap::Stop{.attempt = "att_1", .reason = "hold", .checkpoint = true});
    const auto exited = bench.exited("att_1", 120);
    REQUIRE(exited.has_value());
    CHECK(exited->reason == "stopped");
    CHECK(exited->signal == SIGKILL);
    CHECK_FALSE(exited->exit_code.has_value());
    bench.daemon.with([](DaemonState& s) { CHECK(s.manifests.empty()); });
    CHECK(bench.no_container());
}

TEST_CASE("an agent that is not root cleans up after root in containers, and sees when a checkpoint was written") {
    if (::getuid() != 0) {
        gf::test::skip("needs root, to be somebody else");
        return;
    }
    DockerBench bench;
    bench.put("denied", "");
    fs::copy_file(bench.docker.path() + "/bin/docker", bench.docker.path() + "/bin/sudo");
    const std::string other = bench.folder.path() + "/job_00000000000000000000000009";
    fs::create_directories(other + "/of_root");
    std::ofstream(other + "/of_root/file") << "x";
    constexpr unsigned kNobody = 65534;
    REQUIRE(::chown(bench.folder.path().c_str(), kNobody, kNobody) == 0);
    for (const auto& path : {bench.folder.path(), bench.docker.path()}) fs::permissions(path, fs::perms(0755));
    const std::string start = bench.docker.path() + "/agent";
    std::ofstream(start) << "#!/bin/sh\nexec setpriv --reuid 65534 --regid 65534 --clear-groups " << GF_AGENT_PATH << "\n";
    fs::permissions(start, fs::perms(0755));
    const AgentProcess agent(start, bench.env);
    bench.enrolled();
    // Quiet for longer than a save could be under way when it fails: only the giving back touches the file after that.
    auto lease = contained_lease("id -u; echo x > ckpt/state; sleep 2.5; exit 1");
    lease.checkpoint.declared = true;
    lease.checkpoint.path = "ckpt";
    bench.daemon.send(lease);
    const auto exited = bench.exited();
    REQUIRE(exited.has_value());
    CHECK_MESSAGE(exited->exit_code == 1, exited->detail);
    CHECK(bench.log() == "0\n");
    CHECK_FALSE(fs::exists(other));
    bench.daemon.with([](DaemonState& s) { CHECK(s.manifests.size() == 1); });
}

TEST_CASE("the worker's death by kill -9 disturbs no container, and a stop afterwards works") {
    DockerBench bench;
    auto agent = bench.start();
    bench.enrolled();
    auto lease = contained_lease("i=0; trap 'echo bye; exit 0' TERM; while :; do echo tick-$i; i=$((i+1)); sleep 0.05; done");
    bench.daemon.send(lease);
    REQUIRE(bench.log_has("tick-3\n"));
    const pid_t worker = agent.child("gpuferry-worker");
    REQUIRE(worker > 0);
    ::kill(worker, SIGKILL);
    REQUIRE(bench.daemon.wait([](const DaemonState& s) { return s.hellos.size() == 2; }));
    bench.daemon.send(ap::Stop{.attempt = "att_1", .reason = "hold", .checkpoint = false});
    const auto exited = bench.exited();
    REQUIRE(exited.has_value());
    CHECK(exited->exit_code == 0);
    CHECK(bench.log().ends_with("bye\n"));
    CHECK(bench.calls("run").size() == 1);
    CHECK(bench.no_container());
}

TEST_CASE("the docker of simulated machines is one that the agent can work with") {
    Bench bench;
    const std::string bin = bench.folder.path() + "/bin";
    fs::create_directories(bin);
    fs::copy_file(GF_VM_DOCKER, bin + "/docker");
    fs::permissions(bin + "/docker", fs::perms(0755));
    bench.env["PATH"] = bin + ":" + bench.env["PATH"];
    bench.env["VM_DOCKER_STATE"] = bench.folder.path() + "/docker";
    auto agent = bench.start();
    bench.enrolled();
    auto lease = contained_lease("echo $OF_IMAGE; id -un; exit 5");
    lease.registry = ap::RegistryAccess{.server = "ghcr.io", .username = "bot", .password = "pw-EXAMPLE-9001"};
    lease.user = "root";
    bench.daemon.send(lease);
    const auto exited = bench.exited();
    REQUIRE(exited.has_value());
    CHECK_MESSAGE(exited->exit_code == 5, exited->detail);
    CHECK(bench.log() == "yes\nroot\n");
    lease.attempt = "att_2";
    lease.number = 2;
    lease.run = "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done";
    bench.daemon.send(lease);
    REQUIRE(bench.log_has("up", "att_2"));
    bench.daemon.send(ap::Stop{.attempt = "att_2", .reason = "hold", .checkpoint = false});
    REQUIRE(bench.exited("att_2").has_value());
    CHECK(bench.log("att_2").ends_with("bye\n"));
}

}  // namespace
}  // namespace gf::agent_test
