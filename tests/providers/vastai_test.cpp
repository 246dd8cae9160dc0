#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

#include "cloud_bench.hpp"
#include "providers/vastai/mapping.hpp"

using namespace gf;
using gf::test::Received;
using gf::test::vast_ask;
using gf::test::vast_error;
using gf::test::VastBench;
using nlohmann::json;
using Sent = gf::test::Answer;
using Way = gf::test::Delivery;

namespace {

Sent plain(int status, std::string body, std::string type = "application/json") {
    return {.status = status, .body = std::move(body), .content_type = std::move(type)};
}

Offer spot_offer(VastBench& b) {
    const auto list = b.provider().offers({.gpu_counts = {1}, .on_demand = false});
    REQUIRE(list);
    REQUIRE(!list->offers.empty());
    return list->offers.front();
}

}  // namespace

TEST_CASE("Vast.ai: every documented answer to a create has its outcome") {
    const std::string no_ask = "error 404/3603: no_such_ask Instance type by id 18442711 is not available.";
    const std::string credit = "Your account lacks credit; see the billing page.";
    const struct {
        std::string what;
        Sent sent;
        ErrorKind kind;
    } rows[] = {
        {"taken", vast_error(404, "invalid_args", no_ask), ErrorKind::no_capacity},
        {"taken while starting",
         vast_error(410, "no_such_ask",
                    "error 410/3907: no_such_ask Instance type 1 is no longer available."),
         ErrorKind::no_capacity},
        {"taken, by code alone", plain(404, R"({"success":false,"error":"no_such_ask"})"),
         ErrorKind::no_capacity},
        {"taken, HTTP 200", vast_error(200, "no_such_ask", ""), ErrorKind::no_capacity},
        {"taken, in SkyPilot's words", vast_error(400, "x", "This offer has already been rented"),
         ErrorKind::no_capacity},
        {"taken, in other words", vast_error(400, "x", "Offer 5 is no longer rentable"),
         ErrorKind::no_capacity},
        {"bid outside the limits", vast_error(400, "invalid_price", "bid too low"), ErrorKind::no_capacity},
        {"bad body", vast_error(400, "invalid_args", "error 400/3467: Invalid args: disk"),
         ErrorKind::refused},
        {"bad JSON", vast_error(400, "invalid_request", "Invalid json body"), ErrorKind::refused},
        {"VM without a key", vast_error(400, "no_ssh_key_for_vm", "x"), ErrorKind::refused},
        {"label", vast_error(400, "label_too_long", "Please limit label length to 1024 characters"),
         ErrorKind::refused},
        {"no credit", vast_error(400, "insufficient_credit", credit), ErrorKind::no_money},
        {"no credit, another status", vast_error(402, "insufficient_credit", "x"), ErrorKind::no_money},
        {"411", vast_error(411, "", "Insufficient credit"), ErrorKind::no_money},
        {"no card", vast_error(400, "missing_billing", "x"), ErrorKind::no_money},
        {"A15 new account's cap", vast_error(403, "spend_rate_limit", "x"), ErrorKind::quota},
        {"A15 quota by text", vast_error(400, "invalid_args", "Instance QUOTA exceeded for this account"),
         ErrorKind::quota},
        {"A15 spend limit by text", vast_error(403, "x", "Your spending limit is reached"), ErrorKind::quota},
        {"A15 quota as a conflict", vast_error(409, "x", "quota exceeded"), ErrorKind::quota},
        {"A15 quota as a 422", vast_error(422, "x", "Account quota exceeded"), ErrorKind::quota},
        {"A13 422", vast_error(422, "invalid_image", "image: bad name"), ErrorKind::refused},
        {"A13 422 without a code", plain(422, R"({"detail":[{"loc":["body","image"],"msg":"bad name"}]})"),
         ErrorKind::refused},
        {"422 as text", plain(422, "Unprocessable", "text/plain"), ErrorKind::unknown_outcome},
        {"quota in a 429", vast_error(429, "x", "quota exceeded"), ErrorKind::unknown_outcome},
        {"quota as text", plain(400, "quota exceeded", "text/plain"), ErrorKind::unknown_outcome},
        {"401", vast_error(401, "auth_error", "Invalid user key"), ErrorKind::auth},
        {"A08 404 for a key", vast_error(404, "auth_error", "Invalid user key"), ErrorKind::auth},
        {"403", vast_error(403, "auth_error", "This action requires login."), ErrorKind::auth},
        {"403 of a host", vast_error(403, "invalid_args", "error 403/3586: Offer 1234567 is not your own."),
         ErrorKind::unknown_outcome},
        {"404 without a word", vast_error(404, "invalid_args", "error 404/1: what"),
         ErrorKind::unknown_outcome},
        {"404 as text", plain(404, "not found", "text/plain"), ErrorKind::unknown_outcome},
        {"deprecated",
         vast_error(410, "deprecated_endpoint", "/api/v0/asks/ is deprecated. Use /api/v1/ instead."),
         ErrorKind::api_retired},
        {"410 as text", plain(410, "Gone", "text/plain"), ErrorKind::api_retired},
        {"410 of the edge", plain(410, "<html>Gone</html>", "text/html"), ErrorKind::api_retired},
        {"403 of the edge", plain(403, "<html>Error 1010</html>", "text/html"), ErrorKind::unknown_outcome},
        {"A09 429 text", plain(429, "API requests too frequent", "text/plain"), ErrorKind::unknown_outcome},
        {"429 detail", plain(429, R"({"detail":"API requests too frequent endpoint threshold=4.5"})"),
         ErrorKind::unknown_outcome},
        {"429 JSON",
         vast_error(429, "rate_limit_exceeded", "API requests too frequent endpoint threshold=3.0"),
         ErrorKind::unknown_outcome},
        {"500", vast_error(500, "x", "y"), ErrorKind::unknown_outcome},
        {"502", plain(502, "Bad Gateway", "text/plain"), ErrorKind::unknown_outcome},
        {"504 with a text of no credit", vast_error(504, "insufficient_credit", credit),
         ErrorKind::unknown_outcome},
        {"200 success:false, unknown", vast_error(200, "weird", "hm"), ErrorKind::unknown_outcome},
        {"200 without a contract", plain(200, R"({"success":true})"), ErrorKind::unknown_outcome},
        {"200 with HTML", plain(200, "<html></html>", "text/html"), ErrorKind::unknown_outcome},
        {"a redirect", {.status = 301}, ErrorKind::unknown_outcome},
        {"483", vast_error(483, "x", "Invalid json_body"), ErrorKind::unknown_outcome},
    };
    for (const auto& row : rows) {
        CAPTURE(row.what);
        VastBench b;
        const auto request = gf::test::launch_request(b.some_offer(), 1);
        b.script([&](const Received&) { return row.sent; });
        const auto out = b.provider().launch(request);
        CHECK(out.id.empty());
        REQUIRE(out.error.has_value());
        CHECK(out.error->kind == row.kind);
        CHECK(b.server.count("PUT", "/api/v0/asks/") == 1);
    }
}

TEST_CASE("Vast.ai: a contract beside an error is a machine") {
    for (const int status : {200, 400, 410, 500}) {
        CAPTURE(status);
        VastBench b;
        auto request = gf::test::launch_request(spot_offer(b), 1);
        b.script([&](const Received&) {
            return plain(
                status,
                R"({"success":false,"error":"invalid_price","msg":"bid too low","new_contract":24880153})");
        });
        const auto out = b.provider().launch(request);
        CHECK(out.id.get() == "24880153");
        CHECK(out.error.has_value());
    }
}

TEST_CASE("Vast.ai: a price is sent exactly for bids, and a mix-up sends nothing") {
    VastBench b;
    auto on_demand = gf::test::launch_request(b.some_offer(), 1);
    REQUIRE(!b.provider().launch(on_demand).error);
    auto body = json::parse(b.server.received().back().body);
    CHECK(!body.contains("price"));
    auto spot = gf::test::launch_request(spot_offer(b), 2);
    REQUIRE(spot.bid);
    spot.bid = UsdPerHour{240'000};
    REQUIRE(!b.provider().launch(spot).error);
    const auto raw = b.server.received().back().body;
    CHECK(raw.find("\"price\":0.24,") != std::string::npos);
    const auto sent = b.server.received().size();
    spot.bid.reset();
    on_demand.bid = UsdPerHour{100'000};
    for (const auto& request : {spot, on_demand}) {
        const auto out = b.provider().launch(request);
        REQUIRE(out.error);
        CHECK(out.error->kind == ErrorKind::refused);
    }
    CHECK(b.server.received().size() == sent);
}

TEST_CASE("Vast.ai: the create says exactly what was meant") {
    VastBench b;
    auto request = gf::test::launch_request(b.some_offer(), 7);
    request.image = "ghcr.io/example/trainer:1.4.2";
    request.disk_gb = 60;
    request.registry =
        RegistryLogin{.server = "ghcr.io", .username = "bot", .password = Secret("tok_EXAMPLE")};
    REQUIRE(!b.provider().launch(request).error);
    const auto r = b.server.received().back();
    CHECK(r.method == "PUT");
    CHECK(r.target == "/api/v0/asks/18442711/");
    const auto body = json::parse(r.body);
    CHECK(body["label"] == request.tag.get());
    CHECK(body["image"] == "ghcr.io/example/trainer:1.4.2");
    CHECK(body["disk"] == 60);
    CHECK(body["runtype"] == "args");
    CHECK(body["onstart"] == "/bin/sh");
    CHECK(body["args"] == json{"-c", request.start_script});
    CHECK(body["env"].is_object());
    CHECK(body["env"]["GPUFERRY_MACHINE"] == request.tag.get());
    CHECK(body["env"].size() == 4);
    CHECK(body["cancel_unavail"] == true);
    CHECK(body["target_state"] == "running");
    CHECK(body["image_login"] == "-u bot -p tok_EXAMPLE ghcr.io");
}

TEST_CASE("Vast.ai: what its words cannot hold is refused before anything is sent") {
    VastBench b;
    const auto good = gf::test::launch_request(b.some_offer(), 7);
    const auto sent = b.server.received().size();
    auto long_script = good;
    long_script.start_script = std::string(4'090, 'x');
    auto long_env = good;
    long_env.env["GPUFERRY_ENROL"] = std::string(257, 'x');
    auto blank_login = good;
    blank_login.registry =
        RegistryLogin{.server = "ghcr.io", .username = "bot", .password = Secret("two words")};
    auto other_offer = good;
    other_offer.offer.id = "secure/NVIDIA GeForce RTX 4090/1";
    for (const auto& request : {long_script, long_env, blank_login, other_offer}) {
        const auto out = b.provider().launch(request);
        REQUIRE(out.error);
        CHECK(out.error->kind == ErrorKind::refused);
        CHECK(out.error->message.find("two words") == std::string::npos);
    }
    CHECK(b.server.received().size() == sent);
    auto small_disk = good;
    small_disk.disk_gb = 1;
    REQUIRE(!b.provider().launch(small_disk).error);
    CHECK(json::parse(b.server.received().back().body)["disk"] == 8);
}

TEST_CASE("Vast.ai: no call comes before its endpoint's interval is over") {
    VastBench b;
    const auto offer = b.some_offer();
    std::vector<ProviderMachineId> ids;
    for (int i = 0; i < 4; ++i) {
        const auto out = b.provider().launch(gf::test::launch_request(offer, 100 + i));
        REQUIRE(!out.error);
        ids.push_back(out.id);
    }
    for (int i = 0; i < 3; ++i) REQUIRE(b.provider().list());
    for (const auto& id : ids) REQUIRE(b.provider().read(id));
    for (const auto& id : ids) REQUIRE(b.provider().destroy(id));
    CHECK(b.machines() == 0);
    CHECK(b.world.too_early == 0);
}

TEST_CASE("Vast.ai: an instance's state, rate and marks") {
    const json base{{"id", 24880153},
                    {"label", "gf-x"},
                    {"machine_id", 31877},
                    {"actual_status", "running"},
                    {"intended_status", "running"},
                    {"cur_state", "running"},
                    {"next_state", "running"},
                    {"status_msg", "success"},
                    {"is_bid", true},
                    {"min_bid", 0.2133},
                    {"dph_base", 0.24},
                    {"dph_total", 0.2525},
                    {"storage_cost", 0.15},
                    {"storage_total_cost", 0.0125},
                    {"disk_space", 60.0},
                    {"gpu_name", "RTX 4090"},
                    {"num_gpus", 1},
                    {"gpu_ram", 24564},
                    {"start_date", 1764493961.2},
                    {"end_date", 1772256000.0},
                    {"extra_env", {{"GPUFERRY_MACHINE", "gf-x"}, {"GPUFERRY_ENROL", "s"}}},
                    {"geolocation", "Oregon, US"}};
    const json all_stopped{{"actual_status", "stopped"},
                           {"intended_status", "stopped"},
                           {"cur_state", "stopped"},
                           {"next_state", "stopped"}};
    const auto stopped_with = [&](json more) {
        auto out = all_stopped;
        out.merge_patch(more);
        return out;
    };
    const struct {
        std::string what;
        json changes;
        Presence presence;
        std::optional<std::int64_t> gpu;
        std::int64_t disk;
        bool outbid;
    } rows[] = {
        {"running", json::object(), Presence::running, 240'000, 12'500, false},
        {"nothing reported", {{"actual_status", "NULL"}}, Presence::booting, 0, 12'500, false},
        {"created", {{"actual_status", "created"}}, Presence::booting, 0, 12'500, false},
        {"a broken host",
         {{"actual_status", "created"}, {"status_msg", "Error: OCI runtime create failed: x"}},
         Presence::failed,
         0,
         12'500,
         false},
        {"loading is not billed", {{"actual_status", "loading"}}, Presence::booting, 0, 12'500, false},
        {"rebooting", {{"actual_status", "rebooting"}}, Presence::booting, 0, 12'500, false},
        {"recycling", {{"actual_status", "recycling"}}, Presence::booting, 0, 12'500, false},
        {"D04 outbid, resumes by itself",
         {{"actual_status", "stopped"}, {"min_bid", 0.30}},
         Presence::stopped,
         0,
         12'500,
         true},
        {"outbid, all three stopped", stopped_with({{"min_bid", 0.30}}), Presence::stopped, 0, 12'500, true},
        {"outbid, the host's last word was running",
         stopped_with({{"actual_status", "running"}, {"min_bid", 0.30}}), Presence::stopped, 0, 12'500, true},
        {"a bid that never won", stopped_with({{"actual_status", "NULL"}, {"min_bid", 0.30}}),
         Presence::stopped, 0, 12'500, true},
        {"stopped, floor below our bid", {{"actual_status", "stopped"}}, Presence::stopped, 0, 12'500, false},
        {"stopped at a higher storage rate",
         {{"actual_status", "stopped"}, {"instance", {{"diskHour", 0.02}}}},
         Presence::stopped,
         0,
         20'000,
         false},
        {"exited", {{"actual_status", "exited"}}, Presence::stopped, 0, 12'500, false},
        {"frozen is billed", {{"actual_status", "frozen"}}, Presence::failed, 240'000, 12'500, false},
        {"no heartbeat", {{"actual_status", "unknown"}}, Presence::unknown, 240'000, 12'500, false},
        {"offline is not billed", {{"actual_status", "offline"}}, Presence::unknown, 0, 0, false},
        {"a word nobody knows",
         {{"actual_status", "teleporting"}},
         Presence::unknown,
         240'000,
         12'500,
         false},
        {"disk computed from its price",
         {{"storage_total_cost", "NULL"}},
         Presence::running,
         240'000,
         12'500,
         false},
        {"rate from the total", {{"dph_base", "NULL"}}, Presence::running, 240'000, 12'500, false},
    };
    for (const auto& row : rows) {
        CAPTURE(row.what);
        auto instance = base;
        for (const auto& item : row.changes.items())
            instance[item.key()] = item.value() == "NULL" ? json(nullptr) : item.value();
        VastBench b;
        b.script([&](const Received&) { return plain(200, json{{"instances", instance}}.dump()); });
        const auto m = b.provider().read(ProviderMachineId{"24880153"});
        REQUIRE(m);
        CHECK(m->presence == row.presence);
        REQUIRE(m->gpu_rate.has_value() == row.gpu.has_value());
        if (row.gpu) CHECK(m->gpu_rate->micros == *row.gpu);
        REQUIRE(m->disk_rate);
        CHECK(m->disk_rate->micros == row.disk);
        CHECK(m->outbid == row.outbid);
        CHECK(m->spot);
        CHECK(m->tag == "gf-x");
        CHECK(m->env_tag == "gf-x");
        CHECK(m->host_id == "31877");
        CHECK(m->created_at == instant_of(1'764'493'961'200));
        CHECK(m->lease_end == instant_of(1'772'256'000'000));
    }
}

TEST_CASE("Vast.ai: an image that cannot be had, or cannot be started, is told apart from a broken host") {
    const struct {
        std::string status, said;
        Presence presence;
        bool of_image;
    } rows[] = {
        {"created", "Error response from daemon: manifest for x/y:1 not found: manifest unknown", Presence::failed, true},
        {"created", "pull access denied for x/y, repository does not exist or may require 'docker login'", Presence::failed, true},
        {"created", "no matching manifest for linux/amd64 in the manifest list entries", Presence::failed, true},
        {"created", "invalid reference format", Presence::failed, true},
        {"created", R"(OCI runtime create failed: runc create failed: exec: "bash": executable file not found in $PATH: unknown)", Presence::failed, true},
        {"created", R"(OCI runtime create failed: exec: "/bin/sh": stat /bin/sh: no such file or directory: unknown)", Presence::failed, true},
        {"created", "OCI runtime create failed: exec /bin/sh: exec format error", Presence::failed, true},
        // The host's own.
        {"created", "OCI runtime create failed: nvidia-container-cli: initialization error: driver rpc error: unknown", Presence::failed, false},
        {"created", "OCI runtime create failed: mount /dev/shm: no such file or directory", Presence::failed, false},
        {"created", "no space left on device", Presence::booting, false},
        {"created", "", Presence::booting, false},
        // Words about the image say nothing while it is tried, and nothing once it runs.
        {"loading", "manifest unknown", Presence::booting, false},
        {"running", "success, running x/manifest unknown", Presence::running, false}};
    for (const auto& row : rows) {
        CAPTURE(row.said);
        vastai::Instance instance;
        instance.id = 5;
        instance.actual_status = row.status;
        instance.status_msg = row.said;
        const auto m = vastai::machine_of(instance, [](auto&&...) { return std::optional<std::string>(); });
        CHECK(m.presence == row.presence);
        CHECK(m.image_fault == (row.of_image ? row.said : ""));
    }
}

TEST_CASE("Vast.ai: the mark is found in every form of the environment, and a missing label is no error") {
    for (const json& env :
         {json::array({json::array({"A", "1"}), json::array({"GPUFERRY_MACHINE", "gf-x"})}),
          json::array({"A=1", "GPUFERRY_MACHINE=gf-x"}), json{{"GPUFERRY_MACHINE", "gf-x"}}}) {
        CAPTURE(env.dump());
        VastBench b;
        b.script([&](const Received&) {
            return plain(200, json{{"success", true},
                                   {"next_token", nullptr},
                                   {"instances", {{{"id", 5}, {"label", nullptr}, {"actual_status", nullptr}, {"extra_env", env}}}}}
                                  .dump());
        });
        const auto listing = b.provider().list();
        REQUIRE(listing);
        REQUIRE(listing->machines.size() == 1);
        CHECK(listing->machines[0].tag.empty());
        CHECK(listing->machines[0].env_tag == "gf-x");
    }
}

TEST_CASE("Vast.ai: what an answer to a read or listing means") {
    const struct {
        std::string what;
        Sent sent;
        ErrorKind kind;
    } rows[] = {
        {"A05 the retired call",
         plain(
             200,
             R"({"success":false,"error":"deprecated_endpoint","msg":"/api/v0/instances/ is deprecated. Use /api/v1/instances/ instead."})"),
         ErrorKind::api_retired},
        {"A06 410 text", plain(410, "deprecated", "text/plain"), ErrorKind::api_retired},
        {"A06 null", plain(200, R"({"success":true,"instances":null})"), ErrorKind::malformed},
        {"success:false beside an empty array",
         plain(200, R"({"success":false,"msg":"partial","instances":[]})"), ErrorKind::malformed},
        {"an object", plain(200, R"({"instances":{}})"), ErrorKind::malformed},
        {"fewer than it says",
         plain(200, R"({"success":true,"total_instances":3,"next_token":null,"instances":[{"id":1,"actual_status":null}]})"),
         ErrorKind::malformed},
        {"an instance without an id", plain(200, R"({"instances":[{"label":"x","actual_status":"running"}]})"), ErrorKind::malformed},
        {"an instance without a state", plain(200, R"({"instances":[{"id":1,"actual_status":"running"},{"id":2,"label":"x"}]})"),
         ErrorKind::malformed},
        {"the same page for ever", plain(200, R"({"instances":[],"next_token":"t"})"), ErrorKind::malformed},
        {"A08 404 for a key", vast_error(404, "auth_error", "Invalid user key"), ErrorKind::auth},
        {"401", vast_error(401, "auth_error", "Invalid user key"), ErrorKind::auth},
        {"A08 in other words", vast_error(404, "", "API key does not match any user"), ErrorKind::auth},
        {"A09 429", plain(429, "API requests too frequent", "text/plain"), ErrorKind::rate_limited},
        {"502", plain(502, "Bad Gateway", "text/plain"), ErrorKind::unavailable},
        {"A11 HTML", plain(200, "<html></html>", "text/html"), ErrorKind::malformed},
        {"A11 truncated JSON", plain(200, R"({"instances":[{"id":1)"), ErrorKind::malformed},
        {"a bare array", plain(200, "[]"), ErrorKind::malformed},
    };
    for (const auto& row : rows) {
        CAPTURE(row.what);
        VastBench b;
        b.script([&](const Received&) { return row.sent; });
        const auto listing = b.provider().list();
        REQUIRE(!listing);
        CHECK(listing.error().kind == row.kind);
        CHECK(b.server.count("GET", "/api/v1/instances/?limit=25") >= 1);
    }
}

TEST_CASE("Vast.ai: pages are followed to the end, and one that fails takes the whole listing with it") {
    VastBench b;
    for (int i = 0; i < 60; ++i) b.world.add(fmt::format("instance {}", i), json::object());
    const auto before = b.clock().now();
    const auto whole = b.provider().list();
    REQUIRE(whole);
    CHECK(whole->machines.size() == 60);
    CHECK(b.server.count("GET", "/api/v1/instances/") == 3);
    CHECK(b.clock().now() - before >= Millis{2'000});
    b.pass(Seconds{5});
    int page = 0;
    b.script([&](const Received& r) { return ++page == 3 ? plain(502, "") : b.world.answer(r); });
    const auto part = b.provider().list();
    REQUIRE(!part);
    CHECK(part.error().kind == ErrorKind::unavailable);
}

TEST_CASE("Vast.ai: null is gone only beside a fresh proof of the key, which the adapter gets itself") {
    const auto nothing = [](const Received& r) {
        return r.path() == "/api/v0/users/current/" ? plain(200, R"({"id":1,"credit":1})")
                                                    : plain(200, R"({"instances":null})");
    };
    SUBCASE("with the account call when there is none") {
        VastBench b;
        b.script(nothing);
        for (int i = 0; i < 2; ++i) {
            const auto m = b.provider().read(ProviderMachineId{"5"});
            REQUIRE(m);
            CHECK(m->presence == Presence::gone);
        }
        CHECK(b.server.count("GET", "/api/v0/users/current/") == 1);
        b.pass(Seconds{61});
        REQUIRE(b.provider().read(ProviderMachineId{"5"}));
        CHECK(b.server.count("GET", "/api/v0/users/current/") == 2);
    }
    SUBCASE("not when that fails") {
        for (const auto& [sent, kind] :
             {std::pair{vast_error(404, "auth_error", "Invalid user key"), ErrorKind::auth},
              std::pair{plain(502, ""), ErrorKind::unavailable},
              std::pair{plain(200, "{}"), ErrorKind::malformed}}) {
            VastBench b;
            b.script([&](const Received& r) {
                return r.path() == "/api/v0/users/current/" ? sent : plain(200, R"({"instances":null})");
            });
            const auto m = b.provider().read(ProviderMachineId{"5"});
            REQUIRE(!m);
            CHECK(m.error().kind == kind);
        }
    }
    SUBCASE("a search proves nothing, for it works without a key") {
        VastBench b;
        REQUIRE(b.provider().offers({.spot = false}));
        b.script(nothing);
        REQUIRE(b.provider().read(ProviderMachineId{"5"}));
        CHECK(b.server.count("GET", "/api/v0/users/current/") == 1);
    }
    SUBCASE("a key refused meanwhile voids the proof") {
        VastBench b;
        REQUIRE(b.provider().list());
        b.script([](const Received&) { return vast_error(404, "auth_error", "Invalid user key"); });
        REQUIRE(!b.provider().list());
        b.script(nothing);
        REQUIRE(b.provider().read(ProviderMachineId{"5"}));
        CHECK(b.server.count("GET", "/api/v0/users/current/") == 1);
    }
    SUBCASE("nothing else is") {
        for (const auto& sent :
             {plain(200, "{}"), plain(200, R"({"instances":[]})"), plain(200, R"({"instances":{"id":6}})"),
              plain(200, R"({"success":false})")}) {
            CAPTURE(sent.body);
            VastBench b;
            b.script([&](const Received& r) {
                return r.path() == "/api/v0/users/current/" ? plain(200, R"({"id":1})") : sent;
            });
            const auto m = b.provider().read(ProviderMachineId{"5"});
            REQUIRE(!m);
            CHECK(m.error().kind == ErrorKind::malformed);
        }
    }
}

TEST_CASE("Vast.ai: what an answer to a destroy means") {
    const struct {
        std::string what;
        Sent sent;
        std::optional<ErrorKind> kind;
        bool proof;
    } rows[] = {
        {"done", plain(200, R"({"success":true,"msg":"x"})"), std::nullopt, false},
        {"done, without the word", plain(200, "{}"), std::nullopt, false},
        {"E04 not_found", vast_error(404, "not_found", "Instance not found"), std::nullopt, true},
        {"E04 no_such_instance", vast_error(404, "no_such_instance", "Instance 12345 not found."),
         std::nullopt, true},
        {"E04 by text", plain(404, R"({"msg":"Instance with that ID does not exist."})"), std::nullopt, true},
        {"E04 200 with an error", vast_error(200, "no_such_instance", "x"), std::nullopt, true},
        {"A08 404 for a key", vast_error(404, "auth_error", "Invalid user key"), ErrorKind::auth, false},
        {"404 as text", plain(404, "nope", "text/plain"), ErrorKind::unknown_outcome, false},
        {"200 success:false", vast_error(200, "busy", "later"), ErrorKind::unknown_outcome, false},
        {"200 HTML", plain(200, "<html>", "text/html"), ErrorKind::unknown_outcome, false},
        {"429", plain(429, "API requests too frequent", "text/plain"), ErrorKind::rate_limited, false},
        {"A06 410", plain(410, "Gone", "text/plain"), ErrorKind::api_retired, false},
        {"deprecated, HTTP 200", vast_error(200, "deprecated_endpoint", "Use /api/v1/instances/ instead."), ErrorKind::api_retired,
         false},
        {"401", vast_error(401, "auth_error", "Invalid user key"), ErrorKind::auth, false},
        {"403", vast_error(403, "auth_error", "This action requires login."), ErrorKind::auth, false},
        {"403 of the edge", plain(403, "<html>Error 1010</html>", "text/html"), ErrorKind::unknown_outcome, false},
        {"E02 500", plain(500, "x", "text/plain"), ErrorKind::unknown_outcome, false},
        {"cut", {.delivery = Way::nothing}, ErrorKind::unknown_outcome, false},
    };
    for (const auto& row : rows) {
        CAPTURE(row.what);
        VastBench b;
        b.script([&](const Received& r) {
            return r.path() == "/api/v0/users/current/" ? plain(200, R"({"id":1,"credit":1})") : row.sent;
        });
        const auto out = b.provider().destroy(ProviderMachineId{"5"});
        CHECK(out.has_value() == !row.kind.has_value());
        if (!out) CHECK(out.error().kind == row.kind);
        CHECK(b.server.count("GET", "/api/v0/users/current/") == (row.proof ? 1 : 0));
    }
}

TEST_CASE("Vast.ai: credit first, then balance") {
    const struct {
        std::string body;
        std::optional<std::int64_t> micros;
    } rows[] = {
        {R"({"id":1,"credit":37.42,"balance":0.0})", 37'420'000},
        {R"({"id":1,"balance":5})", 5'000'000},
        {R"({"id":1,"credit":null,"balance":"2.5"})", 2'500'000},
        {R"({"id":1,"credit":-0.75})", -750'000},
        {R"({"id":1})", std::nullopt},
        {R"({"id":1,"credit":"NaN"})", std::nullopt},
    };
    for (const auto& row : rows) {
        CAPTURE(row.body);
        VastBench b;
        b.script([&](const Received&) { return plain(200, row.body); });
        const auto out = b.provider().balance();
        CHECK(out.has_value() == row.micros.has_value());
        if (out) CHECK(out->micros == *row.micros);
    }
}
