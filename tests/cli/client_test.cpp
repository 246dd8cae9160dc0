#include "cli/client.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "cli/exit_code.hpp"
#include "tests/cli/scripted_server.hpp"

using namespace gf::cli;
using gf::test::Request;
using gf::test::ScriptedServer;
using gf::test::TemporaryFolder;
using gf::test::Wire;
using namespace std::chrono_literals;

namespace {

struct Bench {
    std::istringstream in;
    std::ostringstream out, err;
    Environment env{.in = in, .out = out, .err = err, .variable = {}, .sleep = {}, .catch_interrupt = {}};
    Client client;
    explicit Bench(const ScriptedServer& server) : client(*find_endpoint({.url = server.url()}, env), env) {}
};

}  // namespace

TEST_CASE("a daemon that never answers is a time-out, as a whole and by silence") {
    const ScriptedServer silent([](const Request&, Wire& wire) { wire.hang(); });
    Bench whole(silent);
    const auto by_total = whole.client.send(Call{.path = "/", .total = 200ms});
    REQUIRE_FALSE(by_total);
    CHECK(by_total.error().exit_code == kExitTimeout);
    const ScriptedServer drying([](const Request&, Wire& wire) {
        wire.raw("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc");
        wire.hang();
    });
    Bench bench(drying);
    const auto by_silence = bench.client.send(Call{.path = "/", .total = 0ms, .stall = 200ms});
    REQUIRE_FALSE(by_silence);
    CHECK(by_silence.error().exit_code == kExitTimeout);
    CHECK(by_silence.error().text.find("nothing was received") != std::string::npos);
}

TEST_CASE("an upload that is refused early gives the refusal, not the broken pipe") {
    const TemporaryFolder folder;
    const auto file = folder.write("big", std::string(8 << 20, 'x'));
    // The scripted server reads whole bodies; this one answers after the head and closes.
    const ScriptedServer refusing(
        [](const Request&, Wire& wire) {
            wire.reply(413, R"({"detail":"too large"})", "application/problem+json",
                       {{"Connection", "close"}});
            wire.cut();
        },
        {}, true);
    Bench bench(refusing);
    const auto answer =
        bench.client.send(Call{.method = "PUT", .path = "/v1/blobs/x", .upload_file = file, .total = 0ms});
    REQUIRE(answer);
    CHECK(answer->status == 413);
    CHECK(refusal(*answer, "PUT").problem == R"({"detail":"too large"})");
    REQUIRE(refusing.seen().size() == 1);
    CHECK(refusing.seen()[0].headers.at("expect") == "100-continue");  // asked first: nothing was on its way
}

TEST_CASE("an answer that would fill the memory is cut off") {
    const ScriptedServer endless([](const Request&, Wire& wire) {
        wire.raw("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n");
        const std::string piece(1 << 20, ' ');
        for (int i = 0; i < 100 && wire.open(); ++i) wire.raw(piece);
        wire.cut();
    });
    Bench bench(endless);
    const auto answer = bench.client.get_json("/v1/jobs");
    REQUIRE_FALSE(answer);
    CHECK(answer.error().exit_code == kExitUnexpected);
    CHECK(answer.error().text.find("64 MiB") != std::string::npos);
}

TEST_CASE("a proxy of the environment is not asked for this machine: it would read the token") {
    const ScriptedServer proxy([](const Request&, Wire& wire) { wire.reply(200, "{}"); });
    const ScriptedServer server([](const Request&, Wire& wire) { wire.reply(200, "{}"); });
    REQUIRE(setenv("http_proxy", proxy.url().c_str(), 1) == 0);
    {
        Bench bench(server);
        CHECK(bench.client.get_json("/v1/jobs"));
    }
    unsetenv("http_proxy");
    CHECK(proxy.seen().empty());
    CHECK(server.seen().size() == 1);
    std::istringstream in;
    std::ostringstream out;
    Environment env{.in = in, .out = out, .err = out, .variable = {}, .sleep = {}, .catch_interrupt = {}};
    CHECK(find_endpoint({.url = "http://[::1]:1"}, env)->loopback);
    CHECK(find_endpoint({.url = "http://localhost:1"}, env)->loopback);
    CHECK_FALSE(find_endpoint({.url = "http://127.0.0.1.evil.example"}, env)->loopback);
}

TEST_CASE("what could not be sent is told from what may have arrived") {
    struct Row {
        const char* what;
        std::string url;
        bool never_sent;
    };
    const ScriptedServer cutting([](const Request&, Wire& wire) { wire.cut(); });
    std::string free_port;
    { free_port = ScriptedServer([](const Request&, Wire&) {}).url(); }
    for (const auto& row : {Row{"cut after the request", cutting.url(), false}, Row{"nobody listens", free_port, true},
                            Row{"no such host", "http://no-such-host.invalid", true},
                            Row{"a certificate file that is none", "https" + cutting.url().substr(4), true}}) {
        CAPTURE(row.what);
        std::istringstream in;
        std::ostringstream out;
        Environment env{.in = in, .out = out, .err = out, .variable = {}, .sleep = {}, .catch_interrupt = {}};
        Client client(*find_endpoint({.url = row.url, .token_source = {}, .ca_file = "/dev/null"}, env), env);
        const auto answer = client.send(Call{.method = "POST", .path = "/v1/jobs", .total = 5s});
        REQUIRE_FALSE(answer);
        CHECK(answer.error().exit_code == kExitConnection);
        CHECK(answer.error().never_sent == row.never_sent);
    }
}

TEST_CASE("the daemon's clock is that of its last answer") {
    const ScriptedServer server([](const Request& request, Wire& wire) {
        if (request.path() == "/undated") return wire.reply(200, "{}");
        wire.reply(200, "{}", "application/json", {{"Date", "Sun, 06 Nov 1994 08:49:37 GMT"}});
    });
    Bench bench(server);
    REQUIRE(bench.client.get_json("/undated"));
    CHECK_FALSE(bench.client.daemon_ms());
    REQUIRE(bench.client.get_json("/dated"));
    CHECK(bench.client.daemon_ms() == 784'111'777'000);
}

TEST_CASE("one client makes many calls, and a failed one leaves no trace on the next") {
    const ScriptedServer server([](const Request& request, Wire& wire) {
        if (request.path() == "/cut") return wire.cut();
        wire.reply(200, "{\"path\":\"" + request.path() + "\",\"method\":\"" + request.method +
                            "\",\"body\":" + std::to_string(request.body.size()) + "}");
    });
    Bench bench(server);
    const auto posted = bench.client.send_json(
        Call{.method = "POST", .path = "/a", .body = "12345", .content_type = "text/plain"});
    REQUIRE(posted);
    CHECK(bench.client.send(Call{.path = "/cut"}).error().exit_code == kExitConnection);
    REQUIRE(bench.client.get_json("/b"));
    const auto requests = server.seen();
    CHECK(requests.back().method == "GET");
    CHECK_FALSE(requests.back().headers.contains("content-type"));
    const auto head = bench.client.send(Call{.method = "HEAD", .path = "/c"});
    REQUIRE(head);
    CHECK(head->body.empty());
}
