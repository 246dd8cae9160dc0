#include <doctest/doctest.h>
#include <sys/stat.h>

#include <array>

#include "daemon/api/access.hpp"
#include "daemon/api/openapi.hpp"
#include "daemon/api/routes.hpp"
#include "tests/daemon/support/rest_bench.hpp"

namespace gf::test {
namespace {

const std::string kYaml = "Content-Type: application/yaml";
const std::string kSpec = "name: one\nrun: echo hello\nresources: {cpu_only: true}\n";

TEST_CASE("over TCP everything but the health checks needs a token") {
    RestBench b;
    CHECK(b.tcp("GET", "/healthz", "").status == 200);
    CHECK(b.tcp("GET", "/readyz", "").status == 503);  // no provider was asked yet
    PublicView view;
    view.ready = true;
    b.core->set_view(view);
    CHECK(b.tcp("GET", "/readyz", "").status == 200);
    for (const auto& route : api::routes()) {
        if (route.open) continue;
        CAPTURE(route.pattern);
        auto path = std::string(route.pattern);
        for (auto at = path.find('{'); at != std::string::npos; at = path.find('{'))
            path.replace(at, path.find('}') - at + 1, std::string(64, 'a'));
        const auto got = b.tcp(std::string(http::text(route.method)), path, "");
        CHECK(got.status == 401);
        CHECK(b.tcp(std::string(http::text(route.method)), path, "wrong").status == 401);
    }
    CHECK(b.tcp("GET", "/v1/jobs", "").headers.contains("www-authenticate"));
    CHECK(b.core->seen().empty());
}

TEST_CASE("each role may do what it says and no more") {
    RestBench b;
    const auto viewer = b.token("viewer");
    const auto submitter = b.token("submitter");
    const auto operator_ = b.token("operator");
    const auto admin = b.token("admin");
    (void)b.submit();
    struct Row {
        const char* method;
        std::string path, body;
        std::array<int, 4> status;  // viewer, submitter, operator, admin
    };
    const std::string machine = "/v1/machines/mch_00000000000000000000000000";
    for (const auto& row : {Row{"GET", "/v1/jobs", "", {200, 200, 200, 200}},
                            Row{"GET", "/metrics", "", {200, 200, 200, 200}},
                            Row{"POST", "/v1/jobs", kSpec, {403, 201, 201, 201}},
                            Row{"POST", "/v1/plan", kSpec, {200, 200, 200, 200}},
                            Row{"DELETE", machine, "", {403, 403, 404, 404}},
                            Row{"GET", "/v1/tokens", "", {403, 403, 403, 200}}}) {
        CAPTURE(row.path);
        const std::array tokens{viewer, submitter, operator_, admin};
        for (std::size_t i = 0; i < tokens.size(); ++i) {
            CAPTURE(i);
            std::vector<std::string> headers;
            if (!row.body.empty()) headers.push_back(kYaml);
            CHECK(b.tcp(row.method, row.path, tokens[i], row.body, headers).status == row.status[i]);
        }
    }
    // Jobs over TCP never run with the daemon's own rights.
    for (const auto& job : b.core->seen_of<SubmitJob>()) CHECK(job.local_allowed == (job.principal == "socket"));
}

TEST_CASE("a submitter commands its own jobs, an operator those of all") {
    RestBench b;
    const auto one = b.token("submitter");
    const auto other = b.token("submitter");
    const auto id = parsed(b.tcp("POST", "/v1/jobs", one, kSpec, {kYaml})).at("id").get<std::string>();
    CHECK(b.tcp("POST", "/v1/jobs/" + id + "/cancel", other).status == 403);
    CHECK(b.tcp("POST", "/v1/jobs/" + id + "/cancel", one).status == 200);
    CHECK(b.tcp("POST", "/v1/jobs/" + id + "/cancel", b.token("operator")).status == 200);
    CHECK(b.core->seen_of<CommandJob>().size() == 2);
}

TEST_CASE("a token is shown once, kept as a hash, and void when revoked") {
    RestBench b;
    const auto made = b.call("POST", "/v1/tokens", R"({"name":"ci","role":"viewer"})", {"Content-Type: application/json"});
    CHECK(made.status == 201);
    const std::string token = parsed(made).at("token");
    const std::string id = parsed(made).at("id");
    CHECK(token.size() > 40);
    CHECK(b.tcp("GET", "/v1/jobs", token).status == 200);
    const auto list = b.get("/v1/tokens");
    CHECK(list.body.find(token) == std::string::npos);
    CHECK(parsed(list).at("items").at(0).at("name") == "ci");
    CHECK(read_file(b.folder / "gpuferry.db").find(token) == std::string::npos);
    CHECK(read_file(b.folder / "gpuferry.db-wal").find(token) == std::string::npos);
    CHECK(b.call("DELETE", "/v1/tokens/" + id).status == 200);
    CHECK(b.tcp("GET", "/v1/jobs", token).status == 401);
    for (const char* bad : {"", "[]", "{", R"({"name":"x"})", R"({"role":"viewer"})", R"({"name":"","role":"viewer"})",
                            R"({"name":"x","role":"root"})", R"({"name":"x","role":"viewer","more":"1"})", R"({"name":1,"role":"viewer"})"}) {
        CAPTURE(bad);
        const auto refused = b.call("POST", "/v1/tokens", bad, {"Content-Type: application/json"});
        CHECK((refused.status == 400 || refused.status == 422));
    }
}

TEST_CASE("a web page of another site gets nothing from a loopback listener") {
    RestBench b;
    const auto token = b.token("admin");
    CHECK(b.tcp("GET", "/v1/jobs", token, "", {"Host: evil.example"}).status == 421);
    CHECK(b.tcp("GET", "/healthz", "", "", {"Host: evil.example:8470"}).status == 421);
    CHECK(b.tcp("GET", "/v1/jobs", token, "", {"Host: localhost:1"}).status == 200);
    CHECK(b.tcp("GET", "/v1/jobs", token, "", {"Host: [::1]:8470"}).status == 200);
    CHECK(b.tcp("POST", "/v1/jobs", token, kSpec, {kYaml, "Origin: http://evil.example"}).status == 403);
    CHECK(b.tcp("GET", "/v1/jobs", token, "", {"Origin: null"}).status == 403);
    CHECK(b.tcp("GET", "/v1/jobs", token, "", {"Origin: http://127.0.0.1:" + std::to_string(b.server->port())}).status == 200);
}

TEST_CASE("probes that speak HTTP/1.0 need no Host for the health checks, and only for them") {
    RestBench b;
    CHECK(raw(b.server->port(), "GET /healthz HTTP/1.0\r\n\r\n").find(" 200 ") != std::string::npos);
    CHECK(raw(b.server->port(), "GET /readyz HTTP/1.0\r\n\r\n").find(" 503 ") != std::string::npos);
    CHECK(raw(b.server->port(), "GET /v1/jobs HTTP/1.0\r\n\r\n").find(" 421 ") != std::string::npos);
    CHECK(raw(b.server->port(), "GET /healthz HTTP/1.0\r\nHost: evil.example\r\n\r\n").find(" 421 ") != std::string::npos);
    CHECK(raw(b.server->port(), "GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n").find(" 421 ") != std::string::npos);
}

TEST_CASE("a reverse proxy on this machine is let in under the names that are allowed") {
    RestBench b([](ServerOptions& o) { o.allowed_hosts = {"ferry.example.org", "[2001:db8::5]"}; });
    const auto token = b.token("viewer");
    CHECK(b.tcp("GET", "/v1/jobs", token, "", {"Host: Ferry.Example.org"}).status == 200);
    CHECK(b.tcp("GET", "/v1/jobs", token, "", {"Host: ferry.example.org:443", "Origin: https://ferry.example.org:443"}).status == 200);
    CHECK(b.tcp("GET", "/v1/jobs", token, "", {"Host: [2001:db8::5]:8470"}).status == 200);
    const auto other = b.tcp("GET", "/v1/jobs", token, "", {"Host: other.example.org"});
    CHECK(other.status == 421);
    CHECK(other.body.find("allowed_hosts") != std::string::npos);
}

TEST_CASE("the same port takes https, and from other machines nothing else with a token") {
    TemporaryFolder folder;
    const auto tls = http::load_or_make_tls(folder / "tls").value();
    RestBench b([&](ServerOptions& o) { o.tls = tls.identity; });
    const auto token = b.token("viewer");
    const auto secure = [&](const std::string& path, std::vector<std::string> headers) {
        return ask({.method = "GET", .url = "https://127.0.0.1:" + std::to_string(b.server->port()) + path, .body = {}, .headers = std::move(headers),
                    .unix_path = {}, .pin = tls.spki_pin, .sink = {}});
    };
    CHECK(secure("/v1/jobs", {"Authorization: Bearer " + token}).status == 200);
    CHECK(secure("/v1/jobs", {}).status == 401);
    CHECK(b.tcp("GET", "/v1/jobs", token).status == 200);  // loopback: a proxy on this machine, or its user

    api::Context context(*b.loop, *b.core, b.options);
    context.reader = b.store->open_reader().value();
    api::Access access(context);
    const api::Route* jobs = nullptr;
    const api::Route* health = nullptr;
    for (const auto& route : api::routes()) {
        if (route.pattern == "/v1/jobs" && route.method == http::Method::get) jobs = &route;
        if (route.pattern == "/healthz") health = &route;
    }
    http::Request request;
    request.headers = {{"authorization", "Bearer " + token}};
    for (const bool with_tls : {true, false}) {
        CAPTURE(with_tls);
        request.peer = {.tls = with_tls, .address = "192.0.2.7"};
        const auto verdict = access.judge(request, *jobs);
        CHECK(verdict.refuse.has_value() != with_tls);
        if (verdict.refuse) {
            CHECK(verdict.refuse->status == 403);
            CHECK(verdict.refuse->body.find("use https") != std::string::npos);
        }
        CHECK_FALSE(access.judge(request, *health).refuse);
    }
}

TEST_CASE("an Idempotency-Key where it would not hold is refused") {
    RestBench b;
    const auto id = b.submit();
    const auto token = R"({"name":"ci","role":"viewer"})";
    for (const auto& [path, body] : {std::pair<std::string, std::string>{"/v1/tokens", token}, {"/v1/jobs/" + id + "/cancel", ""}, {"/v1/plan", kSpec}}) {
        CAPTURE(path);
        const auto got = b.call("POST", path, body, {"Content-Type: application/yaml", "Idempotency-Key: k"});
        CHECK(got.status == 400);
        CHECK(parsed(got).at("detail") == "Idempotency-Key is not supported on this route");
        CHECK(parsed(got).at("errors").at(0).at("field") == "Idempotency-Key");
    }
    CHECK(parsed(b.get("/v1/tokens")).at("items").empty());
    // The description names the header exactly where it holds.
    const auto document = nlohmann::json::parse(api::openapi_document());
    for (const auto& route : api::routes()) {
        if (route.method != http::Method::post) continue;
        CAPTURE(route.pattern);
        const auto& operation = document.at("paths").at(std::string(route.pattern)).at("post");
        bool named = false;
        for (const auto& p : operation.value("parameters", nlohmann::json::array())) named = named || p.value("name", "") == "Idempotency-Key";
        CHECK(named == route.once);
        CHECK(operation.at("responses").contains("400"));
    }
}

TEST_CASE("the socket file is for its owner") {
    RestBench b;
    struct stat info {};
    REQUIRE(::stat(b.options.socket_path.c_str(), &info) == 0);
    CHECK(S_ISSOCK(info.st_mode));
    CHECK((info.st_mode & 0777U) == 0600);
    CHECK(b.get("/v1/tokens").status == 200);
}

TEST_CASE("an old socket file is replaced, another file is not") {
    TemporaryFolder folder;
    const auto path = folder / "gpuferry.sock";
    { RestBench first([&](ServerOptions& o) { o.socket_path = path; }); }
    write_file(path, "a file");
    const auto store = open_sqlite_store(folder / "x.db").value();
    ScriptedCore core(*store);
    http::Loop loop;
    loop.start();
    ServerOptions options;
    options.socket_path = path;
    options.data_dir = folder.path();
    options.open_reader = [&] { return store->open_reader(); };
    ApiServer server(loop, core, options);
    const auto started = server.start();
    REQUIRE_FALSE(started);
    CHECK(started.error().message.find(path) != std::string::npos);
    server.stop();
    loop.stop();
}

TEST_CASE("the description names exactly the routes that there are") {
    const auto document = nlohmann::json::parse(api::openapi_document());
    CHECK(document.at("openapi").get<std::string>().starts_with("3.1"));
    std::set<std::string> described;
    for (const auto& [path, methods] : document.at("paths").items())
        for (const auto& [method, operation] : methods.items()) {
            if (method == "parameters") continue;
            CAPTURE(path);
            CHECK(operation.contains("responses"));
            CHECK(operation.contains("summary"));
            described.insert(method + " " + path);
        }
    std::set<std::string> served;
    for (const auto& route : api::routes()) {
        std::string method(http::text(route.method));
        for (auto& c : method) c = static_cast<char>(std::tolower(c));
        auto path = std::string(route.pattern);
        if (const auto rest = path.find("..."); rest != std::string::npos) path.erase(rest, 3);
        served.insert(method + " " + path);
        const auto found = document.at("paths").find(path);
        REQUIRE_MESSAGE(found != document.at("paths").end(), path);
        // Every query key that is accepted is described, and no other.
        std::set<std::string> keys;
        for (const auto* owner : {&*found, &found->at(method)}) {
            if (!owner->contains("parameters")) continue;
            for (const auto& named : owner->at("parameters")) {
                const auto& parameter =
                    named.contains("$ref") ? document.at(nlohmann::json::json_pointer(named.at("$ref").get<std::string>().substr(1))) : named;
                if (parameter.at("in") == "query") keys.insert(parameter.at("name"));
            }
        }
        std::set<std::string> known;
        for (std::string_view rest = route.query; !rest.empty();) {
            const auto space = rest.find(' ');
            known.emplace(rest.substr(0, space));
            rest = space == std::string_view::npos ? std::string_view{} : rest.substr(space + 1);
        }
        CAPTURE(path);
        CHECK(keys == known);
    }
    CHECK(described == served);
}

TEST_CASE("figures for Prometheus") {
    RestBench b([](ServerOptions& o) { o.commit_counters = [] { return CommitCounters{.commits = 7, .commits_failed = 1, .events = 9, .micros = 5}; }; });
    (void)b.submit();
    const auto text = b.get("/metrics").body;
    CHECK(text.find("gpuferry_jobs{state=\"queued\"} 1\n") != std::string::npos);
    CHECK(text.find("gpuferry_commits_total 7\n") != std::string::npos);
    CHECK(text.find("gpuferry_http_answers_total{code=\"201\"} 1\n") != std::string::npos);
    CHECK(text.find("# TYPE gpuferry_jobs gauge\n") != std::string::npos);
}

}  // namespace
}  // namespace gf::test
