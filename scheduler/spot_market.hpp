// What the spot policy believes of a market at one moment: per offer its price, age and expected life, and
// for each way of drawing a line between "good" and "dear" offers what the job would cost from here on. Part
// of spot_policy.hpp; pure like it.
#pragma once
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "scheduler/spot_policy.hpp"

namespace gf {

inline constexpr double kSpotLifeMax = 24;  // hours; providers have caps and nobody has seen further

/// Expected hours that a spot machine of this key lasts from `now`, at most `horizon_h`.
[[nodiscard]] double key_life(const SpotHistory& history, std::string_view key, Instant now,
                              double horizon_h);

/// What there is to win on a spot machine, in units of an hour at `SpotMarket::unit`.
struct SpotGain {
    double hour_value{0};    // of an hour of progress, units
    double done{0};          // units: what the end of the work saves beyond its hours, as no machine need be started any more
    double changeover_h{0};  // without progress, at first
    double work_h{0};
};

/// One spot offer. Prices and fees are in units of an hour at `SpotMarket::unit`.
struct SpotRoom {
    const SpotOffer* offer{nullptr};
    SpotHistory::KeySet key{0};
    double level{0};
    double fee{0};
    bool up{false};
    double age_h{0};
    double life_h{0};      // expected, from now
    double multiplier{1};  // of the table's rates (spot_hazard.hpp)

    /// What taking it now earns until it is lost or the work is done: the progress and, where it lasts until then,
    /// the end, less its price and fee.
    [[nodiscard]] double earns(const SpotGain& gain) const;
    /// The same for taking it only after it has lasted `wait_h` longer; what is gone by then earns nothing.
    [[nodiscard]] double earns_later(double wait_h, const SpotGain& gain) const;
    /// Whether taking it now earns something, and more than waiting to see it last, for `wait_most_h` at most:
    /// after that no spot machine may be started any more.
    [[nodiscard]] bool ripe(const SpotGain& gain, double look_h, double wait_most_h) const;
};

struct SpotMarket {
    UsdPerHour
        unit;  // the on-demand rate that finishes for least; where there is none, the dearest spot rate
    const SpotOffer* on{nullptr};
    const SpotOffer* sure{nullptr};
    const SpotHistory* history{nullptr};
    Instant now{};
    std::vector<SpotRoom> rooms;  // by price, then key
};
[[nodiscard]] SpotMarket spot_market(const SpotJob& job, std::span<const SpotOffer> by_key,
                                     const SpotOffer* on, const SpotOffer* sure, const SpotHistory& history,
                                     Instant now);

/// The best line between good and dear, and the costs behind it.
struct SpotOutlook {
    SpotMarket market;           // its rooms are the good ones only
    std::vector<SpotRoom> dear;  // spot that is only better than on-demand
    SpotCosts costs;             // in units
    double hour_value{0};        // units per hour
    /// The machine that plays the part of the sure one: on-demand or a dear spot machine.
    [[nodiscard]] const SpotOffer* sure_room(const SpotOffer* on, bool may_start, bool may_stay) const;
};
[[nodiscard]] SpotOutlook spot_outlook(const SpotJob& job, const SpotMarket& market, SpotTables& tables);

}  // namespace gf
