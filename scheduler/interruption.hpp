// How often machines are taken away or break, and what that does to the time that a job takes. Pure: observations go in, records
// and expectations come out; the core keeps the records and the store holds them.
//
// Prior. A spot machine's hazard falls with its age: the table of public traces in spot_hazard.hpp, for a spell that begins when the
// machine is rented. A machine at a fixed price has a flat hazard of one loss in 720 hours: an assumption, to be replaced by what is
// seen. Both are multiplied by what our own machines have shown,
//     m = (shape + losses seen) / (shape + losses that were expected of the same machine hours),
// the mean of a gamma posterior whose prior has that shape and mean 1. A market (provider, card, spot or not) has such a factor of
// shape 3, against the prior. A host has one on top of it against what its market expects, of shape 0.5: hosts differ more from
// their market than markets from each other. Counts decay with a half-life of 14 days.
#pragma once
#include <cstdint>
#include <string>

#include "model/offer.hpp"
#include "model/time.hpp"

namespace gf {

/// One row per market and per host. Counts are in thousandths and as of `at`.
struct LossRecord {
    std::string key;           // `loss_market_key` or `loss_host_key`
    std::int64_t losses{0};    // seen
    std::int64_t expected{0};  // by the prior, over the same machine hours
    std::int64_t hours{0};     // machine hours, for people
    Instant at;
    friend bool operator==(const LossRecord&, const LossRecord&) = default;
};

inline constexpr Millis kLossHalfLife = std::chrono::hours{14 * 24};
inline constexpr double kMarketShape = 3;
inline constexpr double kHostShape = 0.5;
inline constexpr double kOnDemandLossHours = 720;  // an assumption: one in 30 days

/// "vastai/RTX-4090/spot", "lambda/A10/on_demand".
[[nodiscard]] std::string loss_market_key(const Offer& offer);
/// "vastai/host/31877"; empty where the provider does not tell hosts.
[[nodiscard]] std::string loss_host_key(const Offer& offer);

/// Losses that the prior expects of one machine between two ages (0 <= from <= to).
[[nodiscard]] double prior_losses(bool spot, Millis from_age, Millis to_age);

/// `record` after a machine was held from one age to another, and was then lost or not (given back is not). `now` is the time of
/// the observation. Counts are rounded to thousandths once, here.
[[nodiscard]] LossRecord observed(LossRecord record, bool spot, Millis from_age, Millis to_age, bool lost, Instant now);
[[nodiscard]] LossRecord faded(LossRecord record, Instant now);

/// The hazard of one offer: prior times what was seen.
struct Hazard {
    bool spot{false};
    double factor{1};
    double losses_seen{0};  // of the market, faded
    double hours_seen{0};
};
/// Either record may be null: nothing is known.
[[nodiscard]] Hazard hazard_of(const Offer& offer, const LossRecord* market, const LossRecord* host, Instant now);

/// Chance that a new machine is still there after `hours` (>= 0).
[[nodiscard]] double survival(const Hazard& hazard, double hours);
/// Hours that a new machine is held on average, if it is given back after `hours` at the latest.
[[nodiscard]] double mean_held(const Hazard& hazard, double hours);

/// What a job has to expect.
struct Outlook {
    double held{0};    // hours of machines until the job is done, all of them together; at most kHoursMost
    double losses{0};  // machines lost on the way
    bool hopeless{false};  // it takes more than 20 times as long as without losses, or kHoursMost
};
inline constexpr double kHoursMost = 1e6;
/// `work`: hours of useful work left. `start`: hours from a new machine to its first useful moment. `redone`: work that a loss costs
/// on average (with checkpoints: half an interval). Without checkpoints `redone` is negative: everything is lost, and the job ends
/// on the first machine that lasts. Hours, all >= 0 else.
///
/// With checkpoints a machine of age 0 follows each lost one, and a loss costs start and redone, or the machine's whole life where
/// that was shorter. The number of losses within a time t is taken as t * F(t) / mean_held(t), which is exact for a flat hazard and
/// for short and very long times.
[[nodiscard]] Outlook outlook(const Hazard& hazard, double work, double start, double redone);

}  // namespace gf
