// The agent's pure judgements: settings, environment, endings, dead-man switch, message box.
#include <doctest/doctest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "agent/clock.hpp"
#include "agent/dead_man.hpp"
#include "agent/ending.hpp"
#include "agent/job_environment.hpp"
#include "agent/outbox.hpp"
#include "agent/settings.hpp"
#include "agent_process.hpp"
#include "fake_daemon.hpp"

namespace gf::agent {
namespace {

namespace ap = agent_protocol;

std::map<std::string, std::string> good_env() {
    return {{"GPUFERRY_URL", "https://ferry.example.org"}, {"GPUFERRY_MACHINE", "gf-x"}, {"GPUFERRY_ENROL", "e"}};
}

TEST_CASE("the daemon's address is read, and odd ones are refused") {
    const auto plain = parse_url("http://127.0.0.1:8471/");
    REQUIRE(plain.has_value());
    CHECK(plain->port == 8471);
    CHECK(plain->path.empty());
    CHECK(plain->is_loopback());
    CHECK(plain->authority() == "127.0.0.1:8471");
    const auto tls = parse_url("https://ferry.example.org/prefix/");
    REQUIRE(tls.has_value());
    CHECK(tls->tls);
    CHECK(tls->port == 443);
    CHECK(tls->path == "/prefix");
    CHECK(tls->authority() == "ferry.example.org");
    const auto six = parse_url("http://[::1]:80");
    REQUIRE(six.has_value());
    CHECK(six->host == "::1");
    CHECK(six->is_loopback());
    CHECK_FALSE(parse_url("http://127.example.org")->is_loopback());
    for (const char* bad : {"", "ferry.example.org", "ftp://x", "https://", "https://u:p@x", "https://x/?a=b", "https://x#y", "https://x:99999", "https://x:0", "https://x:", "https://x:8x", "https://[::1", "https://[x]", "https://a b", "https://x/a b", "HTTPS//x"}) {
        CAPTURE(bad);
        CHECK_FALSE(parse_url(bad).has_value());
    }
}

TEST_CASE("settings that would not work are refused by name") {
    CHECK(read_settings(good_env()).has_value());
    struct Row {
        std::string name, value;
    };
    for (const auto& row : std::vector<Row>{{"GPUFERRY_URL", ""},
                                            {"GPUFERRY_URL", "nonsense"},
                                            {"GPUFERRY_URL", "http://203.0.113.7:8471"},
                                            {"GPUFERRY_MACHINE", ""},
                                            {"GPUFERRY_ENROL", ""},
                                            {"GPUFERRY_PIN", "abc"},
                                            {"GPUFERRY_PIN", std::string(64, 'g')}}) {
        auto env = good_env();
        env[row.name] = row.value;
        const auto read = read_settings(env);
        CAPTURE(row.name);
        CAPTURE(row.value);
        REQUIRE_FALSE(read.has_value());
        CHECK(read.error().field == row.name);
    }
    auto env = good_env();
    env["GPUFERRY_PIN"] = std::string(64, 'A');
    env["RUNPOD_POD_ID"] = "p";
    const auto read = read_settings(env);
    REQUIRE(read.has_value());
    CHECK(read->pin == std::string(64, 'a'));
    CHECK(read->notice == Millis{5'000});
}

TEST_CASE("the job's environment has the spec's values and never the machine's keys") {
    ap::Lease lease;
    lease.number = 4;
    lease.task_index = 1;
    lease.task_count = 3;
    lease.env = {{"PATH_LIKE", "a b"}, {"GPUFERRY_ATTEMPT", "forged"}, {"bad=name", "x"}, {"NULS", std::string("a\0b", 3)}};
    lease.secret_env = {{"HF_TOKEN", "hf_EXAMPLE"}};
    lease.checkpoint.path = "ckpt";
    lease.outputs = {{.from = "results", .to = ""}};
    const auto env = job_environment(lease, {.machine_env = {{"PATH", "/bin"}, {"CUDA_VISIBLE_DEVICES", "0"}, {"RUNPOD_API_KEY", "k"},
                                                             {"CONTAINER_API_KEY", "k"}, {"GPUFERRY_ENROL", "k"}, {"JUPYTER_TOKEN", "k"},
                                                             {"VULTR_API_KEY", "k"}},
                                             .folder = "/w/job",
                                             .mark = "boot.att",
                                             .socket = "/w/s",
                                             .command_folder = "/w/bin",
                                             .user = {},
                                             .home = {},
                                             .generation = 2,
                                             .step = 20});
    const auto has = [&](const std::string& line) { return std::ranges::find(env, line) != env.end(); };
    for (const char* line : {"PATH=/bin:/w/bin", "CUDA_VISIBLE_DEVICES=0", "PATH_LIKE=a b", "HF_TOKEN=hf_EXAMPLE", "GPUFERRY_ATTEMPT=4",
                             "GPUFERRY_RESUME=1", "GPUFERRY_STEP=20", "GPUFERRY_TASK_INDEX=1", "GPUFERRY_TASK_COUNT=3",
                             "GPUFERRY_CHECKPOINT_DIR=/w/job/ckpt", "GPUFERRY_OUTPUT_DIR=/w/job/results", "GPUFERRY_SOCKET=/w/s",
                             "GPUFERRY_MARK=boot.att"}) {
        CAPTURE(line);
        CHECK(has(line));
    }
    for (const auto& line : env) {
        CHECK_FALSE(line.ends_with("=k"));
        CHECK(line.find("bad=name") == std::string::npos);
        CHECK_FALSE(line.starts_with("NULS="));
    }
}

JobExit exited_with(int code) { return {.started = true, .wait_status = code << 8, .detail = {}}; }
JobExit killed_by(int number, bool by_us) { return {.started = true, .wait_status = number, .killed = by_us, .detail = {}}; }

TEST_CASE("exit code and signal are told apart") {
    CHECK(exit_code_of(exited_with(0)) == 0);
    CHECK_FALSE(signal_of(exited_with(0)).has_value());
    CHECK(signal_of(killed_by(9, false)) == 9);
    CHECK_FALSE(exit_code_of(killed_by(9, false)).has_value());
    CHECK_FALSE(exit_code_of(JobExit{}).has_value());
    CHECK_FALSE(signal_of(JobExit{}).has_value());
    ap::Lease lease;
    lease.success_exit = {0, 149};
    CHECK(exit_allowed(lease, exited_with(149)));
    CHECK_FALSE(exit_allowed(lease, exited_with(1)));
    CHECK_FALSE(exit_allowed(lease, killed_by(9, false)));
}

TEST_CASE("a program that may have been killed in the middle of a save is not checkpointed at its end") {
    const auto at = [](std::int64_t ms) { return instant_of(1'000'000 + ms); };
    struct Row {
        const char* what;
        JobExit exit;
        std::optional<std::int64_t> newest, signalled;
        std::int64_t ended;
        std::string marker;
        bool safe;
    };
    const std::vector<Row> rows{
        {"ran to its end", exited_with(0), 0, {}, 10, "", true},
        {"ran to an end that the spec allows", exited_with(3), 0, {}, 10, "", true},
        {"the shell reports a trainer that was killed in its save", exited_with(137), 0, {}, 10, "", false},
        {"the shell reports a crash in a save", exited_with(139), 0, {}, 10, "", false},
        {"a launcher failed while something was written", exited_with(1), 0, {}, 10, "", false},
        {"failed by itself, long quiet", exited_with(1), 0, {}, 5'000, "", true},
        {"saved after our signal, then failed", exited_with(143), 3'000, 1'000, 3'010, "", true},
        {"nothing there", killed_by(9, false), {}, {}, 10, "", true},
        {"killed from outside while writing", killed_by(9, false), 0, {}, 10, "", false},
        {"killed from outside, long quiet", killed_by(9, false), 0, {}, 5'000, "", true},
        {"died of our signal while writing", killed_by(15, false), 990, 1'000, 1'010, "", false},
        {"died of our signal, long quiet", killed_by(15, false), 0, 5'000, 5'010, "", true},
        {"saved after our signal, then died of it", killed_by(15, false), 3'000, 1'000, 3'010, "", true},
        {"still saving when the grace ran out", killed_by(9, true), 30'900, 1'000, 31'000, "", false},
        {"saved, then hung, then the grace ran out", killed_by(9, true), 3'000, 1'000, 31'000, "", true},
        {"exit code, but a child was killed by us while writing", {.started = true, .wait_status = 0, .killed = true, .detail = {}}, 990, 0, 1'000, "", false},
        {"a marker tells", killed_by(9, true), 1'000, 0, 1'000, "done.json", true},
        {"does not end", {.started = true, .wait_status = 0, .detail = {}, .unended = true}, 0, {}, 31'000, "", false},
        {"does not end, and a marker tells of the last save only", {.started = true, .detail = {}, .unended = true}, 0, {}, 31'000, "done.json", false},
    };
    for (const auto& row : rows) {
        CAPTURE(row.what);
        ap::Lease lease;
        lease.success_exit = {0, 3};
        lease.checkpoint.marker = row.marker;
        LastWrites writes{.newest = {}, .signalled = {}, .ended = at(row.ended)};
        if (row.newest) writes.newest = at(*row.newest);
        if (row.signalled) writes.signalled = at(*row.signalled);
        CHECK(final_snapshot_is_safe(lease, row.exit, writes) == row.safe);
    }
}

TEST_CASE("a container's end: what was told stands, what was not is nobody's success") {
    struct Row {
        const char* what;
        JobExit exit;
        ContainerEnd end;
        int wait_status;
        bool killed, lost, unended, oom;
    };
    const JobExit good = exited_with(0);
    const JobExit by_us = killed_by(9, true);
    const JobExit leader_failed = exited_with(3);
    const std::vector<Row> rows{
        {"told", good, {.told = true, .leader_told = true}, 0, false, false, false, false},
        {"told, and then the engine hangs", good, {.told = true, .leader_told = true, .gave_up = true}, 0, false, false, false, false},
        {"told, killed by order", by_us, {.told = true, .kill_ordered = true}, SIGKILL, true, false, false, false},
        {"told, of memory", by_us, {.told = true, .oom = true}, SIGKILL, true, false, false, true},
        {"told, after the client was killed", by_us, {.told = true, .client_lost = true}, SIGKILL, true, true, false, false},
        {"ended from outside", good, {}, SIGKILL, true, true, false, false},
        {"ended from outside after the leader", leader_failed, {.leader_told = true}, SIGKILL, true, true, false, false},
        {"ended for memory", good, {.oom = true}, SIGKILL, true, false, false, true},
        {"ended by order", good, {.kill_ordered = true}, SIGKILL, true, false, false, false},
        {"does not end", good, {.gave_up = true, .kill_ordered = true}, SIGKILL, true, true, true, false},
        {"does not end after the leader", leader_failed, {.leader_told = true, .gave_up = true}, leader_failed.wait_status, true, true, true, false},
    };
    for (const auto& row : rows) {
        CAPTURE(row.what);
        const auto exit = judge_container(row.exit, row.end);
        CHECK(exit.wait_status == row.wait_status);
        CHECK(exit.killed == row.killed);
        CHECK(exit.keeper_lost == row.lost);
        CHECK(exit.unended == row.unended);
        CHECK(exit.oom == row.oom);
        CHECK(exit.detail.empty() == !row.lost);
    }
    CHECK(judge_container({.detail = {}}, {.gave_up = true}).keeper_lost);
    CHECK_FALSE(judge_container({.detail = "no such image"}, {.oom = true}).killed);
}

TEST_CASE("products are found by their pattern, below the job's folder only") {
    const agent_test::TemporaryFolder folder;
    std::filesystem::create_directories(folder.path() + "/out/a");
    std::ofstream(folder.path() + "/out/a/m.ckpt") << "x";
    CHECK(product_exists(folder.path(), "out/a/m.ckpt"));
    CHECK(product_exists(folder.path(), "out/*/*.ckpt"));
    CHECK(product_exists(folder.path(), "out/?"));
    CHECK_FALSE(product_exists(folder.path(), "out/*.ckpt"));
    CHECK_FALSE(product_exists(folder.path(), "../*"));
    CHECK_FALSE(product_exists(folder.path(), "/etc/passwd"));
    CHECK_FALSE(product_exists(folder.path(), ""));
    CHECK(newest_change(folder.path()).has_value());
    CHECK_FALSE(newest_change(folder.path() + "/none").has_value());
}

TEST_CASE("when a folder was last changed is told by this machine's clock alone") {
    const agent_test::TemporaryFolder folder;
    const std::string file = folder.path() + "/m.ckpt";
    std::ofstream(file) << "x";
    for (const auto hours : {-5, 5}) {
        std::filesystem::last_write_time(file, std::filesystem::file_time_type::clock::now() + std::chrono::hours(hours));
        const auto newest = newest_change(folder.path());
        REQUIRE(newest.has_value());
        CHECK(*newest <= wall_time() + Millis{1'000});
        CHECK(*newest >= wall_time() - Millis{60'000});
    }
}

TEST_CASE("the dead-man switch fires at the silence or at the reserved end, whichever comes first") {
    const DeadManClock clock{.last_contact = Millis{1'000'000}, .silence_max = Millis{7'200'000}, .reserved_end = {}};
    CHECK(dead_man_verdict(clock, Millis{1'000'000}) == DeadManVerdict::alive);
    CHECK(dead_man_verdict(clock, Millis{8'199'999}) == DeadManVerdict::alive);
    CHECK(dead_man_verdict(clock, Millis{8'200'000}) == DeadManVerdict::end_machine);
    auto reserved = clock;
    reserved.reserved_end = Millis{1'060'000};
    CHECK(dead_man_verdict(reserved, Millis{1'059'999}) == DeadManVerdict::alive);
    CHECK(dead_man_verdict(reserved, Millis{1'060'000}) == DeadManVerdict::stop_job);      // heard a minute ago
    CHECK(dead_man_verdict(reserved, Millis{1'200'000}) == DeadManVerdict::end_machine);
}

TEST_CASE("a machine ends itself by what its provider left it, and by nothing else") {
    const std::map<std::string, std::string> vast{{"CONTAINER_ID", "77"}, {"CONTAINER_API_KEY", "vk"}};
    auto calls = self_end_calls(vast, false);
    REQUIRE(calls.size() == 1);
    CHECK(calls[0].method == "DELETE");
    CHECK(calls[0].base == "https://console.vast.ai");
    CHECK(calls[0].target == "/api/v0/instances/77/");
    calls = self_end_calls(vast, true);
    REQUIRE(calls.size() == 1);
    CHECK(calls[0].method == "PUT");
    CHECK(calls[0].body == R"({"state":"stopped"})");
    calls = self_end_calls({{"RUNPOD_POD_ID", "p1"}, {"RUNPOD_API_KEY", "rk"}}, true);
    REQUIRE(calls.size() == 2);
    CHECK(calls[0].base + calls[0].target == "https://api.runpod.io/v2/pods/p1");
    CHECK(calls[1].body.find("podTerminate") != std::string::npos);
    CHECK(self_end_calls({{"CONTAINER_ID", "77"}}, false).empty());
    CHECK(self_end_calls({}, false).empty());
}

TEST_CASE("the calls are made until one is accepted") {
    agent_test::FakeDaemon provider;
    provider.with([](agent_test::DaemonState& s) { s.other_status = 500; });
    const auto calls = self_end_calls({{"CONTAINER_ID", "77"}, {"CONTAINER_API_KEY", "vk"}, {"VAST_API_URL", provider.url()}}, false);
    CHECK_FALSE(end_this_machine(calls, 1, [] { return false; }));
    // Vast.ai answers 404 for a key without the right to it; the machine that asks is there.
    provider.with([](agent_test::DaemonState& s) { s.other_status = 404; });
    CHECK_FALSE(end_this_machine(calls, 1, [] { return false; }));
    provider.with([](agent_test::DaemonState& s) { s.other_status = 200; });
    CHECK(end_this_machine(calls, 5, [] { return false; }));
    provider.with([](agent_test::DaemonState& s) {
        REQUIRE(s.others.size() == 3);
        CHECK(s.others[1].method == "DELETE");
        CHECK(s.others[1].target == "/api/v0/instances/77/");
        CHECK(s.others[1].authorization == "Bearer vk");
    });
    CHECK_FALSE(end_this_machine(calls, 5, [] { return true; }));
}

TEST_CASE("messages are numbered, kept until acknowledged, and survive a worker") {
    std::vector<std::string> sent;
    std::string kept;
    const auto send = [&](std::string text) { sent.push_back(std::move(text)); };
    const auto keep = [&](std::string text) { kept = std::move(text); };
    const auto seqs = [&] {
        std::vector<std::int64_t> found;
        for (const auto& text : sent) found.push_back(ap::decode_from_agent(text)->seq);
        sent.clear();
        return found;
    };
    Outbox box("boot", "", send, keep);
    box.push(ap::Notice{.kind = "a"});
    box.set_progress({.attempt = "x", .step = 1});
    box.set_progress({.attempt = "x", .step = 2});
    box.push_heartbeat({});
    CHECK(sent.empty());
    box.opened({});
    CHECK(seqs() == std::vector<std::int64_t>{0, 1, 2});  // hello, the notice, only the newest progress
    box.push(ap::Notice{.kind = "b"});
    CHECK(seqs() == std::vector<std::int64_t>{3});
    box.acknowledged(1);
    box.closed();
    Outbox next("boot", kept, send, keep);
    CHECK_FALSE(next.empty());
    next.push(ap::Notice{.kind = "line\nbreak"});
    next.opened({});
    CHECK(seqs() == std::vector<std::int64_t>{0, 2, 3, 4});
    next.acknowledged(4);
    CHECK(next.empty());
    Outbox last("boot", kept, send, keep);
    CHECK(last.empty());
    last.push(ap::Notice{.kind = "c"});
    last.opened({});
    CHECK(seqs() == std::vector<std::int64_t>{0, 5});  // a number is never used twice in one boot
}

}  // namespace
}  // namespace gf::agent
