#include "scheduler/interruption.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "offers.hpp"

using namespace gf;
using std::chrono::hours;
using std::chrono::minutes;

namespace {

constexpr Hazard kSpot{.spot = true};
constexpr Hazard kFixed{.spot = false};

/// A repeatable stream of numbers in (0, 1).
struct Stream {
    std::uint64_t state{0x9E3779B97F4A7C15ULL};
    double next() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        return (static_cast<double>(state >> 11) + 0.5) / 9007199254740992.0;
    }
};

/// An age at which a machine is lost, drawn from `survival` by bisection; above `most` it does not matter how far.
double drawn_age(const Hazard& hazard, double u, double most) {
    if (survival(hazard, most) >= u) return most + 1;
    double low = 0, high = most;
    for (int i = 0; i < 40; ++i) {
        const double middle = (low + high) / 2;
        (survival(hazard, middle) >= u ? low : high) = middle;
    }
    return high;
}

/// Hours of machines for a job, played out.
double played(const Hazard& hazard, double work, double start, double redone, Stream& stream) {
    double held = 0, done = 0;
    for (int machine = 0; machine < 10'000; ++machine) {
        const double needed = start + work - done;
        const double age = drawn_age(hazard, stream.next(), needed);
        if (age > needed) return held + needed;
        held += age;
        if (redone >= 0) done += std::max(0.0, age - start - 2 * redone * stream.next());
    }
    return held;
}

}  // namespace

TEST_CASE("the spot prior is the public traces': the young are fragile, the old are not") {
    // Chance to be gone within the next ten minutes, by age in ticks of ten minutes (spot_hazard.hpp).
    struct Row {
        int age_ticks;
        double chance;
    };
    for (const Row& row : {Row{0, 0.33}, {1, 0.21}, {2, 0.14}, {3, 0.14}, {5, 0.090}, {10, 0.050}, {20, 0.033}, {40, 0.020}, {100, 0.011}}) {
        CAPTURE(row.age_ticks);
        const double from = row.age_ticks / 6.0, to = from + 1 / 6.0;
        CHECK(1 - survival(kSpot, to) / survival(kSpot, from) == doctest::Approx(row.chance).epsilon(1e-6));
    }
    CHECK(survival(kFixed, 720) == doctest::Approx(std::exp(-1.0)));
    CHECK(survival(kSpot, 0) == 1);
    CHECK(survival(kSpot, -5) == 1);
    CHECK(prior_losses(true, Millis{0}, minutes{10}) == doctest::Approx(-std::log(1 - 0.33)));
    CHECK(prior_losses(true, hours{100}, hours{101}) < prior_losses(true, Millis{0}, minutes{10}));
    CHECK(prior_losses(false, hours{3}, hours{3}) == 0);
    CHECK(prior_losses(false, hours{5}, hours{3}) == 0);
}

TEST_CASE("the mean time held is the integral of survival") {
    for (const Hazard hazard : {kSpot, kFixed, Hazard{.spot = true, .factor = 4}, Hazard{.spot = true, .factor = 0.1}})
        for (const double until : {0.05, 0.5, 3.0, 30.0}) {
            double sum = 0;
            constexpr int kPieces = 20'000;
            for (int i = 0; i < kPieces; ++i) sum += survival(hazard, (i + 0.5) * until / kPieces) * until / kPieces;
            CHECK(mean_held(hazard, until) == doctest::Approx(sum).epsilon(1e-3));
        }
    CHECK(mean_held(kSpot, 0) == 0);
}

TEST_CASE("a flat hazard is met exactly") {
    const double rate = 1 / kOnDemandLossHours;
    const auto with = outlook(kFixed, 100, 0.1, 0.2);
    CHECK(with.held == doctest::Approx(100.1 * std::exp(rate * 0.3)).epsilon(1e-3));
    CHECK(with.losses == doctest::Approx(with.held * rate).epsilon(1e-3));
    const auto without = outlook(kFixed, 100, 0.1, -1);
    CHECK(without.held == doctest::Approx(std::expm1(rate * 100.1) / rate).epsilon(1e-6));
    CHECK(without.losses == doctest::Approx(std::expm1(rate * 100.1)).epsilon(1e-6));
    CHECK(outlook(kFixed, 0, 0, 0.1).held == 0);
}

TEST_CASE("what is expected on spot is what comes of playing it out") {
    struct Row {
        double factor, work, start, redone;
    };
    const Row table[] = {{1, 1, 0.1, 0.083}, {1, 10, 0.1, 0.083}, {1, 48, 0.2, 0.25}, {0.3, 20, 0.2, 0.5},
                         {3, 5, 0.05, 0.083}, {1, 0.5, 0.1, -1},  {1, 2, 0.1, -1},    {0.3, 6, 0.1, -1}};
    for (const auto& row : table) {
        CAPTURE(row.factor);
        CAPTURE(row.work);
        CAPTURE(row.redone);
        const Hazard hazard{.spot = true, .factor = row.factor};
        Stream stream;
        double sum = 0;
        constexpr int kRuns = 4'000;
        for (int i = 0; i < kRuns; ++i) sum += played(hazard, row.work, row.start, row.redone, stream);
        const auto expected = outlook(hazard, row.work, row.start, row.redone);
        CAPTURE(sum / kRuns);
        CAPTURE(expected.held);
        // The time without losses is certain; what losses add is an approximation with checkpoints and exact without.
        const double base = row.work + row.start;
        CHECK(expected.held - base == doctest::Approx(sum / kRuns - base).epsilon(row.redone < 0 ? 0.08 : 0.20));
        CHECK(!expected.hopeless);
    }
}

TEST_CASE("a long job without checkpoints on spot is hopeless, and stays a number") {
    for (const auto& o : {outlook(kSpot, 1'000, 0.1, -1), outlook(Hazard{.spot = true, .factor = 50}, 100, 0.5, 1)}) {
        CHECK(o.hopeless);
        CHECK(o.held <= kHoursMost);
        CHECK(o.held > 1'000);
        CHECK(std::isfinite(o.losses));
    }
    CHECK(outlook(kFixed, 1e12, 0.1, 0.1).held <= kHoursMost);
}

TEST_CASE("own history moves the prior, by its hours and by its losses") {
    Offer offer = test::offer();
    offer.spot = true;
    offer.host_id = "31877";
    CHECK(loss_market_key(offer) == "vastai/RTX-4090/spot");
    CHECK(loss_host_key(offer) == "vastai/host/31877");
    const auto after = [&](int machines, Millis age, bool lost) {
        LossRecord record{.key = loss_market_key(offer), .at = test::kNow};
        for (int i = 0; i < machines; ++i) record = observed(std::move(record), true, Millis{0}, age, lost, test::kNow);
        return record;
    };
    const auto factor = [&](const LossRecord* market, const LossRecord* host = nullptr) {
        return hazard_of(offer, market, host, test::kNow).factor;
    };
    CHECK(factor(nullptr) == 1);
    const auto calm = after(10, hours{10}, false), wild = after(10, minutes{10}, true);
    CHECK(factor(&calm) < 0.2);
    CHECK(factor(&wild) > 1.8);
    CHECK(calm.hours == 100'000);
    CHECK(wild.losses == 10'000);
    CHECK(hazard_of(offer, &wild, nullptr, test::kNow).losses_seen == 10);
    // Machines that were lost as often as the prior says change nothing.
    const double per_machine = prior_losses(true, Millis{0}, minutes{10});
    LossRecord usual{.at = test::kNow};
    usual.losses = 40'000;
    usual.expected = 40'000;
    CHECK(factor(&usual) == 1);
    CHECK(per_machine == doctest::Approx(0.40).epsilon(0.01));
    // A host like its market is left alone; a worse one is worse.
    const auto host_calm = after(3, hours{10}, false), host_wild = after(3, minutes{10}, true);
    CHECK(factor(&calm, &host_wild) > factor(&calm));
    CHECK(factor(nullptr, &host_calm) < 1);
    // It fades: after ten half-lives next to nothing is left.
    CHECK(hazard_of(offer, &wild, nullptr, test::kNow + 10 * kLossHalfLife).factor == doctest::Approx(1).epsilon(0.01));
    CHECK(faded(wild, test::kNow + kLossHalfLife).losses == 5'000);
    CHECK(faded(wild, test::kNow - hours{1}) == wild);
    // Bounded whatever was seen.
    LossRecord absurd{.losses = 1'000'000'000, .expected = 0, .at = test::kNow};
    CHECK(factor(&absurd) == 50);
    absurd = {.losses = 0, .expected = 1'000'000'000, .at = test::kNow};
    CHECK(factor(&absurd) == 0.02);
}

TEST_CASE("markets are told apart by provider, card and way of renting") {
    Offer offer = test::offer();
    CHECK(loss_market_key(offer) == "vastai/RTX-4090/on_demand");
    CHECK(loss_host_key(offer).empty());
    offer.gpu.canonical.clear();
    offer.gpu.provider_name = "NVIDIA";
    CHECK(loss_market_key(offer) == "vastai/NVIDIA/on_demand");
}
