#include "cli/client.hpp"

#include <doctest/doctest.h>

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
