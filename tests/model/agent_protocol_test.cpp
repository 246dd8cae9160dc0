#include "model/agent_protocol.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace gf::agent_protocol {
namespace {

Lease full_lease() {
    Lease lease;
    lease.attempt = "att_1";
    lease.number = 7;
    lease.job = "job_1";
    lease.task = "tsk_1";
    lease.task_index = 2;
    lease.task_count = 5;
    lease.image = "debian:12";
    lease.run = "python3 train.py --name \"Обучение №1\"\n";
    lease.env = {{"BATCH", "8"}, {"EMPTY", ""}};
    lease.secret_env = {{"HF_TOKEN", "hf_EXAMPLE"}};
    lease.user = "worker";
    lease.keep_entrypoint = true;
    lease.code_sha256 = std::string(64, 'a');
    lease.checkpoint = {.declared = true,
                        .path = "ckpt",
                        .every = Millis{90'000},
                        .keep = 4,
                        .signal = "SIGUSR1",
                        .signal_leader_only = true,
                        .grace = Millis{1'500},
                        .marker = "trainer_state.json",
                        .incomplete = "writing",
                        .unit = {"G_{n}.pth", "D_{n}.pth"},
                        .exclude = {"runs/", "*.tmp"},
                        .trigger_touch = "ckpt/save.now"};
    lease.checkpoint_every_ms = 120'000;
    lease.generation = 3;
    lease.step = 300;
    lease.outputs = {{.from = "out", .to = "s3://bucket/results"}, {.from = "more", .to = ""}};
    lease.progress_regex = R"(step (\d+)/(\d+))";
    lease.progress_file = "log.jsonl";
    lease.success_exit = {0, 149};
    lease.success_product = "out/*.ckpt";
    lease.duration_ms = 3'600'000;
    lease.dead_man_ms = 7'200'000;
    lease.log_bytes_max = 1 << 20;
    return lease;
}

template <class M>
M sent(const M& m) {
    auto read = decode_to_agent(encode(ToAgent{m}));
    REQUIRE(read.has_value());
    REQUIRE(std::holds_alternative<M>(*read));
    return std::get<M>(*read);
}

template <class M>
M received(const M& m) {
    auto read = decode_from_agent(encode(FromAgent{.boot_id = "boot", .seq = 9, .body = m}));
    REQUIRE(read.has_value());
    CHECK(read->boot_id == "boot");
    CHECK(read->seq == 9);
    REQUIRE(std::holds_alternative<M>(read->body));
    return std::get<M>(read->body);
}

TEST_CASE("a lease arrives with every field as it was sent") {
    const auto sent_lease = full_lease();
    const auto lease = sent(sent_lease);
    CHECK(lease.attempt == "att_1");
    CHECK(lease.number == 7);
    CHECK(lease.task_index == 2);
    CHECK(lease.run == sent_lease.run);
    CHECK(lease.env == sent_lease.env);
    CHECK(lease.secret_env == sent_lease.secret_env);
    CHECK(lease.keep_entrypoint);
    CHECK(lease.checkpoint.every == Millis{90'000});
    CHECK(lease.checkpoint.grace == Millis{1'500});
    CHECK(lease.checkpoint.unit == sent_lease.checkpoint.unit);
    CHECK(lease.checkpoint.exclude == sent_lease.checkpoint.exclude);
    CHECK(lease.checkpoint.trigger_touch == "ckpt/save.now");
    REQUIRE(lease.outputs.size() == 2);
    CHECK(lease.outputs[0].to == "s3://bucket/results");
    CHECK(lease.outputs[1].to.empty());
    CHECK(lease.log_bytes_max == 1 << 20);
    CHECK(lease.success_exit == std::vector<int>{0, 149});
    // A second encoding of what was read is the same text: no field is lost on the way.
    CHECK(encode(ToAgent{lease}) == encode(ToAgent{sent_lease}));
}

TEST_CASE("an absent checkpoint interval stays absent") {
    auto lease = full_lease();
    lease.checkpoint.every.reset();
    CHECK_FALSE(sent(lease).checkpoint.every.has_value());
}

TEST_CASE("the daemon's small messages survive the trip") {
    const auto welcome = sent(Welcome{.heartbeat_ms = 50, .time_scale = 60.5, .acked_seq = 12, .dead_man_ms = 1000});
    CHECK(welcome.heartbeat_ms == 50);
    CHECK(welcome.time_scale == doctest::Approx(60.5));
    CHECK(welcome.acked_seq == 12);
    CHECK(welcome.dead_man_ms == 1000);
    CHECK(sent(Ack{.seq = 1LL << 40}).seq == 1LL << 40);
    const auto stop = sent(Stop{.attempt = "att_1", .reason = "cancelled", .checkpoint = false});
    CHECK(stop.reason == "cancelled");
    CHECK_FALSE(stop.checkpoint);
    CHECK(sent(CheckpointNow{.attempt = "att_2"}).attempt == "att_2");
    CHECK(sent(Drain{.reason = "fenced"}).reason == "fenced");
}

TEST_CASE("an exit has a code or a signal, never a made-up zero") {
    Exited done;
    done.attempt = "a";
    done.exit_code = 0;
    const auto by_code = received(done);
    CHECK(by_code.exit_code == 0);
    CHECK_FALSE(by_code.signal.has_value());
    Exited killed;
    killed.attempt = "a";
    killed.signal = 9;
    killed.host_oom = true;
    killed.reason = "stopped";
    const auto by_signal = received(killed);
    CHECK_FALSE(by_signal.exit_code.has_value());
    CHECK(by_signal.signal == 9);
    CHECK(by_signal.host_oom);
    CHECK(by_signal.reason == "stopped");
}

TEST_CASE("a hello carries the machine report") {
    Hello hello;
    hello.report.gpus = {{.name = "RTX 4090", .memory_bytes = 24'564LL << 20, .driver = "560.1", .uuid = "GPU-1"}};
    hello.report.cuda_probe = "ok";
    hello.report.cuda_names = {"NVIDIA GeForce RTX 4090"};
    hello.report.cpus = 7.5;
    hello.attempt_number = 3;
    hello.attempt_state = "running";
    const auto read = received(hello);
    REQUIRE(read.report.gpus.size() == 1);
    CHECK(read.report.gpus[0].memory_bytes == 24'564LL << 20);
    CHECK(read.report.cuda_names == hello.report.cuda_names);
    CHECK(read.report.cpus == doctest::Approx(7.5));
    CHECK(read.attempt_number == 3);
    CHECK(read.attempt_state == "running");
}

TEST_CASE("the agent's other messages survive the trip") {
    Heartbeat sample;
    sample.gpus = {{.util_percent = 97, .memory_peak = 21'000LL << 20}};
    sample.net_rx = 5;
    const auto beat = received(sample);
    REQUIRE(beat.gpus.size() == 1);
    CHECK(beat.gpus[0].util_percent == 97);
    CHECK(beat.gpus[0].memory_used == -1);
    CHECK(beat.gpus[0].memory_peak == 21'000LL << 20);
    CHECK(beat.gpus[0].temperature_c == -1);
    CHECK(received(Preparing{.attempt = "a", .phase = "code", .detail = "10 MB"}).phase == "code");
    CHECK(received(Started{.attempt = "a", .pid = 4, .restored_generation = 2}).restored_generation == 2);
    CHECK(received(Progress{.attempt = "a", .step = 5, .total = 10}).total == 10);
    CHECK(received(Notice{.kind = "sigterm", .deadline_ms = 30'000}).deadline_ms == 30'000);
}

TEST_CASE("enrolment survives the trip") {
    const auto request = decode_enrol_request(
        encode(EnrolRequest{.machine = "gf-x", .enrol = "e", .boot_id = "b", .arch = "amd64", .version = "0.1"}));
    REQUIRE(request.has_value());
    CHECK(request->machine == "gf-x");
    CHECK(request->protocol_max == kProtocolMax);
    const auto answer = decode_enrol_answer(encode(EnrolAnswer{.protocol = 1, .session = "s"}));
    REQUIRE(answer.has_value());
    CHECK(answer->session == "s");
}

TEST_CASE("bytes that are not UTF-8 are replaced, so that the message can be sent at all") {
    const auto read = received(Preparing{.attempt = "a", .phase = "x", .detail = "bad \xff\xfe byte"});
    CHECK(read.detail == "bad \xEF\xBF\xBD\xEF\xBF\xBD byte");
}

TEST_CASE("unknown fields are ignored and unknown types are told apart from broken messages") {
    const auto known = decode_to_agent(R"({"type":"ack","body":{"seq":4,"later":{"x":1}},"more":true})");
    REQUIRE(known.has_value());
    CHECK(std::get<Ack>(*known).seq == 4);
    const auto unknown = decode_to_agent(R"({"type":"dance","body":{}})");
    REQUIRE_FALSE(unknown.has_value());
    CHECK(unknown.error().kind == ErrorKind::not_yet);
    const auto from = decode_from_agent(R"({"type":"dance","boot_id":"b","seq":1,"body":{}})");
    REQUIRE_FALSE(from.has_value());
    CHECK(from.error().kind == ErrorKind::not_yet);
}

TEST_CASE("a broken message is malformed and names its field") {
    struct Row {
        std::string json;
        std::string field;
    };
    const std::vector<Row> rows{
        {"", ""},
        {"{", ""},
        {"[1]", ""},
        {std::string(100'000, '['), ""},
        {R"({"body":{}})", "type"},
        {R"({"type":"ack"})", "body"},
        {R"({"type":"ack","body":[]})", "body"},
        {R"({"type":"ack","body":{}})", "ack.seq"},
        {R"({"type":"ack","body":{"seq":null}})", "ack.seq"},
        {R"({"type":"ack","body":{"seq":"4"}})", "ack.seq"},
        {R"({"type":"ack","body":{"seq":1.5}})", "ack.seq"},
        {R"({"type":"ack","body":{"seq":18446744073709551615}})", "ack.seq"},
        {R"({"type":"welcome","body":{"heartbeat_ms":2147483648}})", "welcome.heartbeat_ms"},
        {R"({"type":"welcome","body":{"time_scale":"fast"}})", "welcome.time_scale"},
        {R"({"type":"stop","body":{"attempt":"a","checkpoint":1}})", "stop.checkpoint"},
        {R"({"type":"lease","body":{"attempt":"a","number":1,"job":"j","task":"t","run":"r","env":{"A":1}}})",
         "lease.env.A"},
        {R"({"type":"lease","body":{"attempt":"a","number":1,"job":"j","task":"t","run":"r","outputs":[{}]}})",
         "lease.outputs[0].from"},
        {R"({"type":"lease","body":{"attempt":"a","number":1,"job":"j","task":"t","run":"r","checkpoint":{"unit":[3]}}})",
         "lease.checkpoint.unit[0]"},
    };
    for (const auto& row : rows) {
        CAPTURE(row.json.substr(0, 120));
        const auto read = decode_to_agent(row.json);
        REQUIRE_FALSE(read.has_value());
        CHECK(read.error().kind == ErrorKind::malformed);
        CHECK(read.error().field == row.field);
    }
    CHECK_FALSE(decode_from_agent(R"({"type":"progress","boot_id":"b","seq":-1,"body":{"attempt":"a"}})").has_value());
    CHECK_FALSE(decode_from_agent(R"({"type":"progress","seq":1,"body":{"attempt":"a"}})").has_value());
    CHECK_FALSE(decode_enrol_request(R"({"machine":"m","boot_id":"b"})").has_value());
}

TEST_CASE("a message above the limit is refused before it is parsed") {
    const std::string big = R"({"type":"ack","body":{"seq":4,"x":")" + std::string(kMessageBytesMax, 'x') + "\"}}";
    const auto read = decode_to_agent(big);
    REQUIRE_FALSE(read.has_value());
    CHECK(read.error().kind == ErrorKind::malformed);
}

}  // namespace
}  // namespace gf::agent_protocol
