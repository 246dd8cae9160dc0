// Vast.ai's face over real HTTP, point by point of the providers page, section 15.
#include <doctest/doctest.h>

#include <set>

#include "sim_client.hpp"

using namespace gf;
using namespace gf::sim;
using namespace gf::sim::test;

namespace {

/// Without the least intervals: tests of other things would only wait for them.
TestSim open(const std::function<void(SimulatorOptions&)>& adjust = {}) {
    return TestSim([&](SimulatorOptions& o) {
        o.settings = Settings::of_profile(false);
        o.settings.vastai_intervals = false;
        o.settings.vastai_balance = 1'000'000'000;
        if (adjust) adjust(o);
    });
}

json query(const std::string& type = "on-demand") {
    return {{"gpu_name", {{"eq", "RTX 4090"}}},
            {"num_gpus", {{"eq", 1}}},
            {"verified", {{"eq", true}}},
            {"external", {{"eq", false}}},
            {"rentable", {{"eq", true}}},
            {"rented", {{"eq", false}}},
            {"type", type},
            {"allocated_storage", 60},
            {"order", json::array({json::array({"dph_total", "asc"})})},
            {"limit", 64}};
}

json search(const TestSim& sim, const json& body) {
    const auto answer = sim.vastai({.method = "POST", .path = "/api/v0/bundles/", .body = body});
    REQUIRE_MESSAGE(answer.status == 200, answer.body);
    return answer.parsed()["offers"];
}

json order_body() {
    return {{"client_id", "me"},
            {"image", "ghcr.io/example/trainer:1"},
            {"disk", 20},
            {"label", "gf-test"},
            {"runtype", "args"},
            {"onstart", "/bin/sh"},
            {"args", {"-c", "true"}},
            {"env", {{"GPUFERRY_MACHINE", "gf-test"}, {"-p 8000:8000", "1"}}},
            {"target_state", "running"},
            {"cancel_unavail", true}};
}

Answer rent(const TestSim& sim, std::int64_t ask, const json& body = order_body()) {
    return sim.vastai({.method = "PUT", .path = "/api/v0/asks/" + std::to_string(ask) + "/", .body = body});
}

std::string rent_cheapest(const TestSim& sim, std::optional<double> over_floor = {}) {
    const auto offer = search(sim, query(over_floor ? "bid" : "on-demand"))[0];
    auto body = order_body();
    if (over_floor) body["price"] = offer["min_bid"].get<double>() + *over_floor;
    const auto answer = rent(sim, offer["id"], body);
    REQUIRE_MESSAGE(answer.status == 200, answer.body);
    return answer.parsed()["new_contract"].dump();
}

json show(const TestSim& sim, const std::string& id) {
    return sim.vastai({.path = "/api/v0/instances/" + id + "/?owner=me"}).parsed()["instances"];
}

Answer put(const TestSim& sim, const std::string& id, const json& body) {
    return sim.vastai({.method = "PUT", .path = "/api/v0/instances/" + id + "/", .body = body});
}

Answer destroy(const TestSim& sim, const std::string& id) {
    return sim.vastai({.method = "DELETE", .path = "/api/v0/instances/" + id + "/", .body = json::object()});
}

}  // namespace

TEST_CASE("keys: none is 403, a wrong one 404 or 401, search wants none, a trailing slash is needed") {
    auto sim = open([](SimulatorOptions& o) { o.settings.vastai_key = "right"; });
    const auto none = sim.vastai({.path = "/api/v1/instances/", .key = ""});
    CHECK(none.status == 403);
    CHECK(none.parsed()["msg"] == "This action requires login.");
    const auto wrong = sim.vastai({.path = "/api/v1/instances/", .key = "wrong"});
    CHECK(wrong.status == 404);
    CHECK(wrong.parsed()["error"] == "auth_error");
    sim.order("settings", {{"vastai_wrong_key_401", true}});
    CHECK(sim.vastai({.path = "/api/v1/instances/", .key = "wrong"}).status == 401);
    CHECK(sim.vastai({.method = "POST", .path = "/api/v0/bundles/", .body = query(), .key = ""}).status ==
          200);
    CHECK(sim.vastai({.path = "/api/v1/instances/?api_key=right", .key = ""}).status == 200);
    CHECK(sim.vastai({.path = "/api/v1/instances", .key = "right"}).status == 404);
}

TEST_CASE("calls too close together are refused in four forms, never with Retry-After") {
    TestSim sim([](SimulatorOptions& o) { o.settings.vastai_intervals = true; });
    CHECK(sim.vastai({.path = "/api/v1/instances/"}).status == 200);
    std::set<std::string> forms;
    for (int i = 0; i < 4; ++i) {
        const auto refused = sim.vastai({.path = "/api/v1/instances/"});
        CHECK(refused.status == 429);
        CHECK_FALSE(refused.headers.contains("retry-after"));
        forms.insert(refused.body);
    }
    CHECK(forms.size() == 4);
    sim.pass(1.1);
    CHECK(sim.vastai({.path = "/api/v1/instances/"}).status == 200);
    for (int i = 0; i < 10; ++i) search(sim, query());
    CHECK(sim.vastai({.method = "POST", .path = "/api/v0/bundles/", .body = query()}).status == 429);
}

TEST_CASE("offers are priced with the asked storage over a month of 720 hours") {
    const auto sim = open();
    const auto offers = search(sim, query());
    REQUIRE(offers.size() == 3);
    double last = 0;
    for (const auto& offer : offers) {
        CHECK(offer["dph_total"].get<double>() ==
              doctest::Approx(offer["dph_base"].get<double>() +
                              60 * offer["storage_cost"].get<double>() / 720));
        CHECK(offer["dph_total"].get<double>() >= last);
        last = offer["dph_total"];
        CHECK(offer["gpu_ram"] == 24564);
        CHECK(offer["is_bid"] == false);
    }
    const auto bids = search(sim, query("bid"));
    for (const auto& offer : bids) {
        CHECK(offer["is_bid"] == true);
        CHECK(offer["dph_base"] == offer["min_bid"]);
    }
}

TEST_CASE("filters: every operator, names with spaces only, id never, defaults not applied") {
    const auto sim = open();
    const auto count = [&](json body) {
        body["limit"] = 64;
        return search(sim, body).size();
    };
    const auto all = count({{"num_gpus", {{"eq", 1}}}});
    CHECK(all == 18);
    CHECK(count({{"num_gpus", {{"eq", 1}}}, {"verified", {{"eq", true}}}}) == 17);
    CHECK(count({{"gpu_name", {{"eq", "RTX_4090"}}}}) == 0);
    CHECK(count({{"gpu_name", {{"in", {"RTX 4090", "L4"}}}}, {"num_gpus", {{"eq", 1}}}}) == 5);
    CHECK(count({{"gpu_name", {{"notin", {"RTX 4090"}}}}, {"num_gpus", {{"eq", 1}}}}) == 14);
    CHECK(count({{"num_gpus", {{"gte", 8}}}}) == 6);
    CHECK(count({{"num_gpus", {{"gt", 4}}}}) == 6);
    CHECK(count({{"num_gpus", {{"gt", "4"}}}}) == 6);  // the vendor's client sends numbers as text
    CHECK(count({{"num_gpus", {{"gt", "four"}}}}) == 0);
    CHECK(count({{"num_gpus", {{"neq", 1}}}}) + all == count(json::object()));
    CHECK(count({{"reliability2", {{"gte", 0.99}, {"lte", 0.995}}}, {"num_gpus", {{"lt", 2}}}}) > 0);
    CHECK(count({{"geolocation", {{"in", {"US"}}}}, {"num_gpus", {{"eq", 1}}}}) == 6);
    CHECK(count({{"cpu_cores", {{"gte", 1}}}, {"num_gpus", {{"eq", 1}}}}) <
          all);  // null passes no comparison
    const auto id = search(sim, query())[0]["id"];
    CHECK(count({{"id", {{"eq", id}}}}) == 0);
    CHECK(count({{"ask_contract_id", {{"eq", id}}}}) == 1);
    for (const auto* bad :
         {R"({"num_gpus":{"above":1}})", R"({"num_gpus":1})", R"({"type":"spot"})", R"({"order":"price"})"}) {
        CHECK(sim.vastai({.method = "POST", .path = "/api/v0/bundles/", .body = json::parse(bad)}).status ==
              400);
    }
    CHECK(sim.vastai({.method = "POST", .path = "/api/v0/bundles/", .raw_body = "{"}).parsed()["error"] ==
          "invalid_request");
}

TEST_CASE("at most 64 offers come back, whatever the limit") {
    auto sim = open([](SimulatorOptions& o) {
        for (std::int64_t id = 1; id <= 80; ++id) {
            auto host = o.market.hosts().back();
            host.id = 50'000 + id;
            o.market.put(host);
        }
    });
    CHECK(search(sim, {{"limit", 3000}}).size() == 64);
    CHECK(search(sim, {{"limit", 3}}).size() == 3);
}

TEST_CASE("an ask is consumed by the first who takes it") {
    const auto sim = open();
    const auto ask = search(sim, query())[0]["id"].get<std::int64_t>();
    const auto first = rent(sim, ask);
    CHECK(first.status == 200);
    CHECK(first.parsed()["instance_api_key"].get<std::string>().size() == 64);
    const auto second = rent(sim, ask);
    CHECK(second.status == 404);
    CHECK(second.parsed()["error"] == "invalid_args");
    CHECK(second.parsed()["msg"].get<std::string>().starts_with("error 404/3603: no_such_ask"));
    CHECK(rent(sim, 7).status == 404);
}

TEST_CASE("bad bodies are named and rent nothing") {
    auto sim = open();
    const auto ask = search(sim, query())[0]["id"].get<std::int64_t>();
    const auto error = [&](const std::function<void(json&)>& change) {
        auto body = order_body();
        change(body);
        const auto answer = rent(sim, ask, body);
        CHECK(answer.status == 400);
        return answer.parsed()["error"].get<std::string>();
    };
    CHECK(error([](json& b) { b["disk"] = 7.9; }) == "invalid_args");
    CHECK(error([](json& b) { b.erase("image"); }) == "invalid_args");
    CHECK(error([](json& b) { b["label"] = std::string(257, 'x'); }) == "label_too_long");
    CHECK(error([](json& b) { b["onstart"] = std::string(4'096, 'x'); }) == "invalid_args");
    CHECK(error([](json& b) { b["env"]["A"] = std::string(257, 'x'); }) == "invalid_args");
    CHECK(error([](json& b) { b["runtype"] = "podman"; }) == "invalid_args");
    CHECK(error([](json& b) { b["price"] = 0.0001; }) == "invalid_price");
    CHECK(error([](json& b) { b["price"] = 129; }) == "invalid_price");
    sim.order("balance", {{"provider", "vastai"}, {"usd", 0}});
    CHECK(error([](json&) {}) == "insufficient_credit");
    CHECK(sim.state()["open_machines"] == 0);
}

TEST_CASE("a price makes it a bid; without one it is on-demand at full price even after a bid search") {
    const auto sim = open();
    const auto offer = search(sim, query("bid"))[0];
    auto body = order_body();
    body["price"] = 0.25;
    const auto bid = rent(sim, offer["id"], body).parsed()["new_contract"].dump();
    CHECK(sim.machine(bid)["bid"] == true);
    CHECK(sim.machine(bid)["gpu_micros_per_hour"] == 250'000);
    const auto next = search(sim, query("bid"))[0];
    const auto full = rent(sim, next["id"]).parsed()["new_contract"].dump();
    CHECK(sim.machine(full)["bid"] == false);
    CHECK(sim.machine(full)["gpu_micros_per_hour"].get<double>() > next["dph_base"].get<double>() * 1e6);
}

TEST_CASE("a bid below the floor is an error that leaves a stopped, billed instance") {
    const auto sim = open();
    const auto offer = search(sim, query("bid"))[0];
    auto body = order_body();
    body["price"] = offer["min_bid"].get<double>() / 2;
    const auto answer = rent(sim, offer["id"], body);
    CHECK(answer.status == 400);
    CHECK(answer.parsed()["success"] == false);
    const auto id = answer.parsed()["new_contract"].dump();
    sim.pass(3600);
    CHECK(show(sim, id)["actual_status"] == "stopped");
    const auto row = sim.bill()["machines"][0];
    CHECK(row["gpu_micros"] == 0);
    CHECK(row["disk_micros"].get<int>() > 0);
    CHECK(destroy(sim, id).status == 200);
}

TEST_CASE("a lost race is 410, or a waiting instance without cancel_unavail") {
    auto sim = open();
    sim.order("settings", {{"vastai_lost_races", 2}});
    const auto lost = rent(sim, search(sim, query())[0]["id"]);
    CHECK(lost.status == 410);
    CHECK(lost.parsed()["error"] == "no_such_ask");
    auto body = order_body();
    body["cancel_unavail"] = false;
    const auto waiting = rent(sim, search(sim, query())[0]["id"], body);
    CHECK(waiting.status == 200);
    sim.pass(100);
    const auto row = show(sim, waiting.parsed()["new_contract"].dump());
    CHECK(row["actual_status"] == "stopped");
    CHECK(row["intended_status"] == "running");
}

TEST_CASE("the life of an instance: unreadable, null, created, loading, running, gone") {
    auto sim = open([](SimulatorOptions& o) { o.settings.vastai_silent = Millis{3'000}; });
    const auto id = rent_cheapest(sim);
    CHECK(show(sim, id) == nullptr);
    sim.pass(1.1);
    REQUIRE(show(sim, id).is_object());
    CHECK(show(sim, id)["actual_status"] == nullptr);
    CHECK(sim.vastai({.path = "/api/v1/instances/"}).parsed()["instances"].empty());  // lists lag more
    sim.pass(2);
    CHECK(show(sim, id)["actual_status"] == "created");
    sim.pass(1);
    CHECK(show(sim, id)["actual_status"] == "loading");
    CHECK_FALSE(show(sim, id).contains("ports"));
    sim.pass(4);
    const auto row = show(sim, id);
    CHECK(row["actual_status"] == "running");
    CHECK(row["public_ipaddr"].get<std::string>().ends_with("\n"));
    CHECK(row["ports"]["8000/tcp"][0]["HostPort"].is_string());
    CHECK(row["extra_env"] == json::parse(R"([["-p 8000:8000","1"],["GPUFERRY_MACHINE","gf-test"]])"));
    CHECK(row["label"] == "gf-test");
    CHECK(sim.vastai({.path = "/api/v1/instances/"}).parsed()["instances"].size() == 1);

    CHECK(destroy(sim, id).parsed()["success"] == true);
    CHECK(show(sim, id).is_object());  // takes a few seconds
    const auto again = destroy(sim, id);
    CHECK(again.status == 404);
    CHECK(again.parsed()["error"] == "not_found");
    sim.pass(3.1);
    CHECK(show(sim, id) == nullptr);
    CHECK(sim.vastai({.path = "/api/v0/instances/99/"}).body == R"({"instances":null})");
}

TEST_CASE("the list is paged by 25, filtered on stored columns, and gone from v0") {
    auto sim = open();
    std::vector<std::int64_t> ids;
    for (int i = 0; i < 30; ++i) {
        auto body = order_body();
        body["label"] = i < 3 ? "a" : "b";
        const auto asks = search(sim, {{"num_gpus", {{"eq", 1}}}, {"rentable", {{"eq", true}}}});
        const auto rented = rent(sim, asks[0]["id"], body);
        REQUIRE_MESSAGE(rented.status == 200, rented.body);
        ids.push_back(rented.parsed()["new_contract"]);
    }
    sim.pass(3);
    const auto list = [&](const std::string& parameters) {
        return sim.vastai({.path = "/api/v1/instances/?" + parameters});
    };
    auto page = list("limit=100").parsed();
    CHECK(page["instances"].size() == 25);
    CHECK(page["total_instances"] == ids.size());
    CHECK(page["label_counts"]["a"] == 3);
    std::vector<std::int64_t> seen;
    for (const auto& row : page["instances"]) seen.push_back(row["id"]);
    // The first of the page goes meanwhile: the rest must not shift.
    destroy(sim, std::to_string(ids[0]));
    sim.pass(4);
    page = list("after_token=" + page["next_token"].get<std::string>()).parsed();
    for (const auto& row : page["instances"]) seen.push_back(row["id"]);
    CHECK(page["next_token"] == nullptr);
    CHECK(seen == ids);
    CHECK(list("limit=0").parsed()["instances"].size() == 5);
    CHECK(list("select_filters=%7B%22label%22%3A%7B%22eq%22%3A%22a%22%7D%7D").parsed()["instances"].size() ==
          2);
    CHECK(list("select_filters=%7B%22dph_total%22%3A%7B%22eq%22%3A1%7D%7D").status == 400);
    CHECK(list("after_token=foreign").status == 400);
    CHECK(list("select_cols=%5B%22id%22%2C%22nope%22%5D&limit=1").parsed()["instances"][0].size() == 2);

    const auto old = sim.vastai({.path = "/api/v0/instances/"});
    CHECK(old.status == 410);
    CHECK(old.parsed()["error"] == "deprecated_endpoint");
    sim.order("settings", {{"vastai_v0_list_200", true}});
    CHECK(sim.vastai({.path = "/api/v0/instances/"}).status == 200);
}

TEST_CASE("outbid: stopped without warning, storage billed, and back by itself in both profiles") {
    for (const bool keeps : {true, false}) {
        auto sim = open([&](SimulatorOptions& o) { o.settings.vastai_outbid_keeps_intent = keeps; });
        const auto id = rent_cheapest(sim, 0.01);
        sim.pass(10);
        REQUIRE(show(sim, id)["actual_status"] == "running");
        sim.order("market", {{"set", {{"host", show(sim, id)["machine_id"]}, {"floor_per_gpu", 0.9}}}});
        sim.pass(0);
        auto row = show(sim, id);
        CHECK(row["actual_status"] == "stopped");
        CHECK(row["intended_status"] == (keeps ? "running" : "stopped"));
        CHECK(row["cur_state"] == "stopped");
        CHECK(row["is_bid"] == true);
        CHECK(row["min_bid"] == 0.9);
        CHECK(row["instance"]["gpuCostPerHour"] == 0.0);
        sim.order("market", {{"set", {{"host", row["machine_id"]}, {"floor_per_gpu", 0.1}}}});
        sim.pass(10);
        CHECK(show(sim, id)["actual_status"] == "running");
        CHECK(sim.machine(id)["starts"] == 2);
    }
}

TEST_CASE("a raised bid wins the GPU back") {
    auto sim = open();
    const auto id = rent_cheapest(sim, 0.01);
    sim.pass(10);
    sim.order("market", {{"set", {{"host", show(sim, id)["machine_id"]}, {"floor_per_gpu", 0.5}}}});
    sim.pass(1);
    const auto bid = [&](const json& price) {
        return sim.vastai({.method = "PUT",
                           .path = "/api/v0/instances/bid_price/" + id + "/",
                           .body = {{"client_id", "me"}, {"price", price}}});
    };
    CHECK(bid(0.0001).parsed()["msg"] == "Please set a bid price >= 0.001.");
    CHECK(bid(33).status == 400);
    CHECK(bid(0.55).parsed()["success"] == true);
    sim.pass(10);
    CHECK(show(sim, id)["actual_status"] == "running");
    CHECK(show(sim, id)["dph_base"] == 0.55);
}

TEST_CASE("stop is asynchronous, and a start without a GPU is queued with success false") {
    auto sim = open();
    const auto id = rent_cheapest(sim);
    sim.pass(10);
    CHECK(put(sim, id, {{"state", "stopped"}}).parsed()["success"] == true);
    CHECK(show(sim, id)["next_state"] == "stopped");
    CHECK(show(sim, id)["actual_status"] == "running");
    sim.pass(2.1);
    CHECK(show(sim, id)["actual_status"] == "stopped");
    const auto host = show(sim, id)["machine_id"];
    sim.order("market", {{"set", {{"host", host}, {"taken", 64}}}});
    const auto queued = put(sim, id, {{"state", "running"}});
    CHECK(queued.status == 200);
    CHECK(queued.parsed()["success"] == false);
    CHECK(queued.parsed()["msg"] == "Required resources are currently unavailable, state change queued.");
    CHECK(show(sim, id)["intended_status"] == "running");
    sim.order("market", {{"set", {{"host", host}, {"taken", 0}}}});
    sim.pass(10);
    CHECK(show(sim, id)["actual_status"] == "running");
    CHECK(put(sim, id, {{"label", "new"}}).parsed()["success"] == true);
    CHECK(show(sim, id)["label"] == "new");
    CHECK(put(sim, "99", {{"state", "stopped"}}).parsed()["error"] == "no_such_instance");
}

TEST_CASE("an instance's own key is good for itself alone") {
    auto sim = open([](SimulatorOptions& o) { o.settings.vastai_key = "right"; });
    const auto make = [&] {
        const auto offer =
            sim.vastai({.method = "POST", .path = "/api/v0/bundles/", .body = query(), .key = ""})
                .parsed()["offers"][0];
        return sim
            .vastai({.method = "PUT",
                     .path = "/api/v0/asks/" + offer["id"].dump() + "/",
                     .body = order_body(),
                     .key = "right"})
            .parsed();
    };
    const auto own = make();
    const auto other = make();
    sim.pass(10);
    const std::string key = own["instance_api_key"];
    const auto call = [&](const std::string& method, const std::string& path) {
        return sim.vastai({.method = method, .path = path, .body = json::object(), .key = key}).status;
    };
    CHECK(call("GET", "/api/v1/instances/") == 403);
    CHECK(call("DELETE", "/api/v0/instances/" + other["new_contract"].dump() + "/") == 403);
    CHECK(call("GET", "/api/v0/instances/" + own["new_contract"].dump() + "/") == 200);
    CHECK(call("DELETE", "/api/v0/instances/" + own["new_contract"].dump() + "/") == 200);
}

TEST_CASE("credit is shown, charges carry the label and survive the destroy") {
    auto sim = open();
    const auto id = rent_cheapest(sim);
    sim.pass(10);
    sim.pass(3600);
    sim.order("traffic", {{"provider", "vastai"}, {"id", id}, {"down_gb", 10}, {"up_gb", 1}});
    destroy(sim, id);
    sim.pass(10);
    CHECK(sim.vastai({.path = "/api/v0/users/current/"}).parsed()["credit"].get<double>() < 1000.0);
    CHECK(sim.vastai({.path = "/api/v0/charges/"}).status == 400);
    const auto now = sim.state()["unix_ms"].get<std::int64_t>() / 1000;
    const auto range = "%7B%22day%22%3A%7B%22gte%22%3A" + std::to_string(now - 86'400) + "%2C%22lte%22%3A" +
                       std::to_string(now + 86'400) + "%7D%7D";
    const auto charges = sim.vastai({.path = "/api/v0/charges/?select_filters=" + range +
                                             "&format=table&latest_first=true&limit=500"})
                             .parsed();
    REQUIRE(charges["results"].size() == 1);
    const auto& row = charges["results"][0];
    CHECK(row["metadata"]["label"] == "gf-test");
    CHECK(row["source"] == "instance-" + id);
    CHECK(row["items"].size() == 4);
    CHECK(row["amount"].get<double>() * 1e6 ==
          doctest::Approx(sim.bill()["machines"][0]["total_micros"].get<double>()).epsilon(0.001));
}

TEST_CASE("ssh keys: 404 for none, and a JSON text in JSON per instance") {
    auto sim = open();
    CHECK(sim.vastai({.path = "/api/v0/ssh/"}).status == 404);
    CHECK(sim.vastai({.method = "POST", .path = "/api/v0/ssh/", .body = {{"ssh_key", "ssh-ed25519 AAAA me"}}})
              .parsed()["key"]["public_key"] == "ssh-ed25519 AAAA me");
    CHECK(sim.vastai({.path = "/api/v0/ssh/"}).parsed().is_array());
    const auto id = rent_cheapest(sim);
    sim.pass(2);
    CHECK(sim.vastai(
                 {.method = "POST", .path = "/api/v0/instances/" + id + "/ssh/", .body = {{"ssh_key", "k"}}})
              .status == 200);
    const auto keys = sim.vastai({.path = "/api/v0/instances/" + id + "/ssh/"}).parsed()["ssh_keys"];
    REQUIRE(keys.is_string());
    CHECK(json::parse(keys.get<std::string>()).size() == 1);
}

TEST_CASE("hosts fail in every documented way") {
    auto sim = open();
    const auto id = rent_cheapest(sim);
    const auto fail = [&](const std::string& mode, bool keep = false) {
        sim.order("host_fail",
                  {{"provider", "vastai"}, {"id", id}, {"mode", mode}, {"keep_processes", keep}});
    };
    sim.pass(1.1);
    fail("docker_fails");
    sim.pass(20);
    CHECK(show(sim, id)["actual_status"] == "created");
    CHECK(show(sim, id)["status_msg"].get<std::string>().contains(": OCI runtime create failed:"));

    const auto loading = rent_cheapest(sim);
    sim.order("host_fail", {{"provider", "vastai"}, {"id", loading}, {"mode", "never_runs"}});
    sim.pass(7200);
    CHECK(show(sim, loading)["actual_status"] == "loading");

    const auto away = rent_cheapest(sim);
    sim.pass(10);
    sim.order("host_fail", {{"provider", "vastai"}, {"id", away}, {"mode", "unknown"}});
    CHECK(show(sim, away)["actual_status"] == "unknown");
    sim.order("host_fail",
              {{"provider", "vastai"}, {"id", away}, {"mode", "offline"}, {"keep_processes", true}});
    CHECK(show(sim, away)["actual_status"] == "offline");
    sim.order("host_fail", {{"provider", "vastai"}, {"id", away}, {"mode", "return"}});
    CHECK(show(sim, away)["actual_status"] == "running");
    sim.order("host_fail", {{"provider", "vastai"}, {"id", away}, {"mode", "crash"}});
    sim.pass(0);
    CHECK(show(sim, away)["actual_status"] == "exited");
}

TEST_CASE("frozen, rebooting and recycling are shown, and billed as they are shown") {
    auto sim = open();
    const auto id = rent_cheapest(sim);
    sim.pass(10);
    REQUIRE(show(sim, id)["actual_status"] == "running");
    // The one machine here has a small disk: what burns above a few cents is its GPU.
    const auto gpu_billed = [&] { return sim.bill()["totals"]["vastai"]["burn_micros_per_hour"].get<std::int64_t>() > 50'000; };
    const auto fail = [&](const std::string& mode) {
        sim.order("host_fail", {{"provider", "vastai"}, {"id", id}, {"mode", mode}});
    };
    fail("freeze");
    CHECK(show(sim, id)["actual_status"] == "frozen");
    CHECK(gpu_billed());
    fail("thaw");
    CHECK(show(sim, id)["actual_status"] == "running");
    for (const std::string what : {"reboot", "recycle"}) {
        CAPTURE(what);
        fail("freeze");
        REQUIRE(sim.vastai({.method = "PUT", .path = "/api/v0/instances/" + what + "/" + id + "/", .body = json::object()})
                    .status == 200);
        CHECK(show(sim, id)["actual_status"] == (what == "reboot" ? "rebooting" : "recycling"));
        CHECK(show(sim, id)["intended_status"] == "running");
        CHECK_FALSE(gpu_billed());
        sim.pass(60);
        CHECK(show(sim, id)["actual_status"] == "running");
        CHECK(gpu_billed());
    }
    // Loading is free, also when it never ends.
    fail("never_runs");
    CHECK(show(sim, id)["actual_status"] == "loading");
    CHECK_FALSE(gpu_billed());
    fail("return");
    CHECK(show(sim, id)["actual_status"] == "running");
    CHECK(gpu_billed());
}

TEST_CASE("a host may propose a new price, which counts once accepted") {
    auto sim = open();
    const auto id = rent_cheapest(sim);
    sim.pass(10);
    sim.order("propose_price", {{"provider", "vastai"}, {"id", id}, {"per_hour", 0.8}});
    const auto pending = sim.vastai({.path = "/api/v0/instances/pending-price-increases/"}).parsed();
    REQUIRE(pending["count"] == 1);
    const json answer{
        {"pending_price_increase_id", pending["pending_price_increases"][0]["pending_price_increase_id"]}};
    CHECK(sim.vastai({.method = "PUT", .path = "/api/v0/instances/accept-price-increase/", .body = answer})
              .status == 200);
    CHECK(show(sim, id)["dph_base"] == 0.8);
    CHECK(sim.vastai({.method = "PUT", .path = "/api/v0/instances/accept-price-increase/", .body = answer})
              .parsed()["error"] == "no_pending_price_increase");
}
