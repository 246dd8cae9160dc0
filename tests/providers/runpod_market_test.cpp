// RunPod beside renting on demand: the legacy spot market, names, bills, logins, ssh, checks, drift.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

#include "cloud_bench.hpp"
#include "providers/runpod/mapping.hpp"
#include "providers/runpod/spot_pause.hpp"

using namespace gf;
using gf::test::problem;
using gf::test::Received;
using gf::test::runpod_gpu;
using gf::test::RunpodBench;
using nlohmann::json;
using Sent = gf::test::Answer;
using Way = gf::test::Delivery;

namespace {

Sent plain(int status, std::string body, std::string type = "application/json") {
    return {.status = status, .body = std::move(body), .content_type = std::move(type)};
}

Sent graphql_error(int status, const std::string& message, const std::string& code = {}) {
    json error{{"message", message}};
    if (!code.empty()) error["extensions"] = {{"code", code}};
    return plain(status, json{{"errors", {error}}, {"data", nullptr}}.dump());
}

json spot_type(const std::string& id, const json& floor, const json& stock = "Medium") {
    return {{"id", id},
            {"memoryInGb", 24},
            {"secureCloud", true},
            {"communityCloud", true},
            {"lowestPrice",
             {{"minimumBidPrice", floor}, {"stockStatus", stock}, {"availableGpuCounts", {1, 2, 4}}}}};
}

/// RunPod with the legacy market behind it, which the test answers for.
struct SpotBench {
    SpotBench() {
        auto setup = gf::test::setup_for(b.world, b.server.url());
        setup.runpod.spot = true;
        setup.install = "abcd1234";
        set = make_providers(setup, b.hand, gf::test::plain_lookup()).value();
        b.script([this](const Received& r) {
            if (r.path() != "/graphql") return b.world.answer(r);
            const auto query = json::parse(r.body)["query"].get<std::string>();
            if (query.starts_with("mutation")) {
                mutations.push_back(query);
                return create;
            }
            return market;
        });
        market =
            plain(200, json{{"data", {{"gpuTypes", {spot_type("NVIDIA GeForce RTX 4090", 0.35)}}}}}.dump());
        create = plain(200, R"({"data":{"podRentInterruptable":{"id":"spotpod0000001","costPerHr":0.385}}})");
    }
    Provider& provider() {
        b.server.settle();
        return *set.providers.front();
    }
    Result<OfferList> offers(std::vector<int> counts = {1}) {
        return provider().offers({.gpu_counts = std::move(counts), .on_demand = false});
    }
    const std::vector<std::string>& asked() {
        b.server.settle();
        return mutations;
    }
    RunpodBench b;
    ProviderSet set;
    Sent market;
    Sent create;
    std::vector<std::string> mutations;
};

const Offer* find(const OfferList& list, std::string_view id) {
    const auto it = std::ranges::find(list.offers, id, &Offer::id);
    return it == list.offers.end() ? nullptr : &*it;
}

std::string reason(const OfferList& list, std::string_view id) {
    const auto it = std::ranges::find(list.rejected, id, &RejectedOffer::id);
    return it == list.rejected.end() ? "" : it->reason;
}

const Finding* find(const std::vector<Finding>& all, std::string_view what) {
    const auto it = std::ranges::find(all, what, &Finding::what);
    return it == all.end() ? nullptr : &*it;
}

}  // namespace

TEST_CASE("RunPod spot: off by default, and then neither offered nor rented nor asked for") {
    RunpodBench b;
    CHECK(!b.provider().capabilities().spot);
    const auto list = b.provider().offers({.gpu_counts = {1}});
    REQUIRE(list);
    CHECK(std::ranges::none_of(list->offers, &Offer::spot));
    CHECK(b.server.count("POST", "/graphql") == 0);
    auto request = gf::test::launch_request(list->offers.front(), 1);
    request.offer.id = "spot/" + request.offer.id;
    request.offer.spot = true;
    request.bid = UsdPerHour{400'000};
    const auto out = b.provider().launch(request);
    REQUIRE(out.error);
    CHECK(out.error->kind == ErrorKind::refused);
    CHECK(b.server.count("POST", "") == 0);
}

TEST_CASE("RunPod spot: floors per GPU become offers with a bid above them") {
    SpotBench s;
    auto types = json::array();
    types.push_back(spot_type("NVIDIA GeForce RTX 4090", 0.35));
    types.push_back(spot_type("as text", "0.2"));
    types.push_back(spot_type("not offered", nullptr, nullptr));
    types.push_back(spot_type("sold out", 0.3, "None"));
    types.push_back(spot_type("zero", 0));
    types.push_back(spot_type("no floor", nullptr));
    types.push_back(spot_type("object", json::object()));
    types.push_back(spot_type("dear", 9'000));
    types.push_back(spot_type("elsewhere", 0.3));
    types.back()["secureCloud"] = false;
    types.push_back(spot_type("null price", 0.3));
    types.back()["lowestPrice"] = nullptr;
    s.market = plain(200, json{{"data", {{"gpuTypes", types}}}}.dump());
    CHECK(s.provider().capabilities().spot);
    const auto list = s.offers({1, 2, 8});
    REQUIRE(list);
    const auto* one = find(*list, "spot/secure/NVIDIA GeForce RTX 4090/1");
    REQUIRE(one != nullptr);
    CHECK(one->spot);
    CHECK(one->spot_floor == UsdPerHour{350'000});
    CHECK(one->gpu_rate == UsdPerHour{385'000});
    CHECK(one->stock == 2);
    CHECK(one->gpu.memory == Bytes{24 * kGiB});
    const auto* two = find(*list, "spot/secure/NVIDIA GeForce RTX 4090/2");
    REQUIRE(two != nullptr);
    CHECK(two->spot_floor == UsdPerHour{700'000});
    CHECK(two->gpu_rate == UsdPerHour{770'000});
    CHECK(reason(*list, "spot/secure/NVIDIA GeForce RTX 4090/8") == "no_machine_of_that_size");
    CHECK(find(*list, "spot/secure/as text/1") != nullptr);
    CHECK(find(*list, "spot/secure/sold out/1")->stock == 0);
    for (const std::string id : {"not offered", "elsewhere", "null price"}) {
        CHECK(find(*list, "spot/secure/" + id + "/1") == nullptr);
        CHECK(reason(*list, "spot/secure/" + id + "/1").empty());
    }
    CHECK(reason(*list, "spot/secure/zero/1") == "min_bid_zero");
    CHECK(reason(*list, "spot/secure/no floor/1") == "min_bid_missing");
    CHECK(reason(*list, "spot/secure/object/1") == "malformed");
    CHECK(reason(*list, "spot/secure/dear/1") == "price_too_large");
}

TEST_CASE("RunPod spot: trouble of the legacy market never takes the other one along") {
    SpotBench s;
    for (const auto& sent :
         {plain(410, "Gone", "text/plain"), graphql_error(200, "no"), plain(503, ""), plain(200, "<html>"),
          plain(200, R"({"data":{"gpuTypes":null}})"), Sent{.delivery = Way::nothing},
          graphql_error(401, "no"), plain(429, "", "text/plain")}) {
        CAPTURE(sent.status);
        s.market = sent;
        s.b.pass(std::chrono::hours{2});
        const auto list = s.provider().offers({.gpu_counts = {1}});
        REQUIRE_MESSAGE(list, (list ? "" : list.error().message));
        CHECK(find(*list, "secure/NVIDIA GeForce RTX 4090/1") != nullptr);
        CHECK(std::ranges::none_of(list->offers, &Offer::spot));
        CHECK(reason(*list, "spot/secure/1") == "spot_not_readable");
    }
}

TEST_CASE("RunPod spot: the mutation says exactly what was meant, and the key is in the header alone") {
    SpotBench s;
    const auto list = s.offers({2});
    REQUIRE(list);
    REQUIRE(list->offers.size() == 1);
    auto request = gf::test::launch_request(list->offers.front(), 5);
    request.image = "ghcr.io/example/trainer:1.4.2";
    request.start_script = "echo \"it's\" \\ $HOME\n";
    const auto out = s.provider().launch(request);
    REQUIRE_MESSAGE(!out.error, (out.error ? out.error->message : ""));
    CHECK(out.id.get() == "spotpod0000001");
    REQUIRE(s.asked().size() == 1);
    const auto& q = s.asked()[0];
    CAPTURE(q);
    const auto has = [&](const std::string& text) { return q.find(text) != std::string::npos; };
    CHECK(has("podRentInterruptable(input: {bidPerGpu: 0.385000, cloudType: SECURE, gpuCount: 2, "));
    CHECK(has(R"(gpuTypeId: "NVIDIA GeForce RTX 4090")"));
    CHECK(has("name: \"" + request.tag.get() + "\""));
    CHECK(has(R"(imageName: "ghcr.io/example/trainer:1.4.2")"));
    CHECK(has("containerDiskInGb: 20"));
    CHECK(has("{key: \"GPUFERRY_MACHINE\", value: \"" + request.tag.get() + "\"}"));
    const auto args = json{{"entrypoint", {"/bin/sh", "-c"}}, {"cmd", {request.start_script}}}.dump();
    CHECK(has("dockerArgs: " + json(args).dump()));
    const auto sent = s.b.server.received().back();
    CHECK(sent.header("authorization") == "Bearer " + gf::test::kKey);
    CHECK(sent.target == "/graphql");
    CHECK(sent.body.find(gf::test::kKey) == std::string::npos);
}

TEST_CASE("RunPod spot: every answer to the mutation has its outcome") {
    const std::string none =
        "There are no instances available with the request specifications. Please try again later.";
    const struct {
        std::string what;
        Sent sent;
        ErrorKind kind;
        bool closed;  // spot is not offered any more after this one answer
    } rows[] = {
        {"A01 no capacity by text", graphql_error(200, none), ErrorKind::no_capacity, false},
        {"A01 by code", graphql_error(200, "sold out", "SUPPLY_CONSTRAINT"), ErrorKind::no_capacity, false},
        {"no money", graphql_error(200, "x", "INSUFFICIENT_BALANCE"), ErrorKind::no_money, false},
        {"internal", graphql_error(200, "x", "INTERNAL_SERVER_ERROR"), ErrorKind::unknown_outcome, false},
        {"null without a word", plain(200, R"({"data":{"podRentInterruptable":null}})"),
         ErrorKind::unknown_outcome, false},
        {"the mutation is gone", graphql_error(400, "Cannot query field", "GRAPHQL_VALIDATION_FAILED"),
         ErrorKind::no_capacity, true},
        {"GraphQL is gone", plain(410, "Gone", "text/plain"), ErrorKind::no_capacity, true},
        {"not for this key", graphql_error(403, "no"), ErrorKind::no_capacity, true},
        {"404", plain(404, R"({"error":"not found"})"), ErrorKind::no_capacity, true},
        {"A01 with 400", graphql_error(400, none), ErrorKind::no_capacity, false},
        {"A01 by code, with 400", graphql_error(400, "sold out", "SUPPLY_CONSTRAINT"), ErrorKind::no_capacity, false},
        {"no money, with 400", graphql_error(400, "Your account balance is too low to rent a pod."), ErrorKind::no_money, false},
        {"no money by code, with 400", graphql_error(400, "x", "INSUFFICIENT_BALANCE"), ErrorKind::no_money, false},
        {"no money, with 403", graphql_error(403, "Your account balance is too low to rent a pod."), ErrorKind::no_money, false},
        {"A15 quota, with 400", graphql_error(400, "This exceeds your spending limit"), ErrorKind::quota, false},
        {"a field that has the word", graphql_error(400, "Cannot query field \"quota\"", "GRAPHQL_VALIDATION_FAILED"),
         ErrorKind::no_capacity, true},
        {"403 of the edge", plain(403, "<html>Error 1010</html>", "text/html"), ErrorKind::unknown_outcome,
         false},
        {"429", plain(429, "{}"), ErrorKind::unknown_outcome, false},
        {"502", plain(502, "<html>", "text/html"), ErrorKind::unknown_outcome, false},
        {"cut", {.delivery = Way::nothing}, ErrorKind::unknown_outcome, false},
    };
    for (const auto& row : rows) {
        CAPTURE(row.what);
        SpotBench s;
        const auto list = s.offers();
        REQUIRE(list);
        s.create = row.sent;
        const auto out = s.provider().launch(gf::test::launch_request(list->offers.front(), 1));
        CHECK(out.id.empty());
        REQUIRE(out.error);
        CHECK(out.error->kind == row.kind);
        CHECK(s.asked().size() == 1);
        s.b.pass(std::chrono::minutes{1});
        const auto after = s.offers();
        REQUIRE(after);
        CHECK(after->offers.empty() == row.closed);
        CHECK((reason(*after, "spot/secure/1") == "spot_paused") == row.closed);
    }
    SpotBench s;
    const auto list = s.offers();
    REQUIRE(list);
    s.create = plain(
        200,
        R"({"errors":[{"message":"late"}],"data":{"podRentInterruptable":{"id":"p1","costPerHr":"0.4"}}})");
    const auto out = s.provider().launch(gf::test::launch_request(list->offers.front(), 1));
    CHECK(out.id.get() == "p1");
    CHECK(out.error.has_value());
}

TEST_CASE("RunPod spot: after three failed creates it is not offered for a while, and on-demand goes on") {
    SpotBench s;
    const auto list = s.offers();
    REQUIRE(list);
    s.create = graphql_error(200, "There are no instances available with the request specifications.");
    for (int i = 0; i < 3; ++i) {
        REQUIRE(s.offers());
        CHECK(!s.offers()->offers.empty());
        CHECK(s.provider().launch(gf::test::launch_request(list->offers.front(), i)).error);
    }
    CHECK(s.offers()->offers.empty());
    const auto both = s.provider().offers({.gpu_counts = {1}});
    REQUIRE(both);
    CHECK(!both->offers.empty());
    s.b.pass(std::chrono::minutes{31});
    CHECK(!s.offers()->offers.empty());
    // One more failure is enough then, and the pause is longer.
    CHECK(s.provider().launch(gf::test::launch_request(list->offers.front(), 4)).error);
    s.b.pass(std::chrono::minutes{31});
    CHECK(s.offers()->offers.empty());
    s.b.pass(std::chrono::minutes{30});
    CHECK(!s.offers()->offers.empty());
    s.create = plain(200, R"({"data":{"podRentInterruptable":{"id":"p2"}}})");
    CHECK(!s.provider().launch(gf::test::launch_request(list->offers.front(), 5)).error);
    s.create = graphql_error(200, "x", "SUPPLY_CONSTRAINT");
    CHECK(s.provider().launch(gf::test::launch_request(list->offers.front(), 6)).error);
    CHECK(!s.offers()->offers.empty());  // counted anew
}

TEST_CASE("RunPod spot: a bid and an offer that do not go together send nothing") {
    SpotBench s;
    const auto list = s.offers();
    REQUIRE(list);
    auto no_bid = gf::test::launch_request(list->offers.front(), 1);
    no_bid.bid.reset();
    auto tiny = gf::test::launch_request(list->offers.front(), 2);
    tiny.bid = UsdPerHour{999};
    for (const auto& request : {no_bid, tiny}) {
        const auto out = s.provider().launch(request);
        REQUIRE(out.error);
        CHECK(out.error->kind == ErrorKind::refused);
    }
    CHECK(s.asked().empty());
}

TEST_CASE("RunPod: a pod's name is put back where that does not cost its container") {
    RunpodBench b;
    b.world.add("somebody typed this", json{{"GPUFERRY_MACHINE", "gf-x"}});
    const auto listing = b.provider().list();
    REQUIRE(listing);
    const auto id = listing->machines.front().id;
    REQUIRE(b.provider().rename(id, "gf-x"));  // still booting
    CHECK(json::parse(b.server.received().back().body) == json{{"name", "gf-x"}});
    CHECK(b.provider().read(id)->tag == "gf-x");
    b.pass(Seconds{60});
    const auto running = b.provider().rename(id, "gf-y");
    REQUIRE(!running);
    CHECK(running.error().kind == ErrorKind::conflict);
    CHECK(b.server.count("PATCH", "/v2/pods/") == 1);
    const auto none = b.provider().rename(ProviderMachineId{"nothing"}, "gf-y");
    REQUIRE(!none);
    CHECK(none.error().kind == ErrorKind::not_found);
}

TEST_CASE("RunPod: the billing records are read whole or not at all") {
    RunpodBench b;
    b.world.billing = {{{"startTime", "2026-11-30T09:00:00Z"},
                        {"endTime", "2026-11-30T10:00:00Z"},
                        {"podId", "k3v9"},
                        {"totalAmount", 0.55},
                        {"gpuAmount", 0.54},
                        {"diskAmount", 0.01}},
                       {{"startTime", "2026-11-30T10:00:00Z"},
                        {"endTime", "2026-11-30T11:00:00Z"},
                        {"podId", "k3v9"},
                        {"totalAmount", "0.5"}}};
    const auto from = *parse_rfc3339("2026-11-30T09:30:00Z");
    const auto charges = b.provider().charges(from, from + std::chrono::hours{2});
    REQUIRE_MESSAGE(charges, (charges ? "" : charges.error().message));
    REQUIRE(charges->size() == 2);
    CHECK(charges->at(0).machine.get() == "k3v9");
    CHECK(charges->at(0).amount == Usd{550'000});
    CHECK(charges->at(0).from == parse_rfc3339("2026-11-30T09:00:00Z"));
    CHECK(charges->at(1).amount == Usd{500'000});
    const auto target = b.server.received().back().target;
    CHECK(target ==
          "/v2/billing/"
          "pods?startTime=2026-11-30T09%3A30%3A00Z&endTime=2026-11-30T11%3A30%3A00Z&bucketSize=hour");
    const struct {
        const char* what;
        Sent sent;
        ErrorKind kind;
    } rows[] = {
        {"no records", plain(200, R"({"metadata":{}})"), ErrorKind::malformed},
        {"fewer than it says", plain(200, R"({"records":[],"metadata":{"recordCount":3}})"),
         ErrorKind::malformed},
        {"an amount that is none",
         plain(
             200,
             R"({"records":[{"podId":"a","startTime":"2026-11-30T09:00:00Z","endTime":"2026-11-30T10:00:00Z","totalAmount":"much"}]})"),
         ErrorKind::malformed},
        {"a record without times", plain(200, R"({"records":[{"podId":"a","totalAmount":1}]})"),
         ErrorKind::malformed},
        {"not for this key", problem(403, "access denied"), ErrorKind::auth},
        {"gone", plain(410, "Gone", "text/plain"), ErrorKind::api_retired},
        {"down", plain(503, ""), ErrorKind::unavailable},
    };
    for (const auto& row : rows) {
        CAPTURE(row.what);
        b.script([&](const Received&) { return row.sent; });
        b.pass(std::chrono::minutes{10});
        const auto out = b.provider().charges(from, from + std::chrono::hours{2});
        REQUIRE(!out);
        CHECK(out.error().kind == row.kind);
    }
}

TEST_CASE("RunPod: ssh is asked for only where it is wanted, and told only while the container is up") {
    RunpodBench b;
    auto request = gf::test::launch_request(b.some_offer(), 1);
    REQUIRE(!b.provider().launch(request).error);
    auto body = json::parse(b.server.received().back().body);
    CHECK(!body.contains("startSsh"));
    CHECK(!body.contains("ports"));
    CHECK(!body["env"].contains("PUBLIC_KEY"));
    request.tag = MachineTag{"gf-testtest-00000000000000000000000002"};
    request.ssh = SshSetup{.client_public = "ssh-ed25519 AAAAC3Nza gpuferry",
                           .host_private = Secret("HOST-KEY"),
                           .host_public = {}};
    REQUIRE(!b.provider().launch(request).error);
    const auto raw = b.server.received().back().body;
    body = json::parse(raw);
    CHECK(body["startSsh"] == true);
    CHECK(body["ports"] == json{"22/tcp"});
    CHECK(body["env"]["PUBLIC_KEY"] == "ssh-ed25519 AAAAC3Nza gpuferry");
    CHECK(body["args"].get<std::string>().find("authorized_keys") != std::string::npos);
    CHECK(raw.find("HOST-KEY") == std::string::npos);
    request.ssh->client_public = "ssh-ed25519 AAAA'; reboot #";
    const auto out = b.provider().launch(request);
    REQUIRE(out.error);
    CHECK(out.error->kind == ErrorKind::refused);

    const json direct{{"host", "203.0.113.61"}, {"port", 35558}, {"username", "root"}};
    const struct {
        const char* what;
        json changes;
        bool told;
    } rows[] = {
        {"up", {{"ssh", {{"direct", direct}}}}, true},
        {"no public port yet", {{"ssh", {{"direct", nullptr}}}}, false},
        {"booting", {{"ssh", {{"direct", direct}}}, {"runtime", nullptr}}, false},
        {"a stale port", {{"ssh", {{"direct", direct}}}, {"status", "EXITED"}}, false},
        {"no port", {{"ssh", {{"direct", {{"host", "203.0.113.61"}, {"port", 0}}}}}}, false},
    };
    for (const auto& row : rows) {
        CAPTURE(row.what);
        json pod{{"id", "abc"},
                 {"name", "x"},
                 {"status", "RUNNING"},
                 {"runtime", {{"uptime", 5}}},
                 {"dataCenterId", "EU-RO-1"}};
        pod.merge_patch(row.changes);
        b.script([&](const Received&) { return plain(200, pod.dump()); });
        const auto m = b.provider().read(ProviderMachineId{"abc"});
        REQUIRE(m);
        CHECK(m->data_center == "EU-RO-1");
        CHECK(m->ssh.has_value() == row.told);
        if (m->ssh) CHECK(*m->ssh == SshEndpoint{.host = "203.0.113.61", .port = 35558, .user = "root"});
    }
}

TEST_CASE("RunPod: tidying removes the logins of this installation that no pod uses") {
    SpotBench s;
    auto& world = s.b.world;
    auto request = gf::test::launch_request(s.b.some_offer(), 9);
    request.image = "registry.example.org/private:1";
    request.registry = RegistryLogin{
        .server = "registry.example.org", .username = "bot", .password = Secret("pass_EXAMPLE_1")};
    REQUIRE(!s.provider().launch(request).error);
    REQUIRE(world.registries.size() == 1);
    const auto ours = world.registries[0];
    CHECK(ours["name"].get<std::string>().starts_with("gf-abcd1234-"));
    for (const std::string name : {"gf-abcd1234-mine-by-hand", "gf-zzzz9999-0123456789abcdef", "somebody's"})
        world.registries.push_back({{"id", "x" + name}, {"name", name}});
    world.registries_in_use = {ours["id"].get<std::string>()};
    REQUIRE(s.provider().tidy());
    CHECK(world.registries.size() == 4);  // in use
    world.registries_in_use.clear();
    REQUIRE(s.provider().tidy());
    CHECK(world.registries.size() == 3);
    for (const auto& left : world.registries) CHECK(left["id"] != ours["id"]);
}

TEST_CASE("RunPod: the checks say what is wrong and what to do") {
    const auto run = [](RunpodBench& b, const std::string& path, const Sent& sent) {
        b.script([&b, path, sent](const Received& r) {
            return r.target.starts_with(path) ? sent : b.world.answer(r);
        });
        return b.provider().check();
    };
    const struct {
        const char* path;
        Sent sent;
        const char* what;
        Finding::Level level;
        const char* says;
    } rows[] = {
        {"/v2/", problem(401, "missing bearer token"), "key", Finding::Level::failed, "RUNPOD_API_KEY"},
        {"/v2/pods", plain(410, "Gone", "text/plain"), "api", Finding::Level::failed, "api_url"},
        {"/v2/pods", plain(403, "<html>Error 1010</html>", "text/html"), "listing", Finding::Level::failed,
         "1010"},
        {"/v2/billing", problem(403, "access denied"), "scope", Finding::Level::warning, "billing"},
        {"/v2/catalog", problem(403, "access denied"), "scope", Finding::Level::warning, "closed"},
        {"/v2/catalog", plain(200, R"({"gpus":null})"), "offers", Finding::Level::failed, "catalog"},
        {"/graphql", plain(410, ""), "money", Finding::Level::warning, "cannot be read"},
        {"/graphql", plain(200, R"({"data":{"myself":{"clientBalance":-1.5}}})"), "money",
         Finding::Level::failed, "add funds"},
        {"/graphql",
         plain(200, R"({"data":{"myself":{"clientBalance":50,"currentSpendPerHr":80,"spendLimit":80}}})"),
         "quota", Finding::Level::failed, "at most"},
        {"/none", {}, "money", Finding::Level::ok, "$41.87"},
        {"/none", {}, "quota", Finding::Level::ok, "$0.69 of at most $80.00"},
        {"/none", {}, "offers", Finding::Level::ok, "2 kinds"},
    };
    for (const auto& row : rows) {
        CAPTURE(row.path);
        CAPTURE(row.says);
        RunpodBench b;
        const auto findings = run(b, row.path, row.sent);
        const auto* f = find(findings, row.what);
        REQUIRE(f != nullptr);
        CAPTURE(f->text);
        CHECK(f->level == row.level);
        CHECK(f->text.find(row.says) != std::string::npos);
    }
}

TEST_CASE(
    "RunPod: answers that changed their shape or unit are drift, the offers' units are settled where they "
    "can be") {
    RunpodBench b;
    b.world.gpus = {runpod_gpu("a", 0.69), runpod_gpu("b", 0.25), runpod_gpu("c", 0.4)};
    REQUIRE(b.provider().offers({.gpu_counts = {1}}));
    const auto drift_of = [&](const auto& change) {
        b.world.gpus = {runpod_gpu("a", 0.69), runpod_gpu("b", 0.25), runpod_gpu("c", 0.4)};
        for (auto& gpu : b.world.gpus) change(gpu);
        const auto list = b.provider().offers({.gpu_counts = {1}});
        REQUIRE(list);
        return list->drift.empty() ? std::string() : list->drift.front().what;
    };
    CHECK(drift_of([](json&) {}).empty());
    CHECK(drift_of([](json& gpu) { gpu["price"]["secure"] = gpu["price"]["secure"].get<double>() * 100; }) ==
          "price_unit");
    CHECK(drift_of([](json& gpu) { gpu["memory"] = "24"; }) == "type_changed");
    CHECK(drift_of([](json& gpu) { gpu["dataCenters"] = json::object(); }) == "type_changed");
    CHECK(drift_of([](json& gpu) { gpu.erase("price"); }) == "field_missing");
    CHECK(drift_of([](json& gpu) { gpu["memory"] = 9e15; }) == "memory_unit");
    CHECK(drift_of([](json& gpu) { gpu["memory"] = 24564; }).empty());
    const auto list = b.provider().offers({.gpu_counts = {1}});
    REQUIRE(list);
    REQUIRE(!list->offers.empty());
    CHECK(list->offers.front().gpu.memory == Bytes{24564 * kMiB});

    // A listing that used to say whether there is more, and does not any more, is no listing.
    b.world.page = 2;
    for (int i = 0; i < 3; ++i) b.world.add(fmt::format("pod {}", i), json::object());
    REQUIRE(b.provider().list());
    b.world.page = 0;
    const auto silent = b.provider().list();
    REQUIRE(!silent);
    CHECK(silent.error().kind == ErrorKind::malformed);
    b.world.page = 2;
    CHECK(b.provider().list());
    b.script([&](const Received& r) {
        auto answer = b.world.answer(r);
        auto body = json::parse(answer.body);
        for (auto& pod : body["pods"]) pod["cost"] = "0.69";
        answer.body = body.dump();
        return answer;
    });
    const auto odd = b.provider().list();
    REQUIRE(odd);
    CHECK(odd->machines.size() == 3);
    REQUIRE(odd->drift.size() == 1);
    CHECK(odd->drift[0].what == "type_changed");
}

TEST_CASE("RunPod: rates in another unit are drift of the listing, and unknown where a pod is read by itself") {
    RunpodBench b;
    for (int i = 0; i < 2; ++i) b.world.add(fmt::format("pod {}", i), json::object());
    const auto cents = [&](const Received& r) {
        auto answer = b.world.answer(r);
        auto body = json::parse(answer.body);
        if (body.contains("cost")) body["cost"] = body["cost"].get<double>() * 100;
        if (body.contains("pods"))
            for (auto& pod : body["pods"]) pod["cost"] = pod["cost"].get<double>() * 100;
        answer.body = body.dump();
        return answer;
    };
    SUBCASE("of what they were") {
        const auto whole = b.provider().list();
        REQUIRE(whole);
        CHECK(whole->drift.empty());
    }
    SUBCASE("of what the catalog says") { REQUIRE(b.provider().offers({.gpu_counts = {1}})); }
    b.script(cents);
    const auto off = b.provider().list();
    REQUIRE(off);
    REQUIRE(off->machines.size() == 2);
    REQUIRE(off->drift.size() == 1);
    CHECK(off->drift[0].what == "price_unit");
    const auto id = off->machines.front().id;
    const auto one = b.provider().read(id);
    REQUIRE(one);
    CHECK(!one->gpu_rate);
    b.script([&](const Received& r) { return b.world.answer(r); });
    const auto healed = b.provider().list();
    REQUIRE(healed);
    CHECK(healed->drift.empty());
    CHECK(b.provider().read(id)->gpu_rate == UsdPerHour{690'000});
}
