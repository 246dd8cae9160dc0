// What is Vultr's own, against the simulator that was written from the same page by somebody who has not seen
// the adapter.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "providers/vultr/mapping.hpp"
#include "sim_bench.hpp"

using namespace gf;
using namespace gf::test;

namespace {

const std::vector<int> kCounts{1, 2, 4, 8, 16};

bool reaches(SimBench& b, const ProviderMachineId& id, Presence wanted) {
    for (int i = 0; i < 400; ++i) {
        const auto m = b.provider().read(id);
        if (m && m->presence == wanted) return true;
        b.pass(Seconds{3});
    }
    return false;
}

ProviderMachineId rent(SimBench& b, const Offer& offer, int number) {
    const auto out = b.provider().launch(launch_request(offer, number));
    REQUIRE_MESSAGE(!out.error, (out.error ? out.error->message : ""));
    return out.id;
}

}  // namespace

TEST_CASE("Vultr in the simulator: slices, whole cards and whole nodes are told apart") {
    for (const std::string profile : {"observed", "documented"}) {
        CAPTURE(profile);
        SimBench b({.provider = "vultr", .profile = profile});
        const auto list = b.provider().offers({.gpu_counts = kCounts});
        REQUIRE(list);
        REQUIRE(!list->offers.empty());
        for (const auto& drift : list->drift) FAIL_CHECK(drift.what << ": " << drift.detail);
        bool slice = false;
        bool whole = false;
        for (const auto& o : list->offers) {
            CAPTURE(o.id);
            CHECK(o.gpu.memory.has_value());
            CHECK(o.memory.has_value());
            CHECK(o.gpu_rate.micros > 10'000);
            CHECK(o.country.size() == 2);
            CHECK(o.gpu_share > 0);
            CHECK(o.gpu_share <= 1);
            CHECK(o.billing_minimum == std::chrono::hours{1});
            slice = slice || o.gpu_share < 1;
            whole = whole || o.gpu_share == 1;
        }
        CHECK(slice);
        CHECK(whole);
        for (const auto& r : list->rejected) MESSAGE(r.id << ": " << r.reason);
    }
}

TEST_CASE("Vultr in the simulator: a stopped machine is billed on, in full") {
    SimBench b({.provider = "vultr"});
    const auto id = rent(b, b.some_offer(), 1);
    REQUIRE(reaches(b, id, Presence::running));
    const auto before = b.provider().read(id);
    REQUIRE(before);
    REQUIRE(before->ssh);
    CHECK(before->ssh->user == "root");
    REQUIRE(before->created_at);
    b.upstream("/v2/instances/halt", {{"instance_ids", {id.get()}}});
    REQUIRE(reaches(b, id, Presence::stopped));
    const auto halted = b.provider().read(id);
    REQUIRE(halted);
    CHECK(halted->gpu_rate == before->gpu_rate);
    const auto from = b.bill().at("total_micros").get<std::int64_t>();
    b.pass(std::chrono::hours{2});
    CHECK(b.bill().at("total_micros").get<std::int64_t>() >= from + 2 * halted->gpu_rate->micros * 99 / 100);
}

TEST_CASE("Vultr in the simulator: an hour is the least that a machine costs") {
    SimBench b({.provider = "vultr", .scale = 200});
    const auto offer = b.some_offer();
    const auto id = rent(b, offer, 1);
    for (int i = 0; i < 200; ++i) {
        const auto out = b.provider().destroy(id);
        if (out) break;
        REQUIRE(out.error().kind == ErrorKind::unavailable);  // locked
        REQUIRE(out.error().retry_after);
        b.pass(*out.error().retry_after);
    }
    REQUIRE(reaches(b, id, Presence::gone));
    const auto billed = static_cast<double>(b.bill().at("total_micros").get<std::int64_t>());
    const auto hours = billed / static_cast<double>(offer.gpu_rate.micros);
    CHECK(hours > 0.99);
    CHECK(std::abs(hours - std::round(hours)) < 0.01);
}

TEST_CASE("Vultr in the simulator: a machine that was just made is locked, and is destroyed in the end") {
    SimBench b({.provider = "vultr", .scale = 50});
    b.tell("settings", {{"vultr_locked_ms", 60'000}});
    const auto id = rent(b, b.some_offer(), 1);
    const auto locked = b.provider().destroy(id);
    REQUIRE(!locked);
    CHECK(locked.error().kind == ErrorKind::unavailable);
    CHECK(locked.error().retry_after == vultr::kLockedFor);
    bool asked = false;
    for (int i = 0; i < 100 && !asked; ++i) {
        b.pass(vultr::kLockedFor);
        asked = b.provider().destroy(id).has_value();
    }
    CHECK(asked);
    CHECK(b.provider().destroy(id));
    CHECK(reaches(b, id, Presence::gone));
}

TEST_CASE("Vultr in the simulator: its refusals are told apart") {
    const struct {
        nlohmann::json settings;
        ErrorKind kind;
    } rows[] = {{{{"vultr_lost_races", 1}}, ErrorKind::no_capacity},
                {{{"vultr_instance_limit", 1}}, ErrorKind::quota}};
    for (const auto& row : rows) {
        CAPTURE(row.settings.dump());
        SimBench b({.provider = "vultr"});
        const auto offer = b.some_offer();
        if (row.kind == ErrorKind::quota) rent(b, offer, 1);
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

TEST_CASE("Vultr in the simulator: a plan that is sold as preemptible alone is spot, and its loss is seen") {
    SimBench b({.provider = "vultr"});
    const auto list = b.provider().offers({.gpu_counts = kCounts, .on_demand = false});
    REQUIRE(list);
    REQUIRE(!list->offers.empty());
    const auto& offer = list->offers.front();
    CHECK(offer.spot);
    const auto id = rent(b, offer, 1);
    REQUIRE(reaches(b, id, Presence::running));
    const auto m = b.provider().read(id);
    REQUIRE(m);
    CHECK(m->spot);
    CHECK(m->gpu_rate == offer.gpu_rate);
    b.tell("take_back", {{"for_s", 3600}}, id);
    bool lost = false;
    for (int i = 0; i < 100 && !lost; ++i) {
        const auto seen = b.provider().read(id);
        lost = seen && (seen->presence == Presence::stopped || seen->presence == Presence::gone);
        b.pass(Seconds{3});
    }
    CHECK(lost);
}

TEST_CASE("Vultr in the simulator: a long listing comes in pages") {
    SimBench b({.provider = "vultr"});
    b.tell("settings", {{"vultr_page_max", 2}, {"vultr_per_page_clamps", true}});
    const auto offers = b.provider().offers({.gpu_counts = {1}, .spot = false});
    REQUIRE(offers);
    std::size_t made = 0;
    for (const auto& offer : offers->offers) {
        if (made == 5) break;
        if (!b.provider().launch(launch_request(offer, static_cast<int>(made) + 1)).error) ++made;
    }
    REQUIRE(made >= 3);
    b.pass(Seconds{30});
    const auto listing = b.provider().list();
    REQUIRE_MESSAGE(listing, (listing ? "" : listing.error().message));
    CHECK(listing->machines.size() == made);
}

TEST_CASE("Vultr in the simulator: the check tells a wrong key from a wrong address") {
    SimBench b({.provider = "vultr"});
    const auto found = b.provider().check();
    for (const auto& f : found)
        if (f.level == Finding::Level::failed) FAIL_CHECK(f.what << ": " << f.text);
    b.fault(Op::list, Fault::wrong_key);
    const auto wrong = b.provider().check();
    REQUIRE(!wrong.empty());
    CHECK(wrong.front().text.find("mistyped") != std::string::npos);
    b.fault(Op::list, Fault::none);
    b.tell("settings", {{"vultr_allowed_ip", "203.0.113.9"}});
    const auto address = b.provider().check();
    REQUIRE(!address.empty());
    CHECK(address.front().what == "key");
    CHECK(address.front().text.find("list of addresses") != std::string::npos);
}

TEST_CASE("Vultr in the simulator: what is pending is found by the label") {
    SimBench b({.provider = "vultr"});
    const auto request = launch_request(b.some_offer(), 1);
    const auto out = b.provider().launch(request);
    REQUIRE(!out.error);
    REQUIRE(reaches(b, out.id, Presence::running));
    b.pass(std::chrono::hours{3});
    // The simulator reads another date than the bench's clock: all that there is, and nothing of before.
    const auto start = *parse_rfc3339("2020-01-01T00:00:00Z");
    const auto charges = b.provider().charges(start, *parse_rfc3339("2200-01-01T00:00:00Z"));
    REQUIRE_MESSAGE(charges, (charges ? "" : charges.error().message));
    REQUIRE(charges->size() == 1);
    CHECK(charges->front().until > charges->front().from);
    const auto before = b.provider().charges(start, charges->front().from);
    REQUIRE(before);
    CHECK(before->empty());
    CHECK(charges->front().tag == request.tag.get());
    CHECK(charges->front().amount.micros >= 3 * request.offer.gpu_rate.micros * 99 / 100);
}
