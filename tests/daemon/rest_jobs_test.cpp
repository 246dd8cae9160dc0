#include <doctest/doctest.h>

#include <thread>

#include "tests/daemon/support/rest_bench.hpp"

namespace gf::test {
namespace {

const std::string kYaml = "Content-Type: application/yaml";
const std::string kJson = "Content-Type: application/json";
const std::string kSpec = "name: one\nrun: echo hello\nresources: {cpu_only: true}\n";

TEST_CASE("a job is submitted, listed and shown") {
    RestBench b;
    const auto made = b.call("POST", "/v1/jobs", kSpec, {kYaml});
    CHECK(made.status == 201);
    const std::string id = parsed(made).at("id");
    CHECK(made.headers.at("location") == "/v1/jobs/" + id);
    const auto shown = parsed(b.get("/v1/jobs/" + id));
    for (const char* field : {"id", "name", "kind", "project", "state", "reason", "exit_code", "attempts"}) {
        CAPTURE(field);
        CHECK(shown.contains(field));
    }
    CHECK(shown["name"] == "one");
    CHECK(shown["state"] == "queued");
    CHECK(shown["attempts"] == 0);
    CHECK(shown["exit_code"].is_null());
    const auto in_json = b.call("POST", "/v1/jobs", R"({"name":"two","run":"true","kind":"batch_inference","project":"p","resources":{"cpu_only":true}})", {kJson});
    CHECK(in_json.status == 201);
    CHECK(parsed(b.get("/v1/jobs")).at("items").size() == 2);
    CHECK(parsed(b.get("/v1/jobs?project=p")).at("items").at(0).at("name") == "two");
    CHECK(parsed(b.get("/v1/jobs?kind=training")).at("items").size() == 1);
    CHECK(parsed(b.get("/v1/jobs?state=running")).at("items").empty());
    CHECK(b.core->seen_of<SubmitJob>().at(0).local_allowed);
    CHECK(b.core->seen_of<SubmitJob>().at(0).principal == "socket");
    CHECK(b.core->seen_of<SubmitJob>().at(0).spec_text == kSpec);
}

TEST_CASE("pages of a list hold each job once") {
    RestBench b;
    std::vector<std::string> made;
    for (int i = 0; i < 7; ++i) made.push_back(b.submit());
    std::vector<std::string> seen;
    std::string cursor;
    for (int page = 0; page < 10; ++page) {
        const auto list = parsed(b.get("/v1/jobs?limit=3" + (cursor.empty() ? "" : "&cursor=" + cursor)));
        for (const auto& item : list.at("items")) seen.push_back(item.at("id"));
        if (list.at("next_cursor").is_null()) break;
        cursor = list.at("next_cursor");
    }
    std::ranges::reverse(seen);
    CHECK(seen == made);
}

TEST_CASE("a body that cannot be a job is refused with the place, and nothing is stored") {
    RestBench b;
    struct Row {
        const char* what;
        std::string type, body;
        int status;
        const char* field;  // in errors, or nothing
    };
    const Row rows[] = {
        {"zero GPUs", kYaml, "name: a\nrun: x\nresources: {gpus: 0}\n", 422, "resources.gpus"},
        {"negative GPUs", kYaml, "name: a\nrun: x\nresources: {gpus: -1}\n", 422, "resources.gpus"},
        {"unknown key", kYaml, "name: a\nrun: x\nresources: {gpuss: 1}\n", 422, "resources.gpuss"},
        {"duplicate key", kJson, R"({"name":"a","name":"b","run":"x"})", 400, nullptr},
        {"not UTF-8", kJson, "{\"name\":\"\xFF\"}", 400, nullptr},
        {"too deep", kJson, std::string(100'000, '['), 400, nullptr},
        {"half a document", kJson, R"({"name":"a")", 400, nullptr},
        {"an anchor", kYaml, "name: &a x\nrun: *a\n", 400, nullptr},
        {"a budget", kYaml, kSpec + "limits: {budget: 10}\n", 422, "limits.budget"},
        {"empty", kYaml, "", 400, nullptr},
        {"white space", kYaml, "  \n", 400, nullptr},
        {"a form", "Content-Type: application/x-www-form-urlencoded", kSpec, 415, nullptr},
        {"no such blob", kYaml, kSpec + "code: sha256:" + std::string(64, 'a') + "\n", 422, "code"},
    };
    for (const auto& row : rows) {
        CAPTURE(row.what);
        const auto got = b.call("POST", "/v1/jobs", row.body, {row.type});
        CHECK(got.status == row.status);
        CHECK(got.headers.at("content-type") == "application/problem+json");
        const auto problem = parsed(got);
        CHECK(problem.at("status") == row.status);
        CHECK_FALSE(problem.at("detail").get<std::string>().empty());
        if (row.field == nullptr) continue;
        REQUIRE(problem.contains("errors"));
        CHECK(problem["errors"][0]["field"] == row.field);
        if (std::string_view(row.field) != "code") {
            CHECK(problem["errors"][0]["line"].get<int>() >= 1);
            CHECK(problem["errors"][0]["column"].get<int>() >= 1);
        }
    }
    CHECK(parsed(b.get("/v1/jobs")).at("items").empty());
    CHECK(b.core->seen().empty());
}

TEST_CASE("a body over the limit is 413 with the number, with a length and without") {
    RestBench b;
    const std::string large = kSpec + "# " + std::string(1 << 20, 'x');
    const auto with_length = b.call("POST", "/v1/jobs", large, {kYaml});
    CHECK(with_length.status == 413);
    CHECK(with_length.body.find("1048576") != std::string::npos);
    const auto chunked = ask({.method = "POST", .url = b.url("/v1/jobs"), .body = large, .headers = {kYaml, "Authorization: Bearer " + b.token("submitter")},
                              .unix_path = {}, .pin = {}, .chunked = true, .sink = {}});
    CHECK(chunked.status == 413);
    const std::string just = kSpec + "#" + std::string((1 << 20) - kSpec.size() - 1, 'x');
    CHECK(b.call("POST", "/v1/jobs", just, {kYaml}).status == 201);
    CHECK(b.get("/healthz").status == 200);
}

TEST_CASE("an Idempotency-Key makes one job, also fifty times at once") {
    RestBench b;
    std::vector<std::thread> clients;
    std::mutex mutex;
    std::set<std::string> ids;
    int created = 0;
    for (int i = 0; i < 50; ++i)
        clients.emplace_back([&] {
            const auto got = b.call("POST", "/v1/jobs", kSpec, {kYaml, "Idempotency-Key: k-1"});
            const std::scoped_lock lock(mutex);
            created += got.status == 201;
            if (const auto json = parsed(got); json.contains("id")) ids.insert(json["id"]);
        });
    for (auto& client : clients) client.join();
    CHECK(created == 50);
    CHECK(ids.size() == 1);
    const auto other = b.call("POST", "/v1/jobs", kSpec + "priority: 9\n", {kYaml, "Idempotency-Key: k-1"});
    CHECK(other.status == 422);
    CHECK(parsed(other).at("errors").at(0).at("field") == "Idempotency-Key");
    CHECK(b.call("POST", "/v1/jobs", kSpec, {kYaml, "Idempotency-Key: " + std::string(201, 'k')}).status == 400);
}

TEST_CASE("the store's troubles are 503 and 507 with Retry-After") {
    RestBench b;
    b.core->script = [](const Event& e) -> std::optional<ApiResult> {
        const auto* job = std::get_if<SubmitJob>(&e);
        if (job == nullptr) return std::nullopt;
        const bool full = job->spec->name == "full";
        return ApiResult{.status = full ? 507 : 503, .json = {}, .location = {},
                         .error = Error{.kind = full ? ErrorKind::full : ErrorKind::busy, .message = full ? "disk full" : "locked"}};
    };
    const auto busy = b.call("POST", "/v1/jobs", kSpec, {kYaml});
    CHECK(busy.status == 503);
    CHECK(busy.headers.contains("retry-after"));
    const auto full = b.call("POST", "/v1/jobs", "name: full\nrun: x\nresources: {cpu_only: true}\n", {kYaml});
    CHECK(full.status == 507);
    CHECK(full.headers.contains("retry-after"));
}

TEST_CASE("paths, methods and query keys that are not there") {
    RestBench b;
    const auto id = b.submit();
    struct Row {
        const char* method;
        std::string path;
        int status;
    };
    for (const auto& row : {Row{"GET", "/v1/jobs/job_00000000000000000000000000", 404}, Row{"GET", "/v1/jobs/nothing", 404},
                            Row{"GET", "/v1/nothing", 404}, Row{"GET", "/", 404}, Row{"GET", "/v1/jobs/", 404},
                            Row{"DELETE", "/v1/jobs", 405}, Row{"POST", "/v1/offers", 405}, Row{"GET", "/v1/plan", 405},
                            Row{"GET", "/v1/jobs?stat=queued", 400}, Row{"GET", "/v1/jobs?state=nothing", 400},
                            Row{"GET", "/v1/jobs?limit=0", 400}, Row{"GET", "/v1/jobs?limit=1001", 400},
                            Row{"GET", "/v1/jobs?limit=x", 400}, Row{"GET", "/v1/jobs?limit=1&limit=2", 400},
                            Row{"POST", "/v1/jobs/job_00000000000000000000000000/cancel", 404},
                            Row{"GET", "/v1/jobs/" + id + "/logs?attempt=1", 404}, Row{"GET", "/v1/jobs/" + id + "/logs?offset=-1", 400},
                            Row{"GET", "/v1/jobs/" + id + "/logs?format=xml", 400}, Row{"GET", "/v1/jobs/" + id + "/logs?follow=2", 400},
                            Row{"GET", "/v1/machines/mch_00000000000000000000000000", 404},
                            Row{"DELETE", "/v1/machines/mch_00000000000000000000000000", 404},
                            Row{"DELETE", "/v1/tokens/tok_00000000000000000000000000", 404},
                            Row{"GET", "/v1/jobs?cursor=zzz", 400}, Row{"GET", "/v1/machines?cursor=zzz", 400},
                            Row{"GET", "/v1/machines?cursor=" + id, 400}, Row{"GET", "/v1/gpus?cursor=18446744073709551615", 400},
                            Row{"GET", "/v1/gpus?cursor=-1", 400}, Row{"GET", "/v1/gpus?cursor=zzz", 400}, Row{"GET", "/v1/gpus?cursor=100000", 200},
                            Row{"GET", "/v1/jobs/" + id + "/events?cursor=-1", 400}, Row{"GET", "/v1/jobs/" + id + "/events?cursor=zzz", 400},
                            Row{"GET", "/v1/jobs/" + id + "/outputs?cursor=zzz", 400}, Row{"GET", "/v1/jobs/" + id + "/outputs?cursor=-1", 400},
                            Row{"GET", "/v1/budgets", 501}, Row{"POST", "/v1/estimate", 400}, Row{"PUT", "/v1/secrets/HF_TOKEN", 400},
                            Row{"GET", "/v1/secrets/HF_TOKEN", 404}, Row{"DELETE", "/v1/secrets/HF_TOKEN", 404},
                            Row{"GET", "/v1/offers?gpu=H1000", 400}, Row{"GET", "/v1/cost?group_by=moon", 400},
                            Row{"GET", "/v1/cost?from=yesterday", 400}, Row{"GET", "/v1/jobs/..%2f..%2fetc/logs", 404}}) {
        CAPTURE(row.method);
        CAPTURE(row.path);
        const auto got = b.call(row.method, row.path);
        CHECK(got.status == row.status);
        if (row.status == 400 && row.path.find("cursor") != std::string::npos) CHECK(parsed(got).at("errors").at(0).at("field") == "cursor");
        if (row.status == 405) CHECK(got.headers.contains("allow"));
    }
    CHECK(b.call("DELETE", "/v1/jobs").headers.at("allow") == "POST, GET, HEAD");
    CHECK(b.call("HEAD", "/v1/jobs/" + id).status == 200);
    CHECK(b.call("HEAD", "/v1/jobs/" + id).body.empty());
}

TEST_CASE("commands on a job become events and the core's answer is the answer") {
    RestBench b;
    const auto id = b.submit();
    for (const char* verb : {"cancel", "retry", "hold", "release"}) {
        CAPTURE(verb);
        CHECK(b.call("POST", "/v1/jobs/" + id + "/" + verb).status == 200);
    }
    const auto commands = b.core->seen_of<CommandJob>();
    REQUIRE(commands.size() == 4);
    CHECK(commands[0].verb == JobVerb::cancel);
    CHECK(commands[1].verb == JobVerb::retry);
    CHECK(commands[2].verb == JobVerb::hold);
    CHECK(commands[3].verb == JobVerb::release);
    CHECK(commands[0].job.get() == id);
    b.core->script = [](const Event&) {
        return std::optional(ApiResult{.status = 409, .json = {}, .location = {}, .error = Error{.kind = ErrorKind::conflict, .message = "it is over"}});
    };
    const auto refused = b.call("POST", "/v1/jobs/" + id + "/cancel");
    CHECK(refused.status == 409);
    CHECK(parsed(refused).at("detail") == "it is over");
}

TEST_CASE("explain shows the decision and the state") {
    RestBench b;
    const auto id = b.submit();
    CHECK(parsed(b.get("/v1/jobs/" + id + "/explain")).at("decision").is_null());
    b.core->commit({PutDecision{{.job = JobId{id}, .at = b.core->now(), .json = R"({"considered":3,"refused":{"vram":3}})"}}});
    const auto shown = parsed(b.get("/v1/jobs/" + id + "/explain"));
    CHECK(shown.at("state") == "queued");
    CHECK(shown.at("decision").at("refused").at("vram") == 3);
}

TEST_CASE("a plan ranks the published offers and rents nothing") {
    RestBench b;
    PublicView view;
    for (const auto& [id, micros] : {std::pair("dear", 500'000), std::pair("cheap", 300'000)}) {
        Offer offer;
        offer.provider = ProviderName{"runpod"};
        offer.id = id;
        offer.gpu = {.canonical = "RTX-4090", .provider_name = "NVIDIA GeForce RTX 4090", .memory = Bytes{24 * kGiB}};
        offer.gpu_count = 1;
        offer.gpu_rate = UsdPerHour{micros};
        view.offers.push_back(offer);
    }
    view.providers.push_back({.name = ProviderName{"runpod"}, .capabilities = {}, .health = "ok"});
    b.core->set_view(view);
    const auto got = b.call("POST", "/v1/plan", "name: p\nrun: x\nimage: a/b:1\nresources: {gpu: RTX 4090}\n", {kYaml});
    CHECK(got.status == 200);
    CHECK(parsed(got).at("chosen").at("offer") == "cheap");
    CHECK(b.core->seen().empty());
    CHECK(b.call("POST", "/v1/plan", "name: p\n", {kYaml}).status == 422);
    const auto offers = parsed(b.get("/v1/offers?gpu=rtx4090"));
    CHECK(offers.at("items").at(0).at("id") == "cheap");
    CHECK(offers.at("items").at(0).at("rate") == "0.30");
    CHECK(parsed(b.get("/v1/offers?provider=runpod")).at("items").size() == 2);
    CHECK(b.get("/v1/offers?provider=aws").status == 400);
    CHECK(b.get("/v1/offers?provider=aws").body.find("only runpod") != std::string::npos);
    CHECK(parsed(b.get("/v1/gpus?limit=1000")).at("items").size() == shipped_names().cards().size());
}

TEST_CASE("a blob is stored under its hash and only under its hash") {
    RestBench b;
    std::string bytes(3 << 20, 'c');
    for (std::size_t i = 0; i < bytes.size(); i += 97) bytes[i] = static_cast<char>(i);
    const auto hash = checkpoints::sha256(bytes).hex();
    const auto path = "/v1/blobs/" + hash;
    CHECK(b.call("HEAD", path).status == 404);
    CHECK(b.call("PUT", path, bytes).status == 201);
    CHECK(b.call("PUT", path, bytes).status == 200);
    CHECK(b.call("HEAD", path).status == 200);
    CHECK(read_file(b.folder / ("blobs/" + hash)) == bytes);
    CHECK(b.call("PUT", "/v1/blobs/" + std::string(64, 'a'), "other").status == 422);
    CHECK(b.call("PUT", "/v1/blobs/..%2fevil", "x").status == 400);
    CHECK(b.call("PUT", "/v1/blobs/" + std::string(64, 'A'), "x").status == 400);
    const auto spec = "name: c\nrun: x\nimage: a/b:1\ncode: sha256:" + hash + "\n";
    CHECK(b.call("POST", "/v1/jobs", spec, {kYaml}).status == 201);
    CHECK(std::distance(std::filesystem::directory_iterator(b.folder / "blobs"), std::filesystem::directory_iterator()) == 1);
}

TEST_CASE("what an upload left behind when the daemon was killed goes away at the next start") {
    const auto hash = std::string(64, 'a');
    RestBench b([&](ServerOptions& o) {
        write_file(o.data_dir + "/blobs/" + hash + ".tmp-0011223344556677", "half");
        write_file(o.data_dir + "/blobs/" + hash, "whole");
    });
    CHECK_FALSE(std::filesystem::exists(b.folder / ("blobs/" + hash + ".tmp-0011223344556677")));
    CHECK(read_file(b.folder / ("blobs/" + hash)) == "whole");
}

TEST_CASE("a blob over the limit is refused with the number") {
    RestBench b([](ServerOptions& o) { o.blob_max = 1000; });
    const auto got = b.call("PUT", "/v1/blobs/" + std::string(64, 'a'), std::string(1001, 'x'));
    CHECK(got.status == 413);
    CHECK(got.body.find("1000") != std::string::npos);
}

}  // namespace
}  // namespace gf::test
