// What docker says, judged; and what it is told.
#include <doctest/doctest.h>

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>

#include "agent/command.hpp"
#include "agent/container_engine.hpp"
#include "agent/engine_words.hpp"
#include "agent/job_order.hpp"
#include "agent_process.hpp"

namespace gf::agent {
namespace {

TEST_CASE("a pull that fails is the spec's, the machine's or the moment's fault") {
    struct Row {
        const char* says;
        EngineFault fault;
    };
    const Row rows[] = {
        {"Error response from daemon: manifest for example/x:9 not found: manifest unknown: manifest unknown", EngineFault::spec},
        {"Error response from daemon: pull access denied for x, repository does not exist or may require 'docker login'", EngineFault::spec},
        {"Error response from daemon: denied", EngineFault::spec},
        {"Error response from daemon: Head \"https://ghcr.io/v2/x/manifests/1\": unauthorized", EngineFault::spec},
        {"Error response from daemon: Get \"https://r.example.org/v2/\": unauthorized: incorrect username or password", EngineFault::spec},
        {"no matching manifest for linux/arm64/v8 in the manifest list entries", EngineFault::spec},
        {"Error: choosing image instance: no image found in manifest list for architecture arm64", EngineFault::spec},
        {"invalid reference format: repository name must be lowercase", EngineFault::spec},
        {"image operating system \"windows\" cannot be used on this platform", EngineFault::spec},
        // A limit invites to authenticate; that does not make it the spec's fault.
        {"toomanyrequests: You have reached your unauthenticated pull rate limit. unauthorized increase: authentication required",
         EngineFault::busy},
        {"error pulling image configuration: download failed after attempts=6: net/http: TLS handshake timeout", EngineFault::busy},
        {"received unexpected HTTP status: 503 Service Unavailable", EngineFault::busy},
        {"dial tcp: lookup registry-1.docker.io on 127.0.0.53:53: Temporary failure in name resolution", EngineFault::busy},
        {"read tcp 10.0.0.2:443: read: connection reset by peer", EngineFault::busy},
        {"unexpected EOF", EngineFault::busy},
        // As the containerd image store has it.
        {"Error response from daemon: failed to resolve reference \"docker.io/library/x:9\": docker.io/library/x:9: not found", EngineFault::spec},
        {"no match for platform in manifest sha256:4f4f: not found", EngineFault::spec},
        {"error from registry: denied", EngineFault::spec},
        {"failed to get reader from content store: content digest sha256:4f4f: not found", EngineFault::host},
        {"failed to stat parent: snapshot sha256:4f4f does not exist: not found", EngineFault::host},
        {"failed to extract layer: write /var/lib/containerd/x: no space left on device: not found", EngineFault::host},
        {"failed to copy: stream error: stream ID 5; INTERNAL_ERROR; received from peer", EngineFault::busy},
        {"http2: server sent GOAWAY and closed the connection; LastStreamID=19", EngineFault::busy},
        {"Get \"https://r.example.org/v2/\": remote error: tls: handshake failure", EngineFault::busy},
        // A full disk breaks connections too.
        {"write /var/lib/docker/tmp/GetImageBlob1: no space left on device\nunexpected EOF", EngineFault::host},
        {"Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?", EngineFault::host},
        {"something that nobody has seen", EngineFault::host},
        {"", EngineFault::host},
    };
    for (const auto& row : rows) {
        CAPTURE(row.says);
        CHECK(judge_pull(row.says).fault == row.fault);
    }
    CHECK(judge_pull("first\nError: manifest unknown\nlast\n").said == "Error: manifest unknown");
    CHECK(judge_pull(std::string(100'000, 'x')).said.size() == 500);
}

TEST_CASE("only waiting between tries uses up a pull's patience, and a pull that runs is not cut") {
    const agent_test::TemporaryFolder folder;
    // Each pull takes longer than the patience; the first one is broken off by the registry.
    std::ofstream(folder.path() + "/docker") << "#!/bin/sh\ncase $1 in\nps) ;;\nimage) exit 1 ;;\npull)\n    sleep 4\n    echo x >> "
                                             << folder.path() << "/pulls\n    test $(wc -l < " << folder.path()
                                             << "/pulls) = 2 || { echo 'unexpected EOF' >&2; exit 1; }\n    ;;\nesac\n";
    ::chmod((folder.path() + "/docker").c_str(), 0755);
    const char* path = std::getenv("PATH");
    const std::string before = path != nullptr ? path : "/usr/bin:/bin";
    set_command_environment({{"PATH", folder.path() + ":" + before}});
    const auto engine = ContainerEngine::find("gf-test", [] { return false; });
    set_command_environment({{"PATH", before}});
    REQUIRE(engine.has_value());
    int told = 0;
    const ContainerEngine::PullOrder order{.image = "x",
                                           .registry = {},
                                           .config = {},
                                           .tell = [&told](const std::string&) { ++told; },
                                           .patience = Millis{3'000}};
    const auto pulled = engine->pull(order);
    CHECK_MESSAGE(pulled.has_value(), (pulled ? std::string() : pulled.error().message));
    CHECK(told == 1);
    auto impatient = order;
    impatient.patience = Millis{1'000};  // less than the first pause
    CHECK_FALSE(engine->pull(impatient).has_value());
    CHECK(told == 1);
}

TEST_CASE("a container that does not start: the machine is blamed unless it can only be the image") {
    const auto no_toolkit =
        judge_start("docker: Error response from daemon: could not select device driver \"\" with capabilities: [[gpu]].\nSee 'docker run --help'.");
    CHECK(no_toolkit.fault == EngineFault::host);
    CHECK(no_toolkit.said.find("NVIDIA container toolkit") != std::string::npos);
    CHECK(judge_start("nvidia-container-cli: initialization error: nvml error: driver not loaded").fault == EngineFault::host);
    CHECK(judge_start("exec /bin/sh: exec format error").fault == EngineFault::spec);
    CHECK(judge_start("docker: unknown trouble.\nSee 'docker run --help'.\n").said == "docker: unknown trouble.");
}

TEST_CASE("layers of a pull are counted, however the output is cut") {
    const std::string output =
        "2.1: Pulling from example/image\n4f4fb700ef54: Pulling fs layer\n0a1b2c3d4e5f: Already exists\n4f4fb700ef54: Download complete\n"
        "aaaaaaaaaaaa: Waiting\nDigest: sha256:00\n";
    for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, output.size()}) {
        PullProgress progress;
        CHECK(progress.text().empty());
        for (std::size_t at = 0; at < output.size(); at += piece) progress.feed(std::string_view(output).substr(at, piece));
        CHECK(progress.text() == "50 %, 1 of 3 layers ready");
    }
    PullProgress endless;
    for (int i = 0; i < 100; ++i) endless.feed(std::string(1000, 'a'));
    endless.feed("\n4f4fb700ef54: Pull complete\n");
    CHECK(endless.text() == "100 %, 1 of 1 layers ready");
}

TEST_CASE("an account goes through a line and back, with what a home may hold") {
    const UserAccount account{.uid = 1234, .gid = 50, .groups = {50, 44}, .name = "trainer", .home = "/home/a:b"};
    const auto read = read_account("a warning\n" + account_line(account) + "\n");
    REQUIRE(read.has_value());
    CHECK(read->uid == 1234);
    CHECK(read->gid == 50);
    CHECK(read->groups == account.groups);
    CHECK(read->name == "trainer");
    CHECK(read->home == "/home/a:b");
    CHECK_FALSE(read_account("account:1").has_value());
    CHECK_FALSE(read_account("nothing").has_value());
}

TEST_CASE("a container is given the GPUs that the agent has, in the form that docker wants") {
    CHECK(container_gpus({}) == "all");
    CHECK(container_gpus({{"CUDA_VISIBLE_DEVICES", "0,2"}, {"NVIDIA_VISIBLE_DEVICES", "all"}}) == "0,2");
    CHECK(container_gpus({{"CUDA_VISIBLE_DEVICES", ""}}).empty());
    CHECK(container_gpus({{"NVIDIA_VISIBLE_DEVICES", "void"}}).empty());
    const ContainerEngine engine;
    const auto words = engine.run_command_line({.name = "n", .attempt = "a", .mark = "m", .image = "i", .folder = "/w/j", .box = "/w/b",
                                                .agent = "/w/bin/gpuferry-agent", .door = "/w/b/d", .shm_bytes = 0, .gpus = "0,2"});
    const std::vector<std::string> wanted{"--gpus", "\"device=0,2\""};
    CHECK_FALSE(std::ranges::search(words, wanted).empty());
    CHECK(words.back() == "/w/b/d");
}

TEST_CASE("a container's name is one for docker, whatever the attempt is called") {
    CHECK(container_name("att_1") == "gpuferry-att_1");
    CHECK(container_name("a b/c\n") == "gpuferry-a_b_c_");
}

TEST_CASE("an order and an end survive the line to keeper and container") {
    JobOrder order;
    order.mark = "m";
    order.entrypoint = {"/entry", "two words"};
    order.client = {"docker", "run"};
    order.client_env = {"PATH=/bin"};
    order.remove = {"docker", "rm"};
    order.inspect = {"docker", "inspect"};
    order.door = "/w/door";
    order.path_more = "/w/bin";
    order.saves_in = "/w/job/ckpt";
    order.give_back = true;
    order.owner_uid = 1000;
    order.owner_gid = 1001;
    order.groups = {7};
    const auto back = order_of(frame_of(order));
    CHECK(back.contained());
    CHECK(back.entrypoint == order.entrypoint);
    CHECK(back.client == order.client);
    CHECK(back.remove == order.remove);
    CHECK(back.inspect == order.inspect);
    CHECK(back.door == order.door);
    CHECK(back.path_more == order.path_more);
    CHECK(back.saves_in == order.saves_in);
    CHECK(back.give_back);
    CHECK(back.owner_uid == 1000);
    CHECK(back.owner_gid == 1001);
    CHECK(exit_of(frame_of("m", {.detail = "d", .spec_fault = true})).spec_fault);
    const auto end = exit_of(frame_of("m", {.detail = "d", .ended_ms = 7, .newest_ms = 6, .unended = true}));
    CHECK(end.ended_ms == 7);
    CHECK(end.newest_ms == 6);
    CHECK(end.unended);
}

}  // namespace
}  // namespace gf::agent
