#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

#include "cloud_bench.hpp"
#include "providers/lambda/mapping.hpp"

using namespace gf;
using gf::test::lambda_error;
using gf::test::lambda_type;
using gf::test::LambdaBench;
using gf::test::Received;
using nlohmann::json;
using Sent = gf::test::Answer;

namespace {

const std::string kHtml = "<!DOCTYPE html><title>502 Bad Gateway</title>";
const std::string kLine =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOurOurOurOurOurOurOurOurOurOurOurOurOurOu gpuferry";

Sent plain(int status, std::string body, std::string type = "application/json") {
    return {.status = status, .body = std::move(body), .content_type = std::move(type)};
}

LaunchRequest request_with_ssh(LambdaBench& b, int number, const std::string& line = kLine) {
    auto r = gf::test::launch_request(b.some_offer(), number);
    r.ssh = SshSetup{.client_public = line,
                     .host_private = Secret("-----BEGIN X-----\nPRIVATEPRIVATEPRIVATE\n"),
                     .host_public = "ssh-ed25519 AAAAhost"};
    return r;
}

const Offer* find(const OfferList& list, std::string_view id) {
    const auto it = std::ranges::find(list.offers, id, &Offer::id);
    return it == list.offers.end() ? nullptr : &*it;
}

std::string reason(const OfferList& list, std::string_view id) {
    const auto it = std::ranges::find(list.rejected, id, &RejectedOffer::id);
    return it == list.rejected.end() ? "" : it->reason;
}

bool is_launch(const Received& r) {
    return r.path() == "/api/v1/instance-operations/launch";
}

const std::string kCapacity = "instance-operations/launch/insufficient-capacity";

}  // namespace

TEST_CASE("Lambda: every documented answer to a launch has its outcome") {
    const struct {
        std::string what;
        Sent sent;
        ErrorKind kind;
    } rows[] = {
        {"wrong key",
         lambda_error(401, "global/invalid-api-key", "API key was invalid, expired, or deleted."),
         ErrorKind::auth},
        {"inactive", lambda_error(403, "global/account-inactive", "Your account is inactive."),
         ErrorKind::auth},
        {"address", lambda_error(403, "global/invalid-address", "Your billing address is invalid."),
         ErrorKind::auth},
        {"forbidden", lambda_error(403, "global/forbidden", ""), ErrorKind::auth},
        {"bad request", lambda_error(400, "global/invalid-parameters", "Invalid request data."),
         ErrorKind::refused},
        {"A13 422", lambda_error(422, "global/validation-error", "image: bad name"), ErrorKind::refused},
        {"A13 422 without a code", plain(422, R"({"detail":[{"msg":"bad name"}]})"), ErrorKind::refused},
        {"422 with a code of another thing", lambda_error(422, "instance-operations/launch/insufficient-capacity", "none"),
         ErrorKind::no_capacity},
        {"422 for what is not there", lambda_error(422, "global/object-does-not-exist", "no such type"), ErrorKind::no_capacity},
        {"422 as HTML", plain(422, kHtml, "text/html"), ErrorKind::unknown_outcome},
        {"A15 quota of the launch", lambda_error(403, "instance-operations/launch/quota-exceeded", "x"),
         ErrorKind::quota},
        {"quota of the layer below", lambda_error(400, "provider/quota-exceeded", "x"),
         ErrorKind::unknown_outcome},
        {"A01 no capacity as a success", lambda_error(200, kCapacity, "Not enough capacity"),
         ErrorKind::no_capacity},
        {"another error as a success", lambda_error(200, "global/unknown", "x"), ErrorKind::unknown_outcome},
        {"A15 quota", lambda_error(400, "global/quota-exceeded", "Quota exceeded."), ErrorKind::quota},
        {"no capacity", lambda_error(400, kCapacity, "Not enough capacity to fulfill launch request."),
         ErrorKind::no_capacity},
        {"other words, same code", lambda_error(400, kCapacity, "Quota exceeded."), ErrorKind::no_capacity},
        {"filesystem", lambda_error(400, "instance-operations/launch/file-system-in-wrong-region", "x"),
         ErrorKind::refused},
        {"no filesystems", lambda_error(400, "instance-operations/launch/file-systems-not-supported", "x"),
         ErrorKind::refused},
        {"no such type, 400", lambda_error(400, "global/object-does-not-exist", "Region does not exist."),
         ErrorKind::no_capacity},
        {"no such key, 404",
         lambda_error(404, "global/object-does-not-exist", "SSH key orch-3fa1 does not exist."),
         ErrorKind::no_capacity},
        {"no route", lambda_error(404, "global/not-found", "The requested resource was not found."),
         ErrorKind::api_retired},
        {"410", plain(410, "Gone", "text/plain"), ErrorKind::api_retired},
        {"duplicate", lambda_error(400, "global/duplicate", "x"), ErrorKind::unknown_outcome},
        {"conflict", lambda_error(409, "global/conflict", "The request conflicts."),
         ErrorKind::unknown_outcome},
        {"internal", lambda_error(409, "global/internal-error", "An internal server error occurred."),
         ErrorKind::unknown_outcome},
        {"unknown, 400", lambda_error(400, "global/unknown", "An unknown error occurred."),
         ErrorKind::unknown_outcome},
        {"unknown, 500", lambda_error(500, "global/unknown", "An unknown error occurred."),
         ErrorKind::unknown_outcome},
        {"provider, 400", lambda_error(400, "provider/internal-unavailable", "Try again shortly"),
         ErrorKind::unknown_outcome},
        {"provider, 503", lambda_error(503, "provider/internal-unavailable", "Try again shortly"),
         ErrorKind::unknown_outcome},
        {"a code of tomorrow", lambda_error(400, "global/new-code", "x"), ErrorKind::unknown_outcome},
        {"capacity as 500", lambda_error(500, kCapacity, "x"), ErrorKind::unknown_outcome},
        {"400 without a code", plain(400, R"({"error":"nope"})"), ErrorKind::unknown_outcome},
        {"400 as HTML", plain(400, kHtml, "text/html"), ErrorKind::unknown_outcome},
        {"401 as HTML", plain(401, kHtml, "text/html"), ErrorKind::unknown_outcome},
        {"A09 429 with the envelope", lambda_error(429, "global/too-many-requests", "Slow down."),
         ErrorKind::unknown_outcome},
        {"429 empty", plain(429, ""), ErrorKind::unknown_outcome},
        {"A02 502", plain(502, kHtml, "text/html"), ErrorKind::unknown_outcome},
        {"200 with HTML", plain(200, kHtml, "text/html"), ErrorKind::unknown_outcome},
        {"200 without ids", plain(200, R"({"data":{"instance_ids":[]}})"), ErrorKind::unknown_outcome},
        {"A11 truncated JSON", plain(200, R"({"data":{"instance_ids":["09)"), ErrorKind::unknown_outcome},
        {"a redirect",
         {.status = 301, .headers = {{"Location", "https://cloud.lambda.ai/"}}},
         ErrorKind::unknown_outcome},
    };
    for (const auto& row : rows) {
        CAPTURE(row.what);
        LambdaBench b;
        const auto request = gf::test::launch_request(b.some_offer(), 1);
        b.script([&](const Received& r) { return is_launch(r) ? row.sent : b.world.answer(r); });
        const auto out = b.provider().launch(request);
        CHECK(out.id.empty());
        REQUIRE(out.error.has_value());
        CHECK(out.error->kind == row.kind);
        CHECK(b.server.count("POST", "/api/v1/instance-operations/launch") == 1);
        if (row.sent.status == 429) CHECK(out.error->retry_after.value_or(Millis{0}) >= Seconds{12});
    }
}

TEST_CASE("Lambda: every documented answer to a read, a listing and a terminate has its meaning") {
    const struct {
        std::string what;
        Sent sent;
        ErrorKind kind;
        ErrorKind destroy;
    } rows[] = {
        {"wrong key", lambda_error(401, "global/invalid-api-key", "x"), ErrorKind::auth, ErrorKind::auth},
        {"inactive", lambda_error(403, "global/account-inactive", "x"), ErrorKind::auth, ErrorKind::auth},
        {"address", lambda_error(403, "global/invalid-address", "x"), ErrorKind::auth, ErrorKind::auth},
        {"forbidden", lambda_error(403, "global/forbidden", "x"), ErrorKind::auth, ErrorKind::auth},
        {"route", lambda_error(404, "global/not-found", "x"), ErrorKind::api_retired, ErrorKind::api_retired},
        {"A06 410", plain(410, "Gone", "text/plain"), ErrorKind::api_retired, ErrorKind::api_retired},
        {"unknown", lambda_error(400, "global/unknown", "x"), ErrorKind::unavailable,
         ErrorKind::unknown_outcome},
        {"internal", lambda_error(409, "global/internal-error", "x"), ErrorKind::unavailable,
         ErrorKind::unknown_outcome},
        {"conflict", lambda_error(409, "global/conflict", "x"), ErrorKind::unavailable,
         ErrorKind::unknown_outcome},
        {"provider", lambda_error(400, "provider/internal-unavailable", "x"), ErrorKind::unavailable,
         ErrorKind::unknown_outcome},
        {"parameters", lambda_error(400, "global/invalid-parameters", "x"), ErrorKind::malformed,
         ErrorKind::unknown_outcome},
        {"429", plain(429, kHtml, "text/html"), ErrorKind::rate_limited, ErrorKind::rate_limited},
        {"500", plain(500, kHtml, "text/html"), ErrorKind::unavailable, ErrorKind::unknown_outcome},
        {"403 of an edge", plain(403, kHtml, "text/html"), ErrorKind::unavailable,
         ErrorKind::unknown_outcome},
        {"404 of an edge", plain(404, kHtml, "text/html"), ErrorKind::malformed, ErrorKind::unknown_outcome},
        {"200 HTML", plain(200, kHtml, "text/html"), ErrorKind::malformed, ErrorKind::unknown_outcome},
        {"A06 null", plain(200, R"({"data":null})"), ErrorKind::malformed, ErrorKind::unknown_outcome},
        {"nothing", plain(200, "{}"), ErrorKind::malformed, ErrorKind::unknown_outcome},
        {"another kind", plain(200, R"({"data":"x"})"), ErrorKind::malformed, ErrorKind::unknown_outcome},
        {"A11 truncated", plain(200, R"({"data":[{"id":"09)"), ErrorKind::malformed,
         ErrorKind::unknown_outcome},
        {"redirect",
         {.status = 301, .headers = {{"Location", "https://x/"}}},
         ErrorKind::unavailable,
         ErrorKind::unknown_outcome},
    };
    for (const auto& row : rows) {
        CAPTURE(row.what);
        LambdaBench b;
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
    }
}

TEST_CASE("Lambda: a row of the listing without identity or state makes it no listing") {
    for (const auto& row :
         {json{{"status", "active"}}, json{{"id", "x"}}, json{{"id", 7}, {"status", "active"}},
          json{{"id", "x"}, {"status", nullptr}}, json{{"id", "x"}, {"status", "active"}, {"tags", "t"}},
          json("x"), json{{"id", "x"}, {"status", "active"}, {"name", 3}}}) {
        CAPTURE(row.dump());
        LambdaBench b;
        b.script([&](const Received&) {
            return plain(200, json{{"data", {{{"id", "a"}, {"status", "active"}}, row}}}.dump());
        });
        const auto listing = b.provider().list();
        REQUIRE(!listing);
        CHECK(listing.error().kind == ErrorKind::malformed);
    }
}

TEST_CASE("Lambda: an id beside an error is an id") {
    LambdaBench b;
    const auto request = gf::test::launch_request(b.some_offer(), 1);
    b.script([&](const Received& r) {
        return is_launch(r)
                   ? plain(
                         500,
                         R"({"data":{"instance_ids":["0920582c7ff041399e34823a0be62549"]},"error":{"code":"global/unknown"}})")
                   : b.world.answer(r);
    });
    const auto out = b.provider().launch(request);
    CHECK(out.id.get() == "0920582c7ff041399e34823a0be62549");
    CHECK(out.error.has_value());
}

TEST_CASE("Lambda: the launch says exactly what was meant") {
    LambdaBench b;
    const auto request = request_with_ssh(b, 7);
    REQUIRE(!b.provider().launch(request).error);
    const auto sent = b.server.received().back();
    const auto body = json::parse(sent.body);
    CHECK(body["region_name"] == "us-west-1");
    CHECK(body["instance_type_name"] == "gpu_1x_a10");
    CHECK(body["name"] == request.tag.get());
    CHECK(body["hostname"] == request.tag.get());
    CHECK(body["tags"] == json::array({{{"key", "gpuferry-machine"}, {"value", request.tag.get()}}}));
    CHECK(body["ssh_key_names"] == json::array({lambda::key_name("testtest", kLine)}));
    CHECK(!body.contains("quantity"));
    CHECK(!body.contains("file_system_names"));
    const std::string data = body["user_data"];  // plain text, no base64
    CHECK(data.starts_with("#!/bin/sh\n"));
    CHECK(data.find(gf::test::kEnrol) != std::string::npos);
    CHECK(data.find("/home/ubuntu") != std::string::npos);
    CHECK(body.size() == 7);
    CHECK(sent.header("accept") == "application/json");
}

TEST_CASE("Lambda: what is no offer of it is refused before anything is sent") {
    LambdaBench b;
    auto request = gf::test::launch_request(b.some_offer(), 1);
    const auto sent = b.server.received().size();
    const auto refused = [&] {
        const auto out = b.provider().launch(request);
        REQUIRE(out.error);
        CHECK(out.error->kind == ErrorKind::refused);
    };
    request.bid = UsdPerHour{1'000};
    refused();
    request.bid.reset();
    for (const std::string bad : {"", "gpu_1x_a10", "/us-west-1", "gpu_1x_a10/"}) {
        request.offer.id = bad;
        refused();
    }
    CHECK(b.server.received().size() == sent);
}

TEST_CASE("Lambda: the catalogue becomes offers, and what cannot be one says why") {
    LambdaBench b;
    auto& t = b.world.types;
    t = json::object();
    const auto put = [&](const std::string& name, const std::string& gpu, int cents, int gpus,
                         std::vector<std::string> regions) -> json& {
        t[name] = lambda_type(name, gpu, cents, gpus, regions);
        return t[name];
    };
    put("gpu_1x_a10", "A10 (24 GB PCIe)", 129, 1, {"us-west-1", "europe-central-1", "mars-north-1"});
    put("gpu_8x_h100_sxm5", "H100 (80 GB SXM5)", 3192, 8, {"us-south-2"});
    put("gpu_1x_gh200", "GH200 (96 GB)", 229, 1, {"us-east-3"});
    put("gpu_1x_rtx6000", "RTX 6000 (24 GB)", 69, 1, {"us-south-1"});
    put("gpu_8x_v100", "something new", 632, 8, {"us-south-1"});
    put("gpu_1x_a6000", "A6000 (48 GB)", 109, 1, {});
    put("cpu_4x_general", "N/A", 20, 0, {"us-west-1"});
    put("gpu_1x_text", "A10 (24 GB PCIe)", 0, 1, {"us-west-1"})["instance_type"]["price_cents_per_hour"] =
        "129";
    const std::pair<const char*, json> prices[] = {{"null", nullptr}, {"zero", 0},
                                                   {"empty", ""},     {"negative", -1},
                                                   {"nan", "NaN"},    {"object", json::object()}};
    for (const auto& [name, price] : prices)
        put(std::string("gpu_1x_") + name, "A10 (24 GB PCIe)", 1, 1,
            {"us-west-1"})["instance_type"]["price_cents_per_hour"] = price;
    put("gpu_1x_uncounted", "A10 (24 GB PCIe)", 129, 1, {"us-west-1"})["instance_type"]["specs"].erase(
        "gpus");
    put("gpu_1x_nowhere", "A10 (24 GB PCIe)", 129, 1, {})["regions_with_capacity_available"] = "none";

    const auto list = b.provider().offers({.gpu_counts = {1, 8}});
    REQUIRE(list);
    const auto* a10 = find(*list, "gpu_1x_a10/us-west-1");
    REQUIRE(a10 != nullptr);
    CHECK(a10->gpu_rate.micros == 1'290'000);  // B05: cents
    CHECK(a10->gpu.memory == Bytes{24 * kGiB});
    CHECK(a10->gpu.canonical == "lambda:gpu_1x_a10");
    CHECK(a10->memory == Bytes{200 * kGiB});
    CHECK(a10->disk_max == Bytes{1400 * kGiB});
    CHECK(a10->disk_micros_per_gb_month == 0);
    CHECK(a10->cpus == 30.0);
    CHECK(a10->country == "US");
    CHECK(a10->region == "us-west-1");
    CHECK(a10->billing_step == std::chrono::minutes{1});
    CHECK(a10->verified == true);
    CHECK(a10->arch == "amd64");
    CHECK(!a10->spot);
    CHECK(!a10->exclusive);
    REQUIRE(find(*list, "gpu_1x_a10/europe-central-1") != nullptr);
    CHECK(find(*list, "gpu_1x_a10/europe-central-1")->country == "DE");
    CHECK(find(*list, "gpu_1x_a10/europe-central-1")->gpu_rate.micros == 1'290'000);
    REQUIRE(find(*list, "gpu_1x_a10/mars-north-1") != nullptr);
    CHECK(find(*list, "gpu_1x_a10/mars-north-1")->country.empty());
    const auto* h100 = find(*list, "gpu_8x_h100_sxm5/us-south-2");
    REQUIRE(h100 != nullptr);
    CHECK(h100->gpu_count == 8);
    CHECK(h100->gpu_rate.micros == 31'920'000);
    CHECK(h100->gpu.memory == Bytes{80 * kGiB});
    REQUIRE(find(*list, "gpu_1x_gh200/us-east-3") != nullptr);
    CHECK(find(*list, "gpu_1x_gh200/us-east-3")->arch == "arm64");
    REQUIRE(find(*list, "gpu_8x_v100/us-south-1") != nullptr);
    CHECK(find(*list, "gpu_8x_v100/us-south-1")->gpu.memory == Bytes{16 * kGiB});  // the table's
    REQUIRE(find(*list, "gpu_1x_text/us-west-1") != nullptr);
    CHECK(find(*list, "gpu_1x_text/us-west-1")->gpu_rate.micros == 1'290'000);
    CHECK(reason(*list, "gpu_1x_a6000") == "sold_out");
    CHECK(reason(*list, "gpu_1x_nowhere") == "malformed");
    CHECK(reason(*list, "gpu_1x_null/us-west-1") == "price_missing");  // B01
    CHECK(reason(*list, "gpu_1x_zero/us-west-1") == "price_zero");
    CHECK(reason(*list, "gpu_1x_empty/us-west-1") == "price_empty");
    CHECK(reason(*list, "gpu_1x_negative/us-west-1") == "price_negative");
    CHECK(reason(*list, "gpu_1x_nan/us-west-1") == "price_not_finite");
    CHECK(reason(*list, "gpu_1x_object/us-west-1") == "malformed");
    CHECK(reason(*list, "gpu_1x_uncounted/us-west-1") == "gpu_count_missing");
    CHECK(std::ranges::none_of(list->offers, [](const Offer& o) { return o.id.starts_with("cpu_"); }));
    CHECK(list->drift.empty());

    const auto eight = b.provider().offers({.gpu_counts = {8}});
    REQUIRE(eight);
    CHECK(std::ranges::all_of(eight->offers, [](const Offer& o) { return o.gpu_count == 8; }));
    CHECK(eight->offers.size() == 2);
}

TEST_CASE("Lambda: the memory of a card is in its description") {
    const struct {
        std::string text;
        std::optional<int> gb;
    } rows[] = {{"GH200 (96 GB)", 96},
                {"B200 (180 GB SXM6)", 180},
                {"H100 (80 GB PCIe)", 80},
                {"A100 (40 GB SXM4)", 40},
                {"Tesla V100 (16 GB)", 16},
                {"N/A", {}},
                {"", {}},
                {"A10", {}},
                {"A10 (24 GiB)", {}},
                {"A10 (GB)", {}},
                {"A10 (0 GB)", {}},
                {"A10 (-4 GB)", {}},
                {"A10 (24 GBs)", {}}};
    for (const auto& row : rows) {
        CAPTURE(row.text);
        CHECK(lambda::vram_gb(row.text) == row.gb);
    }
}

TEST_CASE("Lambda: dollars in the place of cents stop launching there") {
    LambdaBench b;
    const auto good = b.provider().offers({.gpu_counts = {1}});
    REQUIRE(good);
    CHECK(good->drift.empty());
    for (auto& item : b.world.types)
        item["instance_type"]["price_cents_per_hour"] =
            item["instance_type"]["price_cents_per_hour"].get<double>() / 100;
    const auto off = b.provider().offers({.gpu_counts = {1}});
    REQUIRE(off);
    REQUIRE(!off->drift.empty());
    CHECK(off->drift.front().what == "price_unit");
    CHECK(off->offers.empty());
}

TEST_CASE("Lambda: dollars in the place of cents are seen by who has never seen a price there") {
    LambdaBench b;
    b.world.types["gpu_8x_a6000"] = lambda_type("gpu_8x_a6000", "A6000 (48 GB)", 8, 8, {"us-south-1"});
    const auto put = [&](const json& cents, const std::string& name = "gpu_1x_a10") {
        b.world.types[name]["instance_type"]["price_cents_per_hour"] = cents;
    };
    put(1.29);
    put("4.29", "gpu_1x_h100_sxm5");
    const auto off = b.provider().offers({.gpu_counts = {1, 8}});
    REQUIRE(off);
    CHECK(reason(*off, "gpu_1x_a10/us-west-1") == "price_unit");
    CHECK(reason(*off, "gpu_1x_h100_sxm5/us-south-2") == "price_unit");
    REQUIRE(!off->drift.empty());
    CHECK(off->drift.front().what == "price_unit");
    // An instance that shows such a price tells no rate.
    const auto id = b.world.add("gf-x", nullptr);
    b.pass(Seconds{60});
    const auto m = b.provider().read(ProviderMachineId{id});
    REQUIRE(m);
    CHECK(m->presence == Presence::running);
    CHECK(!m->gpu_rate);

    // One row alone is refused for itself.
    put(429, "gpu_1x_h100_sxm5");
    put(800, "gpu_8x_a6000");
    const auto one = b.provider().offers({.gpu_counts = {1, 8}});
    REQUIRE(one);
    CHECK(one->drift.empty());
    CHECK(reason(*one, "gpu_1x_a10/us-west-1") == "price_unit");
    CHECK(find(*one, "gpu_1x_h100_sxm5/us-south-2") != nullptr);
    put(129.0);
    const auto good = b.provider().offers({.gpu_counts = {1}});
    REQUIRE(good);
    REQUIRE(find(*good, "gpu_1x_a10/us-west-1") != nullptr);
    CHECK(find(*good, "gpu_1x_a10/us-west-1")->gpu_rate.micros == 1'290'000);
}

TEST_CASE("Lambda: an instance's state, rate, marks and address") {
    const auto a10 = lambda_type("gpu_1x_a10", "A10 (24 GB PCIe)", 129, 1, {})["instance_type"];
    const struct {
        std::string status;
        Presence presence;
        std::optional<std::int64_t> rate;  // absent = not told: the last known one
    } rows[] = {{"booting", Presence::booting, 0},           {"active", Presence::running, 1'290'000},
                {"unhealthy", Presence::unknown, 1'290'000}, {"terminating", Presence::failed, {}},
                {"terminated", Presence::gone, 0},           {"preempted", Presence::gone, 0},
                {"migrating", Presence::unknown, 1'290'000}};
    for (const auto& row : rows) {
        CAPTURE(row.status);
        LambdaBench b;
        json instance{
            {"id", "0920582c"},
            {"name", "gf-x"},
            {"status", row.status},
            {"instance_type", a10},
            {"region", {{"name", "us-west-1"}}},
            {"jupyter_token", "53968f128c4a4489b688c2c0a181d083"},
            {"tags", {{{"key", "other"}, {"value", "y"}}, {{"key", "gpuferry-machine"}, {"value", "gf-x"}}}}};
        if (row.status != "booting") instance["ip"] = "198.51.100.2";
        b.script([&](const Received&) { return plain(200, json{{"data", instance}}.dump()); });
        const auto m = b.provider().read(ProviderMachineId{"0920582c"});
        REQUIRE(m);
        CHECK(m->presence == row.presence);
        CHECK(m->gpu_rate.has_value() == row.rate.has_value());
        if (m->gpu_rate && row.rate) CHECK(m->gpu_rate->micros == *row.rate);
        CHECK(m->disk_rate == UsdPerHour{0});
        CHECK(m->tag == "gf-x");
        CHECK(m->env_tag == "gf-x");
        CHECK(m->gpu_count == 1);
        CHECK(m->region == "us-west-1");
        CHECK(!m->created_at);
        CHECK(!m->spot);
        CHECK(m->raw_state == row.status);
        if (row.status == "booting")
            CHECK(!m->ssh);
        else
            CHECK(m->ssh == SshEndpoint{.host = "198.51.100.2", .port = 22, .user = "ubuntu"});
    }
}

TEST_CASE("Lambda: what is not there is gone only beside a proof") {
    LambdaBench b;
    bool key_good = true;
    bool listed = false;
    std::string code = "global/object-does-not-exist";
    int status = 404;
    b.script([&](const Received& r) {
        if (r.path() == "/api/v1/instances")
            return key_good
                       ? plain(200, listed ? R"({"data":[{"id":"x1","status":"active"}]})" : R"({"data":[]})")
                       : lambda_error(401, "global/invalid-api-key", "no");
        return lambda_error(status, code, "Specified instance does not exist.");
    });
    key_good = false;
    auto seen = b.provider().read(ProviderMachineId{"x1"});
    REQUIRE(!seen);
    CHECK(seen.error().kind == ErrorKind::auth);
    key_good = true;
    for (const int s : {404, 400}) {
        status = s;
        seen = b.provider().read(ProviderMachineId{"x1"});
        REQUIRE(seen);
        CHECK(seen->presence == Presence::gone);
        CHECK(b.provider().destroy(ProviderMachineId{"x1"}));
    }
    // The code of a route: a listing decides, and one that still has the instance says that the route is what
    // is missing.
    status = 404;
    code = "global/not-found";
    seen = b.provider().read(ProviderMachineId{"x1"});
    REQUIRE(seen);
    CHECK(seen->presence == Presence::gone);
    listed = true;
    seen = b.provider().read(ProviderMachineId{"x1"});
    REQUIRE(!seen);
    CHECK(seen.error().kind == ErrorKind::api_retired);
}

TEST_CASE("Lambda: a second terminate is judged by what the instance does") {
    for (const int status : {400, 409, 500}) {
        CAPTURE(status);
        LambdaBench b;
        b.world.unknown_status = status;
        const auto id = ProviderMachineId{b.world.add("gf-x", nullptr)};
        b.pass(Seconds{60});
        REQUIRE(b.provider().destroy(id));
        CHECK(b.provider().destroy(id));  // terminating
        b.pass(Seconds{30});
        CHECK(b.provider().destroy(id));  // terminated
        const auto seen = b.provider().read(id);
        REQUIRE(seen);
        CHECK(seen->presence == Presence::gone);
        const auto listing = b.provider().list();
        REQUIRE(listing);
        CHECK(listing->machines.empty());  // the row is still there, the machine is not
        b.pass(Seconds{120});
        CHECK(b.provider().destroy(id));  // no such object
    }
    // The same error for an instance that runs on is no success.
    LambdaBench b;
    const auto id = b.world.add("gf-x", nullptr);
    b.world.force(id, "active");
    const auto out = b.provider().destroy(ProviderMachineId{id});
    REQUIRE(!out);
    CHECK(out.error().kind == ErrorKind::unknown_outcome);
    b.world.force(id, "preempted");
    CHECK(b.provider().destroy(ProviderMachineId{id}));
}

TEST_CASE("Lambda: a preempted instance is a loss, though its row is still shown") {
    LambdaBench b;
    const auto id = b.world.add("gf-x", nullptr);
    b.world.force(id, "preempted");
    const auto listing = b.provider().list();
    REQUIRE(listing);
    CHECK(listing->machines.empty());
    const auto m = b.provider().read(ProviderMachineId{id});
    REQUIRE(m);
    CHECK(m->presence == Presence::gone);
    CHECK(m->raw_state == "preempted");
}

TEST_CASE("E04 Lambda: a terminate that is answered with nothing certain is judged by what is there") {
    const Sent rows[] = {
        lambda_error(404, "global/not-found", "The requested resource was not found."),
        lambda_error(400, "global/unknown", "An unknown error occurred."),
        lambda_error(200, "global/object-does-not-exist", "Specified instance does not exist."),
        plain(200, R"({"data":{"terminated_instances":[]}})"), plain(200, R"({"message":"not found"})")};
    for (const auto& sent : rows) {
        CAPTURE(sent.body);
        for (const std::string code : {"global/not-found", "global/object-does-not-exist"}) {
            CAPTURE(code);
            LambdaBench b;
            const auto id = ProviderMachineId{b.world.add("gf-x", nullptr)};
            bool listed = true;
            b.script([&](const Received& r) {
                if (r.path() == "/api/v1/instance-operations/terminate") return sent;
                if (r.path() == "/api/v1/instances/x1") return lambda_error(404, code, "x");
                if (r.path() == "/api/v1/instances" && !listed) return plain(500, kHtml, "text/html");
                return b.world.answer(r);
            });
            const auto out = b.provider().destroy(ProviderMachineId{"x1"});
            CHECK_MESSAGE(out, (out ? "" : out.error().message));
            // One that is there is not ended by such an answer.
            CHECK(!b.provider().destroy(id));
            // Without a listing the code of a route proves nothing.
            listed = false;
            b.pass(Seconds{120});
            CHECK(!b.provider().destroy(ProviderMachineId{"x1"}));
        }
    }
}

TEST_CASE("Lambda: a terminate whose answer does not name the instance has not been heard") {
    LambdaBench b;
    b.script(
        [](const Received&) { return plain(200, R"({"data":{"terminated_instances":[{"id":"other"}]}})"); });
    const auto out = b.provider().destroy(ProviderMachineId{"x1"});
    REQUIRE(!out);
    CHECK(out.error().kind == ErrorKind::unknown_outcome);
}

TEST_CASE("Lambda: never more than one call a second, nor a launch within twelve") {
    LambdaBench b;
    for (int i = 1; i <= 3; ++i) {
        REQUIRE(!b.provider().launch(request_with_ssh(b, i)).error);
        REQUIRE(b.provider().list());
        REQUIRE(b.provider().offers({.gpu_counts = {1}}));
    }
    for (const auto& [id, instance] : b.world.all()) REQUIRE(b.provider().destroy(ProviderMachineId{id}));
    CHECK(b.world.too_early == 0);
}

TEST_CASE("Lambda: a renaming is a POST, and the listing shows it") {
    LambdaBench b;
    const auto id = b.world.add("gf-x", nullptr);
    REQUIRE(b.provider().rename(ProviderMachineId{id}, "gf-y"));
    CHECK(b.server.count("POST", "/api/v1/instances/" + id) == 1);
    CHECK(b.provider().read(ProviderMachineId{id})->tag == "gf-y");
    const auto nobody = b.provider().rename(ProviderMachineId{"x1"}, "gf-y");
    REQUIRE(!nobody);
}

TEST_CASE("Lambda: there is neither a balance nor a bill, and no bid") {
    LambdaBench b;
    CHECK(b.provider().balance().error().kind == ErrorKind::not_found);
    CHECK(b.provider().charges(gf::test::kStart, gf::test::kStart + Seconds{1}).error().kind ==
          ErrorKind::not_yet);
    CHECK(!b.provider().capabilities().spot);
    CHECK(!b.provider().capabilities().balance);
    CHECK(b.provider().capabilities().vm);
    CHECK(b.provider().capabilities().ssh);
    const auto spot = b.provider().offers({.gpu_counts = {1}, .on_demand = false});
    REQUIRE(spot);
    CHECK(spot->offers.empty());
}

TEST_CASE("Lambda: the check says in plain words what is wrong") {
    const struct {
        std::string path;
        Sent sent;
        std::string what;
        std::string words;
    } rows[] = {
        {"/api/v1/instances", lambda_error(401, "global/invalid-api-key", "x"), "key", "console"},
        {"/api/v1/instances", lambda_error(403, "global/account-inactive", "x"), "money", "inactive"},
        {"/api/v1/instances", lambda_error(403, "global/invalid-address", "x"), "money", "billing address"},
        {"/api/v1/instances", lambda_error(403, "global/forbidden", "x"), "scope", "key"},
        {"/api/v1/instances", lambda_error(400, "global/quota-exceeded", "x"), "quota", "support"},
        {"/api/v1/instances", plain(429, ""), "api", "one call a second"},
        {"/api/v1/instances", lambda_error(404, "global/not-found", "x"), "api", "api_url"},
        {"/api/v1/instances", plain(200, R"({"data":null})"), "listing", "data"},
        {"/api/v1/instance-types", plain(500, kHtml, "text/html"), "offers", "500"},
    };
    for (const auto& row : rows) {
        CAPTURE(row.words);
        LambdaBench b;
        b.script([&](const Received& r) { return r.path() == row.path ? row.sent : b.world.answer(r); });
        const auto found = b.provider().check();
        const auto it = std::ranges::find(found, Finding::Level::failed, &Finding::level);
        REQUIRE(it != found.end());
        CHECK(it->what == row.what);
        CHECK(it->text.find(row.words) != std::string::npos);
        CHECK(it->text.find(gf::test::kKey) == std::string::npos);
    }
    LambdaBench b;
    auto found = b.provider().check();
    CHECK(std::ranges::none_of(found, [](const Finding& f) { return f.level != Finding::Level::ok; }));
    for (const auto* what : {"key", "listing", "offers", "scope", "money"})
        CHECK(std::ranges::find(found, what, &Finding::what) != found.end());
    for (const auto& r : b.server.received()) CHECK(r.method == "GET");
    for (auto& item : b.world.types) item["regions_with_capacity_available"] = json::array();
    found = b.provider().check();
    CHECK(std::ranges::find(found, Finding::Level::warning, &Finding::level)->what == "offers");
    b.server.go_away();
    found = b.provider().check();
    REQUIRE(!found.empty());
    CHECK(found.front().what == "api");
}

TEST_CASE("I01 Lambda: an echo of the request shows neither the enrol token nor the host key") {
    LambdaBench b;
    const auto request = request_with_ssh(b, 1);
    b.script([&](const Received& r) {
        return is_launch(r) ? lambda_error(400, "global/invalid-parameters",
                                           "bad: " + r.body.substr(r.body.find("user_data")))
                            : b.world.answer(r);
    });
    const auto out = b.provider().launch(request);
    REQUIRE(out.error);
    CHECK(out.error->message.find("PRIVATEPRIVATE") == std::string::npos);
    CHECK(out.error->message.find(gf::test::kEnrol) == std::string::npos);
}
