#include <doctest/doctest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "tests/cli/command_run.hpp"
#include "tests/cli/scripted_server.hpp"

using namespace gf::test;

namespace {

bool holds(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

const std::string kProblem = "application/problem+json";
const std::string kChosen =
    R"({"decision":{"chosen":{"provider":"vastai","offer":"18","gpu":"RTX 4090","gpus":1,"spot":true,"rate":"0.2258"}}})";

/// A daemon as submit sees it: blobs, jobs, one job whose answers are scripted.
class FakeDaemon {
 public:
    std::string job_json{R"({"id":"job_1","state":"running"})"};
    std::string explain_json{kChosen};
    std::function<bool(const Request&, Wire&)> on_submit;  // true = it answered

    ScriptedServer::Script script() {
        return [this](const Request& request, Wire& wire) {
            const std::lock_guard lock(mutex_);
            const auto path = request.path();
            if (path.starts_with("/v1/blobs/")) {
                const auto name = path.substr(10);
                if (request.method == "HEAD") return wire.reply(blobs.contains(name) ? 200 : 404, "");
                if (sha256_hex(request.body) != name)
                    return wire.reply(422, R"({"detail":"wrong hash"})", kProblem);
                blobs[name] = request.body;
                return wire.reply(201, "{}");
            }
            if (request.method == "POST" && path == "/v1/jobs") {
                keys.insert(
                    request.headers.contains("idempotency-key") ? request.headers.at("idempotency-key") : "");
                if (on_submit && on_submit(request, wire)) return;
                return wire.reply(201, R"({"id":"job_1","state":"queued"})", "application/json",
                                  {{"Location", "/v1/jobs/job_1"}});
            }
            if (path == "/v1/jobs/job_1/explain") return wire.reply(200, explain_json);
            if (path == "/v1/jobs/job_1") return wire.reply(200, job_json);
            if (path == "/v1/plan") return wire.reply(200, "{}");
            wire.reply(404, R"({"detail":"no such thing"})", kProblem);
        };
    }
    std::map<std::string, std::string> blobs;
    std::set<std::string> keys;

 private:
    std::mutex mutex_;
};

}  // namespace

TEST_CASE("submit prints the id and the chosen offer with its all-in price") {
    const TemporaryFolder folder;
    const auto spec = folder.write("job.yaml", "name: x\nrun: echo hi\n");
    FakeDaemon daemon;
    const ScriptedServer server(daemon.script());
    const auto ran = run_command({"submit", spec}, {.url = server.url()});
    CAPTURE(ran.err);
    CHECK(ran.status == 0);
    CHECK(ran.out == "job_1\noffer vastai 18, 1x RTX 4090, spot at $0.2258/h all-in\n");
    const auto post = server.seen("POST", "/v1/jobs");
    REQUIRE(post.size() == 1);
    CHECK(post[0].body == "name: x\nrun: echo hi\n");
    CHECK(post[0].headers.at("content-type") == "application/yaml");
    CHECK(post[0].headers.at("idempotency-key").size() > 20);
}

TEST_CASE("submit says plainly that a job waits, and why") {
    const TemporaryFolder folder;
    const auto spec = folder.write("job.yaml", "name: x\nrun: echo hi\n");
    FakeDaemon daemon;
    daemon.job_json = R"({"id":"job_1","state":"queued"})";
    daemon.explain_json =
        R"({"reason":"submitted","decision":{"chosen":null,"wait_reason":"no_offer_fits"}})";
    const ScriptedServer server(daemon.script());
    const auto ran = run_command({"submit", spec}, {.url = server.url()});
    CHECK(ran.status == 0);
    CHECK(holds(ran.out, "queued: no offer yet (no_offer_fits); gpuferry explain job_1 tells more"));
}

TEST_CASE("the content type follows the name, else the first character") {
    const TemporaryFolder folder;
    FakeDaemon daemon;
    const ScriptedServer server(daemon.script());
    const auto type_of = [&](const std::string& name, const std::string& text) {
        const auto before = server.seen("POST", "/v1/jobs").size();
        const bool piped = name == "-";
        const auto ran = run_command({"submit", "-d", piped ? name : folder.write(name, text)},
                                     {.url = server.url(), .in = piped ? text : ""});
        CHECK(ran.status == 0);
        CHECK(ran.out == "job_1\n");
        return server.seen("POST", "/v1/jobs").at(before).headers.at("content-type");
    };
    CHECK(type_of("a.json", "{}") == "application/json");
    CHECK(type_of("a.yml", "{name: x}") == "application/yaml");
    CHECK(type_of("a.txt", " \n{\"name\": 1}") == "application/json");
    CHECK(type_of("-", "name: x") == "application/yaml");
    CHECK(type_of("-", "{\"name\": 1}") == "application/json");
}

TEST_CASE("the code folder travels once, and only the value of code: changes in the spec") {
    const TemporaryFolder folder;
    folder.write("proj/train.py", "print(1)\n");
    folder.write("proj/.gitignore", "*.ckpt\n");
    folder.write("proj/big.ckpt", "not sent");
    const auto spec = folder.write(
        "job.yaml", "name: x   # a comment\ncode:  \"proj\"   # the code\nrun: python3 train.py\n");
    FakeDaemon daemon;
    const ScriptedServer server(daemon.script());
    const auto first = run_command({"submit", "-d", spec}, {.url = server.url()});
    CAPTURE(first.err);
    CHECK(first.status == 0);
    REQUIRE(daemon.blobs.size() == 1);
    const auto& [sha256, tar] = *daemon.blobs.begin();
    CHECK(server.seen("PUT", "/v1/blobs/").size() == 1);
    const auto sent = server.seen("POST", "/v1/jobs").at(0).body;
    CHECK(holds(sent, "sha256:" + sha256));
    CHECK(sent.starts_with("name: x   # a comment\ncode:  "));
    CHECK(sent.ends_with("   # the code\nrun: python3 train.py\n"));
    CHECK(std::count(sent.begin(), sent.end(), '\n') == 3);
    folder.write("x.tar", tar);
    std::filesystem::create_directory(folder.path() + "/out");
    REQUIRE(std::system(("tar -xf " + folder.path() + "/x.tar -C " + folder.path() + "/out").c_str()) == 0);
    CHECK(read_file(folder.path() + "/out/train.py") == "print(1)\n");
    CHECK_FALSE(std::filesystem::exists(folder.path() + "/out/big.ckpt"));

    CHECK(run_command({"submit", "-d", spec}, {.url = server.url()}).status == 0);
    CHECK(server.seen("PUT", "/v1/blobs/").size() == 1);  // it was there already
    CHECK(server.seen("POST", "/v1/jobs").at(1).body == sent);
    // No temporary file is left behind.
    const auto ran = run_command({"submit", "-d", spec},
                                 {.url = server.url(), .variables = {{"TMPDIR", folder.path() + "/out"}}});
    CHECK(ran.status == 0);
    for (const auto& entry : std::filesystem::directory_iterator(folder.path() + "/out"))
        CHECK_FALSE(holds(entry.path().string(), "gpuferry-code"));
}

TEST_CASE("a code folder in a JSON spec") {
    const TemporaryFolder folder;
    folder.write("proj/train.py", "print(1)\n");
    const auto spec =
        folder.write("job.json", "{\n  \"name\": \"code\",\n  \"code\": \"proj\",\n  \"run\": \"x\"\n}\n");
    FakeDaemon daemon;
    const ScriptedServer server(daemon.script());
    const auto ran = run_command({"submit", "-d", spec}, {.url = server.url()});
    CAPTURE(ran.err);
    CHECK(ran.status == 0);
    REQUIRE(daemon.blobs.size() == 1);
    CHECK(server.seen("POST", "/v1/jobs").at(0).body ==
          "{\n  \"name\": \"code\",\n  \"code\": \"sha256:" + daemon.blobs.begin()->first +
              "\",\n  \"run\": \"x\"\n}\n");
}

TEST_CASE("a code folder that is not there is said before anything is sent") {
    const TemporaryFolder folder;
    const auto spec = folder.write("job.yaml", "name: x\ncode: nowhere\nrun: x\n");
    FakeDaemon daemon;
    const ScriptedServer server(daemon.script());
    const auto ran = run_command({"submit", spec}, {.url = server.url()});
    CHECK(ran.status == 1);
    CHECK(holds(ran.err, "nowhere"));
    CHECK(server.seen().empty());
}

TEST_CASE("a lost answer is asked for again under the same key") {
    const TemporaryFolder folder;
    const auto spec = folder.write("job.yaml", "name: x\nrun: x\n");
    FakeDaemon daemon;
    int calls = 0;
    daemon.on_submit = [&](const Request&, Wire& wire) {
        ++calls;
        if (calls == 1)
            wire.cut();
        else if (calls == 2)
            wire.reply(503, R"({"detail":"busy"})", kProblem, {{"Retry-After", "1"}});
        else
            return false;
        return true;
    };
    const ScriptedServer server(daemon.script());
    const auto ran = run_command({"submit", "-d", spec}, {.url = server.url()});
    CHECK(ran.status == 0);
    CHECK(ran.out == "job_1\n");
    CHECK(calls == 3);
    CHECK(daemon.keys.size() == 1);
    CHECK(run_command({"submit", "-d", spec}, {.url = server.url()}).status == 0);
    CHECK(daemon.keys.size() == 2);  // another submit is another job
    CHECK(run_command({"submit", "-d", spec, "--idempotency-key", "mine"}, {.url = server.url()}).status ==
          0);
    CHECK(daemon.keys.contains("mine"));
}

TEST_CASE("when every answer is lost the key is told, so that it can be asked again") {
    const TemporaryFolder folder;
    const auto spec = folder.write("job.yaml", "name: x\nrun: x\n");
    FakeDaemon daemon;
    daemon.on_submit = [](const Request&, Wire& wire) {
        wire.cut();
        return true;
    };
    const ScriptedServer server(daemon.script());
    const auto ran = run_command({"submit", "-d", spec}, {.url = server.url()});
    CHECK(ran.status == 120);
    REQUIRE(daemon.keys.size() == 1);
    CHECK(holds(ran.err, "--idempotency-key " + *daemon.keys.begin()));
    CHECK(server.seen("POST", "/v1/jobs").size() == 6);
}

TEST_CASE("a refusal is final and shows the line of the user's own file") {
    const TemporaryFolder folder;
    const auto spec = folder.write("job.yaml", "name: x\nresources:\n  gpus: 0\nrun: x\n");
    FakeDaemon daemon;
    daemon.on_submit = [](const Request&, Wire& wire) {
        wire.reply(
            422,
            R"({"detail":"x","errors":[{"field":"resources.gpus","line":3,"column":9,"message":"must be 1 to 64"}]})",
            kProblem);
        return true;
    };
    const ScriptedServer server(daemon.script());
    const auto ran = run_command({"submit", spec}, {.url = server.url()});
    CHECK(ran.status == 1);
    CHECK(holds(ran.err,
                spec + ":3:9: resources.gpus: must be 1 to 64\n    3 |   gpus: 0\n                ^\n"));
    CHECK(server.seen("POST", "/v1/jobs").size() == 1);
}

TEST_CASE("submit --wait ends with the job's own code") {
    struct Row {
        std::string job;
        int status;
    };
    const Row rows[] = {
        {R"({"id":"job_1","state":"succeeded","exit_code":0})", 0},
        {R"({"id":"job_1","state":"failed","exit_code":3})", 3},
        {R"({"id":"job_1","state":"failed","exit_code":255})", 255},
        {R"({"id":"job_1","state":"failed","exit_code":null,"exit_signal":9})", 137},
        {R"({"id":"job_1","state":"failed","exit_code":null,"exit_signal":15})", 143},
        {R"({"id":"job_1","state":"failed","exit_code":0,"reason":"no_product"})", 1},
        {R"({"id":"job_1","state":"failed","exit_code":256})", 1},
        {R"({"id":"job_1","state":"failed","exit_code":null})", 1},
        {R"({"id":"job_1","state":"cancelled","exit_code":null})", 1},
    };
    const TemporaryFolder folder;
    const auto spec = folder.write("job.yaml", "name: x\nrun: x\n");
    for (const auto& row : rows) {
        CAPTURE(row.job);
        FakeDaemon daemon;
        daemon.job_json = row.job;
        const ScriptedServer server(daemon.script());
        CHECK(run_command({"submit", "--wait", spec}, {.url = server.url()}).status == row.status);
        const auto as_json = run_command({"--json", "submit", "--wait", spec}, {.url = server.url()});
        CHECK(as_json.status == row.status);
        CHECK(holds(as_json.out, "\"id\": \"job_1\""));
    }
}

TEST_CASE("waiting outlives a daemon that restarts, and ends when it is refused") {
    const TemporaryFolder folder;
    const auto spec = folder.write("job.yaml", "name: x\nrun: x\n");
    std::atomic<int> asked{0};
    std::atomic<bool> refuse{false};
    const ScriptedServer server([&](const Request& request, Wire& wire) {
        if (request.method == "POST") return wire.reply(201, R"({"id":"job_1"})");
        if (request.path() != "/v1/jobs/job_1") return wire.reply(200, kChosen);
        const int turn = ++asked;
        if (turn == 1) return wire.reply(200, R"({"id":"job_1","state":"running"})");
        if (turn < 5) return wire.cut();
        if (refuse) return wire.reply(401, R"({"detail":"the token was revoked"})", kProblem);
        wire.reply(200, R"({"id":"job_1","state":"succeeded","exit_code":0})");
    });
    const auto ran = run_command({"submit", "--wait", spec}, {.url = server.url()});
    CHECK(ran.status == 0);
    CHECK(holds(ran.err, "asking again"));
    asked = 0;
    refuse = true;
    CHECK(run_command({"submit", "--wait", spec}, {.url = server.url()}).status == 121);
}

TEST_CASE("Ctrl-C while waiting detaches and says that the job goes on") {
    const TemporaryFolder folder;
    const auto spec = folder.write("job.yaml", "name: x\nrun: x\n");
    std::atomic<bool> interrupted{false};
    std::atomic<int> asked{0};
    const ScriptedServer server([&](const Request& request, Wire& wire) {
        if (request.method == "POST") return wire.reply(201, R"({"id":"job_1"})");
        if (request.path() != "/v1/jobs/job_1") return wire.reply(200, kChosen);
        if (++asked == 4) interrupted = true;
        wire.reply(200, R"({"id":"job_1","state":"running"})");
    });
    const auto ran =
        run_command({"submit", "--wait", spec}, {.url = server.url(), .interrupted = &interrupted});
    CHECK(ran.status == 130);  // not the job's: a pipeline must not take it for success
    CHECK(holds(ran.err, "detached; the job goes on"));
    CHECK(server.seen("POST", "/v1/jobs/job_1").empty());  // nothing was cancelled
    // Who did not wait for the end has got what was asked for: the job is in.
    interrupted = false;
    asked = 3;
    const auto not_waiting = run_command({"submit", "-d", spec}, {.url = server.url(), .interrupted = &interrupted});
    CHECK(not_waiting.status == 0);
    interrupted = false;
    asked = 3;
    CHECK(run_command({"submit", "--follow", "--wait", spec}, {.url = server.url(), .interrupted = &interrupted}).status == 130);
}

TEST_CASE("Ctrl-C while the code is packed hands nothing in and leaves nothing behind") {
    const TemporaryFolder folder;
    folder.write("proj/big.bin", std::string(4 << 20, 'x'));
    std::filesystem::create_directory(folder.path() + "/tmp");
    const auto spec = folder.write("job.yaml", "name: x\ncode: proj\nrun: x\n");
    FakeDaemon daemon;
    const ScriptedServer server(daemon.script());
    std::atomic<bool> interrupted{true};
    for (const char* command : {"submit", "plan"}) {
        CAPTURE(command);
        const auto ran = run_command({command, spec}, {.url = server.url(), .variables = {{"TMPDIR", folder.path() + "/tmp"}},
                                                       .interrupted = &interrupted});
        CHECK(ran.status == 130);
        CHECK(holds(ran.err, "nothing was handed in"));
        CHECK(std::filesystem::is_empty(folder.path() + "/tmp"));
    }
    CHECK(server.seen().empty());
}

TEST_CASE("without a daemon nothing was sent, and submit says so at once") {
    const TemporaryFolder folder;
    const auto spec = folder.write("job.yaml", "name: x\nrun: x\n");
    std::string url;
    {
        FakeDaemon daemon;
        url = ScriptedServer(daemon.script()).url();
    }  // its port is free again
    for (const auto& nobody : {url, std::string("http://no-such-host.invalid"), "unix:" + folder.path() + "/none"}) {
        CAPTURE(nobody);
        const auto ran = run_command({"submit", spec}, {.url = nobody});
        CHECK(ran.status == 120);
        CHECK(holds(ran.err, "no daemon at "));
        CHECK_FALSE(holds(ran.err, "trying again"));
        CHECK_FALSE(holds(ran.err, "not known"));
    }
}

TEST_CASE("a key that was used before answers with the job of then, and submit says so") {
    const TemporaryFolder folder;
    const auto spec = folder.write("job.yaml", "name: x\nrun: x\n");
    FakeDaemon daemon;
    daemon.on_submit = [](const Request&, Wire& wire) {
        wire.reply(201, R"({"id":"job_1","name":"x","state":"running","attempts":1,"repeated":true})");
        return true;
    };
    const ScriptedServer server(daemon.script());
    const auto ran = run_command({"submit", "-d", "--idempotency-key", "mine", spec}, {.url = server.url()});
    CHECK(ran.status == 0);
    CHECK(ran.out == "job_1\n");
    CHECK(holds(ran.err, "this key was used before"));
}

TEST_CASE("plan packs but sends no code and rents nothing") {
    const TemporaryFolder folder;
    folder.write("proj/train.py", "print(1)\n");
    const auto spec = folder.write("job.yaml", "name: x\ncode: proj\nrun: x\n");
    FakeDaemon daemon;
    const ScriptedServer server(daemon.script());
    CHECK(run_command({"plan", spec}, {.url = server.url()}).status == 0);
    REQUIRE(server.seen().size() == 1);
    CHECK(server.seen()[0].target == "/v1/plan");
    CHECK(holds(server.seen()[0].body, "sha256:"));
}

TEST_CASE("files that are no spec are refused before the daemon is asked") {
    const TemporaryFolder folder;
    FakeDaemon daemon;
    const ScriptedServer server(daemon.script());
    CHECK(run_command({"submit", folder.path()}, {.url = server.url()}).status == 1);
    CHECK(run_command({"submit", folder.path() + "/none.yaml"}, {.url = server.url()}).status == 1);
    const auto huge = folder.write("huge.yaml", std::string((1 << 20) + 1, '#'));
    CHECK(holds(run_command({"submit", huge}, {.url = server.url()}).err, "1048576"));
    CHECK(server.seen().empty());
}
