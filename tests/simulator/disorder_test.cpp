// What goes wrong at all four providers, over HTTP: faults around a create, moves, races, and scripts that do
// it by the clock.
#include <doctest/doctest.h>

#include <array>

#include "sim_client.hpp"

using namespace gf;
using namespace gf::sim;
using namespace gf::sim::test;

namespace {

/// How to rent and list one machine at one provider.
struct Shop {
    const char* name;
    const char* method;
    const char* create_path;  // a pattern
    const char* list_path;
    const char* list_key;
    int made;  // status of a create that worked
};
constexpr std::array<Shop, 4> kShops{{
    {"runpod", "POST", "^/v2/pods$", "/v2/pods", "pods", 201},
    {"vastai", "PUT", "^/api/v0/asks/", "/api/v1/instances/", "instances", 200},
    {"lambda", "POST", "/launch$", "/api/v1/instances", "data", 200},
    {"vultr", "POST", "^/v2/instances$", "/v2/instances", "instances", 202},
}};

Answer ask(const TestSim& sim, const Shop& shop, Call call) {
    const std::string name = shop.name;
    call.timeout_ms = 3'000;
    if (name == "runpod") return sim.runpod(call);
    if (name == "vastai") return sim.vastai(call);
    return name == "lambda" ? sim.lambda(call) : sim.vultr(call);
}

Answer create(const TestSim& sim, const Shop& shop) {
    const std::string name = shop.name;
    if (name == "runpod") {
        return ask(
            sim, shop,
            {.method = "POST",
             .path = "/v2/pods",
             .body = {{"name", "gf-test"}, {"image", "i"}, {"gpu", {{"id", "NVIDIA L4"}}}, {"disk", 10}}});
    }
    if (name == "vastai") {
        const json query{{"gpu_name", {{"eq", "L4"}}}, {"num_gpus", {{"eq", 1}}}, {"type", "on-demand"}};
        const auto offers =
            sim.vastai({.method = "POST", .path = "/api/v0/bundles/", .body = query}).parsed()["offers"];
        REQUIRE_FALSE(offers.empty());
        return ask(sim, shop,
                   {.method = "PUT",
                    .path = "/api/v0/asks/" + offers[0]["id"].dump() + "/",
                    .body = {{"image", "i"}, {"disk", 10}, {"label", "gf-test"}, {"runtype", "args"}}});
    }
    if (name == "lambda") {
        (void)sim.lambda({.method = "POST",
                          .path = "/api/v1/ssh-keys",
                          .body = {{"name", "gf"}, {"public_key", "ssh-ed25519 AAAA x"}}});
        return ask(sim, shop,
                   {.method = "POST",
                    .path = "/api/v1/instance-operations/launch",
                    .body = {{"region_name", "us-west-1"},
                             {"instance_type_name", "gpu_1x_a10"},
                             {"ssh_key_names", {"gf"}},
                             {"name", "gf-test"}}});
    }
    return ask(
        sim, shop,
        {.method = "POST",
         .path = "/v2/instances",
         .body = {
             {"region", "ewr"}, {"plan", "vcg-a16-2c-8g-2vram"}, {"os_id", 1743}, {"label", "gf-test"}}});
}

std::vector<json> open_machines(const TestSim& sim) {
    std::vector<json> rows;
    for (const auto& row : sim.state()["machines"]) {
        if (row["exists"] == true) rows.push_back(row);
    }
    return rows;
}

std::function<void(SimulatorOptions&)> calm() {
    return [](SimulatorOptions& o) {
        o.settings.vastai_intervals = false;
        o.settings.vastai_list_lag = o.settings.vastai_read_lag = Millis{0};
    };
}

json listed(const TestSim& sim, const Shop& shop) {
    return ask(sim, shop, {.path = shop.list_path}).parsed()[shop.list_key];
}

}  // namespace

TEST_CASE("faults of a create, at every provider: what the client sees and what there is afterwards") {
    struct Row {
        const char* rule;
        int status;  // 0 = a cut connection, -1 = as made
        int machines;
    };
    constexpr std::array<Row, 10> kRows{
        {{R"({"action":"cut_before"})", 0, 0},
         {R"({"action":"cut_after_effect"})", 0, 1},
         {R"({"action":"error_after_effect","status":502})", 502, 1},
         {R"({"action":"error_after_effect","status":200,"body":"<html></html>"})", 200, 1},
         {R"({"action":"html","status":200})", 200, 0},
         {R"({"action":"truncate_json"})", -1, 1},
         {R"({"action":"hang","ms":1})", 0, 0},
         {R"({"action":"throttle"})", 429, 0},
         {R"({"action":"retired"})", 410, 0},
         {R"({"action":"status","status":503})", 503, 0}}};
    for (const auto& shop : kShops) {
        for (const auto& row : kRows) {
            CAPTURE(shop.name);
            CAPTURE(row.rule);
            const TestSim sim(calm());
            auto rule = json::parse(row.rule);
            rule["provider"] = shop.name;
            rule["match"] = {{"method", shop.method}, {"path", shop.create_path}};
            rule["count"] = 1;
            sim.order("faults", rule);
            CHECK(create(sim, shop).status == (row.status < 0 ? shop.made : row.status));
            CHECK(sim.state()["open_machines"] == row.machines);
            CHECK(create(sim, shop).status == shop.made);
        }
    }
}

TEST_CASE("listings lie at every provider") {
    for (const auto& shop : kShops) {
        CAPTURE(shop.name);
        const TestSim sim(calm());
        for (int i = 0; i < 3; ++i) REQUIRE(create(sim, shop).status == shop.made);
        CHECK(listed(sim, shop).size() == 3);
        const auto next = [&](json rule) {
            rule["provider"] = shop.name;
            rule["count"] = 1;
            sim.order("faults", rule);
            return listed(sim, shop);
        };
        CHECK(next({{"action", "empty_list"}}).empty());
        CHECK(next({{"action", "short_list"}}).size() == 2);
        CHECK(next({{"action", "short_list"}, {"keep", 1}}).size() == 1);
        const auto id = listed(sim, shop)[0]["id"];
        for (const auto& row : next({{"action", "short_list"}, {"ids", {id}}})) CHECK(row["id"] != id);
        CHECK(listed(sim, shop).size() == 3);
    }
}

TEST_CASE("a machine that moves comes back under a new id with its name, and the old id is gone") {
    for (const auto& shop : kShops) {
        CAPTURE(shop.name);
        const TestSim sim(calm());
        REQUIRE(create(sim, shop).status == shop.made);
        const auto old = open_machines(sim).at(0);
        const auto moved =
            sim.order("migrate", {{"provider", shop.name}, {"id", old["id"]}})["id"].get<std::string>();
        CHECK(moved != old["id"].get<std::string>());
        const auto rows = open_machines(sim);
        REQUIRE(rows.size() == 1);
        CHECK(rows[0]["id"].get<std::string>() == moved);
        CHECK(rows[0]["tag"] == "gf-test");
        CHECK(sim.machine(old["id"])["exists"] == false);
        const auto shown = listed(sim, shop);
        REQUIRE(shown.size() == 1);
        const auto id = shown[0]["id"];
        CHECK((id.is_string() ? id.get<std::string>() : id.dump()) == moved);
        CHECK(sim.admin({.method = "POST",
                         .path = "/_sim/migrate",
                         .body = {{"provider", shop.name}, {"id", old["id"]}}})
                  .status == 409);
    }
}

TEST_CASE("what is listed may be gone at the create, everywhere") {
    const std::array<const char*, 4> races{"runpod_lost_races", "vastai_lost_races", "lambda_lost_races",
                                           "vultr_lost_races"};
    for (std::size_t i = 0; i < kShops.size(); ++i) {
        CAPTURE(kShops[i].name);
        const TestSim sim(calm());
        // Vast's is a setting of whole numbers as well.
        sim.order("settings", {{races[i], 1}});
        const auto lost = create(sim, kShops[i]);
        CHECK(lost.status >= 400);
        CHECK(sim.state()["open_machines"] == 0);
        CHECK(create(sim, kShops[i]).status == kShops[i].made);
    }
}

TEST_CASE("a script takes machines back, empties balances and changes prices by simulated time") {
    const TestSim sim([](SimulatorOptions& o) {
        calm()(o);
        o.faults = R"([{"do":"price","with":{"provider":"lambda","id":"newest","per_hour":9},"at_s":600},
                       {"do":"take_back","with":{"provider":"lambda","id":"random"},"at_s":1000},
                       {"do":"balance","with":{"provider":"vultr","usd":0},"at_s":2000},
                       {"do":"destroy","with":{"provider":"runpod","id":"oldest"},"every_s":500,"count":3},
                       {"provider":"vultr","action":"throttle","at_s":3000,"until_s":3100}])";
    });
    REQUIRE(create(sim, kShops[2]).status == 200);
    REQUIRE(create(sim, kShops[3]).status == 202);
    sim.pass(900);
    const auto lambda = open_machines(sim).at(0);
    CHECK(lambda["gpu_micros_per_hour"] == 9'000'000);
    sim.pass(130);
    CHECK(sim.machine(lambda["id"])["halt"] == "taken_back");
    CHECK(sim.machine(lambda["id"])["phase"] == "stopped");
    sim.pass(1'070);
    CHECK(listed(sim, kShops[3])[0]["status"] == "suspended");
    sim.pass(950);
    CHECK(ask(sim, kShops[3], {.path = "/v2/instances"}).status == 429);
    sim.pass(100);
    CHECK(ask(sim, kShops[3], {.path = "/v2/instances"}).status == 200);
    const auto events = sim.admin({.path = "/_sim/faults"}).parsed()["events"];
    REQUIRE(events.size() == 4);
    CHECK(events[3]["missed"] == 3);  // there was no pod to destroy
    CHECK(events[3]["next"] == nullptr);
    CHECK(sim.admin({.method = "POST", .path = "/_sim/faults", .body = {{"do", "time"}}}).status == 422);
}

TEST_CASE("a RunPod pod may come back without GPUs from a full host") {
    const TestSim sim(calm());
    REQUIRE(create(sim, kShops[0]).status == 201);
    sim.pass(10);
    const auto id = open_machines(sim).at(0)["id"].get<std::string>();
    sim.until_phase(id, "running");
    const auto act = [&](const char* action) {
        return sim.runpod(
            {.method = "POST", .path = "/v2/pods/" + id + "/action", .body = {{"action", action}}});
    };
    CHECK(act("stop").status == 200);
    sim.pass(6);
    sim.until_phase(id, "stopped");
    sim.order("market", {{"set", {{"provider", "runpod"}, {"gpu", "L4"}, {"taken", 8}}}});
    CHECK(act("start").status == 400);
    sim.order("settings", {{"runpod_zero_gpus", true}});
    const auto started = act("start");
    CHECK(started.status == 200);
    CHECK_FALSE(started.parsed().contains("gpu"));
    CHECK(sim.machine(id)["gpus"] == 0);
    CHECK(sim.machine(id)["gpu_micros_per_hour"] == 60'000);
}

TEST_CASE("the SSH address that a provider reports can be pointed elsewhere") {
    const TestSim sim(calm());
    for (const std::size_t i : {std::size_t{1}, std::size_t{2}, std::size_t{3}}) {
        CAPTURE(kShops[i].name);
        REQUIRE(create(sim, kShops[i]).status == kShops[i].made);
        sim.pass(250);
        const auto id = open_machines(sim).back()["id"].get<std::string>();
        sim.until_phase(id, "running");
        sim.order("ssh", {{"provider", kShops[i].name}, {"id", id}, {"host", "127.0.0.1"}, {"port", 2'222}});
        const auto row = listed(sim, kShops[i])[0];
        if (i == 1) {
            CHECK(row["ssh_host"] == "127.0.0.1");
            CHECK(row["ssh_port"] == 2'222);
            CHECK(row["public_ipaddr"] == "127.0.0.1\n");
        } else {
            CHECK(row[i == 2 ? "ip" : "main_ip"] == "127.0.0.1");
        }
    }
}

TEST_CASE("pages can be made small at the providers that page") {
    const TestSim sim(calm());
    for (const std::size_t i : {std::size_t{0}, std::size_t{1}, std::size_t{3}}) {
        for (int n = 0; n < 3; ++n) REQUIRE(create(sim, kShops[i]).status == kShops[i].made);
    }
    sim.order("settings", {{"runpod_page_max", 2}, {"vastai_page_max", 2}, {"vultr_page_max", 2}});
    const auto pods = ask(sim, kShops[0], {.path = "/v2/pods"}).parsed();
    CHECK(pods["pods"].size() == 2);
    CHECK(pods["pagination"]["hasNextPage"] == true);
    const auto instances = ask(sim, kShops[1], {.path = "/api/v1/instances/"}).parsed();
    CHECK(instances["instances"].size() == 2);
    CHECK(instances["next_token"].is_string());
    const auto machines = ask(sim, kShops[3], {.path = "/v2/instances"}).parsed();
    CHECK(machines["instances"].size() == 2);
    const auto rest =
        ask(sim, kShops[3],
            {.path = "/v2/instances?cursor=" + machines["meta"]["links"]["next"].get<std::string>()});
    CHECK(rest.parsed()["instances"].size() == 1);
}
