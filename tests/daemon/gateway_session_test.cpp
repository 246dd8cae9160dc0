// Who may come in, and the control messages.
#include <doctest/doctest.h>

#include "checkpoints/digest.hpp"
#include "daemon/gateway/agent_binaries.hpp"
#include "daemon/gateway/log_files.hpp"
#include "tests/daemon/support/gateway_bench.hpp"

namespace gf::test {
namespace {

std::string hello(const std::string& boot = "boot-1") { return ap::encode(ap::FromAgent{.boot_id = boot, .seq = 0, .body = ap::Hello{}}); }
std::string progress(std::int64_t seq, std::int64_t step) {
    return ap::encode(ap::FromAgent{.boot_id = "boot-1", .seq = seq, .body = ap::Progress{.attempt = "a", .step = step, .total = 0}});
}

TEST_CASE("an enrol token is that of one machine and one installation") {
    const Secret key("k");
    CHECK(enrol_token(key, MachineId{"mch_a"}) == enrol_token(key, MachineId{"mch_a"}));
    CHECK(enrol_token(key, MachineId{"mch_a"}) != enrol_token(key, MachineId{"mch_b"}));
    CHECK(enrol_token(key, MachineId{"mch_a"}) != enrol_token(Secret("l"), MachineId{"mch_a"}));
    // HMAC-SHA256 as everyone computes it: RFC 4231, test case 2.
    CHECK(enrol_token(Secret("Jefe"), MachineId{"what do ya want for nothing?"}) ==
          "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

TEST_CASE("only a machine with a row and its token may enrol") {
    GatewayBench b;
    CHECK(b.enrol_with(b.enrolment()).status == 200);
    auto wrong = b.enrolment();
    wrong.enrol.back() = wrong.enrol.back() == '0' ? '1' : '0';
    CHECK(b.enrol_with(wrong).status == 401);
    auto unknown = b.enrolment();
    unknown.machine = "gf-abcdefgh-" + std::string(26, '9');
    CHECK(b.enrol_with(unknown).status == 401);
    auto future = b.enrolment();
    future.protocol_min = 7;
    future.protocol_max = 9;
    CHECK(b.enrol_with(future).status == 426);
    CHECK(b.call("POST", "/agent/enrol", "", "{").status == 400);
    CHECK(b.call("POST", "/agent/enrol", "", std::string(20'000, ' ')).status == 413);
    for (const auto state : {MachineState::destroying, MachineState::gone}) {
        b.change_gate([&](MachineGate& g) { g.state = state; });
        CHECK(b.enrol_with(b.enrolment()).status == 401);
    }
    for (const auto state : {MachineState::booting, MachineState::interrupted, MachineState::lost, MachineState::unknown}) {
        b.change_gate([&](MachineGate& g) { g.state = state; });
        CHECK(b.enrol_with(b.enrolment()).status == 200);
    }
}

TEST_CASE("everything but the binary and enrolling needs the session, and off loopback TLS") {
    GatewayBench b;
    const auto token = b.enrol();
    CHECK(b.call("GET", b.of_attempt("checkpoint"), "").status == 401);
    CHECK(b.call("GET", b.of_attempt("checkpoint"), std::string(64, 'a')).status == 401);
    CHECK(b.call("GET", b.of_attempt("checkpoint"), token).status == 404);  // none is committed
    CHECK(b.call("GET", "/agent/checkpoint/att_" + std::string(26, '9'), token).status == 409);
    CHECK(b.call("GET", "/v1/jobs", token).status == 404);
    CHECK(b.call("GET", "/agent/nothing", token).status == 404);
    CHECK(b.call("DELETE", b.of_attempt("checkpoint"), token).status == 405);
    b.change_gate([](MachineGate& g) { g.state = MachineState::gone; });
    CHECK(b.call("GET", b.of_attempt("checkpoint"), token).status == 401);
    b.change_gate([](MachineGate& g) { g.state = MachineState::busy; });
    CHECK(b.call("GET", b.of_attempt("checkpoint"), token).status == 401);  // once void, void
}

TEST_CASE("the agent's binary is served by its hash, to all, on plain HTTP too") {
    GatewayBench b;
    std::string bytes(700'000, 'b');
    for (std::size_t i = 0; i < bytes.size(); i += 31) bytes[i] = static_cast<char>(i);
    write_file(b.folder / "agent", bytes);
    const auto hash = b.gateway->add_agent_binary(b.folder / "agent").value();
    CHECK(hash == checkpoints::sha256(bytes).hex());
    CHECK(b.call("GET", "/agent/bin/" + hash, "").body == bytes);
    const auto plain = ask({.url = "http://127.0.0.1:" + std::to_string(b.gateway->port()) + "/agent/bin/" + hash, .body = {},
                            .headers = {"Range: bytes=100-199"}, .unix_path = {}, .pin = {}, .sink = {}});
    CHECK(plain.status == 206);
    CHECK(plain.body == bytes.substr(100, 100));
    CHECK(plain.headers.at("content-range") == "bytes 100-199/700000");
    CHECK(b.call("GET", "/agent/bin/" + std::string(64, 'a'), "").status == 404);
    CHECK_FALSE(b.gateway->add_agent_binary(b.folder / "none"));
}

TEST_CASE("an agent's binary stays what its hash says through upgrades and restarts") {
    GatewayBench b;
    const auto path = b.folder / "agent";
    write_file(path, "first version");
    const auto first = b.gateway->add_agent_binary(path).value();
    write_file(path, "second version");  // under the running daemon
    CHECK(b.call("GET", "/agent/bin/" + first, "").body == "first version");
    gateway::AgentBinaries after(b.folder / "agents");  // as a daemon that was started anew has it
    const auto second = after.add(path).value();
    CHECK(read_file(after.path_of(second)) == "second version");
    CHECK(read_file(after.path_of(first)) == "first version");
    // What is not what its name says is not served, and not kept.
    write_file(after.path_of(first), "rotten");
    CHECK(after.add(path).value() == second);
    CHECK(after.path_of(first).empty());
    for (std::size_t n = 0; n < gateway::AgentBinaries::kKept + 4; ++n) {
        write_file(path, "version " + std::to_string(n));
        const auto hash = after.add(path).value();
        CHECK_FALSE(after.path_of(hash).empty());
    }
    // More than kKept are there as long as they are young; what is neither young nor of the newest goes.
    CHECK_FALSE(after.path_of(second).empty());
    const auto long_ago = std::filesystem::file_time_type::clock::now() - gateway::AgentBinaries::kKeptFor - std::chrono::hours(1);
    for (const auto& entry : std::filesystem::directory_iterator(b.folder / "agents"))
        std::filesystem::last_write_time(entry.path(), long_ago - std::chrono::hours(entry.path().filename() == second ? 1 : 0));
    const auto newest = after.add(path).value();
    CHECK_FALSE(after.path_of(newest).empty());
    CHECK(after.path_of(second).empty());
    const auto kept = std::distance(std::filesystem::directory_iterator(b.folder / "agents"), {});
    CHECK(kept == static_cast<std::ptrdiff_t>(gateway::AgentBinaries::kKept));
}

TEST_CASE("a disk that takes no copies: the binaries of all architectures are served where they lie") {
    GatewayBench b;
    write_file(b.folder / "full", "a file, where a folder is to be made");
    gateway::AgentBinaries binaries(b.folder / "full/agents");
    write_file(b.folder / "agent", "amd64");
    write_file(b.folder / "agent-arm64", "arm64");
    const auto amd64 = binaries.add(b.folder / "agent").value();
    const auto arm64 = binaries.add(b.folder / "agent-arm64").value();
    CHECK(binaries.path_of(amd64) == b.folder / "agent");
    CHECK(binaries.path_of(arm64) == b.folder / "agent-arm64");
    // What has become another file is not served under the old name.
    write_file(b.folder / "agent", "amd64, upgraded");
    const auto upgraded = binaries.add(b.folder / "agent").value();
    CHECK(binaries.path_of(upgraded) == b.folder / "agent");
    CHECK(binaries.path_of(amd64).empty());
    CHECK(binaries.path_of(arm64) == b.folder / "agent-arm64");
}

TEST_CASE("output that a lost machine had spoken of is marked in the log, and a lease has what is left of the quota") {
    GatewayBench b([](GatewayOptions& o) { o.log_bytes_max = 64'000; });
    const auto token = b.enrol();
    SocketClient socket(b.gateway->port(), token, true);
    REQUIRE(socket.status() == 101);
    socket.send(hello());
    CHECK(b.call("POST", b.of_attempt("log", "?offset=0"), token, std::string(5000, 'x')).status == 200);
    ap::Heartbeat beat;
    beat.attempt = b.gate.attempt.get();
    beat.log_bytes = 6000;
    socket.send(ap::encode(ap::FromAgent{.boot_id = "boot-1", .seq = 0, .body = beat}));
    beat.attempt = "att_of_another";
    beat.log_bytes = 1'000'000;
    socket.send(ap::encode(ap::FromAgent{.boot_id = "boot-1", .seq = 0, .body = beat}));
    REQUIRE(eventually([&] { return b.core->seen_of<AgentSaid>().size() == 3; }));
    ap::Lease lease;
    lease.job = b.gate.job.get();
    b.gateway->send(b.gate.id, lease);
    const auto text = socket.receive();
    REQUIRE(text);
    const auto message = ap::decode_to_agent(*text);
    REQUIRE(message);
    CHECK(std::get<ap::Lease>(*message).log_bytes_max == 59'000 - 59'000 / 16);
    const auto path = b.folder / ("logs/" + b.gate.job.get() + "/" + b.gate.attempt.get() + ".log");
    const auto log = [&] { return read_file(path); };
    b.gateway->close(b.gate.id);  // only to be greeted anew: nothing is lost yet
    CHECK(log() == std::string(5000, 'x'));
    b.change_gate([](MachineGate& g) { g.state = MachineState::interrupted; });
    b.gateway->close(b.gate.id);
    CHECK(eventually([&] { return log() == std::string(5000, 'x') + gateway::LogFiles::mark(1000, gateway::LogFiles::Why::machine_lost); }));
}

TEST_CASE("a client with another pin does not get through") {
    GatewayBench b;
    const auto got = ask({.url = "https://127.0.0.1:" + std::to_string(b.gateway->port()) + "/agent/bin/x", .body = {}, .headers = {},
                          .unix_path = {}, .pin = std::string(64, 'a'), .sink = {}});
    CHECK(got.status == 0);
    CHECK_FALSE(got.error.empty());
}

TEST_CASE("messages reach the core in order, and the core's the agent") {
    for (const bool tls : {true, false}) {
        CAPTURE(tls);
        GatewayBench b;
        const auto token = b.enrol();
        SocketClient socket(b.gateway->port(), token, tls);
        REQUIRE(socket.status() == 101);
        CHECK(eventually([&] { return b.gateway->connected(b.gate.id); }));
        CHECK(b.gateway->connected_count() == 1);
        socket.send(hello());
        for (int i = 1; i <= 500; ++i) socket.send(progress(i, i));
        CHECK(eventually([&] { return b.core->seen_of<AgentSaid>().size() == 501; }));
        REQUIRE(b.core->seen_of<AgentConnected>().size() == 1);
        CHECK(b.core->seen_of<AgentConnected>()[0].boot_id == "boot-1");
        const auto said = b.core->seen_of<AgentSaid>();
        for (std::size_t i = 0; i < said.size(); ++i) REQUIRE(said[i].message.seq == static_cast<std::int64_t>(i));
        for (int i = 1; i <= 500; ++i) b.gateway->send(b.gate.id, ap::Ack{.seq = i});
        for (int i = 1; i <= 500; ++i) {
            const auto text = socket.receive();
            REQUIRE(text);
            const auto message = ap::decode_to_agent(*text);
            REQUIRE(message);
            REQUIRE(std::get<ap::Ack>(*message).seq == i);
        }
        b.gateway->send(MachineId{"mch_" + std::string(26, '9')}, ap::Ack{.seq = 1});  // nobody there: dropped
        socket.cut();
        CHECK(eventually([&] { return b.core->seen_of<AgentDisconnected>().size() == 1; }));
        CHECK_FALSE(b.gateway->connected(b.gate.id));
    }
}

TEST_CASE("a message of a type that is not known is passed over") {
    GatewayBench b;
    SocketClient socket(b.gateway->port(), b.enrol(), true);
    socket.send(hello());
    socket.send(R"({"boot_id":"boot-1","seq":0,"type":"of_a_later_version","body":{"more":1}})");
    socket.send(progress(1, 1));
    CHECK(eventually([&] { return b.core->seen_of<AgentSaid>().size() == 2; }));
}

TEST_CASE("what breaks the rules ends the session") {
    struct Row {
        const char* what;
        std::vector<std::string> messages;
        bool binary{false};
    };
    const Row rows[] = {
        {"something before hello", {progress(1, 1)}},
        {"not JSON", {hello(), "{"}},
        {"another boot id", {hello(), ap::encode(ap::FromAgent{.boot_id = "boot-2", .seq = 1, .body = ap::Hello{}})}},
        {"a frame over the limit", {hello(), std::string(ap::kMessageBytesMax + 1, 'x')}},
        {"a binary frame", {hello()}, true},
    };
    for (const auto& row : rows) {
        CAPTURE(row.what);
        GatewayBench b;
        SocketClient socket(b.gateway->port(), b.enrol(), true);
        REQUIRE(socket.status() == 101);
        if (row.binary) socket.send_binary("x");
        for (const auto& message : row.messages) socket.send(message);
        CHECK(socket.ended());
        CHECK(eventually([&] { return b.core->seen_of<AgentDisconnected>().size() == 1; }));
    }
}

TEST_CASE("a newer enrolment fences the older session, its socket and its requests") {
    GatewayBench b;
    const auto first = b.enrol("boot-1");
    SocketClient old_socket(b.gateway->port(), first, true);
    old_socket.send(hello());
    CHECK(eventually([&] { return b.core->seen_of<AgentSaid>().size() == 1; }));
    const auto second = b.enrol("boot-2");
    CHECK(old_socket.ended());
    CHECK(b.call("POST", b.of_attempt("log", "?offset=0"), first, "x").status == 401);
    CHECK(SocketClient(b.gateway->port(), first, true).status() == 401);
    CHECK(b.call("POST", b.of_attempt("log", "?offset=0"), second, "x").status == 200);
    SocketClient fresh(b.gateway->port(), second, true);
    CHECK(fresh.status() == 101);
    CHECK(eventually([&] { return b.core->seen_of<AgentConnected>().size() == 2; }));
    CHECK(b.core->seen_of<AgentConnected>()[1].boot_id == "boot-2");
}

TEST_CASE("a second connection of a session takes the place of the first without a disconnect") {
    GatewayBench b;
    const auto token = b.enrol();
    SocketClient first(b.gateway->port(), token, true);
    CHECK(eventually([&] { return b.gateway->connected(b.gate.id); }));
    SocketClient second(b.gateway->port(), token, true);
    CHECK(first.ended());
    CHECK(second.status() == 101);
    CHECK(eventually([&] { return b.core->seen_of<AgentConnected>().size() == 2; }));
    b.gateway->send(b.gate.id, ap::Ack{.seq = 9});
    CHECK(second.receive().has_value());
    CHECK(b.gateway->connected(b.gate.id));
    CHECK(b.core->seen_of<AgentDisconnected>().empty());
}

TEST_CASE("closing a machine sends what was queued, ends the socket and voids the token") {
    GatewayBench b;
    const auto token = b.enrol();
    SocketClient socket(b.gateway->port(), token, true);
    CHECK(eventually([&] { return b.gateway->connected(b.gate.id); }));
    b.gateway->send(b.gate.id, ap::Drain{.reason = "going"});
    b.gateway->close(b.gate.id);
    const auto last = socket.receive();
    REQUIRE(last);
    CHECK(std::holds_alternative<ap::Drain>(*ap::decode_to_agent(*last)));
    CHECK(socket.ended());
    CHECK(b.call("GET", b.of_attempt("checkpoint"), token).status == 401);
}

TEST_CASE("an agent that is silent beyond the limit is let go") {
    GatewayBench b([](GatewayOptions& o) { o.silence = Millis{400}; });
    const auto token = b.enrol();
    // A bare TCP connection that upgrades and then says nothing, not even pong.
    const int fd = connect_to(b.gateway->port());
    const auto request = "GET /agent/ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                         "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nAuthorization: Bearer " + token + "\r\n\r\n";
    REQUIRE(::write(fd, request.data(), request.size()) > 0);
    CHECK(eventually([&] { return b.core->seen_of<AgentConnected>().size() == 1; }));
    CHECK(eventually([&] { return b.core->seen_of<AgentDisconnected>().size() == 1; }));
    ::close(fd);
}

TEST_CASE("after a restart of the daemon the old session is unknown and enrolling works") {
    GatewayBench b;
    const auto token = b.enrol();
    b.gateway->stop();
    b.gateway = std::make_unique<Gateway>(*b.loop, *b.core, b.options);
    REQUIRE(b.gateway->start());
    CHECK(b.call("GET", b.of_attempt("checkpoint"), token).status == 401);
    CHECK(b.enrol_with(b.enrolment()).status == 200);
}

}  // namespace
}  // namespace gf::test
