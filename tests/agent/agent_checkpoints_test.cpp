// The agent's checkpoints and outputs, end to end: the real program against a daemon in memory.
#include "agent_bench.hpp"
#include "tests/skip.hpp"

#include <thread>

namespace gf::agent_test {
namespace {

TEST_CASE("a checkpoint is taken when the job asks, restored for the next attempt, and only what changed is sent") {
    Bench bench;
    auto agent = bench.start();
    bench.enrolled();
    auto lease = lease_of(
        "head -c 3000000 /dev/zero | tr '\\0' 'x' > ckpt/big; echo 1 > ckpt/n; echo 'step 10/20'; sleep 0.3;"
        "gpuferry-agent checkpoint || exit 9; echo 2 > ckpt/n; gpuferry-agent checkpoint || exit 9; exit 5");
    lease.checkpoint.declared = true;
    lease.checkpoint.path = "ckpt";
    lease.progress_regex = R"(step (\d+)/(\d+))";
    bench.daemon.send(lease);
    const auto exited = bench.exited();
    REQUIRE(exited.has_value());
    CHECK(exited->exit_code == 5);
    CHECK(bench.log().find("ok 1\n") != std::string::npos);
    CHECK(bench.log().find("ok 2\n") != std::string::npos);
    bench.daemon.with([](DaemonState& s) {
        REQUIRE(s.manifests.size() == 2);
        const auto second = checkpoints::decode_manifest(s.manifests[1]);
        REQUIRE(second.has_value());
        CHECK(second->step == 10);
        CHECK(second->packs.size() == 2);  // the first one's for the big file, a new one for the small one
        const auto progress = last<ap::Progress>(s);
        REQUIRE(progress.has_value());
        CHECK(progress->step == 10);
        CHECK(progress->total == 20);
    });

    auto next = lease_of("wc -c < ckpt/big; cat ckpt/n; echo $GPUFERRY_RESUME $GPUFERRY_STEP; ls; [ -e left-over ] && echo dirty; true");
    next.attempt = "att_2";
    next.number = 2;
    next.generation = 2;
    next.step = 10;
    next.checkpoint = lease.checkpoint;
    bench.daemon.send(next);
    REQUIRE(bench.exited("att_2").has_value());
    CHECK(bench.log("att_2") == "3000000\n2\n1 10\nckpt\nout\n");
    bench.daemon.with([](DaemonState& s) { CHECK(last<ap::Started>(s)->restored_generation == 2); });
}

TEST_CASE("a program that saves on request is asked before a checkpoint is taken") {
    Bench bench;
    auto agent = bench.start();
    bench.enrolled();
    auto lease = lease_of(
        "trap 'exit 0' TERM; echo up; n=0; while :; do if [ -e ckpt/save.now ]; then n=$((n+1)); echo $n > ckpt/state; rm ckpt/save.now; fi;"
        "sleep 0.02; done");
    lease.checkpoint.declared = true;
    lease.checkpoint.path = "./ckpt/";
    lease.checkpoint.trigger_touch = "ckpt/save.now";
    bench.daemon.send(lease);
    REQUIRE(bench.log_has("up"));
    bench.daemon.send(ap::CheckpointNow{.attempt = "att_1"});
    REQUIRE(bench.daemon.wait([](const DaemonState& s) { return s.manifests.size() == 1; }));
    bench.daemon.send(ap::Stop{.attempt = "att_1", .reason = "hold", .checkpoint = true});
    REQUIRE(bench.exited().has_value());
    bench.daemon.with([](DaemonState& s) {
        REQUIRE(s.manifests.size() == 2);  // asked once more before the signal
        for (std::size_t i = 0; i < 2; ++i) {
            const auto manifest = checkpoints::decode_manifest(s.manifests[i]);
            REQUIRE(manifest.has_value());
            REQUIRE(manifest->files.size() == 1);
            CHECK(manifest->files[0].sha256 == checkpoints::sha256(std::to_string(i + 1) + "\n"));
        }
    });
}

TEST_CASE("checkpoints are taken at the interval, and not when nothing has changed") {
    Bench bench;
    auto agent = bench.start();
    bench.enrolled();
    auto lease = lease_of("echo 1 > ckpt/f; while [ ! -e go ]; do sleep 0.05; done; echo 2 > ckpt/f; while [ ! -e end ]; do sleep 0.05; done");
    lease.checkpoint.declared = true;
    lease.checkpoint.path = "ckpt";
    lease.checkpoint_every_ms = 200;
    bench.daemon.send(lease);
    const std::string job = bench.folder.path() + "/" + lease.job;
    REQUIRE(bench.daemon.wait([](const DaemonState& s) { return s.manifests.size() == 1; }));
    std::ofstream(job + "/go");
    REQUIRE(bench.daemon.wait([](const DaemonState& s) { return s.manifests.size() == 2; }));
    std::ofstream(job + "/end");
    REQUIRE(bench.exited().has_value());
    bench.daemon.with([](DaemonState& s) { CHECK(s.manifests.size() == 2); });
}

TEST_CASE("a broken generation is reported and the one before it is taken") {
    Bench bench;
    auto agent = bench.start();
    bench.enrolled();
    auto lease = lease_of("echo first > ckpt/f; gpuferry-agent checkpoint; echo second > ckpt/f; gpuferry-agent checkpoint");
    lease.checkpoint.declared = true;
    lease.checkpoint.path = "ckpt";
    bench.daemon.send(lease);
    REQUIRE(bench.exited().has_value());
    bench.daemon.with([](DaemonState& s) {
        REQUIRE(s.manifests.size() == 2);
        const auto second = checkpoints::decode_manifest(s.manifests[1]);
        for (const auto& pack : second->packs)
            if (!s.manifests[0].contains(pack.id.hex()))
                s.packs[pack.id.hex()][static_cast<std::size_t>(pack.chunks.at(0).offset)] ^= 1;
    });
    auto next = lease_of("cat ckpt/f");
    next.attempt = "att_2";
    next.number = 2;
    next.generation = 2;
    next.checkpoint = lease.checkpoint;
    bench.daemon.send(next);
    REQUIRE(bench.exited("att_2").has_value());
    CHECK(bench.log("att_2") == "first\n");
    bench.daemon.with([](DaemonState& s) {
        REQUIRE(s.broken.size() == 1);
        CHECK(s.broken[0] == 2);
        CHECK(last<ap::Started>(s)->restored_generation == 1);
    });
}

TEST_CASE("outputs are published before the exit of a success, and a missing product is no success") {
    Bench bench;
    auto agent = bench.start();
    bench.enrolled();
    auto lease = lease_of("echo result > \"$GPUFERRY_OUTPUT_DIR\"/r.txt");
    lease.outputs = {{.from = "out", .to = ""}};
    lease.success_product = "out/*.txt";
    bench.daemon.send(lease);
    auto exited = bench.exited();
    REQUIRE(exited.has_value());
    CHECK(exited->reason.empty());
    bench.daemon.with([](DaemonState& s) {
        REQUIRE(s.outputs.size() == 1);
        const auto manifest = checkpoints::decode_manifest(s.outputs[0]);
        REQUIRE(manifest.has_value());
        CHECK(manifest->kind == checkpoints::ManifestKind::output);
        REQUIRE(manifest->files.size() == 1);
        CHECK(manifest->files[0].path == "out/r.txt");
    });
    auto lying = lease_of("echo 'Oops, an error occurred'; exit 0");
    lying.attempt = "att_2";
    lying.number = 2;
    lying.outputs = lease.outputs;
    lying.success_product = lease.success_product;
    bench.daemon.send(lying);
    exited = bench.exited("att_2");
    REQUIRE(exited.has_value());
    CHECK(exited->reason == "output_failed");
    bench.daemon.with([](DaemonState& s) { CHECK(s.outputs.size() == 1); });
}

TEST_CASE("a checkpoint that could not be sent while the daemon was away is sent when it is back") {
    Bench bench;
    auto agent = bench.start();
    bench.enrolled();
    auto lease = lease_of("echo up; while [ ! -e go ]; do sleep 0.05; done; echo 1 > ckpt/f; exit 4");
    lease.success_exit = {0, 4};
    lease.checkpoint.declared = true;
    lease.checkpoint.path = "ckpt";
    bench.daemon.send(lease);
    REQUIRE(bench.log_has("up"));
    bench.daemon.away();
    const std::string job = bench.folder.path() + "/" + lease.job;
    std::ofstream(job + "/go");
    // The packs and the candidate wait on the disk.
    REQUIRE(eventually([&] { return fs::exists(bench.folder.path() + "/.gpuferry/spool/1/manifest.json"); }));
    const pid_t worker = agent.child("gpuferry-worker");
    ::kill(worker, SIGKILL);  // and survive the worker
    REQUIRE(eventually([&] { const auto now = agent.child("gpuferry-worker"); return now > 0 && now != worker; }));
    bench.daemon.with([](DaemonState& s) { CHECK(s.manifests.empty()); });
    bench.daemon.back();
    const auto exited = bench.exited();
    REQUIRE(exited.has_value());
    CHECK(exited->exit_code == 4);
    bench.daemon.with([](DaemonState& s) { CHECK(s.manifests.size() == 1); });
}

TEST_CASE("a pipe in the trigger's place holds nothing up") {
    Bench bench;
    auto agent = bench.start();
    bench.enrolled();
    auto lease = lease_of("mkfifo ckpt/save.now; echo 1 > ckpt/state; trap 'exit 0' TERM; echo up; while :; do sleep 0.02; done");
    lease.checkpoint.declared = true;
    lease.checkpoint.path = "ckpt";
    lease.checkpoint.trigger_touch = "ckpt/save.now";
    bench.daemon.send(lease);
    REQUIRE(bench.log_has("up"));
    bench.daemon.send(ap::CheckpointNow{.attempt = "att_1"});
    CHECK(bench.daemon.wait([](const DaemonState& s) { return s.manifests.size() == 1; }, 20));
    bench.daemon.send(ap::Stop{.attempt = "att_1", .reason = "hold", .checkpoint = true});
    CHECK(bench.exited("att_1", 20).has_value());
}

TEST_CASE("a checkpoint of the whole folder comes back with the code that it left out") {
    Bench bench;
    TemporaryFolder source;
    fs::create_directories(source.path() + "/src/pkg");
    std::ofstream(source.path() + "/src/run.sh") << "cat pkg/data state; echo new > state; exit 3\n";
    std::ofstream(source.path() + "/src/pkg/data") << "code\n";
    std::ofstream(source.path() + "/src/state") << "initial\n";
    REQUIRE(std::system(("tar -C " + source.path() + "/src -cf " + source.path() + "/code.tar .").c_str()) == 0);
    std::ifstream file(source.path() + "/code.tar", std::ios::binary);
    const std::string blob((std::istreambuf_iterator<char>(file)), {});
    const auto hash = checkpoints::sha256(blob).hex();
    bench.daemon.with([&](DaemonState& s) { s.blobs[hash] = blob; });
    auto agent = bench.start();
    bench.enrolled();
    auto lease = lease_of("sh run.sh");
    lease.code_sha256 = hash;
    lease.success_exit = {0, 3};
    lease.checkpoint.declared = true;
    lease.checkpoint.path = ".";
    lease.checkpoint.exclude = {"*.sh", "data"};
    bench.daemon.send(lease);
    REQUIRE(bench.exited().has_value());
    CHECK(bench.log() == "code\ninitial\n");
    lease.attempt = "att_2";
    lease.number = 2;
    lease.generation = 1;
    bench.daemon.send(lease);
    const auto exited = bench.exited("att_2");
    REQUIRE(exited.has_value());
    CHECK(exited->exit_code == 3);
    CHECK(bench.log("att_2") == "code\nnew\n");
}

TEST_CASE("restored files keep their order for another user too") {
    if (::getuid() != 0) {
        gf::test::skip("dropping to another user needs root");
        return;
    }
    Bench bench;
    fs::permissions(bench.folder.path(), fs::perms(0755));
    auto agent = bench.start();
    bench.enrolled();
    // Large enough that the kernel's clock for files ticks between one and the next.
    auto lease = lease_of("for n in 3 1 2; do head -c 8000000 /dev/urandom > ckpt/m-$n; sleep 0.02; done");
    lease.user = "nobody";
    lease.checkpoint.declared = true;
    lease.checkpoint.path = "ckpt";
    bench.daemon.send(lease);
    REQUIRE(bench.exited().has_value());
    lease.attempt = "att_2";
    lease.number = 2;
    lease.generation = 1;
    lease.run = "cd ckpt && stat -c '%U %n' $(ls -tcr)";
    bench.daemon.send(lease);
    REQUIRE(bench.exited("att_2").has_value());
    CHECK(bench.log("att_2") == "nobody m-3\nnobody m-1\nnobody m-2\n");
}

TEST_CASE("an output that is a link is published as what it leads to, or is told") {
    Bench bench;
    auto agent = bench.start();
    bench.enrolled();
    auto lease = lease_of("mkdir real; echo result > real/r.txt; ln -s /etc/hostname real/foreign; rm -rf results; ln -s $PWD/real results");
    lease.outputs = {{.from = "results", .to = ""}};
    bench.daemon.send(lease);
    auto exited = bench.exited();
    REQUIRE(exited.has_value());
    CHECK(exited->reason.empty());
    bench.daemon.with([](DaemonState& s) {
        REQUIRE(s.outputs.size() == 1);
        const auto manifest = checkpoints::decode_manifest(s.outputs[0]);
        REQUIRE(manifest.has_value());
        REQUIRE(manifest->files.size() == 1);
        CHECK(manifest->files[0].path == "results/r.txt");
        const auto told = last<ap::Preparing>(s);
        REQUIRE(told.has_value());
        CHECK(told->detail.find("1 links") != std::string::npos);
        CHECK(told->detail.find("results/foreign") != std::string::npos);
    });
    auto outside = lease_of("rm -rf results; ln -s /etc results");
    outside.attempt = "att_2";
    outside.number = 2;
    outside.outputs = lease.outputs;
    bench.daemon.send(outside);
    exited = bench.exited("att_2");
    REQUIRE(exited.has_value());
    CHECK(exited->reason == "output_failed");
    CHECK(exited->detail.find("\"results\" is a link") != std::string::npos);
}

TEST_CASE("a torn file is no checkpoint when the shell outlives the trainer that was killed") {
    Bench bench;
    auto agent = bench.start();
    bench.enrolled();
    auto lease = lease_of("sh -c 'while :; do head -c 100000 /dev/zero >> ckpt/model.pt; sleep 0.02; done' & sleep 0.5; kill -9 $!; wait $!; exit 137");
    lease.checkpoint.declared = true;
    lease.checkpoint.path = "ckpt";
    bench.daemon.send(lease);
    const auto exited = bench.exited();
    REQUIRE(exited.has_value());
    CHECK(exited->exit_code == 137);
    bench.daemon.with([](DaemonState& s) { CHECK(s.manifests.empty()); });
}

TEST_CASE("a torn file is no checkpoint either when it is looked at long after the end") {
    Bench bench;
    auto agent = bench.start();
    bench.enrolled();
    auto lease = lease_of("echo up; while [ ! -e go ]; do sleep 0.05; done; head -c 100000 /dev/zero > ckpt/model.pt; exit 137");
    lease.checkpoint.declared = true;
    lease.checkpoint.path = "ckpt";
    bench.daemon.send(lease);
    REQUIRE(bench.log_has("up"));
    const pid_t worker = agent.child("gpuferry-worker");
    ::kill(worker, SIGSTOP);  // as one that waits for memory, or has just been started again
    std::ofstream(bench.folder.path() + "/" + lease.job + "/go");
    REQUIRE(eventually([&] { return agent.child("gpuferry-keeper") <= 0; }));
    std::this_thread::sleep_for(std::chrono::milliseconds(2'300));
    ::kill(worker, SIGCONT);
    REQUIRE(bench.exited().has_value());
    bench.daemon.with([](DaemonState& s) { CHECK(s.manifests.empty()); });
}

}  // namespace
}  // namespace gf::agent_test
