#include "scheduler/throughput.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "offers.hpp"
#include "speeds.hpp"

using namespace gf;
using std::chrono::hours;
using std::chrono::minutes;

namespace {

RunPlace on(const char* card, int gpus = 1, int share = 1000) {
    return {.card = card, .gpus = gpus, .share_thousandths = share};
}

/// `looks` observations of ten minutes each at so many steps an hour.
ThroughputRecord seen(RunPlace place, double steps_per_hour, int looks, Instant at = test::kNow) {
    ThroughputRecord record{.family = "voices/1", .unit = WorkUnit::step, .place = std::move(place), .at = at};
    for (int i = 0; i < looks; ++i)
        record = observed(std::move(record), std::llround(steps_per_hour * 1000 / 6), minutes{10}, at);
    return record;
}

std::optional<SpeedEstimate> speed_on(const std::vector<ThroughputRecord>& records, const RunPlace& place,
                                      WorkKind work = WorkKind::training, Instant now = test::kNow) {
    return estimate_speed(records, place, work, test::card_speeds(), now);
}

}  // namespace

TEST_CASE("a family is project, kind, image, command and model, and nothing else") {
    JobSpec spec = test::job();
    spec.name = "sovits-1";
    spec.project = "voices";
    spec.image = "a:1";
    const std::string family = family_of(spec);
    CHECK(family.starts_with("voices/"));
    CHECK(family.size() == 7 + 16);
    struct Row {
        const char* what;
        void (*change)(JobSpec&);
        bool same;
    };
    const Row table[] = {{"name", [](JobSpec& s) { s.name = "sovits-2"; }, true},
                         {"env", [](JobSpec& s) { s.env["SEED"] = "7"; }, true},
                         {"gpus", [](JobSpec& s) { s.resources.gpus = 4; }, true},
                         {"limits", [](JobSpec& s) { s.limits.duration = hours{1}; }, true},
                         {"project", [](JobSpec& s) { s.project = "other"; }, false},
                         {"kind", [](JobSpec& s) { s.kind = JobKind::batch_inference; }, false},
                         {"image", [](JobSpec& s) { s.image = "a:2"; }, false},
                         {"model", [](JobSpec& s) { s.estimate = MemoryEstimate{.model = "meta-llama/Llama-3.1-8B"}; }, false},
                         {"run", [](JobSpec& s) { s.run += " --lr 1"; }, false},
                         // Where one part ends and the next begins matters.
                         {"shifted", [](JobSpec& s) { s.image = "a:"; s.run = "1true"; }, false}};
    for (const auto& row : table) {
        CAPTURE(std::string(row.what));
        JobSpec other = spec;
        row.change(other);
        CHECK((family_of(other) == family) == row.same);
    }
}

TEST_CASE("own observations are the speed, whatever the prior says") {
    const auto speed = speed_on({seen(on("RTX-3090"), 1200, 6)}, on("RTX-3090"));
    REQUIRE(speed.has_value());
    CHECK(speed->units_per_hour == doctest::Approx(1200));
    CHECK(speed->own == 6);
    CHECK(speed->other == 0);
    CHECK(speed->spread < 0.05);
    // A card that is not in any table is known by what it showed.
    CHECK(speed_on({seen(on("homemade"), 500, 1)}, on("homemade"))->units_per_hour == doctest::Approx(500));
}

TEST_CASE("another card's observations are scaled by the prior, and weigh less") {
    const double ratio = test::card_speeds().card("RTX-4090", WorkKind::training)->relative /
                         test::card_speeds().card("RTX-3090", WorkKind::training)->relative;
    const std::vector<ThroughputRecord> elsewhere{seen(on("RTX-3090"), 1000, 50)};
    const auto scaled = speed_on(elsewhere, on("RTX-4090"));
    REQUIRE(scaled.has_value());
    CHECK(scaled->units_per_hour == doctest::Approx(1000 * ratio));
    CHECK(scaled->own == 0);
    CHECK(scaled->other == 50);
    CHECK(scaled->spread > 0.2);
    // One look on the card itself outweighs fifty on another.
    auto both = elsewhere;
    both.push_back(seen(on("RTX-4090"), 1000, 1));
    const auto own = speed_on(both, on("RTX-4090"));
    CHECK(std::abs(std::log(own->units_per_hour / 1000)) < std::abs(std::log(own->units_per_hour / (1000 * ratio))) / 4);
    CHECK(own->own == 1);
    CHECK(own->spread < scaled->spread);
    // The kind of work decides the ratio: L40S beside RTX 3090 in training and in decoding.
    CHECK(speed_on(elsewhere, on("L40S"), WorkKind::training)->units_per_hour > 1100);
    CHECK(speed_on(elsewhere, on("L40S"), WorkKind::decode)->units_per_hour < 1000);
}

TEST_CASE("counts and shares of one card inform each other") {
    const std::vector<ThroughputRecord> records{seen(on("A100-SXM-80GB", 2), 1800, 5)};
    const double one = speed_on(records, on("A100-SXM-80GB", 1))->units_per_hour;
    const double eight = speed_on(records, on("A100-SXM-80GB", 8))->units_per_hour;
    const auto& speeds = test::card_speeds();
    CHECK(one == doctest::Approx(1800 / speeds.scaling(2, true)));
    CHECK(eight == doctest::Approx(1800 / speeds.scaling(2, true) * speeds.scaling(8, true)));
    CHECK(speed_on(records, on("A100-SXM-80GB", 1, 250))->units_per_hour == doctest::Approx(one / 4));
}

TEST_CASE("nothing that tells of the place is nothing") {
    CHECK(!speed_on({}, on("RTX-4090")).has_value());
    CHECK(!speed_on({seen(on("RTX-3090"), 1000, 3)}, on("homemade")).has_value());
    CHECK(!speed_on({seen(on("homemade"), 1000, 3)}, on("RTX-3090")).has_value());
    CHECK(!speed_on({ThroughputRecord{.place = on("RTX-3090"), .at = test::kNow}}, on("RTX-3090")).has_value());
}

TEST_CASE("what tells nothing changes nothing") {
    const auto record = seen(on("RTX-3090"), 1000, 2);
    for (const auto& [work, busy] : {std::pair<std::int64_t, Millis>{0, minutes{10}},
                                     {-5'000, minutes{10}},
                                     {1'000, Millis{0}},
                                     {1'000, std::chrono::seconds{29}},
                                     {1'000, minutes{-3}}}) {
        CHECK(!tells(work, busy));
        CHECK(observed(record, work, busy, test::kNow) == record);
    }
    CHECK(tells(1, std::chrono::seconds{30}));
}

TEST_CASE("the old fades behind the new, and is forgotten in the end") {
    auto record = seen(on("RTX-3090"), 1000, 4);
    const Instant later = test::kNow + 4 * kThroughputHalfLife;
    CHECK(faded(record, test::kNow + kThroughputHalfLife).looks == 2'000);
    CHECK(faded(record, test::kNow - hours{1}) == record);
    auto newer = record;
    for (int i = 0; i < 4; ++i) newer = observed(std::move(newer), 2'000'000 / 6, minutes{10}, later);
    CHECK(speed_on({newer}, on("RTX-3090"), WorkKind::training, later)->units_per_hour > 1900);
    CHECK(!forgotten(record, later));
    CHECK(forgotten(record, test::kNow + 10 * kThroughputHalfLife));
    CHECK(!speed_on({record}, on("RTX-3090"), WorkKind::training, test::kNow + 10 * kThroughputHalfLife).has_value());
    // A day of watching counts as a day of looks.
    CHECK(observed({}, 1'000'000, hours{24}, test::kNow).looks == 24'000);
}

TEST_CASE("the order of the records does not matter to the last bit") {
    std::vector<ThroughputRecord> records{seen(on("RTX-3090"), 1000, 3), seen(on("A10"), 700, 2), seen(on("T4"), 350, 1),
                                          seen(on("A100-SXM-80GB", 2), 4000, 7), seen(on("RTX-4090"), 1500, 2)};
    const auto by_place = [](const ThroughputRecord& r) { return r.place; };
    std::ranges::sort(records, {}, by_place);
    const double first = speed_on(records, on("L4"))->units_per_hour;
    int orders = 0;
    do {
        REQUIRE(speed_on(records, on("L4"))->units_per_hour == first);
        ++orders;
    } while (std::ranges::next_permutation(records, {}, by_place).found);
    CHECK(orders == 120);
}

TEST_CASE("the place is the offer's card, count and share") {
    Offer offer = test::offer();
    offer.gpu_count = 4;
    CHECK(place_of(offer, 1, false) == on("RTX-4090", 4));
    CHECK(place_of(offer, 0.25, false) == on("RTX-4090", 4, 250));
    CHECK(place_of(offer, 7, false) == on("RTX-4090", 4));
    CHECK(place_of(offer, std::nan(""), false) == on("RTX-4090", 4, 0));
    CHECK(place_of(offer, -1, false) == on("RTX-4090", 4, 0));
}
