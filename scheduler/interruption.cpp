#include "scheduler/interruption.hpp"

#include <algorithm>
#include <cmath>

#include "scheduler/spot_hazard.hpp"

namespace gf {
namespace {

constexpr int kRoundsMost = 32;
constexpr double kHopelessTimes = 20;  // as long as without losses

/// Expected losses of the prior up to an age, its integral.
double cumulated(bool spot, double hours) {
    return spot ? spell_hazard(Spell::up, 0, hours) : hours / kOnDemandLossHours;
}

double hours_of(Millis t) {
    return static_cast<double>(std::max<std::int64_t>(0, t.count())) / 3.6e6;
}

std::int64_t thousandths(double v) {
    return std::llround(std::min(v, 1e9) * 1000);
}

double factor_of(const LossRecord& record, double prior_factor, double shape) {
    const double seen = static_cast<double>(record.losses) / 1000, expected = static_cast<double>(record.expected) / 1000;
    return (shape + seen) / (shape + expected * prior_factor);
}

}  // namespace

std::string loss_market_key(const Offer& offer) {
    const auto& gpu = offer.gpu.canonical.empty() ? offer.gpu.provider_name : offer.gpu.canonical;
    return offer.provider.get() + "/" + gpu + (offer.spot ? "/spot" : "/on_demand");
}

std::string loss_host_key(const Offer& offer) {
    return offer.host_id.empty() ? std::string() : offer.provider.get() + "/host/" + offer.host_id;
}

double prior_losses(bool spot, Millis from_age, Millis to_age) {
    return std::max(0.0, cumulated(spot, hours_of(to_age)) - cumulated(spot, hours_of(from_age)));
}

LossRecord faded(LossRecord record, Instant now) {
    if (now <= record.at) return record;  // a clock that went back makes nothing older
    const double left = std::exp2(-static_cast<double>((now - record.at).count()) / static_cast<double>(kLossHalfLife.count()));
    for (auto* count : {&record.losses, &record.expected, &record.hours})
        *count = std::llround(static_cast<double>(*count) * left);
    record.at = now;
    return record;
}

LossRecord observed(LossRecord record, bool spot, Millis from_age, Millis to_age, bool lost, Instant now) {
    record = faded(std::move(record), now);
    record.at = std::max(record.at, now);
    record.losses += lost ? 1000 : 0;
    record.expected += thousandths(prior_losses(spot, from_age, to_age));
    record.hours += thousandths(hours_of(to_age) - hours_of(from_age));
    return record;
}

Hazard hazard_of(const Offer& offer, const LossRecord* market, const LossRecord* host, Instant now) {
    Hazard out{.spot = offer.spot};
    if (market != nullptr) {
        const LossRecord m = faded(*market, now);
        out.factor = factor_of(m, 1, kMarketShape);
        out.losses_seen = static_cast<double>(m.losses) / 1000;
        out.hours_seen = static_cast<double>(m.hours) / 1000;
    }
    // The host's own hours were expected to be like its market's, so it is held against that.
    if (host != nullptr) out.factor *= factor_of(faded(*host, now), out.factor, kHostShape);
    out.factor = std::clamp(out.factor, 0.02, 50.0);
    return out;
}

double survival(const Hazard& hazard, double hours) {
    return std::exp(-hazard.factor * cumulated(hazard.spot, std::max(0.0, hours)));
}

double mean_held(const Hazard& hazard, double hours) {
    if (hours <= 0) return 0;
    if (hazard.spot) return spell_remaining(Spell::up, 0, hazard.factor, hours);
    const double rate = hazard.factor / kOnDemandLossHours;
    return rate * hours < 1e-9 ? hours : -std::expm1(-rate * hours) / rate;
}

Outlook outlook(const Hazard& hazard, double work, double start, double redone) {
    const double once = work + start;
    if (once <= 0) return {};
    if (redone < 0) {
        // Tries until one lasts: each is held mean_held on average and succeeds with the chance of survival.
        const double lasts = survival(hazard, once);
        const double held = mean_held(hazard, once);
        if (held >= kHoursMost * lasts) return {kHoursMost, kHoursMost / std::max(held, 1e-6), true};
        return {held / lasts, (1 - lasts) / lasts, false};
    }
    // From below: losses grow with the time held, so this only ever rises to the least solution. What has not settled by the last
    // round is not worth another thousandth.
    const double useless = start + redone, useless_mean = mean_held(hazard, useless);
    double held = once, losses = 0;
    for (int round = 0; round < kRoundsMost; ++round) {
        const double alive = survival(hazard, held), machines = held / mean_held(hazard, held);
        losses = machines * (1 - alive);
        const double next = once + machines * std::max(0.0, useless_mean - useless * alive);
        if (next > kHopelessTimes * once) return {std::min(kHoursMost, next), losses, true};
        if (next - held < 1e-4 * next) return {std::min(kHoursMost, next), losses, false};
        held = next;
    }
    return {std::min(kHoursMost, held), losses, false};
}

}  // namespace gf
