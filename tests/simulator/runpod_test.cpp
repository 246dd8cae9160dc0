// RunPod's face over real HTTP, point by point of the providers page, section 14.
#include <doctest/doctest.h>

#include "sim_client.hpp"

using namespace gf;
using namespace gf::sim;
using namespace gf::sim::test;

namespace {

json pod_body(int count = 1) {
    return {{"name", "gf-test"},
            {"image", "ghcr.io/example/trainer:1"},
            {"gpu", {{"id", "NVIDIA GeForce RTX 4090"}, {"count", count}}},
            {"cloud", "SECURE"},
            {"disk", 20},
            {"ports", {"22/tcp", "8888/http"}},
            {"env", {{"GPUFERRY_MACHINE", "gf-test"}}},
            {"args", R"({"entrypoint":["/bin/sh","-c"],"cmd":["true"]})"}};
}

std::string create(const TestSim& sim, const json& body = pod_body()) {
    const auto answer = sim.runpod({.method = "POST", .path = "/v2/pods", .body = body});
    REQUIRE_MESSAGE(answer.status == 201, answer.body);
    return answer.parsed()["id"];
}

Answer act(const TestSim& sim, const std::string& id, const std::string& action) {
    return sim.runpod({.method = "POST", .path = "/v2/pods/" + id + "/action", .body = {{"action", action}}});
}

json read(const TestSim& sim, const std::string& id) {
    return sim.runpod({.path = "/v2/pods/" + id}).parsed();
}

}  // namespace

TEST_CASE("the key is judged before anything else, and every other answer carries the rate limits") {
    TestSim sim([](SimulatorOptions& o) { o.settings.runpod_key = "right"; });
    const auto none = sim.runpod({.path = "/v2/nowhere", .key = ""});
    CHECK(none.status == 401);
    CHECK(none.parsed()["detail"] == "missing bearer token");
    CHECK(none.headers.at("content-type") == "application/problem+json");
    CHECK_FALSE(none.headers.contains("ratelimit"));
    CHECK(sim.runpod({.path = "/v2/pods", .key = "wrong"}).status == 401);
    CHECK(sim.runpod({.path = "/v2/pods?api_key=right", .key = ""}).status == 401);
    const auto good = sim.runpod({.path = "/v2/pods", .key = "right"});
    CHECK(good.status == 200);
    CHECK(good.headers.at("ratelimit").starts_with("\"minute\";r="));
    CHECK(sim.runpod({.path = "/v2/nowhere", .key = "right"}).headers.contains("ratelimit-policy"));
}

TEST_CASE("the edge turns away clients without a name of their own") {
    const TestSim sim;
    for (const auto* agent : {"", "Python-urllib/3.11"}) {
        const auto answer = sim.runpod({.path = "/v2/pods", .agent = agent});
        CHECK(answer.status == 403);
        CHECK(answer.body.contains("1010"));
    }
}

TEST_CASE("over the minute's quota the answer is 429 with Retry-After") {
    TestSim sim([](SimulatorOptions& o) { o.settings.runpod_per_minute = 2; });
    CHECK(sim.runpod({.path = "/v2/pods"}).status == 200);
    CHECK(sim.runpod({.path = "/v2/pods"}).status == 200);
    const auto refused = sim.runpod({.path = "/v2/pods"});
    CHECK(refused.status == 429);
    CHECK(std::stoi(refused.headers.at("retry-after")) > 0);
    sim.pass(61);
    CHECK(sim.runpod({.path = "/v2/pods"}).status == 200);
}

TEST_CASE("bodies that break the schema are 422, too large ones 413, unknown query parameters nothing") {
    const TestSim sim;
    auto body = pod_body();
    body["gpuTypeIds"] = json::array();
    auto answer = sim.runpod({.method = "POST", .path = "/v2/pods", .body = body});
    CHECK(answer.status == 422);
    CHECK(answer.parsed()["errors"][0] == "$: additional properties 'gpuTypeIds' not allowed");
    CHECK(sim.runpod({.method = "POST", .path = "/v2/pods", .raw_body = "{"}).status == 422);
    body = pod_body();
    body["args"] = std::string(102'400, 'x');
    CHECK(sim.runpod({.method = "POST", .path = "/v2/pods", .body = body}).status == 413);
    create(sim);
    CHECK(sim.runpod({.path = "/v2/pods?desiredStatus=EXITED"}).parsed()["pods"].size() == 1);
}

TEST_CASE("rules that the schema cannot say are 400") {
    const TestSim sim;
    const auto refused = [&](const std::function<void(json&)>& change) {
        auto body = pod_body();
        change(body);
        return sim.runpod({.method = "POST", .path = "/v2/pods", .body = body}).status;
    };
    CHECK(refused([](json& b) { b.erase("gpu"); }) == 400);
    CHECK(refused([](json& b) { b["cpu"] = {{"id", "cpu3c"}, {"vcpuCount", 2}}; }) == 400);
    CHECK(refused([](json& b) { b.erase("disk"); }) == 400);
    CHECK(refused([](json& b) { b.erase("image"); }) == 422);
    CHECK(refused([](json& b) { b["templateId"] = "t"; }) == 404);
    CHECK(refused([](json& b) {
              b["gpu"]["minCudaVersion"] = "12.8";
              b["gpu"]["allowedCudaVersions"] = {"12.8"};
          }) == 400);
    CHECK(refused([](json& b) {
              b["mounts"] = {{"network", {{{"volumeId", "v"}, {"path", "/w"}}}},
                             {"persistent", {{"size", 10}, {"path", "/w"}}}};
          }) == 400);
    CHECK(sim.state()["open_machines"] == 0);
}

TEST_CASE("the catalog tells prices per GPU, stock per count, and wants product with include") {
    const TestSim sim;
    const auto plain = sim.runpod({.path = "/v2/catalog/gpus"}).parsed();
    CHECK_FALSE(plain["gpus"][0].contains("availability"));
    CHECK(sim.runpod({.path = "/v2/catalog/gpus?include=AVAILABILITY"}).status == 400);
    CHECK(sim.runpod({.path = "/v2/catalog/gpus?product=POD"}).status == 400);
    CHECK(sim.runpod({.path = "/v2/catalog/gpus?include=AVAILABILITY&product=POD&cloud=ALL"}).status == 422);
    CHECK(sim.runpod({.path = "/v2/catalog/gpus?include=AVAILABILITY&product=POD&countryCodes=us"}).status ==
          422);
    const auto one =
        sim.runpod({.path = "/v2/catalog/gpus/"
                            "NVIDIA%20GeForce%20RTX%204090?include=AVAILABILITY&product=POD&count=4"})
            .parsed();
    CHECK(one["price"]["secure"] == 0.69);
    CHECK(one["memory"] == 24);
    CHECK(one["availability"] == "HIGH");
    create(sim);
    create(sim);
    // Both pods sit on one of two hosts: only the other has four free.
    CHECK(sim.runpod({.path = "/v2/catalog/gpus/"
                              "NVIDIA%20GeForce%20RTX%204090?include=AVAILABILITY&product=POD&count=4"})
              .parsed()["availability"] == "MEDIUM");
    const auto eight =
        sim.runpod({.path = "/v2/catalog/gpus/"
                            "NVIDIA%20GeForce%20RTX%204090?include=AVAILABILITY&product=POD&count=8"})
            .parsed();
    CHECK(eight["availability"] == "NONE");
    CHECK_FALSE(eight.contains("dataCenters"));
    CHECK(sim.runpod({.path = "/v2/catalog/gpus/nothing"}).status == 404);
    CHECK(sim.runpod({.path = "/v2/catalog/datacenters?include=GPU_AVAILABILITY"})
              .parsed()["dataCenters"]
              .size() == 4);
}

TEST_CASE("a create takes the host's GPUs and says capacity when none fits") {
    const TestSim sim;
    const auto capacity =
        "There are no longer any instances available with the requested specifications. Please refresh and "
        "try again.";
    create(sim, pod_body(4));
    create(sim, pod_body(4));
    auto answer = sim.runpod({.method = "POST", .path = "/v2/pods", .body = pod_body()});
    CHECK(answer.status == 400);
    CHECK(answer.parsed()["detail"] == capacity);
    auto community = pod_body();
    community["cloud"] = "COMMUNITY";
    community["dataCenterIds"] = {"AP-JP-1"};
    CHECK(sim.runpod({.method = "POST", .path = "/v2/pods", .body = community}).parsed()["detail"] ==
          capacity);
    community.erase("dataCenterIds");
    community["gpu"]["minCudaVersion"] = "13.1";
    CHECK(sim.runpod({.method = "POST", .path = "/v2/pods", .body = community}).status == 400);
    community["gpu"]["minCudaVersion"] = "12.11";
    CHECK(sim.runpod({.method = "POST", .path = "/v2/pods", .body = community}).status == 201);
    community["disk"] = 100'000;
    CHECK(sim.runpod({.method = "POST", .path = "/v2/pods", .body = community}).parsed()["detail"] ==
          "There are no longer any instances available with enough disk space.");
}

TEST_CASE("an hour's money must be there, else 402") {
    TestSim sim([](SimulatorOptions& o) { o.settings.runpod_balance = 1'000'000; });
    CHECK(sim.runpod({.method = "POST", .path = "/v2/pods", .body = pod_body(2)}).status == 402);
    CHECK(sim.runpod({.method = "POST", .path = "/v2/pods", .body = pod_body(1)}).status == 201);
}

TEST_CASE("observed: RUNNING at once with runtime null; documented: PROVISIONING, STARTING, RUNNING") {
    for (const bool observed : {true, false}) {
        TestSim sim([&](SimulatorOptions& o) { o.settings = Settings::of_profile(observed); });
        const auto id = create(sim);
        auto pod = read(sim, id);
        CHECK(pod["status"] == (observed ? "RUNNING" : "PROVISIONING"));
        CHECK(pod["runtime"] == nullptr);
        CHECK(pod["ssh"]["direct"] == nullptr);
        CHECK(pod["cost"] == 0.69);
        CHECK(pod["env"] == json{{"GPUFERRY_MACHINE", "gf-test"}});
        sim.pass(3);
        CHECK(read(sim, id)["status"] == (observed ? "RUNNING" : "STARTING"));
        sim.pass(4);
        sim.pass(5);
        pod = read(sim, id);
        CHECK(pod["status"] == "RUNNING");
        REQUIRE(pod["runtime"].is_object());
        CHECK(pod["runtime"]["uptime"] == 5);
        CHECK(pod["ssh"]["direct"]["port"] == pod["runtime"]["ports"][0]["public"]);
        CHECK(pod["runtime"]["ports"][1]["ip"] == "100.65.14.9");

        CHECK(act(sim, id, "start").status == 409);
        CHECK(act(sim, id, "reset").status == 422);
        CHECK(act(sim, id, "stop").status == 200);
        CHECK(read(sim, id)["status"] == "EXITED");
        CHECK((read(sim, id)["cost"] == 0.0) != observed);
        sim.pass(6);
        CHECK(act(sim, id, "stop").status == 409);
        const auto old_port = pod["ssh"]["direct"]["port"];
        CHECK(act(sim, id, "start").status == 200);
        sim.pass(10);
        CHECK(read(sim, id)["ssh"]["direct"]["port"] != old_port);
    }
}

TEST_CASE("a stopped pod whose host is full does not start") {
    TestSim sim([](SimulatorOptions& o) { o.settings.runpod_refill = true; });
    const auto id = create(sim);
    sim.pass(10);
    act(sim, id, "stop");
    sim.pass(6);
    sim.order("market", {{"set", {{"provider", "runpod"}, {"gpu", "RTX-4090"}, {"taken", 4}}}});
    const auto answer = act(sim, id, "start");
    CHECK(answer.status == 400);
    CHECK(answer.parsed()["detail"] ==
          "There are not enough free GPUs on the host machine to start this pod.");
}

TEST_CASE("a terminated pod is gone from reads, lists and actions, and its bill stays") {
    const TestSim sim;
    const auto id = create(sim);
    sim.pass(3600);
    CHECK(sim.runpod({.method = "DELETE", .path = "/v2/pods/" + id}).status == 204);
    CHECK(sim.runpod({.method = "DELETE", .path = "/v2/pods/" + id}).status == 404);
    CHECK(sim.runpod({.path = "/v2/pods/" + id}).status == 404);
    CHECK(act(sim, id, "stop").status == 404);
    CHECK(sim.runpod({.path = "/v2/pods"}).parsed()["pods"].empty());
    sim.pass(3600);
    const auto bill = sim.bill();
    const auto gpu = bill["machines"][0]["gpu_micros"].get<std::int64_t>();
    CHECK(gpu >= 690'000);
    CHECK(gpu <= 690'200);
    CHECK(bill["machines"][0]["open"] == false);
}

TEST_CASE("lists are paged newest first, with a cursor, or without the pagination object") {
    TestSim sim([](SimulatorOptions& o) { o.settings.runpod_balance = 1'000'000'000; });
    std::vector<std::string> ids;
    for (int i = 0; i < 5; ++i) ids.push_back(create(sim));
    std::vector<std::string> seen;
    std::string cursor;
    for (int page = 0; page < 4; ++page) {
        const auto body = sim.runpod({.path = "/v2/pods?limit=2&cursor=" + cursor}).parsed();
        for (const auto& pod : body["pods"]) seen.push_back(pod["id"]);
        if (!body["pagination"]["hasNextPage"].get<bool>()) break;
        cursor = body["pagination"]["nextCursor"];
    }
    std::ranges::reverse(ids);
    CHECK(seen == ids);
    for (const auto* bad : {"limit=0", "limit=1001", "limit=x", "cursor=foreign"}) {
        CHECK(sim.runpod({.path = std::string{"/v2/pods?"} + bad}).status == 422);
    }
    sim.order("settings", {{"runpod_pagination", false}});
    CHECK_FALSE(sim.runpod({.path = "/v2/pods"}).parsed().contains("pagination"));
}

TEST_CASE("the balance falls with the pods, and at nothing they are terminated") {
    TestSim sim([](SimulatorOptions& o) { o.settings.runpod_balance = 2'000'000; });
    const auto id = create(sim);
    const auto balance = [&] {
        return sim
            .runpod(
                {.method = "POST",
                 .path = "/graphql",
                 .body = {{"query", "query { myself { clientBalance currentSpendPerHr underBalance } }"}}})
            .parsed()["data"]["myself"];
    };
    CHECK(balance()["clientBalance"].get<double>() == doctest::Approx(2.0).epsilon(0.001));
    CHECK(balance()["currentSpendPerHr"].get<double>() > 0.69);
    sim.pass(3600);
    CHECK(balance()["clientBalance"].get<double>() == doctest::Approx(1.307).epsilon(0.01));
    sim.pass(2 * 3600);
    CHECK(sim.runpod({.path = "/v2/pods/" + id}).status == 404);
}

TEST_CASE("GraphQL: errors are 200, unknown fields 400, prices need no key, pods can be made and ended") {
    TestSim sim([](SimulatorOptions& o) { o.settings.runpod_key = "right"; });
    const auto ask = [&](const std::string& query, const std::string& key = "right") {
        return sim.runpod({.method = "POST", .path = "/graphql", .body = {{"query", query}}, .key = key});
    };
    const auto prices = ask(
        R"({ gpuTypes(input:{id:"NVIDIA L4"}) { id displayName lowestPrice(input:{gpuCount:1,secureCloud:true}) { stockStatus uninterruptablePrice } } })",
        "");
    CHECK(prices.status == 200);
    CHECK(prices.parsed()["data"]["gpuTypes"][0]["lowestPrice"]["stockStatus"] == "High");
    CHECK(ask("{ myself { id } }", "").status == 401);
    CHECK(ask("{ nothing { id } }").status == 400);
    CHECK(ask("{ broken").parsed()["errors"][0]["extensions"]["code"] == "GRAPHQL_PARSE_FAILED");
    const std::string deploy =
        R"(mutation { podFindAndDeployOnDemand(input:{cloudType:SECURE,gpuCount:1,gpuTypeId:"NVIDIA L4",name:"n",imageName:"i",dockerArgs:"sleep 5",
        containerDiskInGb:10,volumeInGb:0,env:[{key:"A",value:"1"}],ports:"22/tcp"}) { id desiredStatus env } })";
    const auto made = ask(deploy).parsed()["data"]["podFindAndDeployOnDemand"];
    CHECK(made["env"] == json{"A=1"});
    const std::string id = made["id"];
    CHECK(ask("{ pod(input:{podId:\"" + id + "\"}) { podType costPerHr } }")
              .parsed()["data"]["pod"]["podType"] == "ON_DEMAND");
    const auto spot = ask(
        R"(mutation { podRentInterruptable(input:{gpuCount:1,gpuTypeId:"NVIDIA L4",name:"n",imageName:"i",bidPerGpu:0.3}) { id } })");
    CHECK(spot.status == 200);
    CHECK(spot.parsed()["errors"][0]["message"] ==
          "There are no instances available with the request specifications. Please try again later.");
    CHECK(spot.parsed()["data"]["podRentInterruptable"] == nullptr);
    const std::string end = "mutation { podTerminate(input:{podId:\"" + id + "\"}) }";
    CHECK(ask(end).parsed()["data"]["podTerminate"] == nullptr);
    CHECK(ask(end).parsed()["errors"][0]["message"] == "pod not found to terminate");
    sim.order("settings", {{"graphql_retired", true}});
    CHECK(ask("{ myself { id } }").status == 410);
}

TEST_CASE("v1 is gone, tags never came, wrong methods say which are right") {
    const TestSim sim;
    CHECK(sim.runpod({.path = "/v1/pods"}).status == 410);
    CHECK(sim.runpod({.path = "/v2/tags"}).status == 404);
    const auto wrong = sim.runpod({.method = "PUT", .path = "/v2/pods"});
    CHECK(wrong.status == 405);
    CHECK(wrong.headers.at("allow") == "GET, POST");
}

TEST_CASE("a pod's own key ends its own pod and nothing else") {
    TestSim sim([](SimulatorOptions& o) { o.settings.runpod_key = "right"; });
    const auto make = [&] {
        return sim.runpod({.method = "POST", .path = "/v2/pods", .body = pod_body(), .key = "right"})
            .parsed()["id"]
            .get<std::string>();
    };
    const auto own = make();
    const auto other = make();
    sim.pass(10);
    // Only the container knows the key; the log endpoint and reads must not show it.
    CHECK_FALSE(sim.runpod({.path = "/v2/pods/" + own, .key = "right"}).body.contains("rpa_"));
    CHECK(sim.runpod({.method = "DELETE", .path = "/v2/pods/" + other, .key = "rpa_guess"}).status == 401);
}

TEST_CASE("network volumes, registries and ssh keys are kept") {
    const TestSim sim;
    const auto volume = sim.runpod({.method = "POST",
                                    .path = "/v2/network-volumes",
                                    .body = {{"name", "v"}, {"size", 20}, {"dataCenter", "US-KS-2"}}});
    REQUIRE(volume.status == 201);
    const std::string id = volume.parsed()["id"];
    auto body = pod_body();
    body["mounts"] = {{"network", {{{"volumeId", id}, {"path", "/data"}}}}};
    const auto pod = sim.runpod({.method = "POST", .path = "/v2/pods", .body = body});
    CHECK(pod.status == 201);
    CHECK(pod.parsed()["dataCenterId"] == "US-KS-2");
    CHECK(
        sim.runpod({.method = "PATCH", .path = "/v2/network-volumes/" + id, .body = {{"size", 10}}}).status ==
        400);
    CHECK(sim.runpod({.method = "DELETE", .path = "/v2/network-volumes/" + id}).status == 204);
    CHECK(sim.runpod({.method = "POST",
                      .path = "/v2/registries",
                      .body = {{"name", "r"}, {"username", "u"}, {"password", "p"}}})
              .status == 201);
    CHECK_FALSE(sim.runpod({.path = "/v2/registries"}).body.contains("\"p\""));
    CHECK(sim.runpod({.method = "PUT", .path = "/v2/account/ssh-keys", .body = {{"keys", {"not a key"}}}})
              .status == 422);
    CHECK(
        sim.runpod(
               {.method = "PUT", .path = "/v2/account/ssh-keys", .body = {{"keys", {"ssh-ed25519 AAAA me"}}}})
            .status == 200);
}

TEST_CASE("the billing history splits the bill by hours and adds up to it") {
    const TestSim sim;
    const auto id = create(sim);
    sim.pass(2.5 * 3600);
    const auto history = sim.runpod({.path = "/v2/billing/pods?bucketSize=hour&podId=" + id}).parsed();
    CHECK(history["records"].size() >= 3);
    double sum = 0;
    for (const auto& record : history["records"]) sum += record["totalAmount"].get<double>();
    CHECK(sum ==
          doctest::Approx(sim.bill()["machines"][0]["total_micros"].get<double>() / 1e6).epsilon(0.001));
    CHECK(history["metadata"]["totals"]["totalAmount"].get<double>() == doctest::Approx(sum));
    CHECK(sim.runpod({.path = "/v2/billing/pods?lastN=2&startTime=2026-11-30T09:00:00Z"}).status == 400);
    CHECK(sim.runpod({.path = "/v2/billing/pods?bucketSize=minute"}).status == 422);
}

TEST_CASE("an edit of a running pod resets its container, a new name does not") {
    const TestSim sim;
    const auto id = create(sim);
    sim.pass(10);
    CHECK(sim.machine(id)["starts"] == 1);
    CHECK(sim.runpod({.method = "PATCH", .path = "/v2/pods/" + id, .body = {{"name", "renamed"}}})
              .parsed()["name"] == "renamed");
    sim.pass(10);
    CHECK(sim.machine(id)["starts"] == 1);
    CHECK(sim.runpod({.method = "PATCH", .path = "/v2/pods/" + id, .body = {{"args", "sleep 1"}}}).status ==
          200);
    sim.pass(10);
    CHECK(sim.machine(id)["starts"] == 2);
}
