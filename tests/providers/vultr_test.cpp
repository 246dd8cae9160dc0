#include <doctest/doctest.h>
#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>

#include "cloud_bench.hpp"
#include "providers/vultr/mapping.hpp"

using namespace gf;
using gf::test::Received;
using gf::test::vultr_error;
using gf::test::VultrBench;
using nlohmann::json;
using Sent = gf::test::Answer;

namespace {

const std::string kHtml = "<!DOCTYPE html><title>502 Bad Gateway</title>";
const std::string kA100 = "vcg-a100-12c-120g-80vram";

Sent plain(int status, std::string body, std::string type = "application/json") {
    return {.status = status, .body = std::move(body), .content_type = std::move(type)};
}

bool is_create(const Received& r) {
    return r.method == "POST" && r.path() == "/v2/instances";
}

std::string unpacked(const std::string& base64) {
    std::string out(base64.size(), '\0');
    const int n = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                                  reinterpret_cast<const unsigned char*>(base64.data()),
                                  static_cast<int>(base64.size()));
    REQUIRE(n > 0);
    out.resize(static_cast<std::size_t>(n) - static_cast<std::size_t>(std::ranges::count(base64, '=')));
    return out;
}

}  // namespace

TEST_CASE("Vultr: every documented answer to a create has its outcome") {
    const struct {
        std::string what;
        Sent sent;
        ErrorKind kind;
    } rows[] = {
        {"wrong key", vultr_error(401, "Invalid API token."), ErrorKind::auth},
        {"wrong address", vultr_error(401, "Unauthorized IP address: 203.0.113.9"), ErrorKind::auth},
        {"no right", vultr_error(403, "Forbidden"), ErrorKind::auth},
        {"no stock", vultr_error(400, "The plan is not available in the selected region."),
         ErrorKind::no_capacity},
        {"no stock, other words", vultr_error(400, "Server is UNAVAILABLE"), ErrorKind::no_capacity},
        {"unknown plan", vultr_error(400, "Invalid plan chosen."), ErrorKind::no_capacity},
        {"words nobody has seen", vultr_error(400, "Computer says no"), ErrorKind::no_capacity},
        {"404", vultr_error(404, "Invalid region."), ErrorKind::no_capacity},
        {"409", vultr_error(409, "Conflict"), ErrorKind::no_capacity},
        {"405", vultr_error(405, "Method not allowed"), ErrorKind::api_retired},
        {"410", plain(410, "Gone", "text/plain"), ErrorKind::api_retired},
        {"422", vultr_error(422, "Unprocessable"), ErrorKind::refused},
        {"user data", vultr_error(400, "user_data must be base64 encoded"), ErrorKind::refused},
        {"hostname", vultr_error(400, "Invalid Hostname."), ErrorKind::refused},
        {"system", vultr_error(400, "Invalid os_id."), ErrorKind::refused},
        {"A15 count",
         vultr_error(400, "You have reached the maximum number of instances. Please open a ticket."),
         ErrorKind::quota},
        {"A15 fee", vultr_error(403, "This would exceed your maximum Monthly Fee: open a ticket"),
         ErrorKind::quota},
        {"A15 as a conflict", vultr_error(409, "Instance limit reached"), ErrorKind::quota},
        {"A15 as a 422", vultr_error(422, "Account quota exceeded"), ErrorKind::quota},
        {"money as 402", vultr_error(402, "Insufficient funds"), ErrorKind::no_money},
        {"money", vultr_error(400, "Please add a payment method"), ErrorKind::no_money},
        {"A09 429", vultr_error(429, "Rate limit reached", {{"Retry-After", "7"}}),
         ErrorKind::unknown_outcome},
        {"503 for the same", vultr_error(503, "Rate limit reached", {{"Retry-After", "7"}}),
         ErrorKind::unknown_outcome},
        {"500", vultr_error(500, "Server error"), ErrorKind::unknown_outcome},
        {"no stock as 500", vultr_error(500, "not available"), ErrorKind::unknown_outcome},
        {"A02 502", plain(502, kHtml, "text/html"), ErrorKind::unknown_outcome},
        {"400 as HTML", plain(400, kHtml, "text/html"), ErrorKind::unknown_outcome},
        {"400 of another status", plain(400, R"({"error":"x","status":500})"), ErrorKind::unknown_outcome},
        {"401 as HTML", plain(401, kHtml, "text/html"), ErrorKind::unknown_outcome},
        {"202 without an id", plain(202, R"({"instance":{"label":"x"}})"), ErrorKind::unknown_outcome},
        {"202 empty", plain(202, ""), ErrorKind::unknown_outcome},
        {"200 with HTML", plain(200, kHtml, "text/html"), ErrorKind::unknown_outcome},
        {"A11 truncated JSON", plain(202, R"({"instance":{"id":"4f)"), ErrorKind::unknown_outcome},
        {"a redirect",
         {.status = 302, .headers = {{"Location", "https://www.vultr.com/"}}},
         ErrorKind::unknown_outcome},
    };
    for (const auto& row : rows) {
        CAPTURE(row.what);
        VultrBench b;
        const auto request = gf::test::launch_request(b.some_offer(), 1);
        b.script([&](const Received& r) { return is_create(r) ? row.sent : b.world.answer(r); });
        const auto out = b.provider().launch(request);
        CHECK(out.id.empty());
        REQUIRE(out.error.has_value());
        CHECK(out.error->kind == row.kind);
        CHECK(b.server.count("POST", "/v2/instances") == 1);
        if (row.sent.status == 429 || row.sent.status == 503) CHECK(out.error->retry_after == Seconds{7});
    }
}

TEST_CASE("Vultr: every documented answer to a read, a listing and a destroy has its meaning") {
    const struct {
        std::string what;
        Sent sent;
        ErrorKind kind;
        ErrorKind destroy;
    } rows[] = {
        {"wrong key", vultr_error(401, "Invalid API token."), ErrorKind::auth, ErrorKind::auth},
        {"wrong address", vultr_error(401, "Unauthorized IP address: 203.0.113.9"), ErrorKind::auth,
         ErrorKind::auth},
        {"no right", vultr_error(403, "Forbidden"), ErrorKind::auth, ErrorKind::auth},
        {"403 of an edge", plain(403, kHtml, "text/html"), ErrorKind::unavailable,
         ErrorKind::unknown_outcome},
        {"400", vultr_error(400, "Computer says no"), ErrorKind::malformed, ErrorKind::unknown_outcome},
        {"404 of an edge", plain(404, kHtml, "text/html"), ErrorKind::malformed, ErrorKind::unknown_outcome},
        {"405", vultr_error(405, "x"), ErrorKind::api_retired, ErrorKind::api_retired},
        {"A06 410", plain(410, "Gone", "text/plain"), ErrorKind::api_retired, ErrorKind::api_retired},
        {"422", vultr_error(422, "x"), ErrorKind::malformed, ErrorKind::unknown_outcome},
        {"429", vultr_error(429, "x", {{"Retry-After", "3"}}), ErrorKind::rate_limited,
         ErrorKind::rate_limited},
        {"503", vultr_error(503, "x"), ErrorKind::rate_limited, ErrorKind::rate_limited},
        {"503 of an edge", plain(503, kHtml, "text/html"), ErrorKind::unavailable,
         ErrorKind::unknown_outcome},
        {"200 HTML", plain(200, kHtml, "text/html"), ErrorKind::malformed, ErrorKind::unknown_outcome},
        {"500", vultr_error(500, "x"), ErrorKind::unavailable, ErrorKind::unknown_outcome},
        {"502", plain(502, kHtml, "text/html"), ErrorKind::unavailable, ErrorKind::unknown_outcome},
        {"redirect",
         {.status = 301, .headers = {{"Location", "https://x/"}}},
         ErrorKind::unavailable,
         ErrorKind::unknown_outcome},
    };
    for (const auto& row : rows) {
        CAPTURE(row.what);
        VultrBench b;
        const auto id = b.world.add("gf-x", nullptr);
        b.script([&](const Received&) { return row.sent; });
        const auto listing = b.provider().list();
        REQUIRE(!listing);
        CHECK(listing.error().kind == row.kind);
        b.pass(Seconds{60});
        const auto seen = b.provider().read(ProviderMachineId{id});
        REQUIRE(!seen);
        CHECK(seen.error().kind == row.kind);
        b.pass(Seconds{60});
        const auto destroyed = b.provider().destroy(ProviderMachineId{id});
        REQUIRE(!destroyed);
        CHECK(destroyed.error().kind == row.destroy);
        CHECK(b.server.received().size() >= 3);
    }
}

TEST_CASE("Vultr: a listing is whole or it is none") {
    const json row{{"id", "a"}, {"status", "active"}};
    const auto meta = [](const json& next, std::int64_t total) {
        return json{{"total", total}, {"links", {{"next", next}, {"prev", ""}}}};
    };
    const struct {
        std::string what;
        json body;
    } rows[] = {
        {"no array", {{"meta", meta("", 0)}}},
        {"A06 null", {{"instances", nullptr}, {"meta", meta("", 0)}}},
        {"no meta", {{"instances", json::array()}}},
        {"no links", {{"instances", {row}}, {"meta", {{"total", 1}}}}},
        {"no next", {{"instances", {row}}, {"meta", {{"total", 1}, {"links", {{"prev", ""}}}}}}},
        {"next of another kind", {{"instances", {row}}, {"meta", meta(7, 1)}}},
        {"A05 fewer than counted", {{"instances", json::array()}, {"meta", meta("", 3)}}},
        {"an end that never comes", {{"instances", {row}}, {"meta", meta("again", 1)}}},
        {"no id", {{"instances", {{{"status", "active"}}}}, {"meta", meta("", 1)}}},
        {"no status", {{"instances", {{{"id", "a"}}}}, {"meta", meta("", 1)}}},
        {"a number for an id", {{"instances", {{{"id", 7}, {"status", "active"}}}}, {"meta", meta("", 1)}}},
        {"tags of another kind",
         {{"instances", {{{"id", "a"}, {"status", "active"}, {"tags", "x"}}}}, {"meta", meta("", 1)}}},
        {"an error with 200", {{"error", "x"}, {"status", 200}}},
    };
    for (const auto& r : rows) {
        CAPTURE(r.what);
        VultrBench b;
        b.script([&](const Received&) { return plain(200, r.body.dump()); });
        const auto listing = b.provider().list();
        REQUIRE(!listing);
        CHECK(listing.error().kind == ErrorKind::malformed);
    }
    // A page that fails in the middle.
    VultrBench b;
    b.world.page = 1;
    for (int i = 0; i < 3; ++i) b.world.add(fmt::format("gf-{}", i), nullptr);
    REQUIRE(b.provider().list()->machines.size() == 3);
    b.script([&](const Received& r) {
        return r.target.find("cursor=2") != std::string::npos ? vultr_error(500, "x") : b.world.answer(r);
    });
    CHECK(!b.provider().list());
}

TEST_CASE("Vultr: an id beside an error is an id") {
    VultrBench b;
    const auto request = gf::test::launch_request(b.some_offer(), 1);
    for (const auto& sent :
         {plain(500, R"({"instance":{"id":"4f0f12e5"},"error":"late trouble","status":500})"),
          plain(202, R"({"instance":{"id":"4f0f12e5","status":7}})")}) {
        b.script([&](const Received& r) { return is_create(r) ? sent : b.world.answer(r); });
        const auto out = b.provider().launch(request);
        CHECK(out.id.get() == "4f0f12e5");
        CHECK(out.error.has_value() == (sent.status == 500));
    }
}

TEST_CASE("Vultr: the create says exactly what was meant") {
    VultrBench b;
    auto request = gf::test::launch_request(b.some_offer(), 7);
    request.ssh = SshSetup{.client_public = "ssh-ed25519 AAAAours gpuferry",
                           .host_private = Secret("PEM"),
                           .host_public = "ssh-ed25519 AAAAhost"};
    REQUIRE(!b.provider().launch(request).error);
    const auto body = json::parse(b.server.received().back().body);
    CHECK(body["region"] == "ewr");
    CHECK(body["plan"] == kA100);
    CHECK(body["os_id"] == 1743);
    CHECK(body["label"] == request.tag.get());
    CHECK(body["hostname"] == request.tag.get());
    CHECK(body["tags"] == json::array({"gpuferry-machine=" + request.tag.get(), "gpuferry-sale=ondemand"}));
    CHECK(body["backups"] == "disabled");
    CHECK(body["activation_email"] == false);
    CHECK(body["enable_ipv6"] == false);
    CHECK(!body.contains("sshkey_id"));
    CHECK(body.size() == 10);
    const auto data = unpacked(body["user_data"]);
    CHECK(data.starts_with("#!/bin/sh\n"));
    CHECK(data.find("ssh-ed25519 AAAAours gpuferry") != std::string::npos);
    CHECK(data.find(gf::test::kEnrol) != std::string::npos);
    CHECK(data.find("/home/") == std::string::npos);
    // The number of the system is asked for once.
    request.tag = MachineTag{"gf-testtest-00000000000000000000000008"};
    REQUIRE(!b.provider().launch(request).error);
    CHECK(b.server.count("GET", "/v2/os") == 1);
}

TEST_CASE("Vultr: trouble before the create is a clean refusal") {
    const struct {
        Sent sent;
        ErrorKind kind;
    } rows[] = {
        {vultr_error(401, "Invalid API token."), ErrorKind::auth},
        {vultr_error(500, "x"), ErrorKind::unavailable},
        {vultr_error(429, "x"), ErrorKind::unavailable},
        {plain(200, R"({"os":null})"), ErrorKind::unavailable},
        {plain(
             200,
             R"({"os":[{"id":2284,"name":"Ubuntu 24.04 LTS x64","arch":"x64","family":"ubuntu"}],"meta":{"total":1,"links":{"next":"","prev":""}}})"),
         ErrorKind::unavailable}};
    for (const auto& row : rows) {
        CAPTURE(row.sent.body);
        VultrBench b;
        const auto request = gf::test::launch_request(b.some_offer(), 1);
        b.script([&](const Received& r) { return r.path() == "/v2/os" ? row.sent : b.world.answer(r); });
        const auto out = b.provider().launch(request);
        REQUIRE(out.error);
        CHECK(out.error->kind == row.kind);
        CHECK(b.server.count("POST", "/v2/instances") == 0);
    }
    VultrBench b;
    auto request = gf::test::launch_request(b.some_offer(), 1);
    const auto sent = b.server.received().size();
    for (const std::string bad : {"", kA100.c_str(), "/ewr", "x/", "x/ewr/preemptible"}) {
        request.offer.id = bad;
        const auto out = b.provider().launch(request);
        REQUIRE(out.error);
        CHECK(out.error->kind == ErrorKind::refused);
    }
    CHECK(b.server.received().size() == sent);
}

TEST_CASE("Vultr: an instance's three states are one presence, and it is billed in all of them") {
    const struct {
        std::string status;
        std::string power;
        std::string server;
        std::string ip;
        Presence presence;
    } rows[] = {
        {"pending", "running", "none", "0.0.0.0", Presence::booting},
        {"installing", "running", "none", "", Presence::booting},
        {"active", "running", "none", "192.0.2.123", Presence::booting},
        {"active", "running", "locked", "192.0.2.123", Presence::booting},
        {"active", "running", "installingbooting", "192.0.2.123", Presence::booting},
        {"active", "running", "installing", "192.0.2.123", Presence::booting},
        {"active", "running", "booting", "192.0.2.123", Presence::booting},
        {"active", "running", "ok", "0.0.0.0", Presence::booting},
        {"active", "running", "ok", "", Presence::booting},
        {"active", "running", "ok", "192.0.2.123", Presence::running},
        {"active", "stopped", "ok", "192.0.2.123", Presence::stopped},
        {"suspended", "stopped", "ok", "192.0.2.123", Presence::stopped},
        {"failed", "running", "none", "", Presence::failed},
        {"resizing", "running", "ok", "192.0.2.123", Presence::unknown},
        {"active", "", "ok", "192.0.2.123", Presence::unknown},
        {"active", "running", "new word", "192.0.2.123", Presence::unknown},
    };
    VultrBench b;
    const auto id = b.world.add("gf-x", {"other", "gpuferry-machine=gf-x"});
    for (const auto& row : rows) {
        CAPTURE(row.status + " " + row.power + " " + row.server);
        b.world.force(id, {{"status", row.status},
                           {"power_status", row.power},
                           {"server_status", row.server},
                           {"main_ip", row.ip}});
        const auto m = b.provider().read(ProviderMachineId{id});
        REQUIRE(m);
        CHECK(m->presence == row.presence);
        CHECK(m->gpu_rate == UsdPerHour{2'397'000});  // a stopped machine is billed in full
        CHECK(m->disk_rate == UsdPerHour{0});
        CHECK(m->tag == "gf-x");
        CHECK(m->env_tag == "gf-x");
        CHECK(m->gpu_count == 1);
        CHECK(m->region == "ewr");
        CHECK(m->created_at == parse_rfc3339("2026-11-30T09:12:44Z"));
        CHECK(m->ssh.has_value() == (row.ip == "192.0.2.123"));
        if (m->ssh) CHECK(*m->ssh == SshEndpoint{.host = "192.0.2.123", .port = 22, .user = "root"});
    }
    // The plans are asked for when they are not known, not at every read.
    CHECK(b.server.count("GET", "/v2/plans") == 3);
    // A plan that is sold no more is still what the machine costs.
    b.world.plans.erase(0);
    b.pass(std::chrono::hours{2});
    CHECK(b.provider().read(ProviderMachineId{id})->gpu_rate == UsdPerHour{2'397'000});
    CHECK(b.server.count("GET", "/v2/plans") == 6);
}

TEST_CASE("Vultr: where the plan is not known the rate is not told") {
    VultrBench b;
    const auto id = b.world.add("gf-x", nullptr);
    b.script([&](const Received& r) {
        return r.path() == "/v2/plans" ? vultr_error(500, "x") : b.world.answer(r);
    });
    const auto listing = b.provider().list();
    REQUIRE(listing);
    REQUIRE(listing->machines.size() == 1);
    CHECK(!listing->machines[0].gpu_rate);
    CHECK(!listing->machines[0].gpu_count);
    const auto calls = b.server.count("GET", "/v2/plans");
    REQUIRE(b.provider().list());
    CHECK(b.server.count("GET", "/v2/plans") == calls);  // not again within a minute
    b.pass(Seconds{61});
    b.script([&](const Received& r) { return b.world.answer(r); });
    CHECK(b.provider().list()->machines[0].gpu_rate == UsdPerHour{2'397'000});
}

TEST_CASE("Vultr: what is not there is gone only beside a proof") {
    const struct {
        int status;
        std::string text;
        bool gone;
    } rows[] = {{404, "instance not found", true},  {404, "", true},
                {400, "invalid instance ID", true}, {400, "Invalid Server", true},
                {400, "Instance NOT FOUND", true},  {400, "Invalid request", false},
                {500, "invalid instance ID", false}};
    for (const auto& row : rows) {
        CAPTURE(row.text);
        VultrBench b;
        bool key_good = false;
        b.script([&](const Received& r) {
            if (r.path() == "/v2/instances")
                return key_good
                           ? plain(200,
                                   R"({"instances":[],"meta":{"total":0,"links":{"next":"","prev":""}}})")
                           : vultr_error(401, "Invalid API token.");
            return vultr_error(row.status, row.text);
        });
        auto seen = b.provider().read(ProviderMachineId{"x1"});
        REQUIRE(!seen);
        if (row.gone) CHECK(seen.error().kind == ErrorKind::auth);
        CHECK(!b.provider().destroy(ProviderMachineId{"x1"}));
        key_good = true;
        seen = b.provider().read(ProviderMachineId{"x1"});
        CHECK(seen.has_value() == row.gone);
        if (seen) CHECK(seen->presence == Presence::gone);
        CHECK(b.provider().destroy(ProviderMachineId{"x1"}).has_value() == row.gone);
    }
    // A 404 of somebody in between says nothing.
    VultrBench b;
    b.script([](const Received& r) {
        return r.path() == "/v2/instances" ? plain(200, R"({"instances":[]})")
                                           : plain(404, kHtml, "text/html");
    });
    CHECK(!b.provider().read(ProviderMachineId{"x1"}));
}

TEST_CASE("Vultr: a machine that is locked is destroyed later, and one that is going is asked enough") {
    VultrBench b;
    const auto id = ProviderMachineId{b.world.add("gf-x", nullptr)};
    const auto locked = b.provider().destroy(id);
    REQUIRE(!locked);
    CHECK(locked.error().kind == ErrorKind::unavailable);
    REQUIRE(locked.error().retry_after);
    CHECK(*locked.error().retry_after >= Seconds{10});
    CHECK(*locked.error().retry_after <= Seconds{30});
    b.pass(*locked.error().retry_after);
    REQUIRE(b.provider().destroy(id));
    CHECK(b.provider().destroy(id));  // pending destruction
    b.pass(Seconds{10});
    CHECK(b.provider().destroy(id));  // invalid instance ID
    CHECK(b.provider().read(id)->presence == Presence::gone);
}

TEST_CASE("E04 Vultr: a destroy that is answered 200 with an error is judged by what is there") {
    for (const auto* body :
         {R"({"error":"instance not found"})", R"({"error":"instance not found","status":404})",
          R"({"error":"Unable to destroy server","status":200})"}) {
        CAPTURE(body);
        VultrBench b;
        const auto id = ProviderMachineId{b.world.add("gf-x", nullptr)};
        b.script(
            [&](const Received& r) { return r.method == "DELETE" ? plain(200, body) : b.world.answer(r); });
        const auto there = b.provider().destroy(id);
        REQUIRE(!there);
        CHECK(there.error().kind == ErrorKind::unknown_outcome);
        CHECK(b.provider().destroy(ProviderMachineId{"x1"}));
        b.script([&](const Received& r) {
            return r.method == "DELETE" ? plain(200, body)
                   : r.method == "GET"  ? vultr_error(500, "x")
                                        : b.world.answer(r);
        });
        CHECK(!b.provider().destroy(ProviderMachineId{"x1"}));
    }
}

TEST_CASE("Vultr: a machine costs what it was sold as, whatever its plan is sold as by now") {
    VultrBench b;
    const auto made = [&](json tags) {
        tags.push_back("gpuferry-machine=gf-x");
        return ProviderMachineId{b.world.add("gf-x", tags)};
    };
    const auto spot = made({"gpuferry-sale=preemptible"});
    const auto fixed = made({"gpuferry-sale=ondemand"});
    const auto untold = made(json::array());
    const auto odd = made({"gpuferry-sale=barter"});
    const auto check = [&](const ProviderMachineId& id, bool is_spot) {
        const auto m = b.provider().read(id);
        REQUIRE(m);
        CHECK(m->spot == is_spot);
        CHECK(m->gpu_rate == UsdPerHour{is_spot ? 1'198'500 : 2'397'000});
        CHECK(m->env_tag == "gf-x");
    };
    for (const bool preemptible_now : {false, true}) {
        CAPTURE(preemptible_now);
        b.world.plans[0]["deploy_ondemand"] = !preemptible_now;
        b.world.plans[0]["deploy_preemptible"] = true;
        b.pass(std::chrono::hours{2});
        check(spot, true);
        check(fixed, false);
        check(untold, preemptible_now);
        check(odd, preemptible_now);
    }
}

TEST_CASE("Vultr: a negative balance is credit, and what is pending is spent") {
    VultrBench b;
    CHECK(b.provider().balance()->micros == 40'300'000);  // 100.55 - 60.25
    b.world.account.erase("pending_charges");
    CHECK(b.provider().balance()->micros == 100'550'000);
    b.world.account["pending_charges"] = 120;
    CHECK(b.provider().balance()->micros == -19'450'000);
    // Nothing was paid in: the account is paid by card, and what it owes says nothing of what it may rent.
    for (const auto& owed : {json(0), json("0.00"), json(12.5)}) {
        b.world.account["balance"] = owed;
        const auto none = b.provider().balance();
        REQUIRE(!none);
        CHECK(none.error().kind == ErrorKind::not_found);
    }
    b.world.account["balance"] = nullptr;
    CHECK(b.provider().balance().error().kind == ErrorKind::malformed);
    b.world.account["balance"] = "NaN";
    CHECK(b.provider().balance().error().kind == ErrorKind::malformed);
}

TEST_CASE("Vultr: pending charges are found by the label") {
    VultrBench b;
    const auto line = [](const std::string& what, const std::string& from, const std::string& until,
                         const json& total) {
        return json{{"description", what}, {"start_date", from},  {"end_date", until},
                    {"units", 3},          {"unit_price", 2.397}, {"total", total}};
    };
    b.world.charges = {
        line("Cloud GPU (gf-a)", "2026-11-30T09:00:00+00:00", "2026-11-30T12:00:00+00:00", 7.19),
        line("Backups (gf-a)", "2026-11-30T10:00:00+00:00", "2026-11-30T13:00:00+00:00", "0.5"),
        line("Cloud GPU (odd) (gf-b)", "2026-11-30T09:00:00+00:00", "2026-11-30T10:00:00+00:00", 2.397),
        line("Support plan", "2026-11-30T09:00:00+00:00", "2026-11-30T10:00:00+00:00", 100),
        line("Cloud GPU (gf-c)", "2026-11-29T09:00:00+00:00", "2026-11-30T00:00:00+00:00", 2),
        line("Cloud GPU (gf-d)", "yesterday", "2026-11-30T10:00:00+00:00", 2),
        line("Cloud GPU (gf-e)", "2026-11-30T09:00:00+00:00", "2026-11-30T10:00:00+00:00", nullptr)};
    const auto at = [](const char* text) { return *parse_rfc3339(text); };
    const auto out = b.provider().charges(at("2026-11-30T00:00:00Z"), at("2026-12-01T00:00:00Z"));
    REQUIRE(out);
    REQUIRE(out->size() == 2);
    CHECK((*out)[0].tag == "gf-a");
    CHECK((*out)[0].amount.micros == 7'690'000);
    CHECK((*out)[0].from == at("2026-11-30T09:00:00Z"));
    CHECK((*out)[0].until == at("2026-11-30T13:00:00Z"));
    CHECK((*out)[1].tag == "gf-b");
    CHECK((*out)[1].amount.micros == 2'397'000);
    CHECK(b.provider().capabilities().charges);
    b.script([](const Received&) { return plain(200, "{}"); });
    CHECK(b.provider().charges(at("2026-11-30T00:00:00Z"), at("2026-12-01T00:00:00Z")).error().kind ==
          ErrorKind::malformed);
}

TEST_CASE("Vultr: a renaming patches the label and nothing else") {
    VultrBench b;
    const auto id = b.world.add("gf-x", nullptr);
    REQUIRE(b.provider().rename(ProviderMachineId{id}, "gf-y"));
    CHECK(json::parse(b.server.received().back().body) == json{{"label", "gf-y"}});
    CHECK(b.server.received().back().method == "PATCH");
    CHECK(b.provider().read(ProviderMachineId{id})->tag == "gf-y");
}

TEST_CASE("Vultr: calls keep a distance that thirty a second allow, and a Retry-After holds for all") {
    VultrBench b;
    std::vector<Instant> at;
    b.script([&](const Received& r) {
        at.push_back(b.hand.now());
        return b.world.answer(r);
    });
    REQUIRE(b.provider().offers({.gpu_counts = {1}}));
    REQUIRE(b.provider().list());
    REQUIRE(b.provider().balance());
    for (std::size_t i = 1; i < at.size(); ++i) CHECK(at[i] - at[i - 1] >= Millis{34});
    for (const int status : {429, 503}) {
        b.pass(Seconds{60});
        b.script([&](const Received&) {
            return vultr_error(status, "Rate limit reached", {{"Retry-After", "5"}});
        });
        REQUIRE(!b.provider().list());
        const auto told = b.hand.now();
        b.script([&](const Received& r) { return b.world.answer(r); });
        REQUIRE(b.provider().balance());
        CHECK(b.hand.now() - told >= Seconds{5});
    }
}

TEST_CASE("Vultr: the check says in plain words what is wrong") {
    const struct {
        std::string path;
        Sent sent;
        Finding::Level level;
        std::string what;
        std::string words;
    } rows[] = {
        {"/v2/instances", vultr_error(401, "Invalid API token."), Finding::Level::failed, "key", "mistyped"},
        {"/v2/instances", vultr_error(401, "Unauthorized IP address: 203.0.113.9"), Finding::Level::failed,
         "key", "list of addresses"},
        {"/v2/instances", vultr_error(403, "Forbidden"), Finding::Level::failed, "scope", "provisioning"},
        {"/v2/instances", vultr_error(429, "x"), Finding::Level::failed, "api", "too many"},
        {"/v2/instances", vultr_error(404, "x"), Finding::Level::failed, "api", "api_url"},
        {"/v2/instances", plain(200, R"({"instances":null})"), Finding::Level::failed, "listing",
         "instances"},
        {"/v2/account", vultr_error(403, "Forbidden"), Finding::Level::warning, "scope", "billing"},
        {"/v2/account",
         plain(200, R"({"account":{"acls":["subscriptions"],"balance":-5,"pending_charges":0}})"),
         Finding::Level::failed, "scope", "provisioning"},
        {"/v2/account", plain(200, R"({"account":{"acls":[],"balance":5,"pending_charges":1}})"),
         Finding::Level::warning, "money", "payment method pays what is due ($6.00"},
        {"/v2/account", plain(200, R"({"account":{"acls":[],"balance":-5,"pending_charges":11}})"),
         Finding::Level::warning, "money", "-$6.00"},
        {"/v2/plans", vultr_error(500, "x"), Finding::Level::failed, "offers", "500"},
    };
    for (const auto& row : rows) {
        CAPTURE(row.words);
        VultrBench b;
        b.script([&](const Received& r) { return r.path() == row.path ? row.sent : b.world.answer(r); });
        const auto found = b.provider().check();
        const auto it =
            std::ranges::find_if(found, [](const Finding& f) { return f.level != Finding::Level::ok; });
        REQUIRE(it != found.end());
        CHECK(it->level == row.level);
        CHECK(it->what == row.what);
        CHECK(it->text.find(row.words) != std::string::npos);
    }
    VultrBench b;
    auto found = b.provider().check();
    CHECK(std::ranges::none_of(found, [](const Finding& f) { return f.level != Finding::Level::ok; }));
    for (const auto* what : {"key", "listing", "offers", "money"})
        CHECK(std::ranges::find(found, what, &Finding::what) != found.end());
    for (const auto& r : b.server.received()) CHECK(r.method == "GET");
    b.world.stock = {{"ewr", {"vc2-1c-1gb"}}};
    found = b.provider().check();
    CHECK(std::ranges::find(found, Finding::Level::warning, &Finding::level)->what == "offers");
    b.server.go_away();
    found = b.provider().check();
    REQUIRE(!found.empty());
    CHECK(found.front().what == "api");
}

TEST_CASE("I01 Vultr: an echo of the request shows the user data in no form") {
    VultrBench b;
    const auto request = gf::test::launch_request(b.some_offer(), 1);
    std::string data;
    b.script([&](const Received& r) {
        if (!is_create(r)) return b.world.answer(r);
        data = json::parse(r.body)["user_data"];
        return vultr_error(400, "bad: " + r.body.substr(r.body.find("user_data")));
    });
    const auto out = b.provider().launch(request);
    REQUIRE(out.error);
    REQUIRE(data.size() > 400);
    CHECK(out.error->message.find(data.substr(0, 60)) == std::string::npos);
    CHECK(out.error->message.find(gf::test::kEnrol) == std::string::npos);
}
