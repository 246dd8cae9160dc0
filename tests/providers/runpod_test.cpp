#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

#include "cloud_bench.hpp"
#include "providers/runpod/mapping.hpp"

using namespace gf;
using gf::test::problem;
using gf::test::Received;
using gf::test::runpod_gpu;
using gf::test::RunpodBench;
using nlohmann::json;
using Sent = gf::test::Answer;
using Way = gf::test::Delivery;

namespace {

constexpr std::string_view kCapacity =
    "There are no longer any instances available with the requested specifications. Please refresh and try "
    "again.";

Sent plain(int status, std::string body, std::string type = "application/json") {
    return {.status = status, .body = std::move(body), .content_type = std::move(type)};
}

Sent graphql(const std::string& message, const std::string& code = {}) {
    json error{{"message", message}};
    if (!code.empty()) error["extensions"] = {{"code", code}};
    return plain(200, json{{"errors", {error}}, {"data", nullptr}}.dump());
}

const Offer* find(const OfferList& list, std::string_view id) {
    const auto it = std::ranges::find(list.offers, id, &Offer::id);
    return it == list.offers.end() ? nullptr : &*it;
}

std::string reason(const OfferList& list, std::string_view id) {
    const auto it = std::ranges::find(list.rejected, id, &RejectedOffer::id);
    return it == list.rejected.end() ? "" : it->reason;
}

}  // namespace

TEST_CASE("RunPod: every documented answer to a create has its outcome") {
    const std::string money =
        "Your account balance is too low to rent a pod. Please add funds to your account.";
    const std::string html = "<!DOCTYPE html><title>Access denied</title>Error 1010";
    const struct {
        std::string what;
        Sent sent;
        ErrorKind kind;
    } rows[] = {
        {"A13 no stock", problem(400, std::string(kCapacity)), ErrorKind::no_capacity},
        {"no disk", problem(400, "There are no longer any instances available with enough disk space."),
         ErrorKind::no_capacity},
        {"older text", problem(400, "There are no instances currently available"), ErrorKind::no_capacity},
        {"race",
         problem(
             400,
             "This machine does not have the resources to deploy your pod. Please try a different machine"),
         ErrorKind::no_capacity},
        {"another business rule", problem(400, "disk is too large for this cloud"), ErrorKind::no_capacity},
        {"400 as v1",
         plain(400, R"({"error":"There are not enough free GPUs on the host machine to start this pod."})"),
         ErrorKind::no_capacity},
        {"400 as v1, unknown text", plain(400, R"({"error":"create pod: something"})"),
         ErrorKind::unknown_outcome},
        {"400 as HTML", plain(400, html, "text/html"), ErrorKind::unknown_outcome},
        {"401", problem(401, "missing bearer token"), ErrorKind::auth},
        {"401 as HTML", plain(401, html, "text/html"), ErrorKind::unknown_outcome},
        {"402", problem(402, money), ErrorKind::no_money},
        {"money as 400", problem(400, money), ErrorKind::no_money},
        {"money as 500", problem(500, money), ErrorKind::no_money},
        {"money as v1's 500", plain(500, json{{"error", "create pod: " + money}, {"status", 500}}.dump()),
         ErrorKind::no_money},
        {"403", problem(403, "access denied"), ErrorKind::no_capacity},
        {"A15 quota", problem(400, "quota exceeded"), ErrorKind::quota},
        {"A15 spend limit", problem(403, "Your account's Spend Limit of $80/hr is reached."), ErrorKind::quota},
        {"A15 as a conflict", problem(409, "pod quota exceeded"), ErrorKind::quota},
        {"A15 as a 422", problem(422, "Quota exceeded for this region"), ErrorKind::quota},
        {"A15 GraphQL", graphql("This exceeds your spending limit"), ErrorKind::quota},
        {"quota of a rate", problem(429, "rate quota exceeded"), ErrorKind::unknown_outcome},
        {"quota in a page", {.status = 403, .body = "<html>quota</html>"}, ErrorKind::unknown_outcome},
        {"403 of the edge", plain(403, html, "text/html"), ErrorKind::unknown_outcome},
        {"404", problem(404, "resource not found"), ErrorKind::no_capacity},
        {"404 as HTML", plain(404, html, "text/html"), ErrorKind::unknown_outcome},
        {"405", problem(405, "The requested method is not allowed for this path."), ErrorKind::refused},
        {"409", problem(409, "Action not valid for current pod status"), ErrorKind::unknown_outcome},
        {"410", plain(410, "Gone", "text/plain"), ErrorKind::api_retired},
        {"413", problem(413, "body too large"), ErrorKind::refused},
        {"A13 422", problem(422, "Request validation failed."), ErrorKind::refused},
        {"A09 429", problem(429, "rate limit exceeded for the minute window", {{"Retry-After", "12"}}),
         ErrorKind::unknown_outcome},
        {"500", problem(500, "upstream"), ErrorKind::unknown_outcome},
        {"500 with a capacity text", problem(500, std::string(kCapacity)), ErrorKind::unknown_outcome},
        {"A02 502", plain(502, html, "text/html"), ErrorKind::unknown_outcome},
        {"524", plain(524, "", "text/html"), ErrorKind::unknown_outcome},
        {"a redirect",
         {.status = 302, .headers = {{"Location", "https://example.org/"}}},
         ErrorKind::unknown_outcome},
        {"201 without a body", plain(201, ""), ErrorKind::unknown_outcome},
        {"201 without an id", plain(201, R"({"name":"x","status":"PROVISIONING"})"),
         ErrorKind::unknown_outcome},
        {"200 with HTML", plain(200, html, "text/html"), ErrorKind::unknown_outcome},
        {"A01", graphql(std::string(kCapacity)), ErrorKind::no_capacity},
        {"A01 by code", graphql("sold out", "SUPPLY_CONSTRAINT"), ErrorKind::no_capacity},
        {"A01 money", graphql("no funds", "INSUFFICIENT_BALANCE"), ErrorKind::no_money},
        {"200 with another error", graphql("Something went wrong", "INTERNAL_SERVER_ERROR"),
         ErrorKind::unknown_outcome},
        {"a problem body whose status is not the HTTP status",
         plain(400, R"({"title":"x","status":422,"detail":"y"})"), ErrorKind::unknown_outcome},
    };
    for (const auto& row : rows) {
        CAPTURE(row.what);
        RunpodBench b;
        const auto request = gf::test::launch_request(b.some_offer(), 1);
        b.script([&](const Received&) { return row.sent; });
        const auto out = b.provider().launch(request);
        CHECK(out.id.empty());
        REQUIRE(out.error.has_value());
        CHECK(out.error->kind == row.kind);
        CHECK(b.server.count("POST", "/v2/pods") == 1);
    }
}

TEST_CASE("RunPod: an id beside an error is an id") {
    for (
        const auto& sent :
        {plain(500, R"({"id":"k3v9x2m8q1ztwa","name":"x","status":"RUNNING"})"),
         plain(400, json{{"title", "Bad Request"}, {"status", 400}, {"detail", kCapacity}, {"id", "k3v9x2m8q1ztwa"}}.dump(),
               "application/problem+json"),
         plain(500, R"({"error":"create pod: something","status":500,"id":"k3v9x2m8q1ztwa"})"),
         plain(500, R"({"error":"x","status":500,"data":{"pod":{"id":"k3v9x2m8q1ztwa","status":1,"gpu":7}}})"),
         plain(
             200,
             R"({"errors":[{"message":"late trouble"}],"data":{"podFindAndDeployOnDemand":{"id":"k3v9x2m8q1ztwa"}}})")}) {
        CAPTURE(sent.body);
        RunpodBench b;
        const auto request = gf::test::launch_request(b.some_offer(), 1);
        b.script([&](const Received&) { return sent; });
        const auto out = b.provider().launch(request);
        CHECK(out.id.get() == "k3v9x2m8q1ztwa");
        CHECK(out.error.has_value());
    }
}

TEST_CASE("RunPod: a 422 brings the provider's own words") {
    RunpodBench b;
    const auto request = gf::test::launch_request(b.some_offer(), 1);
    b.script([](const Received&) {
        return plain(
            422,
            R"({"title":"Unprocessable Entity","status":422,"detail":"Request validation failed.","errors":["$.image: bad name"]})",
            "application/problem+json");
    });
    const auto out = b.provider().launch(request);
    REQUIRE(out.error);
    CHECK(out.error->message.find("Request validation failed.; $.image: bad name") != std::string::npos);
}

TEST_CASE("RunPod: the create says exactly what was meant") {
    RunpodBench b;
    auto request = gf::test::launch_request(b.some_offer(), 7);
    request.image = "ghcr.io/example/trainer:1.4.2";
    request.disk_gb = 60;
    const auto out = b.provider().launch(request);
    REQUIRE(!out.error);
    // 0.69 for the GPU and 60 GB at $0.10 over 720 h.
    REQUIRE(out.rate);
    CHECK(out.rate->micros == 690'000 + 8'334);
    const auto body = json::parse(b.server.received().back().body);
    CHECK(body["name"] == request.tag.get());
    CHECK(body["image"] == "ghcr.io/example/trainer:1.4.2");
    CHECK(body["gpu"] == json{{"id", "NVIDIA GeForce RTX 4090"}, {"count", 1}});
    CHECK(body["cloud"] == "SECURE");
    CHECK(body["disk"] == 60);
    CHECK(body["env"]["GPUFERRY_MACHINE"] == request.tag.get());
    CHECK(body["env"]["GPUFERRY_ENROL"] == gf::test::kEnrol);
    CHECK(body["env"]["RUNPOD_POD_USER"] == "0");  // an image's own user cannot write where the agent works
    CHECK(body["env"].size() == 5);
    const auto args = json::parse(body["args"].get<std::string>());
    CHECK(args == json{{"entrypoint", {"/bin/sh", "-c"}}, {"cmd", {request.start_script}}});
    CHECK(!body.contains("interruptible"));
    CHECK(!body.contains("registry"));
}

TEST_CASE(
    "RunPod: without an image the documented default runs, and spot is refused before anything is sent") {
    RunpodBench b;
    auto request = gf::test::launch_request(b.some_offer(), 8);
    REQUIRE(!b.provider().launch(request).error);
    CHECK(json::parse(b.server.received().back().body)["image"] == runpod::kDefaultImage);
    const auto sent = b.server.received().size();
    request.bid = UsdPerHour{200'000};
    const auto out = b.provider().launch(request);
    REQUIRE(out.error);
    CHECK(out.error->kind == ErrorKind::refused);
    CHECK(b.server.received().size() == sent);
}

TEST_CASE("RunPod: a private registry's login is stored once and named in the create") {
    RunpodBench b;
    auto request = gf::test::launch_request(b.some_offer(), 9);
    request.image = "registry.example.org/private:1";
    request.registry = RegistryLogin{
        .server = "registry.example.org", .username = "bot", .password = Secret("pass_EXAMPLE_1")};
    json stored = json::array();
    b.script([&](const Received& r) {
        if (r.path() == "/v2/registries" && r.method == "GET")
            return plain(200, json{{"registries", stored}}.dump());
        if (r.path() == "/v2/registries") {
            stored.push_back({{"id", "reg1"}, {"name", json::parse(r.body)["name"]}});
            return plain(201, stored.back().dump());
        }
        return b.world.answer(r);
    });
    REQUIRE(!b.provider().launch(request).error);
    CHECK(json::parse(b.server.received().back().body)["registry"] == "reg1");
    request.tag = MachineTag{"gf-testtest-00000000000000000000000010"};
    REQUIRE(!b.provider().launch(request).error);
    CHECK(b.server.count("POST", "/v2/registries") == 1);
    // Whatever goes wrong with the login, nothing was rented; only what no other try can change fails the job, and a scope that
    // is missing there is no word on pods with public images.
    const struct {
        const char* what;
        std::string method;
        Sent sent;
        ErrorKind kind;
        const char* says;
    } rows[] = {
        {"a wrong login", "POST", problem(422, "username is wrong"), ErrorKind::refused, "username is wrong"},
        {"a rule", "POST", problem(400, "too many logins"), ErrorKind::refused, "too many"},
        {"made twice", "POST", problem(409, "name is taken"), ErrorKind::not_yet, "taken"},
        {"made without an id", "POST", plain(201, "{}"), ErrorKind::not_yet, "registry login"},
        {"no scope to write", "POST", problem(403, "access denied"), ErrorKind::refused, "registries"},
        {"no scope to read", "GET", problem(403, "access denied"), ErrorKind::refused, "registries"},
        {"the edge", "GET", plain(403, "<html>Error 1010</html>", "text/html"), ErrorKind::not_yet, "1010"},
        {"another shape", "GET", plain(200, R"({"registries":null})"), ErrorKind::not_yet, "registries"},
        {"no JSON", "GET", plain(200, "<html></html>", "text/html"), ErrorKind::not_yet, "HTML"},
        {"422 to a read", "GET", problem(422, "no"), ErrorKind::not_yet, "no"},
        {"A06 retired", "GET", plain(410, "Gone", "text/plain"), ErrorKind::not_yet, "410"},
        {"A06 retired between the calls", "POST", plain(410, "Gone", "text/plain"), ErrorKind::not_yet, "410"},
        {"no such route", "GET", problem(404, "resource not found"), ErrorKind::not_yet, "404"},
        {"out of order", "GET", plain(503, "<html></html>", "text/html"), ErrorKind::not_yet, "503"},
        {"no answer", "GET", {.delivery = Way::nothing}, ErrorKind::unavailable, "no answer"},
        {"a wrong key", "GET", problem(401, "missing bearer token"), ErrorKind::auth, "bearer"},
        {"too often", "GET", problem(429, "rate limit exceeded"), ErrorKind::unavailable, "rate limit"},
    };
    for (const auto& row : rows) {
        CAPTURE(row.what);
        stored = json::array();
        b.pass(Seconds{60});
        b.script([&](const Received& r) {
            if (r.method == row.method) return row.sent;
            return plain(200, json{{"registries", stored}}.dump());
        });
        const auto out = b.provider().launch(request);
        CHECK(out.id.empty());
        REQUIRE(out.error);
        CHECK(out.error->kind == row.kind);
        CHECK(out.error->message.find(row.says) != std::string::npos);
    }
    CHECK(b.server.count("POST", "/v2/pods") == 2);
}

TEST_CASE("RunPod: the catalog becomes offers, and what cannot be one says why") {
    RunpodBench b;
    auto& gpus = b.world.gpus;
    gpus = json::array();
    gpus.push_back(runpod_gpu("NVIDIA GeForce RTX 4090", 0.69));
    gpus.push_back(runpod_gpu("text price", 0));
    gpus.back()["price"]["secure"] = "0.39";
    gpus.push_back(runpod_gpu("huge price", 0));
    gpus.back()["price"]["secure"] = "HUGE";
    for (const auto& [id, price] : std::vector<std::pair<std::string, json>>{{"null", nullptr},
                                                                             {"zero", 0},
                                                                             {"empty", ""},
                                                                             {"negative", -1},
                                                                             {"nan", "NaN"},
                                                                             {"object", json::object()}}) {
        gpus.push_back(runpod_gpu(id, 0.5));
        gpus.back()["price"]["secure"] = price;
    }
    gpus.push_back(runpod_gpu("unknown", 0.5));
    gpus.push_back(runpod_gpu("community only", 0.5));
    gpus.back()["secure"] = false;
    gpus.push_back(runpod_gpu("no word", 0.5));
    gpus.back()["secure"] = nullptr;
    gpus.push_back(runpod_gpu("sold out", 0.5));
    gpus.back()["availability"] = "NONE";
    gpus.back().erase("dataCenters");
    gpus.push_back(runpod_gpu("small", 0.5));
    gpus.back()["maxCount"]["secure"] = 1;
    gpus.push_back(runpod_gpu("NVIDIA", 0.3));
    gpus.back()["memory"] = 0;
    for (const auto& [id, memory] : std::vector<std::pair<std::string, json>>{{"NVIDIA H100 80GB HBM3 MIG 1g.10gb", 10},
                                                                              {"NVIDIA H100 80GB HBM3 MIG 2g.20gb", nullptr},
                                                                              {"NVIDIA H100 80GB HBM3 mig 3g.40gb", 0}}) {
        gpus.push_back(runpod_gpu(id, 0.3));
        gpus.back()["memory"] = memory;
    }
    b.script([&](const Received& r) {
        auto answer = b.world.answer(r);
        if (const auto at = answer.body.find("\"HUGE\""); at != std::string::npos)
            answer.body.replace(at, 6, "1e309");
        return answer;
    });
    const auto list = b.provider().offers({.gpu_counts = {1, 2, 2}});
    REQUIRE(list);
    const auto* one = find(*list, "secure/NVIDIA GeForce RTX 4090/1");
    REQUIRE(one != nullptr);
    CHECK(one->gpu_rate.micros == 690'000);
    CHECK(one->gpu.canonical == "runpod:NVIDIA GeForce RTX 4090");
    CHECK(one->gpu.provider_name == "NVIDIA GeForce RTX 4090");
    CHECK(one->gpu.memory == Bytes{24 * kGiB});
    CHECK(one->disk_micros_per_gb_month == 100'000);
    CHECK(one->cloud == "secure");
    CHECK(one->region == "EU-RO-1");
    CHECK(one->country.empty());
    CHECK(one->stock == 2);
    CHECK(one->cuda_max == "12.8");
    CHECK(!one->cpus);
    CHECK(!one->memory);
    CHECK(!one->spot);
    CHECK(!one->exclusive);
    const auto* two = find(*list, "secure/NVIDIA GeForce RTX 4090/2");
    REQUIRE(two != nullptr);
    CHECK(two->gpu_rate.micros == 1'380'000);
    CHECK(two->gpu_count == 2);
    const auto* text = find(*list, "secure/text price/1");
    REQUIRE(text != nullptr);
    CHECK(text->gpu_rate.micros == 390'000);
    CHECK(reason(*list, "secure/huge price/1") == "price_too_large");
    CHECK(reason(*list, "secure/null/1") == "price_missing");
    CHECK(reason(*list, "secure/zero/1") == "price_zero");
    CHECK(reason(*list, "secure/empty/1") == "price_empty");
    CHECK(reason(*list, "secure/negative/1") == "price_negative");
    CHECK(reason(*list, "secure/nan/1") == "price_not_finite");
    CHECK(reason(*list, "secure/object/1") == "malformed");
    CHECK(find(*list, "secure/unknown/1") == nullptr);
    // A slice has its card's name in the table: without its memory it would pass for the whole card (C06).
    REQUIRE(find(*list, "secure/NVIDIA H100 80GB HBM3 MIG 1g.10gb/1") != nullptr);
    CHECK(find(*list, "secure/NVIDIA H100 80GB HBM3 MIG 1g.10gb/1")->gpu.memory == Bytes{10 * kGiB});
    CHECK(reason(*list, "secure/NVIDIA H100 80GB HBM3 MIG 2g.20gb/1") == "memory_missing");
    CHECK(reason(*list, "secure/NVIDIA H100 80GB HBM3 mig 3g.40gb/1") == "memory_missing");
    CHECK(find(*list, "secure/community only/1") == nullptr);
    CHECK(reason(*list, "secure/no word/1") == "not_known_to_be_sold");
    REQUIRE(find(*list, "secure/sold out/1") != nullptr);
    CHECK(find(*list, "secure/sold out/1")->stock == 0);
    CHECK(find(*list, "secure/sold out/1")->region.empty());
    CHECK(find(*list, "secure/small/1") != nullptr);
    CHECK(reason(*list, "secure/small/2") == "no_machine_of_that_size");
    const auto* nameless = find(*list, "secure/NVIDIA/1");
    REQUIRE(nameless != nullptr);  // C06
    CHECK(nameless->gpu.canonical.empty());
    CHECK(!nameless->gpu.memory);
    CHECK(b.server.count("GET", "/v2/catalog/gpus?include=AVAILABILITY&product=POD&cloud=SECURE&count=1") ==
          1);
    CHECK(b.server.count("GET", "/v2/catalog/gpus?include=AVAILABILITY&product=POD&cloud=SECURE&count=2") ==
          1);
}

TEST_CASE("RunPod: names are kept byte for byte") {
    RunpodBench b;
    const auto list = b.provider().offers({.gpu_counts = {1}});
    REQUIRE(list);
    const auto offer =
        std::ranges::find(list->offers, "NVIDIA  RTX A4500", [](const Offer& o) { return o.gpu.provider_name; });
    REQUIRE(offer != list->offers.end());
    const auto id = runpod::parse_offer_id(offer->id);
    REQUIRE(id);
    CHECK(id->gpu_id == "NVIDIA  RTX A4500");
    for (const std::string bad :
         {"", "secure", "secure/x", "secure//1", "secure/x/0", "secure/x/-1", "secure/x/1y", "other/x/1"})
        CHECK(!runpod::parse_offer_id(bad));
}

TEST_CASE("RunPod: a pod's state, rate and marks") {
    const auto pod = [](json changes) {
        json base{{"id", "k3v9x2m8q1ztwa"},
                  {"name", "gf-x"},
                  {"status", "RUNNING"},
                  {"cost", 0.69},
                  {"disk", 72},
                  {"runtime", {{"uptime", 5}}},
                  {"gpu", {{"id", "NVIDIA GeForce RTX 4090"}, {"count", 1}}},
                  {"env", {{"GPUFERRY_MACHINE", "gf-x"}, {"GPUFERRY_ENROL", "s"}}},
                  {"createdAt", "2026-11-30T09:12:44Z"},
                  {"dataCenterId", "EU-RO-1"}};
        base.merge_patch(changes);
        return base;
    };
    const struct {
        std::string what;
        json changes;
        Presence presence;
        std::optional<std::int64_t> gpu;
        std::optional<std::int64_t> disk;
    } rows[] = {
        {"running", json::object(), Presence::running, 690'000, 10'000},
        {"RUNNING before the image is there", {{"runtime", nullptr}}, Presence::booting, 690'000, 10'000},
        {"provisioning", {{"status", "PROVISIONING"}}, Presence::booting, 690'000, 10'000},
        {"starting", {{"status", "STARTING"}, {"cost", "0.69"}}, Presence::booting, 690'000, 10'000},
        {"exited, price still shown", {{"status", "EXITED"}, {"cost", 0.72}}, Presence::stopped, 0, 0},
        {"exited with a volume",
         {{"status", "EXITED"}, {"mounts", {{"persistent", {{"size", 36}, {"path", "/w"}}}}}},
         Presence::stopped,
         0,
         10'000},
        {"error", {{"status", "ERROR"}}, Presence::failed, 690'000, 10'000},
        {"terminated", {{"status", "TERMINATED"}}, Presence::gone, 0, 0},
        {"a word nobody knows", {{"status", "MIGRATING"}}, Presence::unknown, 690'000, 10'000},
        {"no price told",
         {{"cost", nullptr}, {"disk", nullptr}},
         Presence::running,
         std::nullopt,
         std::nullopt},
    };
    for (const auto& row : rows) {
        CAPTURE(row.what);
        RunpodBench b;
        b.script([&](const Received&) { return plain(200, pod(row.changes).dump()); });
        const auto m = b.provider().read(ProviderMachineId{"k3v9x2m8q1ztwa"});
        REQUIRE(m);
        CHECK(m->presence == row.presence);
        CHECK((m->gpu_rate ? std::optional(m->gpu_rate->micros) : std::nullopt) == row.gpu);
        CHECK((m->disk_rate ? std::optional(m->disk_rate->micros) : std::nullopt) == row.disk);
        CHECK(m->tag == "gf-x");
        CHECK(m->env_tag == "gf-x");
        CHECK(m->created_at == parse_rfc3339("2026-11-30T09:12:44Z"));
        CHECK(m->raw_state.find("GPUFERRY") == std::string::npos);
    }
    // C08: a pod that came back without its GPU says so.
    RunpodBench b;
    b.script([&](const Received&) { return plain(200, pod({{"gpu", {{"count", 0}}}}).dump()); });
    const auto m = b.provider().read(ProviderMachineId{"k3v9x2m8q1ztwa"});
    REQUIRE(m);
    CHECK(m->gpu_count == 0);
}

TEST_CASE("RunPod: what an answer to a read or listing means") {
    const std::string html = "<html>Error 1010</html>";
    const struct {
        std::string what;
        Sent sent;
        ErrorKind kind;
    } rows[] = {
        {"401", problem(401, "missing bearer token"), ErrorKind::auth},
        {"403", problem(403, "access denied"), ErrorKind::auth},
        {"403 of the edge", plain(403, html, "text/html"), ErrorKind::unavailable},
        {"403 in JSON that is not v2's", plain(403, R"({"error":"forbidden"})"), ErrorKind::unavailable},
        {"402", problem(402, "Your account balance is too low"), ErrorKind::no_money},
        {"422", problem(422, "Request validation failed."), ErrorKind::malformed},
        {"A06 410", plain(410, "Gone", "text/plain"), ErrorKind::api_retired},
        {"410 as v1", plain(410, R"({"error":"REST v1 is retired","status":410})"), ErrorKind::api_retired},
        {"429", problem(429, "slow down", {{"Retry-After", "12"}}), ErrorKind::rate_limited},
        {"500", problem(500, "x"), ErrorKind::unavailable},
        {"503", plain(503, html, "text/html"), ErrorKind::unavailable},
        {"302", {.status = 302}, ErrorKind::unavailable},
        {"A11 HTML", plain(200, html, "text/html"), ErrorKind::malformed},
        {"A11 truncated JSON", plain(200, R"({"pods":[{"id":"a")"), ErrorKind::malformed},
        {"no body", plain(200, ""), ErrorKind::malformed},
        {"A06 null", plain(200, R"({"pods":null})"), ErrorKind::malformed},
        {"an object instead of the array", plain(200, R"({"pods":{}})"), ErrorKind::malformed},
        {"v1's bare array", plain(200, "[]"), ErrorKind::malformed},
        {"errors beside an empty array", plain(200, R"({"errors":[{"message":"x"}],"pods":[]})"),
         ErrorKind::malformed},
        {"an error beside an empty array", plain(200, R"({"error":"partial","pods":[]})"),
         ErrorKind::malformed},
        {"a pod without an id", plain(200, R"({"pods":[{"name":"x","status":"RUNNING"}]})"),
         ErrorKind::malformed},
        {"a pod whose state is a number", plain(200, R"({"pods":[{"id":"a","name":"x","status":5}]})"),
         ErrorKind::malformed},
        {"more, but not where",
         plain(200, R"({"pods":[],"pagination":{"hasNextPage":true,"nextCursor":null}})"),
         ErrorKind::malformed},
        {"the same page for ever",
         plain(200, R"({"pods":[],"pagination":{"hasNextPage":true,"nextCursor":"c"}})"),
         ErrorKind::malformed},
        {"400", problem(400, "bad cursor"), ErrorKind::malformed},
    };
    for (const auto& row : rows) {
        CAPTURE(row.what);
        RunpodBench b;
        b.script([&](const Received&) { return row.sent; });
        const auto listing = b.provider().list();
        REQUIRE(!listing);
        CHECK(listing.error().kind == row.kind);
        if (row.sent.status != 200) {
            const auto m = b.provider().read(ProviderMachineId{"abc"});
            REQUIRE(!m);
        }
    }
}

TEST_CASE("RunPod: a page that fails takes the whole listing with it") {
    RunpodBench b;
    b.world.page = 2;
    for (int i = 0; i < 5; ++i) b.world.add(fmt::format("pod {}", i), json::object());
    const auto whole = b.provider().list();
    REQUIRE(whole);
    CHECK(whole->machines.size() == 5);
    b.script([&](const Received& r) {
        return r.target.find("cursor=4") != std::string::npos ? plain(502, "") : b.world.answer(r);
    });
    const auto part = b.provider().list();
    REQUIRE(!part);
    CHECK(part.error().kind == ErrorKind::unavailable);
}

TEST_CASE("RunPod: 404 is gone only beside a fresh proof of the key, which the adapter gets itself") {
    const auto not_there = [](const Received& r) {
        return r.path() == "/v2/pods" ? plain(200, R"({"pods":[]})") : problem(404, "pod not found");
    };
    SUBCASE("with a probe when there is none") {
        RunpodBench b;
        b.script(not_there);
        const auto m = b.provider().read(ProviderMachineId{"abc"});
        REQUIRE(m);
        CHECK(m->presence == Presence::gone);
        CHECK(b.server.count("GET", "/v2/pods?limit=1") == 1);
        REQUIRE(b.provider().read(ProviderMachineId{"abd"}));
        CHECK(b.server.count("GET", "/v2/pods?limit=1") == 1);  // still fresh
        b.pass(Seconds{61});
        REQUIRE(b.provider().read(ProviderMachineId{"abe"}));
        CHECK(b.server.count("GET", "/v2/pods?limit=1") == 2);
    }
    SUBCASE("not when the probe fails") {
        for (const auto& [sent, kind] : {std::pair{problem(401, "x"), ErrorKind::auth},
                                         std::pair{plain(500, ""), ErrorKind::unavailable},
                                         std::pair{plain(200, R"({"pods":null})"), ErrorKind::malformed}}) {
            RunpodBench b;
            b.script([&](const Received& r) {
                return r.path() == "/v2/pods" ? sent : problem(404, "pod not found");
            });
            const auto m = b.provider().read(ProviderMachineId{"abc"});
            REQUIRE(!m);
            CHECK(m.error().kind == kind);
        }
    }
    SUBCASE("not in anybody else's voice") {
        RunpodBench b;
        b.script([&](const Received& r) {
            return r.path() == "/v2/pods" ? plain(200, R"({"pods":[]})")
                                          : plain(404, "<html>not found</html>", "text/html");
        });
        const auto m = b.provider().read(ProviderMachineId{"abc"});
        REQUIRE(!m);
        CHECK(m.error().kind == ErrorKind::malformed);
    }
}

TEST_CASE("RunPod: what an answer to a destroy means") {
    const struct {
        std::string what;
        Sent sent;
        std::optional<ErrorKind> kind;
    } rows[] = {
        {"204", {.status = 204}, std::nullopt},
        {"200 with the pod", plain(200, R"({"id":"abc","status":"TERMINATED"})"), std::nullopt},
        {"E04 404", problem(404, "pod not found"), std::nullopt},
        {"E04 200 with an error text", graphql("pod not found to terminate"), std::nullopt},
        {"200 with another error", graphql("internal"), ErrorKind::unknown_outcome},
        {"404 as HTML", plain(404, "<html></html>", "text/html"), ErrorKind::unknown_outcome},
        {"401", problem(401, "x"), ErrorKind::auth},
        {"403", problem(403, "access denied"), ErrorKind::auth},
        {"403 of the edge", plain(403, "<html>Error 1010</html>", "text/html"), ErrorKind::unknown_outcome},
        {"409", problem(409, "pod belongs to a cluster"), ErrorKind::unknown_outcome},
        {"410", plain(410, "Gone", "text/plain"), ErrorKind::api_retired},
        {"429", problem(429, "x", {{"Retry-After", "5"}}), ErrorKind::rate_limited},
        {"E02 500", problem(500, "x"), ErrorKind::unknown_outcome},
        {"cut", {.delivery = Way::nothing}, ErrorKind::unknown_outcome},
    };
    for (const auto& row : rows) {
        CAPTURE(row.what);
        RunpodBench b;
        b.script([&](const Received&) { return row.sent; });
        const auto out = b.provider().destroy(ProviderMachineId{"abc"});
        CHECK(out.has_value() == !row.kind.has_value());
        if (!out) CHECK(out.error().kind == row.kind);
    }
}

TEST_CASE("RunPod: the balance is read where it can be had, and is optional") {
    const struct {
        std::string what;
        Sent sent;
        std::optional<std::int64_t> micros;
        ErrorKind kind;
    } rows[] = {
        {"there", plain(200, R"({"data":{"myself":{"clientBalance":41.87}}})"), 41'870'000, {}},
        {"below zero", plain(200, R"({"data":{"myself":{"clientBalance":-0.52}}})"), -520'000, {}},
        {"retired", plain(410, ""), std::nullopt, ErrorKind::not_found},
        {"a key that may not", plain(403, R"({"errors":[{"message":"no"}]})"), std::nullopt,
         ErrorKind::not_found},
        {"errors", plain(200, R"({"errors":[{"message":"no"}],"data":null})"), std::nullopt,
         ErrorKind::not_found},
        {"null", plain(200, R"({"data":{"myself":null}})"), std::nullopt, ErrorKind::not_found},
        {"a passing trouble", plain(503, ""), std::nullopt, ErrorKind::unavailable},
    };
    for (const auto& row : rows) {
        CAPTURE(row.what);
        RunpodBench b;
        b.script([&](const Received&) { return row.sent; });
        const auto out = b.provider().balance();
        if (row.micros) {
            REQUIRE(out);
            CHECK(out->micros == *row.micros);
        } else {
            REQUIRE(!out);
            CHECK(out.error().kind == row.kind);
        }
    }
}

TEST_CASE("RunPod: searches give way when the quota of the account runs low") {
    RunpodBench b;
    b.script([&](const Received& r) {
        auto answer = b.world.answer(r);
        answer.headers = {{"RateLimit", R"("minute";r=6;t=40)"},
                          {"RateLimit-Policy", R"("minute";q=60;w=60)"}};
        return answer;
    });
    REQUIRE(b.provider().list());
    const auto before = b.clock().now();
    const auto offers = b.provider().offers({});
    REQUIRE(!offers);
    CHECK(offers.error().kind == ErrorKind::rate_limited);
    CHECK(offers.error().retry_after > Seconds{30});
    CHECK(b.clock().now() == before);
    CHECK(b.provider().destroy(ProviderMachineId{"abc"}));
}

TEST_CASE("RunPod: a cloud that is closed to the account is skipped, the other one is offered") {
    RunpodBench b;
    b.script([&](const Received& r) {
        return r.target.find("cloud=SECURE") != std::string::npos ? problem(403, "access denied") : b.world.answer(r);
    });
    auto setup = gf::test::setup_for(b.world, b.server.url());
    setup.runpod.clouds = {"secure", "community"};
    const auto both = make_providers(setup, b.hand, gf::test::plain_lookup());
    REQUIRE(both);
    const auto list = both->providers.front()->offers({.gpu_counts = {1, 2}});
    REQUIRE(list);
    CHECK(reason(*list, "secure") == "cloud_not_allowed");
    CHECK(std::ranges::count(list->rejected, "secure", &RejectedOffer::id) == 1);
    CHECK(std::ranges::any_of(list->offers, [](const Offer& o) { return o.cloud == "community"; }));
    // Where secrets may go (I01).
    for (const Offer& o : list->offers) CHECK(o.verified == (o.cloud == "secure"));
    // The edge's 403 says nothing about the account.
    b.script([&](const Received&) { return Sent{.status = 403, .body = "<html>Error 1010</html>"}; });
    const auto edge = b.provider().offers({.gpu_counts = {1}});
    REQUIRE(!edge);
    CHECK(edge.error().kind == ErrorKind::unavailable);
}

TEST_CASE("RunPod: absurd prices are counted, absurd sizes are no figures") {
    RunpodBench b;
    b.world.gpus.push_back(runpod_gpu("dear", 6'000));
    const auto list = b.provider().offers({.gpu_counts = {1, 2}});
    REQUIRE(list);
    CHECK(find(*list, "secure/dear/1") != nullptr);
    CHECK(reason(*list, "secure/dear/2") == "price_too_large");
    runpod::Pod pod{.id = "p", .status = "RUNNING", .cost = "999999999", .disk_gb = INT64_MAX, .volume_gb = INT64_MAX};
    const auto machine = runpod::machine_of(pod, gf::test::plain_lookup());
    CHECK(!machine.gpu_rate);
    CHECK(machine.disk_rate == UsdPerHour{0});
}
