#include <doctest/doctest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/command_run.hpp"
#include "tests/cli/scripted_server.hpp"

using namespace gf::test;

namespace {

bool holds(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

/// Answers everything with one status and body.
ScriptedServer::Script always(int status, std::string body, std::string type = "application/json",
                              std::vector<std::pair<std::string, std::string>> headers = {}) {
    return [=](const Request&, Wire& wire) { wire.reply(status, body, type, headers); };
}

const std::string kProblem = "application/problem+json";

}  // namespace

TEST_CASE("the exit status says whose trouble it was") {
    struct Row {
        std::string what;
        ScriptedServer::Script script;
        int status;
        const char* said;  // on standard error
    };
    const Row rows[] = {
        {"fine", always(200, R"({"items":[]})"), 0, "no jobs"},
        {"bad request", always(400, R"({"detail":"unknown query key"})", kProblem), 1, "unknown query key"},
        {"no token", always(401, R"({"detail":"a token is needed"})", kProblem), 121, "a token is needed"},
        {"role too small", always(403, R"({"detail":"role viewer may not"})", kProblem), 121,
         "role viewer may not"},
        {"not found", always(404, R"({"detail":"no such job"})", kProblem), 1, "no such job"},
        {"later issue", always(501, R"({"detail":"not yet: budgets"})", kProblem), 1, "not yet: budgets"},
        {"busy", always(503, R"({"detail":"busy"})", kProblem, {{"Retry-After", "2"}}), 1,
         "try again in 2 s"},
        {"disk full", always(507, R"({"detail":"the disk is full"})", kProblem), 1, "the disk is full"},
        {"error without a body", always(500, "", "text/plain"), 1, "HTTP 500"},
        {"a proxy's page", always(200, "<html>hello</html>", "text/html"), 123, "not JSON"},
        {"JSON without a list", always(200, R"({"jobs":[]})"), 123, "without a list"},
        {"a list that is none", always(200, R"({"items":{}})"), 123, "without a list"},
        {"a bare value", always(200, "3"), 123, "without a list"},
        {"redirect", always(302, "", "text/plain", {{"Location", "http://127.0.0.1:1/"}}), 123, "HTTP 302"},
        {"not HTTP",
         [](const Request&, Wire& wire) {
             wire.raw("SSH-2.0-OpenSSH_9.2\r\n");
             wire.cut();
         },
         123, "not a gpuferry daemon"},
        {"cut at once", [](const Request&, Wire& wire) { wire.cut(); }, 120, ""},
        {"cut in the body",
         [](const Request&, Wire& wire) {
             wire.raw("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"items\":");
             wire.cut();
         },
         120, ""},
    };
    for (const auto& row : rows) {
        CAPTURE(row.what);
        const ScriptedServer server(row.script);
        const auto ran = run_command({"ps"}, {.url = server.url()});
        CHECK(ran.status == row.status);
        CAPTURE(ran.err);
        CHECK(holds(ran.err, row.said));
    }
}

TEST_CASE("nobody there is 120, by TCP and by socket, and says what to do") {
    const TemporaryFolder folder;
    std::string url;
    {
        url = ScriptedServer(always(200, "")).url();
    }  // its port is free again
    CHECK(run_command({"ps"}, {.url = url}).status == 120);
    const auto missing = run_command({"ps"}, {.url = "unix:" + folder.path() + "/none.sock"});
    CHECK(missing.status == 120);
    CHECK(holds(missing.err, "start gpuferryd"));
    const auto by_default = run_command({"ps"}, {.url = {}, .variables = {{"XDG_DATA_HOME", folder.path()}}});
    CHECK(by_default.status == 120);
    CHECK(holds(by_default.err, folder.path() + "/gpuferry/gpuferry.sock"));
}

TEST_CASE("ages are counted by the daemon's clock, whatever this one shows") {
    const ScriptedServer server([](const Request& request, Wire& wire) {
        const std::vector<std::pair<std::string, std::string>> date{{"Date", "Sun, 06 Nov 2094 08:50:00 GMT"}};
        if (request.path().ends_with("/attempts"))
            return wire.reply(200,
                              R"({"items":[{"number":1,"state":"ended","started_at":"2094-11-06T08:40:00.000Z","ended_at":"2094-11-06T08:45:00.000Z"}]})",
                              "application/json", date);
        wire.reply(200, R"({"id":"job_1","state":"succeeded"})", "application/json", date);
    });
    const auto ran = run_command({"show", "job_1"}, {.url = server.url()});
    CHECK(ran.status == 0);
    CAPTURE(ran.out);
    CHECK(holds(ran.out, "10m"));
    CHECK(holds(ran.out, "5m"));
}

TEST_CASE("a unix socket serves like a port") {
    const TemporaryFolder folder;
    const ScriptedServer server(always(200, R"({"items":[{"id":"job_1","name":"n","state":"running"}]})"),
                                folder.path() + "/s");
    const auto ran =
        run_command({"ps"}, {.url = server.url(), .variables = {{"http_proxy", "http://127.0.0.1:1"}}});
    CHECK(ran.status == 0);
    CHECK(holds(ran.out, "job_1"));
}

TEST_CASE("wrong usage is 2 and asks the daemon nothing") {
    const ScriptedServer server(always(200, "{}"));
    const std::vector<std::vector<std::string>> rows{
        {},
        {"fly"},
        {"show"},
        {"ps", "--limit", "0"},
        {"ps", "--nope"},
        {"logs", "job_1", "--offset", "-1"},
        {"machines", "burn"},
        {"token"},
        {"token", "create"},
        {"token", "create", "x", "--role", "king"},
        {"ps", "--token", "gft_abc"},
        {"submit", "x.yaml", "--idempotency-key", "with space"},
        {"ps", "--url", "ferry"},
    };
    for (const auto& row : rows) {
        const auto ran = run_command(row, {.url = server.url()});
        CAPTURE(ran.err);
        CHECK(ran.status == 2);
        CHECK_FALSE(holds(ran.err, "gft_abc"));
    }
    CHECK(server.seen().empty());
    CHECK(run_command({"--help"}, {}).status == 0);
    CHECK(holds(run_command({"--help"}, {}).out, "Exit status"));
    CHECK(run_command({"--version"}, {}).status == 0);
}

TEST_CASE("the token goes into the header and nowhere else") {
    const ScriptedServer server(always(403, R"({"detail":"no"})", kProblem));
    const auto ran =
        run_command({"ps"}, {.url = server.url(), .variables = {{"GPUFERRY_TOKEN", "gft_s3cret"}}});
    REQUIRE(server.seen().size() == 1);
    CHECK(server.seen()[0].headers.at("authorization") == "Bearer gft_s3cret");
    CHECK_FALSE(holds(server.seen()[0].target, "s3cret"));
    CHECK_FALSE(holds(ran.out + ran.err, "s3cret"));
}

TEST_CASE("each command asks for what the API serves") {
    struct Row {
        std::vector<std::string> arguments;
        std::string method, target;
    };
    const Row rows[] = {
        {{"ps", "--state", "running", "--project", "a b"},
         "GET",
         "/v1/jobs?state=running&project=a%20b&limit=50"},
        {{"cancel", "job_1"}, "POST", "/v1/jobs/job_1/cancel"},
        {{"retry", "job_1"}, "POST", "/v1/jobs/job_1/retry"},
        {{"hold", "job_1"}, "POST", "/v1/jobs/job_1/hold"},
        {{"release", "job_1"}, "POST", "/v1/jobs/job_1/release"},
        {{"explain", "job_1"}, "GET", "/v1/jobs/job_1/explain"},
        {{"events", "job_1"}, "GET", "/v1/jobs/job_1/events?limit=500"},
        {{"logs", "job_1", "--offset", "7", "--attempt", "2"},
         "GET",
         "/v1/jobs/job_1/logs?attempt=2&offset=7"},
        {{"offers", "--gpu", "RTX 4090"}, "GET", "/v1/offers?gpu=RTX%204090&limit=50"},
        {{"gpus"}, "GET", "/v1/gpus?limit=500"},
        {{"providers"}, "GET", "/v1/providers?limit=500"},
        {{"machines"}, "GET", "/v1/machines?limit=500"},
        {{"machines", "list", "--all"}, "GET", "/v1/machines?all=1&limit=500"},
        {{"machines", "destroy", "mch_1"}, "DELETE", "/v1/machines/mch_1"},
        {{"machines", "adopt", "mch_1"}, "POST", "/v1/machines/mch_1/adopt"},
        {{"cost", "job_1"}, "GET", "/v1/jobs/job_1/cost"},
        {{"cost", "--from", "2026-11-01T00:00:00Z", "--group-by", "provider"},
         "GET",
         "/v1/cost?from=2026-11-01T00%3A00%3A00Z&group_by=provider"},
        {{"budget", "list"}, "GET", "/v1/budgets"},
        {{"budget", "remove", "month"}, "DELETE", "/v1/budgets/month"},
        {{"alerts"}, "GET", "/v1/alerts?limit=500"},
        {{"estimate", "meta-llama/Llama-3.1-8B"}, "POST", "/v1/estimate"},
        {{"checkpoints", "list", "job_1"}, "GET", "/v1/jobs/job_1/checkpoints?limit=500"},
        {{"outputs", "list", "job_1"}, "GET", "/v1/jobs/job_1/outputs?limit=500"},
        {{"token", "list"}, "GET", "/v1/tokens?limit=500"},
        {{"token", "revoke", "tok_1"}, "DELETE", "/v1/tokens/tok_1"},
        {{"secret", "list"}, "GET", "/v1/secrets?limit=500"},
        {{"secret", "rm", "HF"}, "DELETE", "/v1/secrets/HF"},
        {{"secret", "remove", "HF"}, "DELETE", "/v1/secrets/HF"},
        {{"show", "../tokens"}, "GET", "/v1/jobs/..%2Ftokens"},
    };
    for (const auto& row : rows) {
        const ScriptedServer server(
            always(200, R"({"items":[],"total":"0.00","at_least":false,"lines":[]})"));
        const auto ran = run_command(row.arguments, {.url = server.url()});
        CAPTURE(row.target);
        CAPTURE(ran.err);
        CHECK(ran.status == 0);
        REQUIRE_FALSE(server.seen().empty());
        CHECK(server.seen()[0].method == row.method);
        CHECK(server.seen()[0].target == row.target);
    }
}

TEST_CASE("--json prints what the daemon said, before or after the command") {
    const ScriptedServer server(always(200, R"({"id":"job_1","state":"running","new_field":[1]})"));
    for (const auto& arguments :
         {std::vector<std::string>{"--json", "show", "job_1"}, {"show", "job_1", "--json"}}) {
        const auto ran = run_command(arguments, {.url = server.url()});
        CHECK(ran.status == 0);
        CHECK(ran.out ==
              "{\n  \"id\": \"job_1\",\n  \"new_field\": [\n    1\n  ],\n  \"state\": \"running\"\n}\n");
    }
    const ScriptedServer refusing(always(404, R"({"detail":"no such job","status":404})", kProblem));
    const auto refused = run_command({"--json", "show", "x"}, {.url = refusing.url()});
    CHECK(refused.status == 1);
    CHECK(refused.out == "{\"detail\":\"no such job\",\"status\":404}\n");
}

TEST_CASE("lists are read to their end, page by page") {
    const ScriptedServer server([](const Request& request, Wire& wire) {
        if (holds(request.target, "cursor=p2"))
            wire.reply(200, R"({"items":[{"id":"b"}],"next_cursor":null})");
        else
            wire.reply(200, R"({"items":[{"id":"a"}],"next_cursor":"p2"})");
    });
    const auto ran = run_command({"machines"}, {.url = server.url()});
    CHECK(server.seen().size() == 2);
    CHECK(holds(ran.out, "\na "));
    CHECK(holds(ran.out, "\nb "));
}

TEST_CASE("a server whose cursor never moves does not hold the command for ever") {
    const ScriptedServer server(always(200, R"({"items":[{"id":"a"}],"next_cursor":"same"})"));
    CHECK(run_command({"machines"}, {.url = server.url()}).status == 0);
    CHECK(server.seen().size() == 2);
}

TEST_CASE("one refused job of several is told, and the others are still done") {
    const ScriptedServer server([](const Request& request, Wire& wire) {
        if (holds(request.target, "job_2"))
            wire.reply(409, R"({"detail":"it has ended"})", kProblem);
        else
            wire.reply(200, R"({"state":"stopping"})");
    });
    const auto ran = run_command({"cancel", "job_1", "job_2", "job_3"}, {.url = server.url()});
    CHECK(ran.status == 1);
    CHECK(holds(ran.out, "job_1 is being cancelled (now stopping)"));
    CHECK(holds(ran.out, "job_3"));
    CHECK(holds(ran.err, "job_2: error: it has ended"));
}

TEST_CASE("the cost table has a total, and says \"at least\" when a rate was not known") {
    const std::string lines =
        R"("lines":[{"machine":"mch_1","provider":"vastai","rate":"0.40","amount":"0.21"}])";
    const ScriptedServer exact(always(200, R"({"total":"0.21","at_least":false,)" + lines + "}"));
    const auto sure = run_command({"cost", "job_1"}, {.url = exact.url()});
    CHECK(sure.out == "MACHINE  PROVIDER    $/H   COST\nmch_1    vastai    $0.40  $0.21\ntotal $0.21\n");
    const ScriptedServer open(always(200, R"({"total":"0.21","at_least":true,)" + lines + "}"));
    CHECK(holds(run_command({"cost"}, {.url = open.url()}).out, "total at least $0.21\n"));
}

TEST_CASE("a new token is alone on standard output") {
    const ScriptedServer server(
        always(201, R"({"id":"tok_1","name":"ci","role":"submitter","token":"gft_once"})"));
    const auto ran = run_command({"token", "create", "ci"}, {.url = server.url()});
    CHECK(ran.out == "gft_once\n");
    CHECK(holds(ran.err, "shown this once"));
    CHECK(server.seen()[0].body == R"({"name":"ci","role":"submitter"})");
}

TEST_CASE("a secret's value is read from standard input and never printed") {
    const ScriptedServer server(always(200, "{}"));
    const auto ran = run_command({"secret", "set", "HF"}, {.url = server.url(), .in = "hf_EXAMPLE\n"});
    CHECK(ran.status == 0);
    CHECK(server.seen()[0].body == R"({"value":"hf_EXAMPLE"})");
    CHECK_FALSE(holds(ran.out + ran.err, "hf_EXAMPLE"));
    CHECK(run_command({"secret", "set", "HF"}, {.url = server.url(), .in = "\n"}).status == 2);
    // Inner line ends and blanks are part of it.
    CHECK(run_command({"secret", "set", "HF"}, {.url = server.url(), .in = " a\nb \r\n"}).status == 0);
    CHECK(server.seen()[1].body == R"({"value":" a\nb "})");
    CHECK(run_command({"secret", "set", "HF"}, {.url = server.url(), .in = std::string(64 << 10, 'v') + "\n"}).status == 0);
    CHECK(server.seen().size() == 3);
}

TEST_CASE("what is no value or no name of a secret is refused here, and repeated nowhere") {
    const ScriptedServer server(always(200, "{}"));
    for (const auto& bad : {std::string("a\0b_EXAMPLE", 11), std::string("hf_EXAMPLE\xFF"), "hf_EXAMPLE" + std::string(64 << 10, 'v')}) {
        const auto ran = run_command({"secret", "set", "HF"}, {.url = server.url(), .in = bad});
        CHECK(ran.status == 2);
        CHECK_FALSE(holds(ran.out + ran.err, "EXAMPLE"));
    }
    // The value in place of the name.
    const auto ran = run_command({"secret", "set", "hf_EXAMPLE"}, {.url = server.url(), .in = "x"});
    CHECK(ran.status == 2);
    CHECK_FALSE(holds(ran.out + ran.err, "EXAMPLE"));
    CHECK(server.seen().empty());
}

TEST_CASE("at a terminal a secret's value is asked for without echo") {
    const ScriptedServer server(always(201, R"({"name":"HF"})"));
    const auto ran = run_command({"secret", "set", "HF"}, {.url = server.url(), .in = "not this", .typed = "hf_EXAMPLE"});
    CHECK(ran.status == 0);
    CHECK(ran.out == "secret HF is stored\n");
    CHECK(server.seen()[0].body == R"({"value":"hf_EXAMPLE"})");
    CHECK_FALSE(holds(ran.out + ran.err, "hf_EXAMPLE"));
    CHECK(run_command({"secret", "set", "HF"}, {.url = server.url(), .typed = ""}).status == 2);  // nothing, or Ctrl-C
    CHECK(server.seen().size() == 1);
}

TEST_CASE("explain shows the offer, the price lines, the refusals by count and the near misses") {
    const ScriptedServer server(
        always(200, R"({"considered":9,"chosen":{"provider":"vastai","offer":"18","gpu":"RTX 4090","gpus":1,
        "spot":true,"country":"US","rate":"0.2258","lines":[{"name":"gpu","rate":"0.2133"},{"name":"disk","rate":"0.0125"}]},
        "refused":{"too_dear":2,"vram":5},"ranked":[],
        "near_misses":[{"provider":"runpod","offer":"x","gpu":"A40","gpus":1,"spot":false,"rate":"0.44","reason":"too_dear","detail":"0.44 is over 0.40"}]})"));
    const auto ran = run_command({"explain", "job_1"}, {.url = server.url()});
    CHECK(ran.out ==
          "chosen     $0.2258/h  vastai 18, 1x RTX 4090, spot, US = gpu $0.2133 + disk $0.0125\n"
          "considered 9 offers\n"
          "refused, by reason\n"
          "       5  vram\n"
          "       2  too_dear\n"
          "refused for one reason only, best first\n"
          "  $0.44/h  runpod x, 1x A40, on-demand  too_dear: 0.44 is over 0.40\n");
}

TEST_CASE("explain shows of each offer that would do what it is ranked by, beside its price per hour") {
    struct Row {
        const char* what;
        const char* first;
        const char* second;
        const char* text;
    };
    const Row table[] = {
        {"known work", R"({"known":true,"total":"4.02","lines":[]})", R"({"known":true,"total":"11.50","lines":[],"cut_off":true})",
         "would do, best first\n"
         "  $4.02 to finish                               $0.40/h  vastai 1, 1x RTX 4090, on-demand\n"
         "  $11.50 to finish, not within limits.duration  $0.25/h  vastai 2, 1x RTX 3090, spot\n"},
        {"work that is not known", R"({"known":false,"per_unit":"0.2024","per_unit_of":"V100"})",
         R"({"known":false,"per_unit":"0.21","per_unit_of":"V100","hopeless":true})",
         "would do, best first\n"
         "  $0.2024 per V100-hour            $0.40/h  vastai 1, 1x RTX 4090, on-demand\n"
         "  $0.21 per V100-hour or far more  $0.25/h  vastai 2, 1x RTX 3090, spot\n"},
        {"a job without a GPU", R"({"known":false,"per_unit":"0.01","per_unit_of":"core"})", R"({"known":false,"per_unit":"0.02","per_unit_of":"core"})",
         "would do, best first\n"
         "  $0.01 per core-hour  $0.40/h  vastai 1, 1x RTX 4090, on-demand\n"
         "  $0.02 per core-hour  $0.25/h  vastai 2, 1x RTX 3090, spot\n"},
        {"prices per hour alone", "null", "null",
         "would do, best first\n"
         "  $0.40/h  vastai 1, 1x RTX 4090, on-demand\n"
         "  $0.25/h  vastai 2, 1x RTX 3090, spot\n"}};
    for (const auto& row : table) {
        CAPTURE(std::string(row.what));
        const auto body = std::string(R"({"ranked":[{"provider":"vastai","offer":"1","gpu":"RTX 4090","gpus":1,"spot":false,"rate":"0.40","lines":[],"finish":)") +
                          row.first + R"(},{"provider":"vastai","offer":"2","gpu":"RTX 3090","gpus":1,"spot":true,"rate":"0.25","lines":[],"finish":)" +
                          row.second + "}]}";
        const ScriptedServer server(always(200, body));
        CHECK(run_command({"explain", "job_1"}, {.url = server.url()}).out == row.text);
    }
}

TEST_CASE("explain shows the money to finish line by line, the line of the spec that refused, and the change that would help") {
    const ScriptedServer server(
        always(200, R"({"state":"queued","reason":"no_offer_fits","waiting_since":"2026-01-02T03:04:05Z","decision":{"considered":3,
        "wait_reason":"max_price","chosen":{"provider":"vastai","offer":"18","gpu":"RTX 4090","gpus":1,"spot":true,"rate":"0.2258","lines":[],
        "finish":{"known":true,"total":"0.72","lines":[{"name":"gpu","amount":"0.60","note":"2.8 h at 0.21"},{"name":"start","amount":"0.12","note":""}],
        "run_seconds":10080,"held_seconds":12000,"from":{"work":"progress","speed":"seen 4 times here","losses":"","start":"prior"}}},
        "refused":{"max_price":2,"quota_machines":1},"ranked":[],"near_misses":[],
        "sources":{"max_price":{"key":"resources.max_price","line":7},"quota_machines":{"config":"quotas.machines"}},
        "relaxations":[{"key":"resources.max_price","text":"raise resources.max_price to 0.43 and 12 offers fit"}]}})"));
    const auto ran = run_command({"explain", "job_1"}, {.url = server.url()});
    CHECK(ran.out ==
          "state      queued no_offer_fits\n"
          "chosen     $0.2258/h  vastai 18, 1x RTX 4090, spot\n"
          "expected   $0.72 to finish: 2.8 h of work, 3.3 h of machines\n"
          "       $0.60  gpu  (2.8 h at 0.21)\n"
          "       $0.12  start\n"
          "        work  progress\n"
          "       speed  seen 4 times here\n"
          "       start  prior\n"
          "waiting    max_price, since 2026-01-02T03:04:05Z\n"
          "considered 3 offers\n"
          "refused, by reason\n"
          "       2  max_price  (resources.max_price, line 7)\n"
          "       1  quota_machines  (configuration: quotas.machines)\n"
          "one change would help\n"
          "  raise resources.max_price to 0.43 and 12 offers fit\n");
}

TEST_CASE("explain tells what a waiting task waits for since when, and why a choice is not the first that would do") {
    const ScriptedServer server(
        always(200, R"({"state":"queued","reason":"submitted","waiting_since":"2026-01-02T03:04:05Z","decision":{"considered":3,"chosen":null,
        "wait_reason":"quota","wait_detail":"quota_provider_machines/vastai","wait_since":"2026-01-02T04:00:00Z","passed_over":"next_best"}})"));
    CHECK(run_command({"explain", "job_1"}, {.url = server.url()}).out ==
          "state      queued submitted\n"
          "waiting    quota (quota_provider_machines/vastai), since 2026-01-02T04:00:00Z\n"
          "not first  next_best\n"
          "considered 3 offers\n");
}

TEST_CASE("verify asks for one generation at a time and fails when one is broken") {
    const auto script = [](const std::string& second) {
        return [=](const Request& request, Wire& wire) {
            if (holds(request.target, "cursor=1"))
                return wire.reply(
                    200, R"({"items":[{"generation":1,"attempt":1,"step":5,"bytes":7,"state":"whole",)" +
                             second + R"(}],"next_cursor":null})");
            wire.reply(
                200,
                R"({"items":[{"generation":2,"attempt":1,"step":9,"bytes":7,"state":"whole","verified":"whole"}],"next_cursor":"1"})");
        };
    };
    const ScriptedServer good(script(R"("verified":"whole")"));
    const auto fine = run_command({"checkpoints", "verify", "job_1"}, {.url = good.url()});
    CHECK(fine.status == 0);
    CHECK(good.seen().size() == 2);
    CHECK(good.seen()[0].target == "/v1/jobs/job_1/checkpoints?verify=1&limit=1");
    const ScriptedServer bad(script(R"("verified":"broken","detail":"chunk 3 of ckpt/a")"));
    const auto broken = run_command({"checkpoints", "verify", "job_1"}, {.url = bad.url()});
    CHECK(broken.status == 1);
    CHECK(holds(broken.out, "chunk 3 of ckpt/a"));
    CHECK(holds(broken.err, "1 of 2"));
    const ScriptedServer old(script(R"("detail":"x")"));
    CHECK(run_command({"checkpoints", "verify", "job_1"}, {.url = old.url()}).status == 123);
}

TEST_CASE("a name with control characters is shown harmless") {
    const ScriptedServer server(
        always(200, R"({"items":[{"id":"job_1","name":"\u001b]0;x\u0007\u202e","state":"queued"}]})"));
    const auto ran = run_command({"ps"}, {.url = server.url()});
    CHECK_FALSE(holds(ran.out, "\x1b"));
    CHECK(holds(ran.out, "\\x1b]0;x\\x07\\u{202e}"));
}

TEST_CASE("doctor says what is wrong and ends accordingly") {
    const auto script = [](const std::string& providers, int ready) {
        return [=](const Request& request, Wire& wire) {
            if (request.path() == "/healthz")
                wire.reply(200, R"({"status":"ok","version":"0.1.0","time":"1994-11-06T08:49:37.000Z"})");
            else if (request.path() == "/readyz")
                wire.reply(ready, "{}");
            else if (request.path() == "/v1/providers")
                wire.reply(200, providers);
            else
                wire.reply(200, R"({"items":[]})");
        };
    };
    const ScriptedServer good(script(R"({"items":[{"name":"local","health":"ok"}]})", 200));
    const auto fine = run_command({"doctor"}, {.url = good.url()});
    CHECK(fine.status == 0);
    CHECK(holds(fine.out, "answers, 0.1.0"));
    CHECK(holds(fine.out, "warning  clock"));
    CHECK(holds(fine.out, "local: ok"));
    const ScriptedServer bad(script(
        R"({"items":[{"name":"vastai","health":"launch_paused","reason":"auth","advertise_url":null}]})",
        503));
    const auto sick = run_command({"doctor"}, {.url = bad.url()});
    CHECK(sick.status == 1);
    CHECK(holds(sick.out, "failed   provider   vastai: launch_paused, auth"));
    CHECK(holds(sick.out, "warning  ready"));
    CHECK(holds(sick.out, "failed   advertise"));
    CHECK(run_command({"doctor"}, {.url = "unix:/nonexistent/s"}).status == 120);
}

TEST_CASE("doctor shows what the daemon found, provider by provider") {
    const auto script = [](int status, const std::string& found) {
        return [=](const Request& request, Wire& wire) {
            if (request.path() == "/v1/providers/check")
                wire.reply(status, found, status == 200 ? "application/json" : "application/problem+json");
            else if (request.path() == "/v1/providers")
                wire.reply(200, R"({"items":[{"name":"vastai","health":"ok","advertise_url":null}]})");
            else
                wire.reply(200, R"({"items":[]})");
        };
    };
    const std::string found = R"({"items":[
        {"provider":"daemon","level":"warning","what":"advertise_url","text":"10.0.0.5 is a private address"},
        {"provider":"vastai","level":"ok","what":"key","text":"accepted"},
        {"provider":"vastai","level":"%","what":"money","text":"0.20 dollars left\u001b[31m"}],"next_cursor":null})";
    const auto with = [&](const std::string& level) {
        auto body = found;
        return body.replace(body.find('%'), 1, level);
    };
    const ScriptedServer mild(script(200, with("warning")));
    const auto fine = run_command({"doctor"}, {.url = mild.url()});
    CHECK(fine.status == 0);
    CHECK(holds(fine.out, "\nvastai\n  ok       key        accepted\n  warning  money      0.20 dollars left"));
    CHECK(holds(fine.out, "\ndaemon\n  warning  advertise_url 10.0.0.5 is a private address\n"));
    CHECK_FALSE(holds(fine.out, "advertise_url is not set"));  // the daemon has looked itself
    CHECK_FALSE(holds(fine.out, "\x1b"));                      // no colour, and none from outside
    CHECK(mild.seen("POST", "/v1/providers/check").size() == 1);

    const ScriptedServer bad(script(200, with("failed")));
    const auto sick = run_command({"doctor"}, {.url = bad.url()});
    CHECK(sick.status == 1);
    CHECK(holds(sick.out, "  failed   money"));
    const auto coloured = run_command({"doctor"}, {.url = bad.url(), .terminal = true});
    CHECK(holds(coloured.out, "\x1b["));
    const auto machine = run_command({"doctor", "--json"}, {.url = bad.url()});
    CHECK(machine.status == 1);
    const auto checks = nlohmann::json::parse(machine.out).at("checks");
    CHECK(std::ranges::any_of(checks, [](const auto& c) {
        return c.value("provider", "") == "vastai" && c.at("check") == "money" && c.at("verdict") == "failed";
    }));

    // Without the role the rest is told all the same.
    const ScriptedServer viewer(script(403, R"({"title":"Forbidden","status":403,"detail":"the role operator is needed"})"));
    const auto partly = run_command({"doctor"}, {.url = viewer.url()});
    CHECK(holds(partly.out, "warning  checks     to have the providers checked a token needs the role operator"));
    CHECK(holds(partly.out, "failed   advertise"));
    const ScriptedServer broken(script(503, R"({"title":"x","status":503,"detail":"the daemon is stopping"})"));
    CHECK(holds(run_command({"doctor"}, {.url = broken.url()}).out, "failed   checks     the daemon is stopping"));
}

TEST_CASE("doctor says why there is no daemon") {
    const auto none = run_command({"doctor"}, {.url = "unix:/nonexistent/s"});
    CHECK(none.status == 120);
    CHECK(none.out.starts_with("failed   socket     /nonexistent/s: No such file or directory"));
    const TemporaryFolder folder;
    const auto path = folder.path() + "/s";
    {
        const ScriptedServer gone([](const Request&, Wire& wire) { wire.reply(200, "{}"); }, path);
        CHECK(holds(run_command({"doctor"}, {.url = "unix:" + path}).out, "ok       socket"));
    }
    if (!std::filesystem::exists(path)) {  // what a daemon that was killed leaves behind
        const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        path.copy(address.sun_path, sizeof address.sun_path - 1);
        REQUIRE(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
        ::close(fd);
    }
    const auto left = run_command({"doctor"}, {.url = "unix:" + path});
    CHECK(left.status == 120);
    CHECK(left.out.starts_with("failed   socket"));
    CHECK(holds(left.out, "nobody listens there; gpuferryd is not running"));
    const auto file = run_command({"doctor"}, {.url = "unix:" + folder.write("file", "x")});
    CHECK(holds(file.out, "is not a socket"));
}
