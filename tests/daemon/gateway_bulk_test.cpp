// Logs, code, packs and checkpoints over the agents' door.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "daemon/gateway/log_files.hpp"
#include "tests/daemon/support/gateway_bench.hpp"

namespace gf::test {
namespace {

namespace cp = checkpoints;

/// A job, its task and two attempts in the database; generations are committed as the core would.
struct CheckpointBench : GatewayBench {
    std::string token;
    int committed{0};
    bool fenced{false};

    CheckpointBench() {
        JobRecord job;
        job.id = gate.job;
        job.name = "j";
        job.project = "default";
        job.reason = "submitted";
        job.principal = "socket";
        job.created_at = core->now();
        job.updated_at = core->now();
        TaskRecord task;
        task.id = gate.task;
        task.job = gate.job;
        task.reason = "submitted";
        task.created_at = core->now();
        task.waiting_since = core->now();
        core->commit({PutJob{job, std::nullopt}, PutTask{task, std::nullopt}});
        core->script = [this](const Event& event) -> std::optional<ApiResult> {
            if (const auto* offered = std::get_if<CheckpointOffered>(&event)) {
                if (fenced)
                    return ApiResult{.status = 409, .json = {}, .location = {}, .error = Error{.kind = ErrorKind::conflict, .message = "the attempt is not current"}};
                ++committed;
                core->commit({PutCheckpoint{{.id = CheckpointId{"ckp_" + std::string(24, '0') + std::to_string(10 + committed)}, .task = gate.task,
                                             .job = gate.job, .generation = committed, .attempt = gate.attempt_number, .step = offered->step,
                                             .size = offered->size, .manifest_sha256 = offered->manifest_sha256, .detail = {}, .committed_at = core->now()}}});
                return ApiResult{.status = 200, .json = "{\"generation\":" + std::to_string(committed) + "}", .location = {}, .error = {}};
            }
            if (const auto* broken = std::get_if<CheckpointBroken>(&event)) {
                core->commit({SetCheckpointState{gate.task, broken->generation, CheckpointState::quarantined, broken->detail}});
                return ApiResult{.status = 200, .json = "{}", .location = {}, .error = {}};
            }
            return std::nullopt;
        };
        token = enrol();
    }

    cp::Snapshot snapshot(const std::string& text, const cp::Manifest* previous = nullptr) {
        write_file(folder / "work/weights.bin", text);
        cp::SnapshotRequest request;
        request.root = folder / "work";
        request.spool = folder / ("spool-" + std::to_string(++snapshots_));
        request.job = gate.job.get();
        request.task = gate.task.get();
        request.attempt = gate.attempt_number;
        request.step = snapshots_ * 100;
        request.now = core->now();
        request.previous = previous;
        request.wait = [](Millis) { return true; };
        return cp::take_snapshot(request).value();
    }
    Got send_pack(const cp::SpooledPack& pack) {
        return call("PUT", of_attempt("pack", "/" + pack.id.hex()), token, read_file(pack.file.string()));
    }
    Got send(const cp::Snapshot& taken) {
        for (const auto& pack : taken.packs) {
            const auto got = send_pack(pack);
            REQUIRE((got.status == 200 || got.status == 201));
        }
        return call("POST", of_attempt("checkpoint"), token, taken.encoded);
    }
    [[nodiscard]] std::string pack_file(const cp::Digest& id) const {
        return folder / ("checkpoints/" + gate.job.get() + "/a" + std::to_string(gate.attempt_number) + "/" + id.hex() + ".pack");
    }

 private:
    int snapshots_{0};
};

TEST_CASE("log bytes are acknowledged by offset, with repeats, gaps and marks") {
    GatewayBench b;
    const auto token = b.enrol();
    const auto post = [&](const std::string& query, const std::string& body) {
        const auto got = b.call("POST", b.of_attempt("log", query), token, body);
        return got.status == 200 ? nlohmann::json::parse(got.body).at("acked").get<std::int64_t>() : -got.status;
    };
    CHECK(post("?offset=0", "hello ") == 6);
    CHECK(post("?offset=0", "hello ") == 6);
    CHECK(post("?offset=3", "lo world\n") == 12);
    CHECK(post("?offset=99", "lost") == 12);
    CHECK(post("?offset=12&skip=1000", "") == 1012);
    CHECK(post("?offset=1012", "tail\n") == 1017);
    CHECK(post("?offset=0", "") == 1017);
    CHECK(post("?offset=-1", "x") == -400);
    CHECK(post("?offset=0&skip=9223372036854775807", "") == -400);
    CHECK(post("?offset=9223372036854775807", "x") == -400);
    CHECK(post("?offset=0&skip=1125899906842625", "") == -400);
    CHECK(post("", "x") == -400);
    CHECK(post("?offset=x", "x") == -400);
    CHECK(b.call("POST", "/agent/log/att_" + std::string(26, '9') + "?offset=0", token, "x").status == 409);
    const auto path = b.folder / ("logs/" + b.gate.job.get() + "/" + b.gate.attempt.get() + ".log");
    CHECK(read_file(path) == "hello world\n" + gateway::LogFiles::mark(1000) + "tail\n");
}

TEST_CASE("each job has its own machine's code and no other") {
    GatewayBench b;
    const auto token = b.enrol();
    const std::string code(300'000, 'c');
    const auto hash = cp::sha256(code).hex();
    write_file(b.folder / ("blobs/" + hash), code);
    CHECK(b.call("GET", "/agent/blob/" + hash, token).status == 404);
    b.change_gate([&](MachineGate& g) { g.code_sha256 = hash; });
    CHECK(b.call("GET", "/agent/blob/" + hash, token).body == code);
    CHECK(b.call("GET", "/agent/blob/" + hash, token, "", {"Range: bytes=299990-"}).body == std::string(10, 'c'));
    CHECK(b.call("GET", "/agent/blob/" + std::string(64, 'a'), token).status == 404);
}

TEST_CASE("a pack is taken only with the bytes of its name") {
    CheckpointBench b;
    const auto taken = b.snapshot("weights of step 100");
    REQUIRE(taken.packs.size() == 1);
    const auto& pack = taken.packs[0];
    const auto bytes = read_file(pack.file.string());
    const auto put = [&](const std::string& body) { return b.call("PUT", b.of_attempt("pack", "/" + pack.id.hex()), b.token, body).status; };
    CHECK(put(bytes.substr(0, bytes.size() - 1)) == 422);
    CHECK(put(bytes + "x") == 422);
    CHECK(put("") == 422);
    CHECK_FALSE(std::filesystem::exists(b.pack_file(pack.id)));
    CHECK(put(bytes) == 201);
    CHECK(put(bytes) == 200);
    CHECK(b.call("PUT", b.of_attempt("pack", "/nothing"), b.token, "x").status == 400);
    const auto get = [&](const std::string& range) {
        return b.call("GET", b.of_attempt("pack", "/" + pack.id.hex()), b.token, "", range.empty() ? std::vector<std::string>{} : std::vector{"Range: " + range});
    };
    CHECK(get("").body == bytes);
    CHECK(get("bytes=8-15").body == bytes.substr(8, 8));
    CHECK(get("bytes=8-15").status == 206);
    CHECK(get("bytes=999999-").status == 416);
    CHECK(b.call("GET", b.of_attempt("pack", "/" + std::string(64, 'a')), b.token).status == 404);
    // The next attempt, on another machine, reads what this one wrote.
    b.change_gate([](MachineGate& g) { g.attempt_number = 3; });
    CHECK(get("").body == bytes);
}

TEST_CASE("a candidate is committed by the core alone, and only when all of it is there") {
    CheckpointBench b;
    const auto taken = b.snapshot("weights of step 100");
    CHECK(b.call("POST", b.of_attempt("checkpoint"), b.token, taken.encoded).status == 422);  // its pack is missing
    CHECK(b.call("POST", b.of_attempt("checkpoint"), b.token, "{}").status == 422);
    CHECK(b.core->seen_of<CheckpointOffered>().empty());
    const auto got = b.send(taken);
    CHECK(got.status == 200);
    CHECK(nlohmann::json::parse(got.body).at("generation") == 1);
    const auto offered = b.core->seen_of<CheckpointOffered>();
    REQUIRE(offered.size() == 1);
    CHECK(offered[0].manifest_sha256 == taken.digest.hex());
    CHECK(offered[0].step == 100);
    CHECK(b.packs->list_seals(b.gate.job).value().size() == 1);
    b.fenced = true;
    CHECK(b.call("POST", b.of_attempt("checkpoint"), b.token, taken.encoded).status == 409);
    // It was committed before: what was refused is only the repetition. Another one that is refused leaves no manifest.
    CHECK(b.call("GET", b.of_attempt("checkpoint"), b.token).headers.at("gpuferry-generation") == "1");
    CHECK(b.send(b.snapshot("weights of step 200")).status == 409);
    CHECK(b.packs->list_manifests(b.gate.job).value() == std::vector{taken.digest});
    // A manifest of another attempt is not this machine's to offer.
    b.fenced = false;
    b.change_gate([](MachineGate& g) { g.attempt_number = 3; });
    CHECK(b.call("POST", b.of_attempt("checkpoint"), b.token, taken.encoded).status == 422);
}

TEST_CASE("a restore gets the newest whole generation, and the broken ones on the way are set aside") {
    CheckpointBench b;
    CHECK(b.call("GET", b.of_attempt("checkpoint"), b.token).status == 404);
    std::vector<cp::Snapshot> taken;
    for (const char* text : {"one", "two is longer", "and three is the longest of them"}) {
        taken.push_back(b.snapshot(text));
        REQUIRE(b.send(taken.back()).status == 200);
    }
    const auto newest = [&](const std::string& query = {}) { return b.call("GET", b.of_attempt("checkpoint", query), b.token); };
    CHECK(newest().headers.at("gpuferry-generation") == "3");
    CHECK(newest().body == taken[2].encoded);
    CHECK(newest("?at_most=2").headers.at("gpuferry-generation") == "2");
    CHECK(newest("?at_most=9223372036854775807").headers.at("gpuferry-generation") == "3");
    CHECK(newest("?at_most=-1").status == 400);
    std::filesystem::remove(b.pack_file(taken[2].packs[0].id));
    const auto fallen = newest();
    CHECK(fallen.headers.at("gpuferry-generation") == "2");
    CHECK(fallen.body == taken[1].encoded);
    const auto broken = b.core->seen_of<CheckpointBroken>();
    REQUIRE(broken.size() == 1);
    CHECK(broken[0].generation == 3);
    CHECK_FALSE(broken[0].detail.empty());
    CHECK(b.packs->list_quarantined(b.gate.job).value().size() == 1);
    CHECK(newest().headers.at("gpuferry-generation") == "2");
    CHECK(b.core->seen_of<CheckpointBroken>().size() == 1);
}

TEST_CASE("a seal that is missing is written again, one that names another manifest makes the generation broken") {
    CheckpointBench b;
    const auto first = b.snapshot("one");
    REQUIRE(b.send(first).status == 200);
    const auto second = b.snapshot("two");
    REQUIRE(b.send(second).status == 200);
    const auto seals = b.folder / ("checkpoints/" + b.gate.job.get() + "/seals");
    std::filesystem::remove_all(seals);
    CHECK(b.call("GET", b.of_attempt("checkpoint"), b.token).headers.at("gpuferry-generation") == "2");
    CHECK(b.packs->list_seals(b.gate.job).value().size() == 1);
    REQUIRE(b.packs->put_seal(b.gate.job, {.task = b.gate.task.get(), .generation = 2, .attempt = 2, .step = 1, .manifest = first.digest, .committed_at_ms = 1}));
    CHECK(b.call("GET", b.of_attempt("checkpoint"), b.token).headers.at("gpuferry-generation") == "1");
}

TEST_CASE("an agent's word that a generation is broken is checked before anything is set aside") {
    CheckpointBench b;
    const auto taken = b.snapshot(std::string(100'000, 'w'));
    REQUIRE(b.send(taken).status == 200);
    const auto report = [&](const std::string& body) { return b.call("POST", b.of_attempt("checkpoint", "/broken"), b.token, body); };
    CHECK(report("{}").status == 400);
    CHECK(report(R"({"generation":"1"})").status == 400);
    auto got = report(R"({"generation":1,"detail":"does not unpack"})");
    CHECK(got.status == 200);
    CHECK(nlohmann::json::parse(got.body).at("set_aside") == false);
    CHECK(b.core->seen_of<CheckpointBroken>().empty());
    // One byte of the pack rots.
    const auto path = b.pack_file(taken.packs[0].id);
    auto bytes = read_file(path);
    bytes[40] = static_cast<char>(bytes[40] ^ 1);
    std::ofstream(path, std::ios::binary) << bytes;
    got = report(R"({"generation":1,"detail":"does not unpack"})");
    CHECK(nlohmann::json::parse(got.body).at("set_aside") == true);
    CHECK(b.core->seen_of<CheckpointBroken>().size() == 1);
    CHECK(b.call("GET", b.of_attempt("checkpoint"), b.token).status == 404);
    CHECK(nlohmann::json::parse(report(R"({"generation":1})").body).at("set_aside") == true);
}

TEST_CASE("an output is offered like a checkpoint") {
    CheckpointBench b;
    write_file(b.folder / "work/out/model.bin", "weights");
    cp::SnapshotRequest request;
    request.root = b.folder / "work";
    request.only = {"out"};
    request.spool = b.folder / "spool-out";
    request.kind = cp::ManifestKind::output;
    request.job = b.gate.job.get();
    request.task = b.gate.task.get();
    request.attempt = b.gate.attempt_number;
    request.now = b.core->now();
    request.wait = [](Millis) { return true; };
    const auto taken = cp::take_snapshot(request).value();
    for (const auto& pack : taken.packs) REQUIRE(b.send_pack(pack).status == 201);
    CHECK(b.call("POST", b.of_attempt("output"), b.token, taken.encoded).status == 200);
    const auto offered = b.core->seen_of<OutputOffered>();
    REQUIRE(offered.size() == 1);
    CHECK(offered[0].files == 1);
    CHECK(offered[0].size.count == 7);
    CHECK(offered[0].attempt == b.gate.attempt);
}

}  // namespace
}  // namespace gf::test
