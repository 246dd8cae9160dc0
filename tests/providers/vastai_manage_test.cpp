// Vast.ai beside renting: labels, bids, charges, ssh, checks, drift.
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

const Finding* find(const std::vector<Finding>& all, std::string_view what) {
    const auto it = std::ranges::find(all, what, &Finding::what);
    return it == all.end() ? nullptr : &*it;
}

}  // namespace

TEST_CASE("Vast.ai: a label is put back, a bid is raised, at the server's pace") {
    VastBench b;
    const auto id =
        ProviderMachineId{std::to_string(b.world.add("somebody typed this", {{"GPUFERRY_MACHINE", "gf-x"}}))};
    REQUIRE(b.provider().rename(id, "gf-x"));
    CHECK(b.server.received().back().target == "/api/v0/instances/" + id.get() + "/");
    CHECK(json::parse(b.server.received().back().body) == json{{"label", "gf-x"}});
    CHECK(b.provider().read(id)->tag == "gf-x");
    for (const std::int64_t micros : {310'000, 320'000, 330'500})
        REQUIRE(b.provider().raise_bid(id, UsdPerHour{micros}));
    const auto sent = b.server.received().back();
    CHECK(sent.target == "/api/v0/instances/bid_price/" + id.get() + "/");
    CHECK(json::parse(sent.body) == json{{"client_id", "me"}, {"price", 0.3305}});
    CHECK(b.world.too_early == 0);
    const auto tiny = b.provider().raise_bid(id, UsdPerHour{999});
    REQUIRE(!tiny);
    CHECK(tiny.error().kind == ErrorKind::refused);
}

TEST_CASE("Vast.ai: every answer to a change has its outcome") {
    const struct {
        const char* what;
        Sent sent;
        ErrorKind label;
        ErrorKind bid;
    } rows[] = {
        {"label too long", vast_error(400, "label_too_long", "Please limit label length to 1024 characters"),
         ErrorKind::refused, ErrorKind::refused},
        {"bid too low", vast_error(400, "invalid_args", "Please set a bid price >= 0.001."),
         ErrorKind::refused, ErrorKind::refused},
        {"no such instance", vast_error(404, "no_such_instance", "Instance 5 not found."),
         ErrorKind::not_found, ErrorKind::not_found},
        {"A08 the key", vast_error(404, "auth_error", "Invalid user key"), ErrorKind::auth, ErrorKind::auth},
        {"A09 429", plain(429, "API requests too frequent: endpoint threshold=5.5", "text/plain"),
         ErrorKind::rate_limited, ErrorKind::rate_limited},
        {"gone", plain(410, "Gone", "text/plain"), ErrorKind::api_retired, ErrorKind::api_retired},
        {"502", plain(502, "Bad Gateway", "text/plain"), ErrorKind::unavailable, ErrorKind::unknown_outcome},
        {"cut", {.delivery = Way::nothing}, ErrorKind::unavailable, ErrorKind::unknown_outcome},
        {"a page", plain(200, "<html></html>", "text/html"), ErrorKind::unavailable,
         ErrorKind::unknown_outcome},
        {"queued or not", vast_error(200, "", "hm"), ErrorKind::unavailable, ErrorKind::unknown_outcome},
    };
    for (const auto& row : rows) {
        CAPTURE(row.what);
        VastBench b;
        b.script([&](const Received&) { return row.sent; });
        const auto label = b.provider().rename(ProviderMachineId{"5"}, "gf-x");
        REQUIRE(!label);
        CHECK(label.error().kind == row.label);
        const auto bid = b.provider().raise_bid(ProviderMachineId{"5"}, UsdPerHour{300'000});
        REQUIRE(!bid);
        CHECK(bid.error().kind == row.bid);
    }
}

TEST_CASE("Vast.ai: charges are read over all pages, by instance and by label") {
    VastBench b;
    b.world.charges_page = 2;
    const std::int64_t day = 1'764'460'800;
    for (int i = 0; i < 5; ++i)
        b.world.charges.push_back({{"start", day + 3600 * i},
                                   {"end", day + 3600 * (i + 1)},
                                   {"type", "instance"},
                                   {"source", fmt::format("instance-2488015{}", i)},
                                   {"amount", 0.25 + i},
                                   {"metadata", {{"label", fmt::format("gf-{}", i)}}}});
    b.world.charges.push_back(
        {{"start", day}, {"end", day + 60}, {"source", "something else"}, {"amount", "1.5"}});
    const auto from = instant_of(day * 1000) + std::chrono::minutes{90};
    const auto charges = b.provider().charges(from, from + std::chrono::hours{2});
    REQUIRE_MESSAGE(charges, (charges ? "" : charges.error().message));
    // Whole days are asked for, and what lies outside of the window is left out.
    REQUIRE(charges->size() == 3);
    CHECK(charges->front().machine.get() == "24880151");
    CHECK(charges->front().tag == "gf-1");
    CHECK(charges->front().amount == Usd{1'250'000});
    CHECK(charges->front().from == instant_of((day + 3600) * 1000));
    const auto target = b.server.received().front().target;
    CHECK(target.find(gf::url_encoded(fmt::format(
              R"({{"day":{{"gte":{},"lte":{}}},"type":{{"in":["instance"]}}}})", day, day + 86'399))) !=
          std::string::npos);
    CHECK(b.server.count("GET", "/api/v0/charges/") == 3);
    const auto all = b.provider().charges(instant_of(day * 1000), instant_of((day + 86'400) * 1000));
    REQUIRE(all);
    REQUIRE(all->size() == 6);
    CHECK(all->back().machine.empty());
    CHECK(all->back().amount == Usd{1'500'000});
    const struct {
        const char* what;
        Sent sent;
        ErrorKind kind;
    } rows[] = {
        {"no rows", plain(200, R"({"success":true})"), ErrorKind::malformed},
        {"more, but no token", plain(200, R"({"success":true,"total":9,"results":[],"next_token":null})"),
         ErrorKind::malformed},
        {"the same token for ever", plain(200, R"({"success":true,"results":[],"next_token":"a"})"),
         ErrorKind::malformed},
        {"no amount",
         plain(200, R"({"results":[{"start":1764460800,"end":1764460900,"source":"instance-1"}]})"),
         ErrorKind::malformed},
        {"no scope", vast_error(403, "auth_error", "This action requires login."), ErrorKind::auth},
        {"bad day", vast_error(400, "invalid_args", "day range"), ErrorKind::malformed},
        {"gone", plain(410, ""), ErrorKind::api_retired},
    };
    for (const auto& row : rows) {
        CAPTURE(row.what);
        b.script([&](const Received&) { return row.sent; });
        b.pass(std::chrono::minutes{1});
        const auto out = b.provider().charges(from, from + std::chrono::hours{2});
        REQUIRE(!out);
        CHECK(out.error().kind == row.kind);
    }
}

TEST_CASE("Vast.ai: where a machine's sshd is, direct before the proxy") {
    const json base{{"id", 5},
                    {"label", "gf-x"},
                    {"actual_status", "running"},
                    {"intended_status", "running"},
                    {"cur_state", "running"},
                    {"next_state", "running"},
                    {"is_bid", true},
                    {"min_bid", 0.2133},
                    {"public_ipaddr", "203.0.113.77\n"},
                    {"ssh_host", "ssh5.vast.ai"},
                    {"ssh_port", 20152},
                    {"image_runtype", "ssh_direc ssh_proxy"},
                    {"ports", {{"22/tcp", {{{"HostIp", "0.0.0.0"}, {"HostPort", "40110"}}}}}}};
    const struct {
        const char* what;
        json changes;
        std::optional<SshEndpoint> ssh;
    } rows[] = {
        {"direct", json::object(), SshEndpoint{.host = "203.0.113.77", .port = 40110}},
        {"direct, a number",
         {{"ports", {{"22/tcp", {{{"HostPort", 40110}}}}}}},
         SshEndpoint{.host = "203.0.113.77", .port = 40110}},
        {"proxy", {{"ports", nullptr}}, SshEndpoint{.host = "ssh5.vast.ai", .port = 20152}},
        {"proxy, null port",
         {{"ports", {{"22/tcp", nullptr}}}},
         SshEndpoint{.host = "ssh5.vast.ai", .port = 20152}},
        {"proxy of a notebook",
         {{"ports", nullptr}, {"image_runtype", "jupyter_direc ssh_direc ssh_proxy"}},
         SshEndpoint{.host = "ssh5.vast.ai", .port = 20153}},
        {"no sshd of Vast.ai's behind the proxy",
         {{"ports", nullptr}, {"image_runtype", "args"}},
         std::nullopt},
        {"args with a port of ours",
         {{"image_runtype", "args"}},
         SshEndpoint{.host = "203.0.113.77", .port = 40110}},
        {"no address", {{"public_ipaddr", " \n"}, {"image_runtype", "args"}}, std::nullopt},
        {"a port that is none",
         {{"ports", {{"22/tcp", {{{"HostPort", "x"}}}}}}, {"image_runtype", "args"}},
         std::nullopt},
        {"stopped", {{"actual_status", "stopped"}}, std::nullopt},
        {"loading", {{"actual_status", "loading"}}, std::nullopt},
    };
    for (const auto& row : rows) {
        CAPTURE(row.what);
        VastBench b;
        auto instance = base;
        instance.merge_patch(row.changes);
        b.script([&](const Received&) { return plain(200, json{{"instances", instance}}.dump()); });
        const auto m = b.provider().read(ProviderMachineId{"5"});
        REQUIRE(m);
        CHECK(m->ssh == row.ssh);
        CHECK(m->spot_floor == UsdPerHour{213'300});
    }
}

TEST_CASE("Vast.ai: ssh is asked for only where it is wanted") {
    VastBench b;
    auto request = gf::test::launch_request(b.some_offer(), 1);
    CHECK(request.offer.host_owner.empty());
    b.world.asks[0]["host_id"] = 70'214;
    b.pass(Seconds{30});
    CHECK(b.some_offer().host_owner == "70214");
    REQUIRE(!b.provider().launch(request).error);
    CHECK(!json::parse(b.server.received().back().body)["env"].contains("-p 22:22"));
    request.tag = MachineTag{"gf-testtest-00000000000000000000000002"};
    request.ssh = SshSetup{.client_public = "ssh-ed25519 AAAAC3Nza gpuferry",
                           .host_private = Secret("HOST-KEY"),
                           .host_public = {}};
    REQUIRE(!b.provider().launch(request).error);
    const auto raw = b.server.received().back().body;
    const auto body = json::parse(raw);
    CHECK(body["env"]["-p 22:22"] == "1");
    CHECK(body["args"][1].get<std::string>().find(
              "'ssh-ed25519 AAAAC3Nza gpuferry' >>~/.ssh/authorized_keys") != std::string::npos);
    CHECK(raw.find("HOST-KEY") == std::string::npos);
    request.ssh->client_public = "no key";
    const auto out = b.provider().launch(request);
    REQUIRE(out.error);
    CHECK(out.error->kind == ErrorKind::refused);
}

TEST_CASE("Vast.ai: the checks say what is wrong and what to do") {
    const auto no = vast_error(404, "auth_error", "Invalid user key");
    const struct {
        const char* path;
        Sent sent;
        const char* what;
        Finding::Level level;
        const char* says;
    } rows[] = {
        {"/api/", no, "key", Finding::Level::failed, "VAST_API_KEY"},
        {"/api/v0/users/", no, "scope", Finding::Level::failed, "user_read"},
        {"/api/v1/instances/", no, "scope", Finding::Level::failed, "instance_read"},
        {"/api/v0/charges/", no, "scope", Finding::Level::warning, "billing_read"},
        {"/api/v1/instances/",
         vast_error(200, "deprecated_endpoint", "/api/v1/ is deprecated. Use /api/v2/ instead."), "api",
         Finding::Level::failed, "deprecated"},
        {"/api/v1/instances/", plain(200, R"({"success":true,"instances":null})"), "listing",
         Finding::Level::failed, "instances"},
        {"/api/v0/users/", plain(200, R"({"id":1,"credit":0})"), "money", Finding::Level::failed, "prepaid"},
        {"/api/v0/bundles/", plain(502, ""), "offers", Finding::Level::failed, "502"},
        {"/api/v0/bundles/", plain(200, R"({"offers":[]})"), "offers", Finding::Level::warning, "0 offers"},
        {"/api/v0/instances/pending", plain(200, R"({"pending_price_increases":[{"contract_id":24880153}]})"),
         "money", Finding::Level::ok, "$37.42 left"},
        {"/none", {}, "listing", Finding::Level::ok, "0 instances"},
        {"/none", {}, "offers", Finding::Level::ok, "2 offers"},
    };
    for (const auto& row : rows) {
        CAPTURE(row.path);
        CAPTURE(row.says);
        VastBench b;
        b.script(
            [&](const Received& r) { return r.target.starts_with(row.path) ? row.sent : b.world.answer(r); });
        const auto findings = b.provider().check();
        const auto* f = find(findings, row.what);
        REQUIRE(f != nullptr);
        CAPTURE(f->text);
        CHECK(f->level == row.level);
        CHECK(f->text.find(row.says) != std::string::npos);
    }
    VastBench b;
    b.world.price_increases = {{{"contract_id", 24'880'153}}};
    const auto findings = b.provider().check();
    CHECK(std::ranges::any_of(findings, [](const Finding& f) {
        return f.level == Finding::Level::warning && f.text.find("24880153") != std::string::npos;
    }));
}

TEST_CASE(
    "Vast.ai: answers that changed their shape or unit are drift, units that can be settled are settled") {
    VastBench b;
    const auto whole = [&] {
        b.world.asks = {vast_ask(1, "RTX 4090", 0.37), vast_ask(2, "RTX 3090", 0.17),
                        vast_ask(3, "A40", 0.4)};
    };
    const auto drift_of = [&](const auto& change) {
        whole();
        for (auto& ask : b.world.asks) change(ask);
        b.pass(Seconds{30});
        const auto list = b.provider().offers({.gpu_counts = {1}, .spot = false});
        REQUIRE(list);
        return list->drift.empty() ? std::string() : list->drift.front().what;
    };
    CHECK(drift_of([](json&) {}).empty());
    CHECK(drift_of([](json& ask) {
              ask["dph_total"] = ask["dph_base"].get<double>() * 100 + 0.4;
              ask["dph_base"] = ask["dph_base"].get<double>() * 100;
          }) == "price_unit");
    CHECK(drift_of([](json& ask) { ask["gpu_ram"] = 24; }).empty());
    const auto list = b.provider().offers({.gpu_counts = {1}, .spot = false});
    REQUIRE(list);
    REQUIRE(!list->offers.empty());
    CHECK(list->offers.front().gpu.memory == Bytes{24 * kGiB});
    CHECK(drift_of([](json& ask) { ask["gpu_ram"] = 9e15; }) == "memory_unit");
    CHECK(drift_of([](json& ask) { ask["gpu_ram"] = "24564"; }) == "type_changed");
    CHECK(drift_of([](json& ask) { ask["geolocation"] = json::object(); }) == "type_changed");
    CHECK(drift_of([](json&) {}).empty());
}

TEST_CASE("Vast.ai: rates in another unit are drift of the listing, and unknown where an instance is read by itself") {
    VastBench b;
    for (int i = 0; i < 2; ++i) b.world.add("x", json::object());
    const auto id = ProviderMachineId{std::to_string(b.world.all().begin()->first)};
    b.pass(Seconds{30});  // they run
    const auto cents = [&](const Received& r) {
        auto answer = b.world.answer(r);
        auto body = json::parse(answer.body);
        const auto change = [](json& instance) {
            for (const char* key : {"dph_base", "dph_total"}) instance[key] = instance[key].get<double>() * 100;
        };
        if (body.contains("instances") && body["instances"].is_object()) change(body["instances"]);
        if (body.contains("instances") && body["instances"].is_array())
            for (auto& instance : body["instances"]) change(instance);
        answer.body = body.dump();
        return answer;
    };
    SUBCASE("of what they were") {
        const auto whole = b.provider().list();
        REQUIRE(whole);
        CHECK(whole->drift.empty());
    }
    SUBCASE("of what is offered") { REQUIRE(b.provider().offers({.gpu_counts = {1}, .spot = false})); }
    b.script(cents);
    const auto off = b.provider().list();
    REQUIRE(off);
    CHECK(off->machines.size() == 2);
    REQUIRE(off->drift.size() == 1);
    CHECK(off->drift[0].what == "price_unit");
    const auto one = b.provider().read(id);
    REQUIRE(one);
    CHECK(!one->gpu_rate);
    b.script([&](const Received& r) { return b.world.answer(r); });
    const auto healed = b.provider().list();
    REQUIRE(healed);
    CHECK(healed->drift.empty());
    CHECK(b.provider().read(id)->gpu_rate == UsdPerHour{370'000});
}

TEST_CASE("Vast.ai: a state that is not told is no state, one that is null is") {
    const auto machine = [](const json& instance) {
        VastBench b;
        b.script([&](const Received&) { return plain(200, json{{"instances", instance}}.dump()); });
        return b.provider().read(ProviderMachineId{"5"});
    };
    const auto silent = machine({{"id", 5}, {"label", "x"}, {"actual_status", nullptr}});
    REQUIRE(silent);
    CHECK(silent->presence == Presence::booting);
    const auto renamed = machine({{"id", 5}, {"label", "x"}, {"actual_state", "running"}});
    REQUIRE(!renamed);
    CHECK(renamed.error().kind == ErrorKind::malformed);
    CHECK(renamed.error().message.find("actual_status") != std::string::npos);
}

TEST_CASE("Vast.ai: a day's quota of searches that is used up is not asked for again in seconds") {
    const auto now = unix_millis(gf::test::kStart) / 1000;
    const struct {
        const char* what;
        std::vector<HttpHeader> headers;
        Millis wait;
    } rows[] = {
        {"told", {{"X-RateLimit-Reset", std::to_string(now + 1800)}}, std::chrono::minutes{30}},
        {"far away", {{"X-RateLimit-Reset", std::to_string(now + 80'000)}}, std::chrono::hours{1}},
        {"another clock's past", {{"X-RateLimit-Reset", "1"}}, std::chrono::minutes{1}},
        {"no figure", {{"X-RateLimit-Reset", "tomorrow"}}, std::chrono::hours{1}},
        {"not told", {}, std::chrono::hours{1}},
    };
    for (const auto& row : rows) {
        CAPTURE(row.what);
        VastBench b;
        auto quota = vast_error(429, "search_quota_exceeded", "Daily search quota exceeded");
        quota.headers = row.headers;
        b.script([&](const Received& r) { return r.path() == "/api/v0/bundles/" ? quota : b.world.answer(r); });
        const auto first = b.provider().offers({.gpu_counts = {1}, .spot = false});
        REQUIRE(!first);
        CHECK(first.error().kind == ErrorKind::rate_limited);
        REQUIRE(first.error().retry_after);
        CHECK(*first.error().retry_after <= row.wait);
        CHECK(*first.error().retry_after > row.wait - Seconds{5});
        b.pass(Seconds{50});  // no other 429 holds for longer
        const auto again = b.provider().offers({.gpu_counts = {1}, .spot = false});
        REQUIRE(b.provider().list());  // what else there is goes on
        if (row.wait > std::chrono::minutes{1}) {
            REQUIRE(!again);
            CHECK(again.error().kind == ErrorKind::rate_limited);
            CHECK(b.server.count("POST", "/api/v0/bundles/") == 1);
        }
        b.script([&](const Received& r) { return b.world.answer(r); });
        b.pass(row.wait);
        CHECK(b.provider().offers({.gpu_counts = {1}, .spot = false}));
    }
}

TEST_CASE("Vast.ai: a listing whose end is not told is no listing") {
    const auto listing = [](int rows, const json& more) {
        json instances = json::array();
        for (int i = 1; i <= rows; ++i)
            instances.push_back({{"id", i}, {"label", "x"}, {"actual_status", "running"}});
        json body{{"success", true}, {"instances", instances}};
        body.update(more);
        return plain(200, body.dump());
    };
    const struct {
        const char* what;
        Sent sent;
        bool good;
    } rows[] = {
        {"null", listing(25, {{"next_token", nullptr}}), true},
        {"a short page", listing(24, json::object()), true},
        {"a full page that says how many there are", listing(25, {{"total_instances", 25}}), true},
        {"a full page that says nothing", listing(25, json::object()), false},
        {"fewer than there are", listing(25, {{"total_instances", 26}, {"next_token", nullptr}}), false},
        {"a token that is a number", listing(3, {{"next_token", 5}}), false},
    };
    for (const auto& row : rows) {
        CAPTURE(row.what);
        VastBench b;
        b.script([&](const Received&) { return row.sent; });
        const auto out = b.provider().list();
        CHECK(out.has_value() == row.good);
        if (!out) CHECK(out.error().kind == ErrorKind::malformed);
    }
}
