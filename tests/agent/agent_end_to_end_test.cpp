// The real agent against a daemon in this process: leases, logs, checkpoints, faults.
#include "agent_bench.hpp"
#include "tests/skip.hpp"

namespace gf::agent_test {
namespace {

TEST_CASE("an agent enrols, says what the machine is, runs a job, ships its output and says how it ended") {
    Bench bench;
    auto agent = bench.start();
    bench.enrolled();
    bench.daemon.with([&](DaemonState& s) {
        REQUIRE(s.enrolments.size() == 1);
        CHECK(s.enrolments[0].machine == "gf-abcd1234-00000000000000000000000000");
        CHECK(s.enrolments[0].arch == "amd64");
        const auto& report = s.hellos[0].report;
        CHECK(report.workspace == bench.folder.path());
        CHECK(report.cpus > 0);
        CHECK(report.memory_total > 0);
        CHECK(report.disk_free > 0);
        CHECK(report.cuda_probe != "not_run");
        CHECK(s.hellos[0].attempt.empty());
    });
    auto lease = lease_of("echo hello; echo to-stderr >&2; pwd; exit 7");
    bench.daemon.send(lease);
    const auto exited = bench.exited();
    REQUIRE(exited.has_value());
    CHECK(exited->exit_code == 7);
    CHECK_FALSE(exited->signal.has_value());
    CHECK(exited->reason.empty());
    CHECK(bench.log() == "hello\nto-stderr\n" + bench.folder.path() + "/" + lease.job + "\n");
    CHECK(exited->log_bytes == static_cast<std::int64_t>(bench.log().size()));
    bench.daemon.with([&](DaemonState& s) {
        const auto started = last<ap::Started>(s);
        REQUIRE(started.has_value());
        CHECK(started->pid > 0);
        CHECK(started->restored_generation == 0);
    });
}

TEST_CASE("a job sees its own variables and none of the machine's secrets") {
    Bench bench;
    bench.env["RUNPOD_API_KEY"] = "rpa_EXAMPLE111";
    bench.env["CONTAINER_API_KEY"] = "vast_EXAMPLE";
    bench.env["JUPYTER_TOKEN"] = "jup_EXAMPLE";
    bench.env["KEPT_BY_IMAGE"] = "yes";
    auto agent = bench.start();
    bench.enrolled();
    auto lease = lease_of("env | sort; cat /proc/$PPID/environ | tr '\\0' '\\n'; true");
    lease.number = 3;
    lease.task_index = 2;
    lease.task_count = 4;
    lease.env = {{"BATCH", "8"}};
    bench.daemon.send(lease);
    REQUIRE(bench.exited().has_value());
    const auto log = bench.log();
    CHECK(log.find("BATCH=8\n") != std::string::npos);
    CHECK(log.find("KEPT_BY_IMAGE=yes\n") != std::string::npos);
    CHECK(log.find("GPUFERRY_ATTEMPT=3\n") != std::string::npos);
    CHECK(log.find("GPUFERRY_TASK_INDEX=2\n") != std::string::npos);
    CHECK(log.find("GPUFERRY_TASK_COUNT=4\n") != std::string::npos);
    CHECK(log.find("GPUFERRY_RESUME=0\n") != std::string::npos);
    CHECK(log.find("GPUFERRY_CHECKPOINT_DIR=" + bench.folder.path()) != std::string::npos);
    for (const std::string secret : {"rpa_EXAMPLE111", "vast_EXAMPLE", "jup_EXAMPLE", "enrol-token"})
        CHECK(log.find(secret) == std::string::npos);
}

TEST_CASE("a declared secret is masked with equal length, also when it is printed in two writes") {
    Bench bench;
    auto agent = bench.start();
    bench.enrolled();
    auto lease = lease_of("printf 'a=%s.' \"$HF_TOKEN\"; printf hf_EX; sleep 0.3; printf 'AMPLE0000 end'");
    lease.secret_env = {{"HF_TOKEN", "hf_EXAMPLE0000"}};
    bench.daemon.send(lease);
    REQUIRE(bench.exited().has_value());
    CHECK(bench.log() == "a=**************.************** end");
}

TEST_CASE("a connection that is cut again and again neither loses nor repeats a byte of the log") {
    Bench bench;
    bench.daemon.with([](DaemonState& s) { s.log_answers_lost = 3; });
    auto agent = bench.start();
    bench.enrolled();
    bench.daemon.send(lease_of("i=0; while [ $i -lt 4000 ]; do echo line-$i; i=$((i+1)); [ $((i%200)) = 0 ] && sleep 0.05; done"));
    for (int cut = 0; cut < 6; ++cut) {
        std::int64_t before = 0;
        bench.daemon.with([&](DaemonState& s) { before = s.logs["att_1"].offset; });
        bench.daemon.wait([&](const DaemonState& s) { return s.logs.at("att_1").offset > before || last<ap::Exited>(s); }, 20);
        bench.daemon.cut();
    }
    const auto exited = bench.exited();
    REQUIRE(exited.has_value());
    CHECK(exited->exit_code == 0);
    std::string expected;
    for (int i = 0; i < 4000; ++i) expected += "line-" + std::to_string(i) + "\n";
    CHECK(bench.log() == expected);
    bench.daemon.with([](DaemonState& s) {
        CHECK(s.logs["att_1"].holes.empty());
        CHECK(s.connections > 1);
        CHECK(s.enrolments.size() == 1);
    });
}

TEST_CASE("messages that were not acknowledged come again on the next connection") {
    Bench bench;
    bench.daemon.with([](DaemonState& s) { s.acknowledge = false; });
    auto agent = bench.start();
    bench.enrolled();
    bench.daemon.send(lease_of("true"));
    REQUIRE(bench.exited().has_value());
    bench.daemon.with([](DaemonState& s) { s.acknowledge = true; });
    bench.daemon.cut();
    CHECK(bench.daemon.wait([](const DaemonState& s) { return s.repeats >= 2 && s.hellos.size() >= 2; }));
    bench.daemon.with([](DaemonState& s) {
        CHECK(s.hellos.back().attempt == "att_1");
        CHECK(s.hellos.back().attempt_state == "exited");
    });
}

TEST_CASE("a daemon that has forgotten the session gets a new enrolment, and the job goes on") {
    Bench bench;
    auto agent = bench.start();
    bench.enrolled();
    bench.daemon.send(lease_of("echo one; while [ ! -e go ]; do sleep 0.05; done; echo two"));
    REQUIRE(bench.log_has("one"));
    bench.daemon.with([](DaemonState& s) { s.refuse_sessions = true; });
    bench.daemon.cut();
    REQUIRE(bench.daemon.wait([](const DaemonState& s) { return s.enrolments.size() == 2 && s.hellos.size() == 2; }));
    bench.daemon.with([](DaemonState& s) {
        CHECK(s.enrolments[0].boot_id == s.enrolments[1].boot_id);
        CHECK(s.hellos[1].attempt_state == "running");
    });
    std::ofstream(bench.folder.path() + "/job_00000000000000000000000001/go");
    REQUIRE(bench.exited().has_value());
    CHECK(bench.log() == "one\ntwo\n");
}

TEST_CASE("the worker's death by kill -9 disturbs neither the job nor its log") {
    Bench bench;
    auto agent = bench.start();
    bench.enrolled();
    bench.daemon.send(lease_of("i=0; while [ $i -lt 60 ]; do echo tick-$i; i=$((i+1)); sleep 0.05; done; exit 3"));
    for (const char* seen : {"tick-5\n", "tick-20\n"}) {
        REQUIRE(bench.log_has(seen));
        const pid_t worker = agent.child("gpuferry-worker");
        REQUIRE(worker > 0);
        ::kill(worker, SIGKILL);
        REQUIRE(eventually([&] { const auto now = agent.child("gpuferry-worker"); return now > 0 && now != worker; }));
    }
    const auto exited = bench.exited();
    REQUIRE(exited.has_value());
    CHECK(exited->exit_code == 3);
    std::string expected;
    for (int i = 0; i < 60; ++i) expected += "tick-" + std::to_string(i) + "\n";
    CHECK(bench.log() == expected);
    bench.daemon.with([](DaemonState& s) {
        int starts = 0;
        for (const auto& m : s.messages) starts += std::holds_alternative<ap::Started>(m.body) ? 1 : 0;
        CHECK(starts == 1);
        for (const auto& enrolment : s.enrolments) CHECK(enrolment.boot_id == s.enrolments[0].boot_id);
    });
}

TEST_CASE("the supervisor's death by kill -9 takes every descendant of the job with it") {
    Bench bench;
    auto agent = bench.start();
    bench.enrolled();
    // One ordinary child, one in a session of its own, one that has left its parent as daemons do.
    bench.daemon.send(lease_of("sleep 7771 & setsid sleep 7772 & (setsid sh -c 'sleep 7773 & exit' &) ; echo up; wait"));
    REQUIRE(bench.log_has("up"));
    REQUIRE(eventually([] { return !processes_with("7773").empty(); }));
    agent.signal(SIGKILL);
    CHECK(eventually([] { return processes_with("7771").empty() && processes_with("7772").empty() && processes_with("7773").empty(); }, 20));
}

TEST_CASE("a keeper that is killed ends the attempt and leaves nothing behind") {
    Bench bench;
    auto agent = bench.start();
    bench.enrolled();
    bench.daemon.send(lease_of("(setsid sh -c 'sleep 7781 & exit' &) ; echo up; sleep 7782"));
    REQUIRE(bench.log_has("up"));
    const pid_t keeper = agent.child("gpuferry-keeper");
    REQUIRE(keeper > 0);
    ::kill(keeper, SIGKILL);
    const auto exited = bench.exited();
    REQUIRE(exited.has_value());
    CHECK(exited->signal == SIGKILL);
    CHECK(exited->detail.find("killed") != std::string::npos);
    CHECK(eventually([] { return processes_with("7781").empty() && processes_with("7782").empty(); }, 20));
}

TEST_CASE("a grandchild that made itself a daemon is gone when the job is over") {
    Bench bench;
    auto agent = bench.start();
    bench.enrolled();
    bench.daemon.send(lease_of("(setsid sh -c '(setsid sleep 7791 >/dev/null 2>&1 &) ; exit' &) ; sleep 0.3; echo done"));
    const auto exited = bench.exited();
    REQUIRE(exited.has_value());
    CHECK(exited->exit_code == 0);
    CHECK(processes_with("7791").empty());
}

TEST_CASE("stop sends the signal, waits for the program to save, and takes the last checkpoint") {
    Bench bench;
    auto agent = bench.start();
    bench.enrolled();
    auto lease = lease_of("trap 'sleep 0.2; echo 42 > ckpt/state; echo saved; exit 0' TERM; echo up; while :; do sleep 0.05; done");
    lease.checkpoint.declared = true;
    lease.checkpoint.path = "ckpt";
    bench.daemon.send(lease);
    REQUIRE(bench.log_has("up"));
    bench.daemon.send(ap::Stop{.attempt = "att_1", .reason = "budget", .checkpoint = true});
    const auto exited = bench.exited();
    REQUIRE(exited.has_value());
    CHECK(exited->reason == "stopped");
    CHECK(exited->exit_code == 0);
    CHECK(bench.log().starts_with("up\n"));
    CHECK(bench.log().ends_with("saved\n"));
    bench.daemon.with([](DaemonState& s) {
        REQUIRE(s.manifests.size() == 1);
        const auto manifest = checkpoints::decode_manifest(s.manifests[0]);
        REQUIRE(manifest.has_value());
        REQUIRE(manifest->files.size() == 1);
        CHECK(manifest->files[0].path == "state");
        CHECK(manifest->files[0].sha256 == checkpoints::sha256("42\n"));
        CHECK(manifest->attempt == 1);
    });
}

TEST_CASE("a program below a shell that dies of the signal still has the grace to save") {
    Bench bench;
    auto agent = bench.start();
    bench.enrolled();
    auto lease = lease_of("sh -c 'trap \"sleep 0.5; echo x > ckpt/late; exit 0\" TERM; echo up; while :; do sleep 0.05; done' && echo never");
    lease.checkpoint.declared = true;
    lease.checkpoint.path = "ckpt";
    bench.daemon.send(lease);
    REQUIRE(bench.log_has("up"));
    bench.daemon.send(ap::Stop{.attempt = "att_1", .reason = "hold", .checkpoint = true});
    REQUIRE(bench.exited().has_value());
    bench.daemon.with([](DaemonState& s) { CHECK(s.manifests.size() == 1); });
}

TEST_CASE("a program that ignores the signal is killed after the grace") {
    Bench bench;
    auto agent = bench.start();
    bench.enrolled();
    auto lease = lease_of("trap '' TERM; echo up; while :; do sleep 0.05; done");
    lease.checkpoint.grace = Millis{300};
    bench.daemon.send(lease);
    REQUIRE(bench.log_has("up"));
    bench.daemon.send(ap::Stop{.attempt = "att_1", .reason = "cancelled", .checkpoint = false});
    const auto exited = bench.exited();
    REQUIRE(exited.has_value());
    CHECK(exited->signal == SIGKILL);
    CHECK(exited->reason == "stopped");
}

TEST_CASE("the run time limit stops the job") {
    Bench bench;
    auto agent = bench.start();
    bench.enrolled();
    auto lease = lease_of("echo up; sleep 7701");
    lease.duration_ms = 400;
    bench.daemon.send(lease);
    const auto exited = bench.exited();
    REQUIRE(exited.has_value());
    CHECK(exited->reason == "duration");
    CHECK(exited->signal == SIGTERM);
}

TEST_CASE("a job that the kernel kills for memory is told from other kills") {
    const std::string group = "/sys/fs/cgroup/memory/gf-agent-test-" + std::to_string(::getpid());
    std::error_code ec;
    if (!fs::create_directory(group, ec)) {
        gf::test::skip("no memory cgroup (v1) that may be written to");
        return;
    }
    std::ofstream(group + "/memory.limit_in_bytes") << (256 << 20);
    {
        Bench bench;
        std::ofstream(bench.folder.path() + "/start.sh") << "#!/bin/sh\necho $$ > " << group << "/tasks && exec " << GF_AGENT_PATH << "\n";
        fs::permissions(bench.folder.path() + "/start.sh", fs::perms(0755));
        AgentProcess agent(bench.folder.path() + "/start.sh", bench.env);
        bench.enrolled();
        bench.daemon.with([](DaemonState& s) { CHECK(s.hellos[0].report.memory_total == 256 << 20); });
        bench.daemon.send(lease_of("exec tail /dev/zero"));
        const auto exited = bench.exited();
        REQUIRE(exited.has_value());
        CHECK(exited->host_oom);
        CHECK_FALSE(exited->gpu_oom);
        CHECK(exited->signal == SIGKILL);
    }
    CHECK(eventually([&] { return fs::remove(group, ec); }, 20));
}

TEST_CASE("an attempt that was fenced is killed at once and drained") {
    Bench bench;
    auto agent = bench.start();
    bench.enrolled();
    auto lease = lease_of("trap '' TERM; echo up; while [ ! -e more ]; do sleep 0.05; done; echo more; sleep 7711");
    bench.daemon.send(lease);
    REQUIRE(bench.log_has("up"));
    bench.daemon.with([](DaemonState& s) { s.fenced.insert("att_1"); });
    std::ofstream(bench.folder.path() + "/" + lease.job + "/more");
    const auto exited = bench.exited();
    REQUIRE(exited.has_value());
    CHECK(exited->reason == "stopped");
    CHECK(processes_with("7711").empty());
    bench.daemon.send(ap::Drain{.reason = "fenced"});
    CHECK(agent.wait(30) == 0);
}

TEST_CASE("the same lease again changes nothing, a newer one replaces the old after it is dead") {
    Bench bench;
    auto agent = bench.start();
    bench.enrolled();
    auto lease = lease_of("echo $$ up; sleep 7721");
    bench.daemon.send(lease);
    REQUIRE(bench.log_has("up"));
    bench.daemon.send(lease);
    auto newer = lease_of("ps ax 2>/dev/null | grep -c '[s]leep 7721'; ls");
    newer.attempt = "att_2";
    newer.number = 2;
    bench.daemon.send(newer);
    REQUIRE(bench.exited("att_2").has_value());
    CHECK(bench.log("att_2").starts_with("0\n"));
    bench.daemon.with([](DaemonState& s) {
        int starts = 0;
        for (const auto& m : s.messages) starts += std::holds_alternative<ap::Started>(m.body) ? 1 : 0;
        CHECK(starts == 2);
    });
    // And one from before is not run any more.
    bench.daemon.send(lease);
    std::size_t hellos = 0;
    bench.daemon.with([&](DaemonState& s) { hellos = s.hellos.size(); });
    bench.daemon.cut();
    REQUIRE(bench.daemon.wait([&](const DaemonState& s) { return s.hellos.size() > hellos; }));
    bench.daemon.with([](DaemonState& s) { CHECK(s.hellos.back().attempt == "att_2"); });
}

TEST_CASE("code is fetched, checked and unpacked before the command runs") {
    Bench bench;
    TemporaryFolder source;
    fs::create_directories(source.path() + "/src/pkg");
    std::ofstream(source.path() + "/src/run.sh") << "cat pkg/data\n";
    std::ofstream(source.path() + "/src/pkg/data") << "from the archive\n";
    REQUIRE(std::system(("tar -C " + source.path() + "/src -cf " + source.path() + "/code.tar . && zstd -q " + source.path() +
                         "/code.tar")
                            .c_str()) == 0);
    std::ifstream file(source.path() + "/code.tar.zst", std::ios::binary);
    const std::string blob((std::istreambuf_iterator<char>(file)), {});
    const auto hash = checkpoints::sha256(blob).hex();
    bench.daemon.with([&](DaemonState& s) { s.blobs[hash] = blob; });
    auto agent = bench.start();
    bench.enrolled();
    auto lease = lease_of("sh run.sh");
    lease.code_sha256 = hash;
    bench.daemon.send(lease);
    REQUIRE(bench.exited().has_value());
    CHECK(bench.log() == "from the archive\n");

    auto missing = lease_of("true");
    missing.attempt = "att_2";
    missing.number = 2;
    missing.code_sha256 = std::string(64, '0');
    bench.daemon.send(missing);
    const auto exited = bench.exited("att_2");
    REQUIRE(exited.has_value());
    CHECK(exited->reason == "setup");
    CHECK_FALSE(exited->exit_code.has_value());

    const std::string rubbish(1000, 'r');
    const auto rubbish_hash = checkpoints::sha256(rubbish).hex();
    bench.daemon.with([&](DaemonState& s) { s.blobs[rubbish_hash] = rubbish; });
    auto no_archive = lease_of("true");
    no_archive.attempt = "att_3";
    no_archive.number = 3;
    no_archive.code_sha256 = rubbish_hash;
    bench.daemon.send(no_archive);
    const auto refused = bench.exited("att_3");
    REQUIRE(refused.has_value());
    CHECK(refused->reason == "spec");
}

TEST_CASE("SIGTERM to the agent is a notice: the daemon hears of it, the job saves, the agent goes") {
    Bench bench;
    bench.env["GPUFERRY_NOTICE_MS"] = "8000";
    auto agent = bench.start();
    bench.enrolled();
    auto lease = lease_of("trap 'echo s > ckpt/f; exit 0' TERM; echo up; while :; do sleep 0.05; done");
    lease.checkpoint.declared = true;
    lease.checkpoint.path = "ckpt";
    bench.daemon.send(lease);
    REQUIRE(bench.log_has("up"));
    agent.signal(SIGTERM);
    const auto exited = bench.exited();
    REQUIRE(exited.has_value());
    CHECK(exited->reason == "notice");
    bench.daemon.with([](DaemonState& s) {
        const auto notice = last<ap::Notice>(s);
        REQUIRE(notice.has_value());
        CHECK(notice->kind == "sigterm");
        CHECK(notice->deadline_ms == 8000);
        CHECK(s.manifests.size() == 1);
    });
    CHECK(agent.wait(30) == 0);
}

TEST_CASE("without a word from the daemon the job is stopped and the agent ends") {
    Bench bench;
    bench.daemon.with([](DaemonState& s) {
        s.welcome_message.heartbeat_ms = 50;
        s.welcome_message.dead_man_ms = 1'500;
    });
    auto agent = bench.start();
    bench.enrolled();
    bench.daemon.send(lease_of("echo up; sleep 7731"));
    REQUIRE(bench.log_has("up"));
    REQUIRE(bench.daemon.wait([](const DaemonState& s) { return s.heartbeats > 1; }));
    bench.daemon.away();
    CHECK(eventually([] { return processes_with("7731").empty(); }, 30));
    // Its last words wait; they arrive when the daemon is back.
    bench.daemon.back();
    const auto exited = bench.exited();
    REQUIRE(exited.has_value());
    CHECK(exited->reason == "dead_man");
}

TEST_CASE("a daemon that refuses the machine is no word from the daemon") {
    Bench bench;
    bench.daemon.with([](DaemonState& s) {
        s.welcome_message.heartbeat_ms = 50;
        s.welcome_message.dead_man_ms = 3'000;
    });
    auto agent = bench.start();
    bench.enrolled();
    bench.daemon.send(lease_of("echo up; while :; do echo more; sleep 0.1; done"));
    REQUIRE(bench.log_has("up"));
    bench.daemon.with([](DaemonState& s) { s.refuse_sessions = s.refuse_enrolments = true; });
    bench.daemon.cut();
    CHECK(eventually([&] { return agent.child("gpuferry-keeper") <= 0; }, 40));
    bench.daemon.with([](DaemonState& s) { s.refuse_sessions = s.refuse_enrolments = false; });
    const auto exited = bench.exited();
    REQUIRE(exited.has_value());
    CHECK(exited->reason == "dead_man");
}

TEST_CASE("a worker that dies just after an attempt's end does not run it again") {
    for (const bool fails : {false, true}) {
        CAPTURE(fails);
        Bench bench;
        const std::string runs = bench.folder.path() + "/runs";
        auto agent = bench.start();
        bench.enrolled();
        for (int number = 1; number <= 4; ++number) {
            auto lease = lease_of("echo x >> " + runs);
            lease.attempt = "att_" + std::to_string(number);
            lease.number = number;
            if (fails) lease.checkpoint.path = "../elsewhere";
            bench.daemon.send(lease);
            REQUIRE(bench.exited(lease.attempt).has_value());
            const pid_t worker = agent.child("gpuferry-worker");
            ::kill(worker, SIGKILL);
            std::size_t hellos = 0;
            bench.daemon.with([&](DaemonState& s) { hellos = s.hellos.size(); });
            REQUIRE(bench.daemon.wait([&](const DaemonState& s) { return s.hellos.size() > hellos; }));
            bench.daemon.with([&](DaemonState& s) { CHECK(s.hellos.back().attempt == lease.attempt); });
        }
        std::ifstream file(runs);
        const std::string lines((std::istreambuf_iterator<char>(file)), {});
        CHECK(lines == (fails ? "" : "x\nx\nx\nx\n"));
        bench.daemon.with([](DaemonState& s) {
            int starts = 0;
            for (const auto& m : s.messages) starts += std::holds_alternative<ap::Started>(m.body) ? 1 : 0;
            CHECK(starts <= 4);
        });
    }
}

TEST_CASE("output beyond the quota keeps head and tail and tells the gap") {
    Bench bench;
    auto agent = bench.start();
    bench.enrolled();
    auto lease = lease_of("i=0; while [ $i -lt 30000 ]; do echo line-$i; i=$((i+1)); done");
    lease.log_bytes_max = 64 * 1024;
    bench.daemon.send(lease);
    const auto exited = bench.exited();
    REQUIRE(exited.has_value());
    std::string all;
    for (int i = 0; i < 30000; ++i) all += "line-" + std::to_string(i) + "\n";
    CHECK(exited->log_bytes == static_cast<std::int64_t>(all.size()));
    bench.daemon.with([&](DaemonState& s) {
        const auto& log = s.logs["att_1"];
        REQUIRE(log.holes.size() == 1);
        const auto [at, count] = log.holes[0];
        CHECK(log.offset == static_cast<std::int64_t>(all.size()));
        CHECK(static_cast<std::int64_t>(log.bytes.size()) <= lease.log_bytes_max);
        CHECK(log.bytes == all.substr(0, static_cast<std::size_t>(at)) + all.substr(static_cast<std::size_t>(at + count)));
        CHECK(log.bytes.ends_with("line-29999\n"));
    });
}

TEST_CASE("GPU memory that ran out is told from other failures, in colour too") {
    Bench bench;
    auto agent = bench.start();
    bench.enrolled();
    bench.daemon.send(lease_of("printf '\\033[31mtorch.cuda.OutOf\\033[0mMemoryError: CUDA out of memory. Tried\\033[0m\\n'; exit 1"));
    const auto exited = bench.exited();
    REQUIRE(exited.has_value());
    CHECK(exited->gpu_oom);
    CHECK(exited->exit_code == 1);
}

TEST_CASE("a user of the image can be named, and a wrong one is a fault of the spec") {
    if (::getuid() != 0) {
        gf::test::skip("dropping to another user needs root");
        return;
    }
    Bench bench;
    fs::permissions(bench.folder.path(), fs::perms(0755));
    auto agent = bench.start();
    bench.enrolled();
    auto lease = lease_of("id -u; touch mine && echo ok; gpuferry-agent checkpoint >/dev/null; echo $?");
    lease.user = "nobody";
    lease.checkpoint.declared = true;
    bench.daemon.send(lease);
    REQUIRE(bench.exited().has_value());
    CHECK(bench.log() == "65534\nok\n1\n");  // reached, and told that there is nothing to take yet

    auto wrong = lease_of("true");
    wrong.attempt = "att_2";
    wrong.number = 2;
    wrong.user = "no-such-user";
    bench.daemon.send(wrong);
    auto exited = bench.exited("att_2");
    REQUIRE(exited.has_value());
    CHECK(exited->reason == "spec");

    // A folder that the user cannot get into is told as what it is, not as a command that fails oddly.
    fs::permissions(bench.folder.path(), fs::perms(0700));
    lease.attempt = "att_3";
    lease.number = 3;
    bench.daemon.send(lease);
    exited = bench.exited("att_3");
    REQUIRE(exited.has_value());
    CHECK(exited->reason == "spec");
    CHECK(exited->detail.find("user nobody cannot reach the job's folder: " + bench.folder.path()) != std::string::npos);
}

}  // namespace
}  // namespace gf::agent_test
