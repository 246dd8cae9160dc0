// Vultr's face over real HTTP, point by point of the providers page, section 11.
#include <doctest/doctest.h>

#include "sim_client.hpp"
#include "simulator/http.hpp"

using namespace gf;
using namespace gf::sim;
using namespace gf::sim::test;

namespace {

constexpr const char* kA100 = "vcg-a100-12c-120g-80vram";

json create_body(const std::string& plan = kA100, const std::string& region = "ewr") {
    return {{"region", region},
            {"plan", plan},
            {"os_id", 1743},
            {"label", "gf-test"},
            {"hostname", "gf-test"},
            {"user_data", base64_encoded("#!/bin/sh\ntrue\n")},
            {"tags", {"gpuferry-machine=gf-test"}},
            {"enable_ipv6", false},
            {"activation_email", false},
            {"backups", "disabled"}};
}

Answer call(const TestSim& sim, const std::string& method, const std::string& path,
            const json& body = nullptr) {
    return sim.vultr({.method = method, .path = "/v2" + path, .body = body});
}

json get(const TestSim& sim, const std::string& path) {
    const auto answer = call(sim, "GET", path);
    REQUIRE_MESSAGE(answer.status == 200, path, ": ", answer.status, " ", answer.body);
    return answer.parsed();
}

std::string create(const TestSim& sim, const json& body = create_body()) {
    const auto answer = call(sim, "POST", "/instances", body);
    REQUIRE_MESSAGE(answer.status == 202, answer.body);
    return answer.parsed()["instance"]["id"];
}

json read(const TestSim& sim, const std::string& id) {
    return get(sim, "/instances/" + id)["instance"];
}

std::string boot(const TestSim& sim, const json& body = create_body()) {
    const auto id = create(sim, body);
    sim.pass(200);
    sim.until_phase(id, "running");
    return id;
}

std::int64_t billed(const TestSim& sim, const std::string& id) {
    return sim.machine(id)["bill_micros"];
}

const json* find(const json& rows, const std::string& id) {
    for (const auto& row : rows) {
        if (row["id"] == id) return &row;
    }
    return nullptr;
}

}  // namespace

TEST_CASE("Vultr's errors are flat, a key may be bound to an address, and some lists are open") {
    const TestSim sim([](SimulatorOptions& o) { o.settings.vultr_key = "right"; });
    const auto wrong = sim.vultr({.path = "/v2/instances", .key = "wrong"});
    CHECK(wrong.status == 401);
    CHECK(wrong.parsed() == json{{"error", "Invalid API token."}, {"status", 401}});
    CHECK(sim.vultr({.path = "/v2/instances", .key = ""}).status == 401);
    CHECK(sim.vultr({.path = "/v2/plans", .key = "wrong"}).status == 401);
    CHECK(sim.vultr({.path = "/v2/plans", .key = ""}).status == 200);
    CHECK(sim.vultr({.path = "/v2/instances", .key = "right"}).status == 200);
    // Without a key there is no stock and whole nodes keep their GPUs to themselves.
    CHECK(sim.vultr({.path = "/v2/regions/ewr/availability", .key = ""}).parsed()["available_plans"].empty());
    const auto blind = sim.vultr({.path = "/v2/plans", .key = ""}).parsed()["plans"];
    CHECK_FALSE(find(blind, "vcg-h100-216c-1914g-640vram")->contains("gpu_type"));
    CHECK(find(blind, kA100)->contains("gpu_type"));
    sim.order("settings", {{"vultr_allowed_ip", "203.0.113.9"}});
    const auto address = sim.vultr({.path = "/v2/instances", .key = "right"});
    CHECK(address.status == 401);
    CHECK(address.parsed()["error"] == "Unauthorized IP address: 127.0.0.1");
}

TEST_CASE("over thirty requests a second Vultr says 429, or 503 as the old documents do, with Retry-After") {
    const TestSim sim([](SimulatorOptions& o) { o.settings.vultr_per_second = 30; });
    for (int i = 0; i < 30; ++i) CHECK(sim.vultr({.path = "/v2/os"}).status == 200);
    const auto refused = sim.vultr({.path = "/v2/os"});
    CHECK(refused.status == 429);
    CHECK(refused.headers.at("retry-after") == "1");
    sim.order("settings", {{"vultr_limit_503", true}});
    CHECK(sim.vultr({.path = "/v2/os"}).status == 503);
    sim.pass(1);
    CHECK(sim.vultr({.path = "/v2/os"}).status == 200);
}

TEST_CASE("Vultr pages by an opaque cursor that ends with an empty text") {
    const TestSim sim;
    std::vector<std::string> seen;
    std::string cursor;
    int pages = 0;
    do {
        const auto page = get(sim, "/plans?per_page=4&cursor=" + cursor);
        for (const auto& plan : page["plans"]) seen.push_back(plan["id"]);
        CHECK(page["plans"].size() <= 4);
        CHECK(page["meta"]["total"] == 10);
        cursor = page["meta"]["links"]["next"];
        ++pages;
    } while (!cursor.empty());
    CHECK(pages == 3);
    CHECK(seen.size() == 10);
    CHECK(call(sim, "GET", "/plans?per_page=501").status == 400);
    CHECK(call(sim, "GET", "/plans?per_page=0").status == 400);
    CHECK(call(sim, "GET", "/plans?cursor=nonsense").status == 400);
    sim.order("settings", {{"vultr_per_page_clamps", true}, {"vultr_page_max", 3}});
    CHECK(get(sim, "/plans?per_page=501")["plans"].size() == 3);
}

TEST_CASE("Vultr's plans: counts as numbers, fractions and nothing; prices by region; two sale modes") {
    const TestSim sim;
    const auto plans = get(sim, "/plans?type=all")["plans"];
    const auto& a100 = *find(plans, kA100);
    CHECK(a100["hourly_cost"] == 2.397);
    CHECK(a100["gpu_count"] == 1);
    CHECK(a100["gpu_vram_gb"] == 80);
    CHECK(a100["ram"] == 122'880);
    CHECK(a100["location_cost"]["sjc"]["hourly_cost"] == 2.534);
    CHECK(find(plans, "vcg-a16-2c-8g-2vram")->at("gpu_count") == "1/8");
    CHECK(find(plans, "vcg-a16-2c-8g-2vram")->at("location_cost") == json::object());
    const auto& node = *find(plans, "vcg-h100-216c-1914g-640vram");
    CHECK(node["type"] == "vdm");
    CHECK(node["disk_type"] == "DEDICATEDMETAL");
    CHECK(node["deploy_ondemand"] == false);
    CHECK(node["deploy_preemptible"] == true);
    CHECK(node["hourly_cost_preemptible"] == 18.4);
    CHECK(node["locations"].empty());
    const auto slices = get(sim, "/plans?type=vcg")["plans"];
    CHECK(find(slices, "vcg-h100-216c-1914g-640vram") == nullptr);
    CHECK(call(sim, "GET", "/plans?type=gold").status == 400);
    const auto metal = get(sim, "/plans-metal")["plans_metal"];
    CHECK(find(metal, "vbm-112c-2048gb-8-a100-gpu")->at("monthly_cost") == 15'052.8);
    sim.order("settings", {{"vultr_string_counts", false}, {"vultr_location_cost_array", true}});
    const auto other = get(sim, "/plans")["plans"];
    CHECK_FALSE(find(other, "vcg-a16-2c-8g-2vram")->contains("gpu_count"));
    CHECK(find(other, "vcg-a16-2c-8g-2vram")->at("location_cost") == json::array());
}

TEST_CASE("stock at Vultr is per region, and `locations` is none") {
    const TestSim sim;
    const auto stock = [&](const std::string& region, const std::string& type = "") {
        return get(sim, "/regions/" + region + "/availability" + type)["available_plans"];
    };
    const auto has = [](const json& ids, const std::string& id) {
        return std::ranges::find(ids, json(id)) != ids.end();
    };
    CHECK(has(stock("ewr"), kA100));
    CHECK(has(stock("sea"), "vcg-h100-216c-1914g-640vram"));
    CHECK_FALSE(has(stock("sea", "?type=vcg"), "vcg-h100-216c-1914g-640vram"));
    CHECK(has(stock("fra"), "vbm-112c-2048gb-8-a100-gpu"));
    CHECK_FALSE(has(stock("fra"), kA100));
    CHECK(call(sim, "GET", "/regions/moon/availability").status == 404);
    const auto refused = call(sim, "POST", "/instances", create_body(kA100, "fra"));
    CHECK(refused.status == 400);
    CHECK(refused.parsed()["error"].get<std::string>().contains("not available"));
    for (int i = 0; i < 3; ++i) create(sim);
    CHECK_FALSE(has(stock("ewr"), kA100));
    CHECK(call(sim, "POST", "/instances", create_body()).status == 400);
    sim.order("settings", {{"vultr_lost_races", 1}});
    CHECK(call(sim, "POST", "/instances", create_body(kA100, "sjc")).status == 400);
    create(sim, create_body(kA100, "sjc"));
    // Sold in neither way, stock or not.
    sim.order(
        "market",
        {{"set",
          {{"provider", "vultr"}, {"vm_type", "vcg-b200-248c-2826g-1536vram"}, {"stock", {{"sea", 1}}}}}});
    CHECK_FALSE(has(stock("sea"), "vcg-b200-248c-2826g-1536vram"));
    CHECK(call(sim, "POST", "/instances", create_body("vcg-b200-248c-2826g-1536vram", "sea")).status == 400);
}

TEST_CASE("Vultr refuses creates that make no sense, and makes nothing") {
    const TestSim sim;
    const auto refused = [&](const std::function<void(json&)>& change) {
        auto body = create_body();
        change(body);
        const auto answer = call(sim, "POST", "/instances", body);
        CHECK(answer.status == 400);
        return answer.parsed()["error"].get<std::string>();
    };
    CHECK(refused([](json& b) { b["plan"] = "vcg-gold"; }) == "Invalid plan chosen.");
    CHECK(refused([](json& b) { b["plan"] = "vbm-112c-2048gb-8-a100-gpu"; }) == "Invalid plan chosen.");
    CHECK(refused([](json& b) { b["region"] = "moon"; }) == "Invalid location.");
    CHECK(refused([](json& b) { b["sshkey_id"] = {"nobody"}; }).contains("SSH key"));
    CHECK(refused([](json& b) { b["user_data"] = "#!/bin/sh\ntrue\n"; }).contains("base64"));
    CHECK(refused([](json& b) { b.erase("os_id"); }).contains("os_id"));
    CHECK(refused([](json& b) { b["image_id"] = "docker"; }).contains("os_id"));
    CHECK(refused([](json& b) { b["os_id"] = 1; }) == "Invalid OS chosen.");
    CHECK(refused([](json& b) { b["tags"] = "one"; }).contains("tags"));
    CHECK(sim.vultr({.method = "POST", .path = "/v2/instances", .raw_body = "{"}).status == 400);
    sim.order("settings", {{"vultr_instance_limit", 1}});
    create(sim);
    const auto limit = call(sim, "POST", "/instances", create_body());
    CHECK(limit.status == 403);
    CHECK(limit.parsed()["error"].get<std::string>().contains("ticket"));
    CHECK(sim.state()["open_machines"] == 1);
}

TEST_CASE(
    "a Vultr instance: 0.0.0.0 at first, three status fields, locked against delete, then gone for good") {
    const TestSim sim;
    const auto answer = call(sim, "POST", "/instances", create_body()).parsed()["instance"];
    const auto id = answer["id"].get<std::string>();
    CHECK(answer["main_ip"] == "0.0.0.0");
    CHECK(answer["default_password"].is_string());
    const auto fields = [&] {
        const auto row = read(sim, id);
        return row["status"].get<std::string>() + " " + row["power_status"].get<std::string>() + " " +
               row["server_status"].get<std::string>();
    };
    CHECK(fields() == "pending running none");
    CHECK_FALSE(read(sim, id).contains("default_password"));
    const auto drop = [&] { return call(sim, "DELETE", "/instances/" + id); };
    CHECK(drop().status == 500);
    CHECK(drop().parsed()["error"] ==
          "Unable to destroy server: Unable to remove VM: Server is currently locked");
    sim.pass(61);
    CHECK(fields() == "active running locked");
    CHECK(read(sim, id)["main_ip"] != "0.0.0.0");
    sim.pass(30);
    CHECK(fields() == "active running installingbooting");
    sim.pass(100);
    sim.until([&] { return fields() == "active running ok"; }, "ready");
    CHECK(get(sim, "/instances?label=gf-test&show_pending_charges=true")["instances"][0]["pending_charges"] ==
          2.4);
    CHECK(get(sim, "/instances?label=other")["instances"].empty());
    CHECK(get(sim, "/instances?tag=gpuferry-machine%3Dgf-test")["instances"].size() == 1);
    CHECK(get(sim, "/instances/" + id + "/user-data")["user_data"]["data"] ==
          base64_encoded("#!/bin/sh\ntrue\n"));

    CHECK(call(sim, "PATCH", "/instances/" + id, {{"label", "new"}, {"tags", {"a"}}}).status == 202);
    CHECK(read(sim, id)["label"] == "new");
    CHECK(read(sim, id)["tags"] == json::array({"a"}));

    CHECK(drop().status == 204);
    const auto second = drop();
    CHECK(second.status == 500);
    CHECK(second.parsed()["error"] == "Unable to destroy server: Server is already pending destruction.");
    sim.pass(11);
    CHECK(drop().status == 400);
    const auto gone = call(sim, "GET", "/instances/" + id);
    CHECK(gone.status == 400);
    CHECK(gone.parsed()["error"] == "invalid instance ID");
    sim.order("settings", {{"vultr_gone_400", false}});
    CHECK(call(sim, "GET", "/instances/" + id).status == 404);
    CHECK(get(sim, "/instances")["instances"].empty());
}

TEST_CASE("a halted Vultr machine is billed on; hours are whole, at least one, from deploy") {
    const TestSim sim;
    const auto id = create(sim);
    CHECK(billed(sim, id) == 2'397'000);  // boot time is paid
    sim.pass(200);
    sim.until_phase(id, "running");
    CHECK(call(sim, "POST", "/instances/" + id + "/halt").status == 204);
    sim.pass(6);
    sim.until([&] { return read(sim, id)["power_status"] == "stopped"; }, "the halt");
    CHECK(read(sim, id)["status"] == "active");
    CHECK(billed(sim, id) == 2'397'000);
    sim.pass(3'400);
    CHECK(billed(sim, id) == 2 * 2'397'000);
    CHECK(call(sim, "POST", "/instances/" + id + "/start").status == 204);
    sim.pass(20);
    sim.until_phase(id, "running");
    CHECK(read(sim, id)["power_status"] == "running");
    CHECK(call(sim, "POST", "/instances/" + id + "/reboot").status == 204);
    sim.pass(6);
    sim.until([&] { return sim.machine(id)["starts"] == 3; }, "the reboot");
    sim.order("price", {{"provider", "vultr"}, {"id", id}, {"per_hour", 3}});
    sim.pass(3'600);
    CHECK(billed(sim, id) == 2 * 2'397'000 + 3'000'000);
    CHECK(call(sim, "DELETE", "/instances/" + id).status == 204);
    sim.pass(36'000);
    CHECK(billed(sim, id) == 7'794'000);
    CHECK(sim.bill()["totals"]["vultr"]["total_micros"] == 7'794'000);
    const auto charges = get(sim, "/billing/pending-charges")["pending_charges"];
    REQUIRE(charges.size() == 1);
    CHECK(charges[0]["units"] == 3);
    CHECK(charges[0]["total"] == 7.79);
}

TEST_CASE("Vultr's balance is negative for credit, and without money machines are suspended and billed on") {
    const TestSim sim([](SimulatorOptions& o) { o.settings.vultr_balance = 5'000'000; });
    const auto id = boot(sim);
    auto account = get(sim, "/account")["account"];
    CHECK(account["balance"] == -5.0);
    CHECK(account["pending_charges"] == 2.4);
    sim.pass(2 * 3'600);
    CHECK(read(sim, id)["status"] == "suspended");
    CHECK(read(sim, id)["power_status"] == "stopped");
    CHECK(sim.bill()["totals"]["vultr"]["balance_micros"] == 5'000'000 - 3 * 2'397'000);
    CHECK(call(sim, "POST", "/instances/" + id + "/start").status == 400);
    CHECK(call(sim, "POST", "/instances", create_body()).status == 400);
    sim.pass(3'600);
    CHECK(billed(sim, id) == 4 * 2'397'000);
    sim.pass(7.0 * 86'400);
    CHECK(sim.machine(id)["exists"] == false);
}

TEST_CASE("a Vultr machine may vanish without notice, or stop") {
    const TestSim sim;
    const auto id = boot(sim, create_body("vcg-h100-216c-1914g-640vram", "sea"));
    CHECK(billed(sim, id) == 18'400'000);  // sold as preemptible alone: that price
    sim.order("take_back", {{"provider", "vultr"}, {"id", id}});
    CHECK(call(sim, "GET", "/instances/" + id).status == 400);
    sim.order("settings", {{"vultr_taken_stops", true}});
    const auto other = boot(sim);
    sim.order("take_back", {{"provider", "vultr"}, {"id", other}});
    sim.until([&] { return read(sim, other)["power_status"] == "stopped"; }, "the stop");
}

TEST_CASE("bare metal at Vultr has other types, no power and no server status, and its own word for gone") {
    const TestSim sim;
    CHECK(call(sim, "POST", "/bare-metals", create_body(kA100)).status == 400);
    const auto answer = call(sim, "POST", "/bare-metals", create_body("vbm-112c-2048gb-8-a100-gpu", "fra"));
    REQUIRE(answer.status == 202);
    const auto id = answer.parsed()["bare_metal"]["id"].get<std::string>();
    const auto one = [&] { return get(sim, "/bare-metals/" + id)["bare_metal"]; };
    CHECK(one()["main_ip"] == "");
    CHECK(one()["ram"] == "2097152 MB");
    CHECK(one()["mac_address"].is_number_integer());
    CHECK(one()["status"] == "pending");
    CHECK_FALSE(one().contains("power_status"));
    CHECK_FALSE(one().contains("server_status"));
    CHECK(call(sim, "GET", "/instances/" + id).status == 400);
    CHECK(get(sim, "/instances")["instances"].empty());
    sim.pass(200);
    sim.until([&] { return one()["status"] == "active"; }, "active");
    CHECK(get(sim, "/bare-metals")["bare_metals"].size() == 1);
    CHECK(call(sim, "DELETE", "/bare-metals/" + id).status == 204);
    sim.pass(11);
    CHECK(call(sim, "GET", "/bare-metals/" + id).parsed()["error"] == "invalid server");
}

TEST_CASE("Vultr's keys, scripts, firewalls and block volumes") {
    const TestSim sim;
    const json key{{"name", "gf"}, {"ssh_key", "ssh-ed25519 AAAA gf"}};
    const auto first = call(sim, "POST", "/ssh-keys", key);
    CHECK(first.status == 201);
    CHECK(call(sim, "POST", "/ssh-keys", key).status == 201);  // twice is taken
    CHECK(get(sim, "/ssh-keys")["ssh_keys"].size() == 2);
    const auto id = first.parsed()["ssh_key"]["id"].get<std::string>();
    auto body = create_body();
    body["sshkey_id"] = {id};
    const auto machine = create(sim, body);
    CHECK(call(sim, "DELETE", "/ssh-keys/" + id).status == 204);
    CHECK(call(sim, "DELETE", "/ssh-keys/" + id).status == 404);
    const auto raw =
        call(sim, "POST", "/startup-scripts", {{"name", "s"}, {"type", "boot"}, {"script", "#!/bin/sh"}});
    CHECK(raw.status == 400);
    CHECK(raw.parsed()["error"] == "Script must be base64 encoded");
    CHECK(call(sim, "POST", "/startup-scripts",
               {{"name", "s"}, {"type", "boot"}, {"script", base64_encoded("#!/bin/sh")}})
              .status == 201);
    CHECK(call(sim, "POST", "/vpcs", {{"region", "ewr"}, {"description", "gf"}}).status == 201);
    const auto group =
        call(sim, "POST", "/firewalls", {{"description", "gf"}}).parsed()["firewall_group"]["id"];
    const auto rule = call(
        sim, "POST", "/firewalls/" + group.get<std::string>() + "/rules",
        {{"ip_type", "v4"}, {"protocol", "TCP"}, {"subnet", "0.0.0.0"}, {"subnet_size", 0}, {"port", "22"}});
    CHECK(rule.status == 201);
    CHECK(rule.parsed()["firewall_rule"]["protocol"] == "tcp");

    const auto block = call(sim, "POST", "/blocks", {{"region", "ewr"}, {"size_gb", 100}, {"label", "gf"}});
    CHECK(block.status == 202);
    const auto at = "/blocks/" + block.parsed()["block"]["id"].get<std::string>();
    const json attach{{"instance_id", machine}, {"live", true}};
    CHECK(call(sim, "POST", at + "/attach", attach).status == 500);  // locked
    sim.pass(200);
    CHECK(call(sim, "POST", at + "/attach", attach).status == 204);
    CHECK(call(sim, "POST", at + "/attach", attach).status == 400);
    CHECK(call(sim, "DELETE", "/instances/" + machine).status == 204);
    CHECK(get(sim, at)["block"]["attached_to_instance"] == "");  // outlives its machine
}
