// Lambda's face over real HTTP, point by point of the providers page, section 10.
#include <doctest/doctest.h>

#include <set>

#include "sim_client.hpp"

using namespace gf;
using namespace gf::sim;
using namespace gf::sim::test;

namespace {

constexpr const char* kKeyText = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExample gf";

json launch_body() {
    return {{"region_name", "us-west-1"},
            {"instance_type_name", "gpu_1x_a10"},
            {"ssh_key_names", {"gf"}},
            {"file_system_names", json::array()},
            {"name", "gf-test"},
            {"hostname", "gf-test"},
            {"image", {{"family", "lambda-stack-24-04"}}},
            {"user_data", "#!/bin/sh\ntrue\n"},
            {"tags", json::array({{{"key", "gpuferry:machine"}, {"value", "gf-test"}}})}};
}

Answer post(const TestSim& sim, const std::string& path, const json& body) {
    return sim.lambda({.method = "POST", .path = "/api/v1" + path, .body = body});
}

json get(const TestSim& sim, const std::string& path) {
    const auto answer = sim.lambda({.path = "/api/v1" + path});
    REQUIRE_MESSAGE(answer.status == 200, path, ": ", answer.status, " ", answer.body);
    return answer.parsed()["data"];
}

void add_key(const TestSim& sim, const std::string& name = "gf") {
    REQUIRE(post(sim, "/ssh-keys", {{"name", name}, {"public_key", kKeyText}}).status == 200);
}

std::string launch(const TestSim& sim, const json& body = launch_body()) {
    const auto answer = post(sim, "/instance-operations/launch", body);
    REQUIRE_MESSAGE(answer.status == 200, answer.body);
    const auto ids = answer.parsed()["data"]["instance_ids"];
    REQUIRE(ids.size() == 1);
    CHECK(ids[0].get<std::string>().size() == 32);
    return ids[0];
}

std::string code_of(const Answer& answer) {
    return answer.parsed()["error"]["code"];
}

Answer terminate(const TestSim& sim, const std::string& id) {
    return post(sim, "/instance-operations/terminate", {{"instance_ids", {id}}});
}

std::string boot(const TestSim& sim) {
    const auto id = launch(sim);
    sim.pass(300);
    sim.until_phase(id, "running");
    return id;
}

std::int64_t billed(const TestSim& sim, const std::string& id) {
    return sim.machine(id)["bill_micros"];
}

}  // namespace

TEST_CASE("Lambda takes a Bearer key and a Basic one, and refuses none and a wrong one with one code") {
    const TestSim sim([](SimulatorOptions& o) { o.settings.lambda_key = "right"; });
    const auto ask = [&](Call call) {
        call.path = "/api/v1/instances";
        return sim.lambda(call);
    };
    const auto none = ask({.key = ""});
    CHECK(none.status == 401);
    CHECK(code_of(none) == "global/invalid-api-key");
    CHECK(none.parsed()["error"]["message"] == "No API key was provided.");
    const auto wrong = ask({.key = "wrong"});
    CHECK(wrong.status == 401);
    CHECK(code_of(wrong) == "global/invalid-api-key");
    CHECK(wrong.parsed()["error"]["message"] == "API key was invalid, expired, or deleted.");
    CHECK(ask({.key = "right"}).status == 200);
    CHECK(ask({.basic = "right:"}).status == 200);
    CHECK(ask({.basic = "right:password"}).status == 401);
    CHECK(ask({.basic = "wrong:"}).status == 401);
    CHECK(sim.lambda({.path = "/api/v1/openapi.json", .key = ""}).status == 200);
    CHECK(sim.lambda({.path = "/api/v1/nothing", .key = "right"}).status == 404);
}

TEST_CASE("Lambda allows one call a second and one launch in twelve, and says 429 in several forms") {
    const TestSim sim([](SimulatorOptions& o) { o.settings.lambda_limits = true; });
    std::set<std::string> types;
    for (int i = 0; i < 3; ++i) {
        sim.pass(2);
        CHECK(sim.lambda({.path = "/api/v1/instances"}).status == 200);
        const auto refused = sim.lambda({.path = "/api/v1/instances"});
        CHECK(refused.status == 429);
        CHECK_FALSE(refused.headers.contains("retry-after"));
        types.insert(refused.body.empty() ? "empty" : refused.headers.at("content-type"));
    }
    CHECK(types == std::set<std::string>{"application/json", "empty", "text/html"});
    sim.pass(2);
    add_key(sim);
    sim.pass(2);
    launch(sim);
    sim.pass(2);
    CHECK(post(sim, "/instance-operations/launch", launch_body()).status == 429);
    // The refused launch has not used up the other allowance.
    CHECK(sim.lambda({.path = "/api/v1/instances"}).status == 200);
    sim.pass(12);
    sim.order("settings", {{"lambda_429_form", 0}, {"lambda_429_retry_after", true}});
    launch(sim);
    const auto refused = sim.lambda({.path = "/api/v1/instances"});
    CHECK(refused.status == 429);
    CHECK(refused.headers.at("retry-after") == "1");
    CHECK(refused.parsed()["error"].contains("code"));
}

TEST_CASE("Lambda's types are a map by name whose empty regions mean sold out, with prices in cents") {
    const TestSim sim;
    const auto types = get(sim, "/instance-types");
    REQUIRE(types.is_object());
    const auto& a10 = types["gpu_1x_a10"];
    CHECK(a10["instance_type"]["price_cents_per_hour"] == 129);
    CHECK(a10["instance_type"]["specs"]["memory_gib"] == 200);
    CHECK(a10["instance_type"]["gpu_description"] == "A10 (24 GB PCIe)");
    CHECK(a10["regions_with_capacity_available"].size() == 3);
    CHECK(types["gpu_8x_h100_sxm5"]["regions_with_capacity_available"].empty());
    CHECK(types["cpu_4x_general"]["instance_type"]["gpu_description"] == "N/A");
    CHECK(types["cpu_4x_general"]["instance_type"]["specs"]["gpus"] == 0);
    CHECK(get(sim, "/regions").size() >= 17);
    bool arm = false;
    for (const auto& image : get(sim, "/images")) {
        if (image["architecture"] == "arm64") arm = image["region"]["name"] == "us-east-3";
    }
    CHECK(arm);
}

TEST_CASE("capacity at Lambda is used up, and may be gone though it is listed") {
    const TestSim sim;
    add_key(sim);
    sim.order("market",
              {{"set", {{"provider", "lambda"}, {"vm_type", "gpu_1x_a10"}, {"stock", {{"us-west-1", 1}}}}}});
    CHECK(get(sim, "/instance-types")["gpu_1x_a10"]["regions_with_capacity_available"].size() == 3);
    launch(sim);
    CHECK(get(sim, "/instance-types")["gpu_1x_a10"]["regions_with_capacity_available"].size() == 2);
    const auto refused = post(sim, "/instance-operations/launch", launch_body());
    CHECK(refused.status == 400);
    CHECK(code_of(refused) == "instance-operations/launch/insufficient-capacity");

    sim.order("settings", {{"lambda_lost_races", 1}});
    auto elsewhere = launch_body();
    elsewhere["region_name"] = "us-east-1";
    CHECK(code_of(post(sim, "/instance-operations/launch", elsewhere)) ==
          "instance-operations/launch/insufficient-capacity");
    launch(sim, elsewhere);
    sim.order("settings", {{"lambda_refusal_rate", 1.0}});
    CHECK(post(sim, "/instance-operations/launch", elsewhere).status == 400);
    CHECK(sim.state()["open_machines"] == 2);
}

TEST_CASE("Lambda checks a launch before it looks for capacity") {
    const TestSim sim;
    add_key(sim);
    add_key(sim, "second");
    const auto fs =
        post(sim, "/filesystems", {{"name", "data"}, {"region", "us-east-1"}}).parsed()["data"]["id"];
    const auto refused = [&](const std::function<void(json&)>& change) {
        auto body = launch_body();
        change(body);
        const auto answer = post(sim, "/instance-operations/launch", body);
        CHECK(answer.status == 400);
        return code_of(answer);
    };
    const std::string bad = "global/invalid-parameters";
    const std::string none = "global/object-does-not-exist";
    CHECK(refused([](json& b) { b.erase("region_name"); }) == bad);
    CHECK(refused([](json& b) { b.erase("ssh_key_names"); }) == bad);
    CHECK(refused([](json& b) { b["ssh_key_names"] = json::array(); }) == bad);
    CHECK(refused([](json& b) { b["ssh_key_names"] = {"gf", "second"}; }) == bad);
    CHECK(refused([](json& b) { b["ssh_key_names"] = {"nobody"}; }) == none);
    CHECK(refused([](json& b) { b["instance_type_name"] = "gpu_1x_gold"; }) == none);
    CHECK(refused([](json& b) { b["region_name"] = "moon-1"; }) == none);
    CHECK(refused([](json& b) { b["image"] = {{"family", "windows"}}; }) == none);
    CHECK(refused([](json& b) { b["image"] = {{"id", "00000000-0000-4000-a000-000000000000"}}; }) == none);
    CHECK(refused([](json& b) { b["image"] = {{"id", "x"}, {"family", "y"}}; }) == bad);
    CHECK(refused([](json& b) { b["quantity"] = 2; }) == bad);
    CHECK(refused([](json& b) { b["hostname"] = "Upper"; }) == bad);
    CHECK(refused([](json& b) { b["hostname"] = std::string(64, 'a'); }) == bad);
    CHECK(refused([](json& b) { b["name"] = std::string(65, 'a'); }) == bad);
    CHECK(refused([](json& b) { b["tags"][0]["key"] = "Owner"; }) == bad);
    CHECK(refused([](json& b) { b["tags"][0]["key"] = "a"; }) == bad);
    CHECK(refused([](json& b) { b["tags"][0]["value"] = std::string(129, 'v'); }) == bad);
    CHECK(refused([](json& b) { b["user_data"] = std::string((1U << 20U) + 1, 'x'); }) == bad);
    CHECK(refused([](json& b) { b["file_system_names"] = {"nothing"}; }) == none);
    CHECK(refused([](json& b) { b["file_system_names"] = {"data"}; }) ==
          "instance-operations/launch/file-system-in-wrong-region");
    CHECK(refused([&](json& b) {
              b["file_system_mounts"] = json::array({{{"mount_point", "/etc"}, {"file_system_id", fs}}});
          }) == bad);
    CHECK(sim.state()["open_machines"] == 0);
    auto odd = launch_body();
    odd["colour"] = "red";  // unknown fields are ignored
    odd["quantity"] = 1;
    odd["image"] = {{"id", get(sim, "/images")[0]["id"]}};
    odd["region_name"] = get(sim, "/images")[0]["region"]["name"];
    odd["instance_type_name"] = "gpu_1x_a100_sxm4";
    launch(sim, odd);
    sim.order("settings", {{"lambda_instance_limit", 1}});
    CHECK(code_of(post(sim, "/instance-operations/launch", launch_body())) == "global/quota-exceeded");
    sim.order("settings", {{"lambda_account_inactive", true}});
    const auto inactive = post(sim, "/instance-operations/launch", launch_body());
    CHECK(inactive.status == 403);
    CHECK(code_of(inactive) == "global/account-inactive");
}

TEST_CASE(
    "a Lambda instance boots without an address, then with one, then is active, then terminates and is "
    "gone") {
    const TestSim sim;
    add_key(sim);
    const auto id = launch(sim);
    const auto read = [&] { return get(sim, "/instances/" + id); };
    CHECK(read()["status"] == "booting");
    CHECK_FALSE(read().contains("ip"));
    CHECK_FALSE(read().contains("hostname"));
    CHECK(read()["actions"]["restart"]["reason_code"] == "vm-has-not-launched");
    CHECK(read()["tags"][0]["value"] == "gf-test");
    sim.pass(150);
    CHECK(read()["status"] == "booting");
    CHECK(read()["ip"].is_string());
    sim.pass(60);
    sim.until([&] { return read()["status"] == "active"; }, "active");
    CHECK(read()["jupyter_token"].is_string());
    CHECK(read()["instance_type"]["price_cents_per_hour"] == 129);
    CHECK(get(sim, "/instances").size() == 1);
    CHECK(post(sim, "/instances/" + id, {{"name", "other"}}).parsed()["data"]["name"] == "other");
    CHECK(post(sim, "/instances/" + id, {{"name", std::string(65, 'x')}}).status == 400);

    CHECK(sim.lambda({.path = "/api/v1/instances/" + std::string(32, '0')}).status == 404);
    CHECK(terminate(sim, std::string(32, '0')).status == 404);
    const auto ended = terminate(sim, id);
    CHECK(ended.status == 200);
    CHECK(ended.parsed()["data"]["terminated_instances"][0]["status"] == "terminating");
    const auto again = terminate(sim, id);
    CHECK(again.status == 400);
    CHECK(code_of(again) == "global/unknown");
    sim.pass(20);
    CHECK(sim.lambda({.path = "/api/v1/instances/" + id}).status == 404);
    CHECK(code_of(sim.lambda({.path = "/api/v1/instances/" + id})) == "global/object-does-not-exist");
    CHECK(get(sim, "/instances").empty());
}

TEST_CASE(
    "the row of a terminated Lambda instance may stay for a while, and a second terminate may succeed") {
    const TestSim sim([](SimulatorOptions& o) {
        o.settings.lambda_terminated_kept = Millis{60'000};
        o.settings.lambda_second_terminate = 200;
        o.settings.lambda_unknown_400 = true;
    });
    add_key(sim);
    const auto id = launch(sim);
    CHECK(terminate(sim, id).status == 200);
    CHECK(terminate(sim, id).status == 200);
    sim.pass(30);
    CHECK(get(sim, "/instances/" + id)["status"] == "terminated");
    sim.pass(61);
    CHECK(sim.lambda({.path = "/api/v1/instances/" + id}).status == 400);
}

TEST_CASE("a restart wants an active Lambda instance and goes through booting") {
    const TestSim sim;
    add_key(sim);
    const auto id = launch(sim);
    const auto restart = [&] { return post(sim, "/instance-operations/restart", {{"instance_ids", {id}}}); };
    CHECK(restart().status == 409);
    CHECK(code_of(restart()) == "global/conflict");
    sim.pass(300);
    sim.until_phase(id, "running");
    CHECK(restart().parsed()["data"]["restarted_instances"].size() == 1);
    sim.pass(10);
    sim.until([&] { return sim.machine(id)["starts"] == 2; }, "the second start");
    CHECK(get(sim, "/instances/" + id)["status"] == "active");
}

TEST_CASE("Lambda instances may come up unhealthy and may be taken back") {
    const TestSim sim([](SimulatorOptions& o) { o.settings.lambda_boots_unhealthy = true; });
    add_key(sim);
    const auto id = boot(sim);
    CHECK(get(sim, "/instances/" + id)["status"] == "unhealthy");
    const auto before = billed(sim, id);
    sim.pass(61);
    CHECK(billed(sim, id) == before + 21'500);  // billed on: a minute of $1.29
    sim.order("take_back", {{"provider", "lambda"}, {"id", id}});
    CHECK(get(sim, "/instances/" + id)["status"] == "preempted");
    const auto then = billed(sim, id);
    sim.pass(50);
    CHECK(billed(sim, id) == then);
    sim.pass(11);
    CHECK(sim.lambda({.path = "/api/v1/instances/" + id}).status == 404);
}

TEST_CASE("Lambda bills started minutes from active on, and nothing while it boots") {
    const TestSim sim;
    add_key(sim);
    const auto id = launch(sim);
    sim.pass(209);
    CHECK(billed(sim, id) == 0);
    sim.pass(2);
    sim.until_phase(id, "running");
    // $1.29 an hour is 21,500 micro-dollars a minute. A step that has begun is charged whole.
    CHECK(billed(sim, id) == 21'500);
    sim.pass(58);
    CHECK(billed(sim, id) == 21'500);
    sim.pass(3);
    CHECK(billed(sim, id) == 2 * 21'500);
    sim.pass(3600);
    CHECK(billed(sim, id) == 62 * 21'500);
    sim.order("price", {{"provider", "lambda"}, {"id", id}, {"per_hour", 2.58}});
    CHECK(get(sim, "/instances/" + id)["instance_type"]["price_cents_per_hour"] == 258);
    sim.pass(60);
    CHECK(billed(sim, id) == 62 * 21'500 + 43'000);
    CHECK(terminate(sim, id).status == 200);
    const auto last = billed(sim, id);
    sim.pass(7200);
    CHECK(billed(sim, id) == last);
    const auto totals = sim.bill()["totals"]["lambda"];
    CHECK(totals["total_micros"] == last);
    CHECK_FALSE(totals.contains("balance_micros"));
}

TEST_CASE("Lambda's file systems have two spellings, are in use while mounted, and stay") {
    const TestSim sim;
    add_key(sim);
    CHECK(post(sim, "/filesystems", {{"name", "1data"}, {"region", "us-west-1"}}).status == 400);
    const auto made = post(sim, "/filesystems", {{"name", "data"}, {"region", "us-west-1"}});
    CHECK(made.status == 200);
    CHECK(code_of(post(sim, "/filesystems", {{"name", "data"}, {"region", "us-west-1"}})) ==
          "global/duplicate");
    CHECK(sim.lambda({.path = "/api/v1/filesystems"}).status == 404);
    CHECK(sim.lambda({.method = "POST", .path = "/api/v1/file-systems", .body = json::object()}).status ==
          404);
    const auto fs = made.parsed()["data"]["id"].get<std::string>();
    auto body = launch_body();
    body["file_system_names"] = {"data"};
    const auto id = launch(sim, body);
    CHECK(get(sim, "/file-systems")[0]["is_in_use"] == true);
    CHECK(get(sim, "/instances/" + id)["file_system_mounts"][0]["mount_point"] == "/lambda/nfs/data");
    const auto drop = [&] { return sim.lambda({.method = "DELETE", .path = "/api/v1/filesystems/" + fs}); };
    CHECK(code_of(drop()) == "filesystems/filesystem-in-use");
    CHECK(terminate(sim, id).status == 200);
    sim.pass(60);
    CHECK(get(sim, "/file-systems").size() == 1);
    CHECK(drop().parsed()["data"]["deleted_ids"][0] == fs);
    CHECK(drop().status == 404);
}

TEST_CASE("Lambda's SSH keys: names are taken once, a pair is made on demand, firewalls are checked") {
    const TestSim sim;
    add_key(sim);
    CHECK(code_of(post(sim, "/ssh-keys", {{"name", "gf"}, {"public_key", kKeyText}})) ==
          "global/invalid-parameters");
    sim.order("settings", {{"lambda_duplicate_key_code", true}});
    CHECK(code_of(post(sim, "/ssh-keys", {{"name", "gf"}, {"public_key", kKeyText}})) == "global/duplicate");
    add_key(sim, "same-text");
    const auto pair = post(sim, "/ssh-keys", {{"name", "made"}}).parsed()["data"];
    CHECK(pair["private_key"].get<std::string>().starts_with("-----BEGIN"));
    CHECK(get(sim, "/ssh-keys").size() == 3);
    CHECK_FALSE(get(sim, "/ssh-keys")[2].contains("private_key"));
    const auto drop = [&] {
        return sim.lambda({.method = "DELETE", .path = "/api/v1/ssh-keys/" + pair["id"].get<std::string>()});
    };
    CHECK(drop().parsed()["data"] == json::object());
    CHECK(drop().status == 404);
    const auto ruleset = [&](const json& rule) {
        return post(sim, "/firewall-rulesets",
                    {{"name", "gf"}, {"region", "us-west-1"}, {"rules", json::array({rule})}});
    };
    const json ssh{{"protocol", "tcp"}, {"port_range", {22, 22}}, {"source_network", "0.0.0.0/0"}};
    const auto made = ruleset(ssh);
    CHECK(made.status == 200);
    CHECK(ruleset({{"protocol", "icmp"}, {"port_range", {1, 2}}, {"source_network", "0.0.0.0/0"}}).status ==
          400);
    auto body = launch_body();
    body["firewall_rulesets"] = json::array({{{"id", made.parsed()["data"]["id"]}}});
    launch(sim, body);
    CHECK(code_of(sim.lambda(
              {.method = "DELETE",
               .path = "/api/v1/firewall-rulesets/" + made.parsed()["data"]["id"].get<std::string>()})) ==
          "firewall-rulesets/firewall-ruleset-in-use");
    CHECK(get(sim, "/audit-events")["events"].size() >= 4);
}
