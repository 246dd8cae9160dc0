#include "scheduler/spot_market.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>

namespace gf {
namespace {

/// What is known before anything was seen counts as this many ends.
constexpr double kPriorEnds = 3;
/// How far the share of the last day moves the rates, as powers of two: fitted on V100 2023 (docs/spot.md),
/// the same for all.
constexpr double kEndsByShare = 1.2;
constexpr double kReturnsByShare = 2.0;

/// Powers of two between which multipliers are interpolated.
constexpr int kPowerLeast = -3;
constexpr int kPowerMost = 4;
/// A multiplier less likely than this is left out of the mean.
constexpr double kWeightLeast = 0.04;
/// Prices closer than this are one price.
constexpr double kSameLevel = 1.02;
constexpr std::int64_t kStepAbout = 400'000;  // the tables of spot_hazard.hpp are by ten minutes
constexpr int kStepsMost = 480;
/// Capacity that has lasted this long (hours) is not looked at for longer.
constexpr double kRipeWithin = 4;

double hours(Millis span) {
    return static_cast<double>(span.count()) / 3.6e6;
}

struct Weighted {
    int power{0};
    double weight{0};
};

/// The powers of two around a multiplier, weighted by how near they are.
std::vector<Weighted> around(double multiplier) {
    const double power =
        std::clamp(std::log2(multiplier), static_cast<double>(kPowerLeast), static_cast<double>(kPowerMost));
    const double low = std::floor(power);
    std::vector<Weighted> both{{static_cast<int>(low), 1 - (power - low)},
                               {static_cast<int>(low) + 1, power - low}};
    std::erase_if(both, [](const Weighted& one) { return one.weight < kWeightLeast; });
    double sum = 0;
    for (const auto& one : both) sum += one.weight;
    for (auto& one : both) one.weight /= sum;
    return both;
}

/// Share of the time in which at least one of so many zones is up, as a rule: the odds grew with about n^1.7
/// (docs/spot.md).
double usual_share(std::size_t zones) {
    const double odds = 1.8 * std::pow(static_cast<double>(std::max<std::size_t>(zones, 1)), 1.7);
    return odds / (1 + odds);
}

/// One zone is well described by its age and its share: what else it shows is mostly chance. Sets of zones
/// differ in how they hang together, and that is learned.
double learned(double prior, double seen, double expected) {
    return (kPriorEnds + seen) / (kPriorEnds / prior + expected);
}

/// What the last day says beyond the age of the spell: a place that was mostly up keeps its machines longer
/// and gets them back sooner.
double ends_multiplier(const SpellStats& stats, std::size_t zones) {
    const double usual = usual_share(zones);
    const double recent = stats.recent + (1 - stats.recent_seen) * usual;
    if (zones > 1)
        return learned(std::pow(static_cast<double>(zones), -0.7), stats.ends, stats.ends_expected);
    return std::exp2(kEndsByShare * (usual - recent));
}
double returns_multiplier(const SpellStats& stats, std::size_t zones) {
    const double usual = usual_share(zones);
    const double recent = stats.recent + (1 - stats.recent_seen) * usual;
    if (zones > 1) return learned(static_cast<double>(zones), stats.returns, stats.returns_expected);
    return std::exp2(kReturnsByShare * (recent - usual));
}
double life_multiplier(const SpellStats& stats) {
    return (kPriorEnds + stats.ends) / (kPriorEnds + stats.ends_expected);
}

SpotHistory::KeySet keys_of(std::span<const SpotRoom> rooms) {
    SpotHistory::KeySet keys = 0;
    for (const auto& room : rooms) keys |= room.key;
    return keys;
}

}  // namespace

double SpotRoom::earns(const SpotGain& gain) const {
    const double until = std::min(gain.changeover_h + gain.work_h, kSpotLifeMax);
    const double held = spell_remaining(Spell::up, age_h, multiplier, until);
    const double lost = spell_remaining(Spell::up, age_h, multiplier, std::min(gain.changeover_h, until));
    const double to_the_end = std::exp(-multiplier * spell_hazard(Spell::up, age_h, age_h + until));
    return gain.hour_value * (held - lost) + gain.done * to_the_end - level * held - fee;
}

double SpotRoom::earns_later(double wait_h, const SpotGain& gain) const {
    SpotRoom later = *this;
    later.age_h += wait_h;
    return std::exp(-multiplier * spell_hazard(Spell::up, age_h, later.age_h)) * later.earns(gain);
}

bool SpotRoom::ripe(const SpotGain& gain, double look_h, double wait_most_h) const {
    const double now = earns(gain);
    if (now <= 0) return false;
    for (double wait = std::max(look_h, 1 / 60.0); wait <= std::min(kRipeWithin - age_h, wait_most_h); wait *= 2) {
        if (earns_later(wait, gain) > now) return false;
    }
    return true;
}

double key_life(const SpotHistory& history, std::string_view key, Instant now, double horizon_h) {
    const auto stats = spell_stats(history, history.bit(key), now);
    const double age = stats.known && stats.up ? stats.age_h : 0;
    return spell_remaining(Spell::up, age, life_multiplier(stats), horizon_h);
}

SpotMarket spot_market(const SpotJob& job, std::span<const SpotOffer> by_key, const SpotOffer* on,
                       const SpotOffer* sure, const SpotHistory& history, Instant now) {
    SpotMarket market{.unit = {}, .on = on, .sure = sure, .history = &history, .now = now, .rooms = {}};
    for (const auto& offer : by_key)
        market.unit = std::max(market.unit, offer.spot ? offer.rate : UsdPerHour{});
    if (sure != nullptr) market.unit = sure->rate;
    market.unit = std::max(market.unit, UsdPerHour{1});
    const double unit = static_cast<double>(market.unit.micros);
    const double horizon = std::clamp(hours(job.to_deadline.value_or(Millis{0})), 0.1, kSpotLifeMax);
    for (const auto& offer : by_key) {
        // What costs as much as on-demand is worth nothing more.
        if (!offer.spot || (sure != nullptr && offer.rate >= sure->rate)) continue;
        SpotRoom room{.offer = &offer,
                      .key = history.bit(offer.key),
                      .level = static_cast<double>(offer.rate.micros) / unit,
                      .fee = &offer == on ? 0 : static_cast<double>(offer.move_fee.micros) / unit,
                      .up = offer.up};
        const auto stats = spell_stats(history, room.key, now);
        room.age_h = stats.known && stats.up ? stats.age_h : 0;
        room.multiplier = life_multiplier(stats);
        room.life_h = spell_remaining(Spell::up, room.age_h, room.multiplier, horizon);
        market.rooms.push_back(room);
    }
    std::sort(market.rooms.begin(), market.rooms.end(), [](const SpotRoom& a, const SpotRoom& b) {
        return std::tie(a.level, a.offer->key) < std::tie(b.level, b.offer->key);
    });
    return market;
}

namespace {

struct Line {
    std::size_t good{0};  // so many rooms, the cheapest
    SpotCosts costs;
    double hour_value{0};
    double best{0};
};

class Outlook {
 public:
    Outlook(const SpotJob& job, const SpotMarket& market, SpotTables& tables)
        : job_(job), market_(market), tables_(tables) {
        for (std::size_t n = 0; n <= market.rooms.size(); ++n) {
            const std::span rooms(market.rooms.data(), n);
            stats_.push_back(spell_stats(*market.history, keys_of(rooms), market.now));
            shares_.push_back(share(stats_.back(), n));
        }
        const Millis start = std::max(*job.to_deadline, job.work_left);
        const std::int64_t about = std::max(kStepAbout, start.count() / kStepsMost);
        // Rounded up to some length, so that tables made early in a job serve until its end.
        step_ = in_looks(spot_step(round_up(about), job.changeover.count()));
        work_steps_ = grown(job.work_left.count() / step_ + 2);
        slack_ =
            grown(std::max<std::int64_t>((*job.to_deadline - job.work_left).count() / step_, 1) + 1) * step_;
    }

    Line line(std::size_t good) {
        Line line{.good = good};
        const std::span rooms(market_.rooms.data(), good);
        const double sure = 1;
        double mix = 0;
        double before = 0;
        for (std::size_t n = 1; n <= good; ++n) {
            mix += std::max(shares_[n] - before, 0.0) * market_.rooms[n - 1].level;
            before = std::max(before, shares_[n]);
        }
        mix = good > 0 ? mix / std::max(before, 1e-6) : sure;
        const auto& stats = stats_[good];
        const auto ends = around(ends_multiplier(stats, std::max<std::size_t>(good, 1)));
        const auto returns = around(returns_multiplier(stats, std::max<std::size_t>(good, 1)));
        SpotTableKey key{
            .step_ms = step_,
            .changeover_ms = job_.changeover.count(),
            .work_steps = work_steps_,
            .slack_ms = slack_,
            .good_price = std::clamp(
                static_cast<int>(std::lround(std::log(sure / std::max(mix, 1e-6)) / kSpotLevelStep)), 0, 150),
            .churn = churn(rooms)};
        const bool up = std::any_of(rooms.begin(), rooms.end(), [](const SpotRoom& room) { return room.up; });
        const double step_h = static_cast<double>(step_) / 3.6e6;
        const double age = stats.known && stats.up == up ? stats.age_h : 0;
        const SpotState state{.spell = up ? Spell::up : Spell::down, .age = spot_age_bucket(age, step_h)};
        SpotRole role = SpotRole::none;
        if (market_.on != nullptr) {
            const bool in = std::any_of(rooms.begin(), rooms.end(),
                                        [&](const SpotRoom& room) { return room.offer == market_.on; });
            role = in ? SpotRole::good : SpotRole::sure;
        }
        line.costs = {.idle = 0, .good = 0, .sure = 0};
        const Millis slack = std::max(*job_.to_deadline - job_.work_left, Millis{0});
        for (const auto& end : ends) {
            for (const auto& back : returns) {
                key.ends = end.power;
                key.returns = back.power;
                const auto costs = tables_.get(key).costs(job_.work_left.count(), slack.count(), state, role,
                                                          job_.startup_left.count());
                const double weight = end.weight * back.weight * sure;
                line.costs.idle += weight * costs.idle;
                line.costs.good += weight * costs.good;
                line.costs.sure += weight * costs.sure;
                line.hour_value += weight * costs.hour_value;
            }
        }
        line.best = std::min({line.costs.idle, line.costs.good, line.costs.sure});
        return line;
    }

 private:
    static std::int64_t round_up(std::int64_t ms) {
        std::int64_t step = kStepAbout;
        while (step < ms) step = step * 5 / 4;
        return step;
    }
    /// Where the changeover does not set the step, a whole number of looks: between them nothing is decided.
    [[nodiscard]] std::int64_t in_looks(std::int64_t step) const {
        const std::int64_t look = job_.look.count();
        if (4 * job_.changeover.count() >= 3 * step || look <= 0 || look >= 2 * step) return step;
        return std::max<std::int64_t>(1, (step + look / 2) / look) * look;
    }
    /// Some more, so that jobs of about one length share a table.
    static int grown(std::int64_t steps) { return static_cast<int>((steps / 16 + 1) * 16); }
    static double share(const SpellStats& stats, std::size_t count) {
        if (count == 0) return 0;
        return (stats.up_h + 6 * usual_share(count)) / (stats.seen_h + 6);
    }
    [[nodiscard]] int churn(std::span<const SpotRoom> rooms) const {
        if (rooms.size() < 2) return 0;
        double rate = 0;
        for (const auto& room : rooms) {
            const auto stats = spell_stats(*market_.history, room.key, market_.now);
            rate += 1 / std::max(spell_remaining(Spell::up, 4, life_multiplier(stats), kSpotLifeMax), 0.1);
        }
        rate = rate / static_cast<double>(rooms.size()) * shares_[rooms.size() - 1];
        int best = 0;
        for (int n = 1; n < static_cast<int>(kSpotChurn.size()); ++n) {
            const auto off = [&](int at) {
                return std::abs(kSpotChurn[static_cast<std::size_t>(at)] - rate);
            };
            if (off(n) < off(best)) best = n;
        }
        return best;
    }

    const SpotJob& job_;
    const SpotMarket& market_;
    SpotTables& tables_;
    std::vector<SpellStats> stats_;  // of the n cheapest
    std::vector<double> shares_;
    std::int64_t step_{0};
    int work_steps_{0};
    std::int64_t slack_{0};
};

}  // namespace

SpotOutlook spot_outlook(const SpotJob& job, const SpotMarket& market, SpotTables& tables) {
    Outlook outlook(job, market, tables);
    std::optional<Line> best;
    for (std::size_t good = 1; good <= market.rooms.size(); ++good) {
        const bool same = good < market.rooms.size() &&
                          market.rooms[good].level < market.rooms[good - 1].level * kSameLevel;
        if (same) continue;
        const auto line = outlook.line(good);
        if (!best || line.best < best->best * (1 - 1e-9)) best = line;
    }
    if (!best) best = outlook.line(0);
    SpotOutlook result{.market = market, .dear = {}, .costs = best->costs, .hour_value = best->hour_value};
    const auto edge = market.rooms.begin() + static_cast<std::ptrdiff_t>(best->good);
    result.market.rooms.assign(market.rooms.begin(), edge);
    result.dear.assign(edge, market.rooms.end());
    return result;
}

const SpotOffer* SpotOutlook::sure_room(const SpotOffer* on, bool may_start, bool may_stay) const {
    for (const auto& room : dear) {
        if (room.up && (room.offer == on ? may_stay : may_start)) return room.offer;
    }
    if (on != nullptr && !on->spot) return on;
    return market.sure;
}

}  // namespace gf
