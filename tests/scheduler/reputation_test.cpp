#include "scheduler/reputation.hpp"

#include <doctest/doctest.h>

#include "offers.hpp"
#include "scheduler/filters.hpp"

using namespace gf;
using gf::test::kNow;

namespace {

constexpr Millis kHour = std::chrono::hours{1};

Offer at(std::string host, std::string owner = {}, std::string data_center = {}) {
    Offer o = test::offer();
    o.host_id = std::move(host);
    o.host_owner = std::move(owner);
    o.data_center = std::move(data_center);
    return o;
}

/// Marks as a run of events leaves them.
struct Past {
    HostMarks marks;
    Past& add(const Offer& offer, HostEvent event, Instant when = kNow, std::int64_t share = 1000) {
        const auto changes = note_host(marks, offer, event, "something", when, share);
        for (const auto& mark : changes.put) marks[mark.key] = mark;
        for (const auto& key : changes.drop) marks.erase(key);
        return *this;
    }
};

Decision choose_with(const HostMarks& marks, const std::vector<Offer>& offers, Instant now = kNow) {
    ChoiceWorld world = test::world();
    world.now = now;
    world.host_marks = std::make_shared<HostMarks>(marks);
    return choose(test::job(), {}, offers, world);
}

}  // namespace

TEST_CASE("one fault is a handicap, a second one before the first has faded is an exclusion that grows") {
    using enum HostEvent;
    struct Row {
        const char* what;
        std::vector<HostEvent> events;
        bool out;
        Millis least, most;  // of the exclusion
    };
    const Row rows[] = {
        {"nothing", {}, false, {}, {}},
        {"one boot failure", {boot_failure}, false, {}, {}},
        {"one check failure", {check_failure}, false, {}, {}},
        {"a slow start and a boot failure", {slow_start, boot_failure}, true, {}, kHour},
        {"two slow starts", {slow_start, slow_start}, false, {}, {}},
        {"two boot failures", {boot_failure, boot_failure}, true, 29 * kHour, 31 * kHour},
        {"a boot failure and an early loss", {boot_failure, early_loss}, true, 29 * kHour, 31 * kHour},
        {"three", {boot_failure, boot_failure, early_loss}, true, 71 * kHour, 73 * kHour},
        {"twenty", std::vector<HostEvent>(20, boot_failure), true, 143 * kHour, 145 * kHour},
        {"two, healed by two good runs", {boot_failure, boot_failure, good_run, good_run}, false, {}, {}},
        {"four takings by the market", {taken_early, taken_early, taken_early, taken_early}, false, {}, {}},
    };
    for (const Row& row : rows) {
        CAPTURE(std::string(row.what));
        Past past;
        for (const HostEvent event : row.events) past.add(at("h"), event);
        const Standing s = standing(past.marks, at("h"), kNow);
        CHECK(s.out_until.has_value() == row.out);
        if (!s.out_until) continue;
        CHECK(*s.out_until - kNow >= row.least);
        CHECK(*s.out_until - kNow <= row.most);
        // Level-driven: around the told time (counts are whole thousandths) it is over, before it is not.
        CHECK(standing(past.marks, at("h"), *s.out_until - std::chrono::minutes{10}).out_until.has_value());
        CHECK(!standing(past.marks, at("h"), *s.out_until + std::chrono::minutes{10}).out_until.has_value());
    }
}

TEST_CASE("faults decay with their half-life and are forgotten in the end") {
    Past past;
    past.add(at("h"), HostEvent::boot_failure);
    const HostMarkRecord& mark = past.marks.begin()->second;
    CHECK(mark.key == "vastai/host/h");
    CHECK(mark_weight(mark, kNow) == 1000);
    CHECK(mark_weight(mark, kNow + kMarkHalfLife) == 500);
    CHECK(mark_weight(mark, kNow + 2 * kMarkHalfLife) == 250);
    CHECK(mark_weight(mark, kNow - kMarkHalfLife) == 1000);  // a clock that went back makes nothing worse
    CHECK(!mark_forgotten(mark, kNow + 3 * kMarkHalfLife));
    CHECK(mark_forgotten(mark, kNow + 4 * kMarkHalfLife));
    CHECK(faint_marks(past.marks, kNow + 3 * kMarkHalfLife).empty());
    CHECK(faint_marks(past.marks, kNow + 4 * kMarkHalfLife) == std::vector<std::string>{"vastai/host/h"});
    // Half a year apart they do not add up.
    past.add(at("h"), HostEvent::boot_failure, kNow + std::chrono::hours{24 * 180});
    CHECK(mark_weight(past.marks.begin()->second, kNow + std::chrono::hours{24 * 180}) == 1000);
}

TEST_CASE("a good run heals, makes no mark of its own, and leaves the time of the last fault alone") {
    Past past;
    past.add(at("h"), HostEvent::good_run);
    CHECK(past.marks.empty());
    past.add(at("h"), HostEvent::boot_failure).add(at("h"), HostEvent::boot_failure);
    const Instant later = kNow + kMarkHalfLife;
    past.add(at("h"), HostEvent::good_run, later);
    const HostMarkRecord& mark = past.marks.begin()->second;
    CHECK(mark.at == kNow);
    CHECK(mark.last == "something");
    CHECK(faded(mark, later).good_runs == 1000);
    CHECK(mark_weight(mark, later) == 500);
}

TEST_CASE("an owner and a data centre are held to several different hosts") {
    using enum HostEvent;
    SUBCASE("the same host again says nothing new of its owner") {
        Past past;
        for (int i = 0; i < 9; ++i) past.add(at("h", "own", "dc"), boot_failure);
        CHECK(mark_weight(past.marks.at("vastai/owner/own"), kNow) == 1000);
        CHECK(mark_weight(past.marks.at("vastai/dc/dc"), kNow) == 1000);
        CHECK(standing(past.marks, at("other", "own", "dc"), kNow).handicap_percent == 0);
    }
    SUBCASE("three hosts of one owner: none of that owner's for a while") {
        Past past;
        for (const char* host : {"a", "b"}) past.add(at(host, "own"), boot_failure);
        const Standing two = standing(past.marks, at("other", "own"), kNow);
        CHECK(!two.out_until);
        CHECK(two.handicap_percent > 0);
        CHECK(two.handicap_percent < standing(past.marks, at("a", "own"), kNow).handicap_percent);
        past.add(at("c", "own"), boot_failure).add(at("d", "own"), boot_failure);
        const Standing many = standing(past.marks, at("other", "own"), kNow);
        REQUIRE(many.out_until);
        CHECK(many.about == "owner own");
        CHECK(!standing(past.marks, at("other", "somebody"), kNow).out_until);
    }
    SUBCASE("a data centre whose hosts have no names: each fault counts half") {
        Past past;
        for (int i = 0; i < 4; ++i) past.add(at("", "", "EU-RO-1"), boot_failure);
        CHECK(mark_weight(past.marks.at("vastai/dc/EU-RO-1"), kNow) == 2000);
        CHECK(!standing(past.marks, at("", "", "EU-RO-1"), kNow).out_until);
        for (int i = 0; i < 7; ++i) past.add(at("", "", "EU-RO-1"), boot_failure);
        CHECK(standing(past.marks, at("", "", "EU-RO-1"), kNow).out_until);
    }
    SUBCASE("another provider's host of the same name is another host") {
        Past past;
        past.add(at("h"), boot_failure).add(at("h"), boot_failure);
        Offer other = at("h");
        other.provider = ProviderName{"runpod"};
        CHECK(!standing(past.marks, other, kNow).out_until);
    }
}

TEST_CASE("marks are bounded: the faintest goes, never one that has just been written") {
    Past past;
    for (std::size_t i = 0; i < kMarksMost; ++i) past.add(at("h" + std::to_string(i)), HostEvent::boot_failure, kNow + Millis{static_cast<std::int64_t>(i) * 60'000});
    REQUIRE(past.marks.size() == kMarksMost);
    const Instant later = kNow + std::chrono::hours{100};
    const auto changes = note_host(past.marks, at("new"), HostEvent::boot_failure, "x", later);
    REQUIRE(changes.put.size() == 1);
    CHECK(changes.drop == std::vector<std::string>{"vastai/host/h0"});
    CHECK(note_host(past.marks, at("h0"), HostEvent::boot_failure, "x", later).drop.empty());
}

TEST_CASE("choosing: a host of bad repute is ranked dearer or left out, and says why") {
    Offer cheap = at("31877"), dear = at("2");
    cheap.id = "cheap";
    dear.id = "dear";
    cheap.gpu_rate = UsdPerHour{300'000};
    dear.gpu_rate = UsdPerHour{330'000};
    Past past;
    CHECK(choose_with(past.marks, {cheap, dear}).chosen->offer.id == "cheap");
    past.add(cheap, HostEvent::boot_failure);
    {
        const Decision d = choose_with(past.marks, {cheap, dear});
        CHECK(d.chosen->offer.id == "dear");
        REQUIRE(d.ranked.size() == 2);
        // The price that is shown stays the price that is paid.
        CHECK(d.ranked[1].all_in == UsdPerHour{300'000});
        CHECK(d.ranked[1].ranked_at == UsdPerHour{360'000});
        CHECK(d.ranked[1].host_note == "host 31877: 1 boot failure in the last days, ranked 20 % dearer; the last: something");
        CHECK(decision_json(d).find("ranked 20 % dearer") != std::string::npos);
        CHECK(d.ranked[0].host_note.empty());
    }
    CHECK(choose_with(past.marks, {cheap, dear}, kNow + 2 * kMarkHalfLife).chosen->offer.id == "cheap");
    past.add(cheap, HostEvent::boot_failure);
    {
        const Decision d = choose_with(past.marks, {cheap});
        CHECK(!d.chosen);
        CHECK(d.wait_reason == "host_reputation");
        CHECK(d.refused.at("host_reputation") == 1);
        REQUIRE(d.near_misses.size() == 1);
        CHECK(d.near_misses[0].detail.starts_with("host 31877: 2 boot failures in the last days, out until 2026-"));
    }
}

TEST_CASE("where nothing else would do, a task that has waited takes a host of bad repute after all") {
    const Offer bad = at("h");
    Past past;
    past.add(bad, HostEvent::boot_failure).add(bad, HostEvent::boot_failure);
    ChoiceWorld world = test::world();
    world.host_marks = std::make_shared<HostMarks>(past.marks);
    TaskRecord task;
    task.waiting_since = kNow - kReputePatience + Millis{1};
    const std::vector<Offer> only{bad};
    CHECK(!choose(test::job(), task, only, world).chosen);
    task.waiting_since = kNow - kReputePatience;
    const Decision d = choose(test::job(), task, only, world);
    REQUIRE(d.chosen);
    CHECK(d.chosen->host_note.find("2 boot failures") != std::string::npos);
    Offer good = at("g");
    good.id = "good";
    good.gpu_rate = UsdPerHour{9'000'000};
    CHECK(choose(test::job(), task, std::vector<Offer>{bad, good}, world).chosen->offer.id == "good");
    // What it cannot have for another reason it does not get for this one.
    JobSpec capped = test::job();
    capped.resources.max_price = UsdPerHour{1};
    CHECK(!choose(capped, task, only, world).chosen);
}

TEST_CASE("the local machine has no repute") {
    Offer local = at("h");
    local.provider = ProviderName{"local"};
    Past past;
    for (int i = 0; i < 5; ++i) past.add(local, HostEvent::boot_failure);
    CHECK(choose_with(past.marks, {local}).chosen);
}
