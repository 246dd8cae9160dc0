#include <doctest/doctest.h>

#include "sim_client.hpp"

using namespace gf;
using namespace gf::sim;
using namespace gf::sim::test;

namespace {

json pod_body() {
    return {{"name", "gf-test"},
            {"image", "i"},
            {"gpu", {{"id", "NVIDIA L4"}}},
            {"disk", 10},
            {"env", {{"SECRET", "s"}}}};
}

Answer create(const TestSim& sim) {
    return sim.runpod({.method = "POST", .path = "/v2/pods", .body = pod_body(), .timeout_ms = 3'000});
}

}  // namespace

TEST_CASE("faults: with and without effect, counted and cleared") {
    struct Row {
        const char* rule;
        int status;    // what the client sees; 0 = a cut connection
        int machines;  // what there is afterwards
    };
    const Row rows[] = {
        {R"({"action":"status","status":503,"body":"down"})", 503, 0},
        {R"({"action":"html"})", 403, 0},
        {R"({"action":"cut_before"})", 0, 0},
        {R"({"action":"cut_after_effect"})", 0, 1},
        {R"({"action":"error_after_effect","status":502})", 502, 1},
        {R"({"action":"truncate_json"})", 201, 1},
        {R"({"action":"delay_ms","ms":1})", 201, 1},
        {R"({"action":"hang","ms":1})", 0, 0},
        {R"({"action":"status","status":429,"rate":0})", 201, 1},
    };
    for (const auto& row : rows) {
        CAPTURE(row.rule);
        const TestSim sim;
        auto rule = json::parse(row.rule);
        rule["provider"] = "runpod";
        rule["match"] = {{"method", "POST"}, {"path", "^/v2/pods$"}};
        rule["count"] = 1;
        sim.order("faults", rule);
        CHECK(create(sim).status == row.status);
        CHECK(sim.state()["open_machines"] == row.machines);
        CHECK(create(sim).status == 201);
    }
    const TestSim sim;
    sim.order("faults", {{"rules", {{{"action", "cut_before"}}, {{"action", "hang"}}}}});
    CHECK(sim.admin({.path = "/_sim/faults"}).parsed()["rules"].size() == 2);
    CHECK(sim.admin({.method = "DELETE", .path = "/_sim/faults"}).status == 200);
    CHECK(create(sim).status == 201);
    CHECK(sim.admin({.method = "POST", .path = "/_sim/faults", .body = {{"action", "nonsense"}}}).status ==
          422);
}

TEST_CASE("the log counts calls, keeps their times and no keys") {
    const TestSim sim;
    create(sim);
    (void)sim.runpod({.path = "/v2/pods?api_key=hidden"});
    (void)sim.vastai({.path = "/api/v1/instances/"});
    const auto log = sim.admin({.path = "/_sim/log"});
    CHECK_FALSE(log.body.contains("hidden"));
    CHECK_FALSE(log.body.contains("the-key"));
    const auto rows = log.parsed()["requests"];
    REQUIRE(rows.size() == 3);
    CHECK(rows[0]["method"] == "POST");
    CHECK(rows[0]["status"] == 201);
    CHECK(rows[0]["ended_us"].get<std::int64_t>() >= rows[0]["began_us"].get<std::int64_t>());
    CHECK(sim.admin({.path = "/_sim/log?since=1&face=vastai"}).parsed()["requests"].size() == 1);
    CHECK(sim.state()["requests"]["runpod"]["POST /v2/pods"]["201"] == 1);
}

TEST_CASE("the state shows what the client sent, the bill adds up") {
    const TestSim sim;
    const std::string id = create(sim).parsed()["id"];
    sim.pass(3600);
    const auto row = sim.machine(id);
    CHECK(row["tag"] == "gf-test");
    CHECK(row["env"] == json{{"SECRET", "s"}});
    const auto bill = sim.bill();
    std::int64_t sum = 0;
    for (const auto& machine : bill["machines"]) sum += machine["total_micros"].get<std::int64_t>();
    CHECK(bill["total_micros"] == sum);
    CHECK(bill["totals"]["runpod"]["balance_micros"].get<std::int64_t>() <= 100'000'000 - sum);
    CHECK(bill["machines"][0]["spans"].size() == 1);
}

TEST_CASE("a price raised for those who rent already splits the bill at that moment") {
    const TestSim sim;
    const std::string id = create(sim).parsed()["id"];
    sim.pass(3600);
    sim.order("price", {{"provider", "runpod"}, {"id", id}, {"per_hour", 0.86}});
    sim.pass(3600);
    CHECK(sim.bill()["machines"][0]["gpu_micros"].get<double>() ==
          doctest::Approx(430'000 + 860'000).epsilon(0.001));
    CHECK(sim.runpod({.path = "/v2/pods/" + id}).parsed()["cost"] == 0.86);
}

TEST_CASE("the market can be changed while it runs") {
    const TestSim sim;
    sim.order("market", {{"runpod_prices", {{"L4", {{"secure", 0.5}}}}}});
    CHECK(create(sim).parsed()["cost"] == 0.5);
    sim.order("market", {{"set", {{{"gpu", "L4"}, {"taken", 8}}}}});
    CHECK(create(sim).status == 400);
    sim.order("market",
              {{"add_hosts",
                {{{"provider", "runpod"}, {"id", 9'999}, {"gpu", "L4"}, {"gpus", 1}, {"cloud", "SECURE"}}}}});
    CHECK(create(sim).status == 201);
    CHECK(sim.admin({.method = "POST", .path = "/_sim/market", .body = {{"nonsense", 1}}}).status == 422);
}

TEST_CASE("a console user can stop, rename and destroy behind the client's back") {
    const TestSim sim;
    const std::string id = create(sim).parsed()["id"];
    sim.pass(10);
    const json who{{"provider", "runpod"}, {"id", id}};
    auto rename = who;
    rename["name"] = "mine";
    sim.order("rename", rename);
    CHECK(sim.runpod({.path = "/v2/pods/" + id}).parsed()["name"] == "mine");
    sim.order("stop", who);
    sim.pass(0);
    CHECK(sim.runpod({.path = "/v2/pods/" + id}).parsed()["status"] == "EXITED");
    sim.order("destroy", who);
    CHECK(sim.runpod({.path = "/v2/pods/" + id}).status == 404);
    CHECK(sim.admin(
                 {.method = "POST", .path = "/_sim/stop", .body = {{"provider", "runpod"}, {"id", "nobody"}}})
              .status == 404);
}

TEST_CASE("hosts of RunPod fail too: never up, error, zero GPUs, stopped unasked") {
    const TestSim sim;
    const auto failing = [&](const std::string& mode) {
        const std::string id = create(sim).parsed()["id"];
        sim.pass(10);
        sim.order("host_fail", {{"provider", "runpod"}, {"id", id}, {"mode", mode}});
        sim.pass(0);
        return sim.runpod({.path = "/v2/pods/" + id}).parsed();
    };
    const auto silent = failing("never_runs");
    CHECK(silent["status"] == "RUNNING");
    CHECK(silent["runtime"] == nullptr);
    CHECK(failing("error")["status"] == "ERROR");
    CHECK(failing("stop")["status"] == "EXITED");
    CHECK_FALSE(failing("zero_gpus").contains("gpu"));
}
