// What is Lambda's own, against the simulator that was written from the same page by somebody who has not
// seen the adapter.
#include <doctest/doctest.h>

#include <algorithm>

#include "providers/lambda/mapping.hpp"
#include "sim_bench.hpp"

using namespace gf;
using namespace gf::test;

namespace {

bool reaches(SimBench& b, const ProviderMachineId& id, Presence wanted) {
    for (int i = 0; i < 300; ++i) {
        const auto m = b.provider().read(id);
        if (m && m->presence == wanted) return true;
        b.pass(Seconds{3});
    }
    return false;
}

ProviderMachineId rent(SimBench& b, int number) {
    const auto out = b.provider().launch(launch_request(b.some_offer(), number));
    REQUIRE_MESSAGE(!out.error, (out.error ? out.error->message : ""));
    return out.id;
}

std::size_t keys_of_ours(SimBench& b) {
    const auto keys = b.upstream("/api/v1/ssh-keys");
    return static_cast<std::size_t>(std::ranges::count_if(keys.at("data"), [](const auto& key) {
        return key.at("name").template get<std::string>().starts_with("gf-testtest-");
    }));
}

}  // namespace

TEST_CASE("Lambda in the simulator: offers have cards, memory, prices and places") {
    SimBench b({.provider = "lambda"});
    const auto list = b.provider().offers({.gpu_counts = {1, 2, 4, 8}});
    REQUIRE(list);
    REQUIRE(!list->offers.empty());
    for (const auto& o : list->offers) {
        CAPTURE(o.id);
        CHECK(o.gpu.memory.has_value());
        CHECK(o.memory.has_value());
        CHECK(o.disk_max.has_value());
        CHECK(o.gpu_rate.micros > 100'000);
        CHECK(!o.region.empty());
        CHECK((o.arch == "arm64") == (o.id.find("gh200") != std::string::npos));
    }
    CHECK(list->drift.empty());
}

TEST_CASE("Lambda in the simulator: nothing is billed before the health checks have passed") {
    SimBench b({.provider = "lambda", .scale = 100});
    const auto id = rent(b, 1);
    const auto m = b.provider().read(id);
    REQUIRE(m);
    REQUIRE(m->presence == Presence::booting);
    CHECK(m->gpu_rate == UsdPerHour{0});
    CHECK(!m->ssh);
    CHECK(b.bill().at("total_micros") == 0);
    REQUIRE(reaches(b, id, Presence::running));
    const auto up = b.provider().read(id);
    REQUIRE(up);
    REQUIRE(up->ssh);
    CHECK(up->ssh->user == "ubuntu");
    b.pass(std::chrono::minutes{5});
    CHECK(b.bill().at("total_micros") > 0);
}

TEST_CASE("Lambda in the simulator: our key is registered once and tidied away with the last machine") {
    SimBench b({.provider = "lambda"});
    b.upstream("/api/v1/ssh-keys", {{"name", "alice"}, {"public_key", "ssh-ed25519 AAAAalice alice"}});
    const auto first = rent(b, 1);
    const auto second = rent(b, 2);
    CHECK(keys_of_ours(b) == 1);
    REQUIRE(b.provider().destroy(first));
    REQUIRE(b.provider().tidy());
    CHECK(keys_of_ours(b) == 1);
    REQUIRE(b.provider().destroy(second));
    REQUIRE(reaches(b, first, Presence::gone));
    REQUIRE(reaches(b, second, Presence::gone));
    REQUIRE(b.provider().tidy());
    CHECK(keys_of_ours(b) == 0);
    CHECK(b.upstream("/api/v1/ssh-keys").at("data").size() == 1);
    rent(b, 3);
    CHECK(keys_of_ours(b) == 1);
}

TEST_CASE("Lambda in the simulator: its refusals are told apart") {
    const struct {
        nlohmann::json settings;
        ErrorKind kind;
    } rows[] = {{{{"lambda_lost_races", 1}}, ErrorKind::no_capacity},
                {{{"lambda_account_inactive", true}}, ErrorKind::auth},
                {{{"lambda_instance_limit", 1}}, ErrorKind::quota}};
    for (const auto& row : rows) {
        CAPTURE(row.settings.dump());
        SimBench b({.provider = "lambda"});
        const auto offer = b.some_offer();
        if (row.kind == ErrorKind::quota) rent(b, 1);
        b.tell("settings", row.settings);
        const auto before = b.machines();
        const auto out = b.provider().launch(launch_request(offer, 2));
        REQUIRE(out.error);
        CAPTURE(out.error->message);
        CHECK(out.error->kind == row.kind);
        CHECK(out.id.empty());
        CHECK(b.machines() == before);
    }
}

TEST_CASE("Lambda in the simulator: terminating twice, in every status that it may be answered with") {
    for (const int status : {400, 404, 409, 500, 200}) {
        CAPTURE(status);
        SimBench b({.provider = "lambda", .scale = 100});
        b.tell("settings", {{"lambda_second_terminate", status}, {"lambda_terminate_ms", 600'000}});
        const auto id = rent(b, 1);
        REQUIRE(reaches(b, id, Presence::running));
        REQUIRE(b.provider().destroy(id));
        const auto again = b.provider().destroy(id);
        REQUIRE_MESSAGE(again, (again ? "" : again.error().message));
        const auto m = b.provider().read(id);
        REQUIRE(m);
        CHECK(m->presence == Presence::failed);  // still there
    }
}

TEST_CASE(
    "Lambda in the simulator: a machine that comes up unhealthy, or is taken back, is not taken for a "
    "running one") {
    SimBench b({.provider = "lambda"});
    b.tell("settings", {{"lambda_boots_unhealthy", true}});
    const auto id = rent(b, 1);
    CHECK(reaches(b, id, Presence::unknown));
    b.tell("settings", {{"lambda_boots_unhealthy", false}, {"lambda_terminated_kept_ms", 3'600'000}});
    const auto other = rent(b, 2);
    REQUIRE(reaches(b, other, Presence::running));
    b.tell("take_back", {{"for_s", 3600}}, other);
    bool lost = false;
    for (int i = 0; i < 100 && !lost; ++i) {
        const auto m = b.provider().read(other);
        lost = m && m->presence != Presence::running && m->presence != Presence::booting;
        b.pass(Seconds{3});
    }
    CHECK(lost);
}

TEST_CASE("Lambda in the simulator: its limits are kept") {
    SimBench b({.provider = "lambda", .scale = 10, .intervals = true});
    const auto id = rent(b, 1);
    rent(b, 2);
    for (int i = 0; i < 3; ++i) {
        const auto listing = b.provider().list();
        REQUIRE_MESSAGE(listing, (listing ? "" : listing.error().message));
    }
    REQUIRE(b.provider().destroy(id));
}

TEST_CASE("Lambda in the simulator: the check finds the account in order, and a key that is not") {
    SimBench b({.provider = "lambda"});
    const auto found = b.provider().check();
    CHECK(std::ranges::none_of(found, [](const Finding& f) { return f.level == Finding::Level::failed; }));
    b.fault(Op::list, Fault::wrong_key);
    const auto wrong = b.provider().check();
    REQUIRE(!wrong.empty());
    CHECK(wrong.front().what == "key");
    CHECK(wrong.front().level == Finding::Level::failed);
}
