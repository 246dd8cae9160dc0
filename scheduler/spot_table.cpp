#include "scheduler/spot_table.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace gf {
namespace {

/// Shorter changeovers, in steps, are taken to be this long.
constexpr double kPartLeast = 0.1;
constexpr int kStates = 2 * kSpotAges;  // up by age, then down by age

/// First and one past the last step of an age bucket: 1, 2, 3-4, 5-8, …; the last has no end, and is taken at
/// twice its start.
constexpr int bucket_from(int bucket) {
    return bucket == 0 ? 0 : 1 << (bucket - 1);
}
constexpr int bucket_to(int bucket) {
    return 1 << bucket;
}

int state_of(SpotState state) {
    return state.age + (state.spell == Spell::up ? 0 : kSpotAges);
}

double at_most_never(double value) {
    return std::min(value, static_cast<double>(kSpotNever));
}

}  // namespace

std::int64_t spot_step(std::int64_t about_ms, std::int64_t changeover_ms) {
    if (4 * changeover_ms < 3 * about_ms) return about_ms;
    const std::int64_t parts =
        std::max<std::int64_t>(1, (4 * changeover_ms + 3 * about_ms - 1) / (4 * about_ms));
    return (changeover_ms + parts - 1) / parts;
}

int spot_age_bucket(double age_h, double step_h) {
    const double steps = age_h / step_h;
    int bucket = 0;
    while (bucket + 1 < kSpotAges && steps >= static_cast<double>(bucket_to(bucket))) ++bucket;
    return bucket;
}

SpotTable::SpotTable(const SpotTableKey& key)
    : key_(key),
      step_h_(static_cast<double>(key.step_ms) / 3.6e6),
      good_level_(std::exp(-kSpotLevelStep * key.good_price)),
      startups_(static_cast<int>((key.changeover_ms + key.step_ms - 1) / key.step_ms)) {
    const double exact = static_cast<double>(key.changeover_ms) / static_cast<double>(key.step_ms);
    const double changeover = startups_ > 0 ? std::max(exact, kPartLeast) : 0;
    last_part_ = startups_ > 0 ? changeover - (startups_ - 1) : 0;
    // The changeover and twice it lie on the grid: there the choices change. Further out whole steps will do.
    const double fine = startups_ > 0 && last_part_ < 1 ? std::max(last_part_, kPartLeast) : 0.5;
    const double far = static_cast<double>(key.slack_ms) / static_cast<double>(key.step_ms) + 1;
    const double dense_to = std::max(4 * changeover, 2.0);
    for (int n = 0; n * fine <= dense_to + 1e-9; ++n) slacks_.push_back(n * fine);
    while (slacks_.back() < far) slacks_.push_back(slacks_.back() + 1);
    churn_ = 1 - std::exp(-kSpotChurn[static_cast<std::size_t>(key.churn)] * step_h_);
    for (int b = 0; b < kSpotAges; ++b) {
        const auto n = static_cast<std::size_t>(b);
        const double from = bucket_from(b) * step_h_;
        const double to = bucket_to(b) * step_h_;
        const double steps = bucket_to(b) - bucket_from(b);
        stay_up_[n] = std::exp(-spell_hazard(Spell::up, from, to) / steps * std::exp2(key.ends));
        stay_down_[n] = std::exp(-spell_hazard(Spell::down, from, to) / steps * std::exp2(key.returns));
        older_[n] = b + 1 < kSpotAges ? 1 / steps : 0;
    }
    width_ = kStates + static_cast<std::size_t>(startups_ + 1) * (kSpotAges + kStates);
    solve();
}

std::size_t SpotTable::good_column(int startup, int age) const {
    return kStates + static_cast<std::size_t>(startup * kSpotAges + age);
}

std::size_t SpotTable::sure_column(int startup, int state) const {
    return kStates + static_cast<std::size_t>((startups_ + 1) * kSpotAges + startup * kStates + state);
}

double SpotTable::read(double work, double slack, std::size_t column) const {
    if (work <= 0) return 0;
    if (slack < -1e-9) return kSpotNever;
    // A job that runs nowhere pays a whole start however little is left: the cost does not fall to nothing
    // with the work. A running one pays for the part of a step that it still needs.
    const double least = column < kStates ? 1.0 : 0.0;
    const double w = std::clamp(work, least, static_cast<double>(key_.work_steps));
    const int w1 = static_cast<int>(std::ceil(w - 1e-9));
    const double w_part = std::clamp(static_cast<double>(w1) - w, 0.0, 1.0);  // weight of the row below
    const double s = std::clamp(slack, 0.0, slacks_.back());
    const auto above = std::upper_bound(slacks_.begin(), slacks_.end(), s + 1e-9);
    const int s1 = static_cast<int>(std::min(above, std::prev(slacks_.end())) - slacks_.begin());
    const int s0 = std::max(s1 - 1, 0);
    const double gap = slacks_[static_cast<std::size_t>(s1)] - slacks_[static_cast<std::size_t>(s0)];
    const double s_part = gap > 0 ? std::clamp((s - slacks_[static_cast<std::size_t>(s0)]) / gap, 0.0, 1.0)
                                  : 1.0;  // weight of the one above
    const auto at = [&](int row) {
        if (row <= 0) return 0.0;
        const double low = static_cast<double>(expected_[slot(row, s0) + column]);
        if (s_part < 1e-9) return low;
        const double high = static_cast<double>(expected_[slot(row, s1) + column]);
        return low * (1 - s_part) + high * s_part;
    };
    return w_part < 1e-9 ? at(w1) : at(w1) * (1 - w_part) + at(w1 - 1) * w_part;
}

double SpotTable::through_idle(double work, double slack, int state) const {
    return read(work, slack - 1, none_column(state));
}

double SpotTable::through_good(double work, double slack, int age, int startup) const {
    const double paid = good_level_ * step_h_;
    if (startup == 0) return paid + read(work - 1, slack, good_column(0, age));
    if (startup > 1) return paid + read(work, slack - 1, good_column(startup - 1, age));
    return paid + read(work - (1 - last_part_), slack - last_part_, good_column(0, age));
}

double SpotTable::through_sure(double work, double slack, int state, int startup) const {
    if (startup == 0) return step_h_ + read(work - 1, slack, sure_column(0, state));
    if (startup > 1) return step_h_ + read(work, slack - 1, sure_column(startup - 1, state));
    return step_h_ + read(work - (1 - last_part_), slack - last_part_, sure_column(0, state));
}

struct SpotTable::Scratch {
    std::vector<double> idle, run,
        last;  // the values after a step of waiting, of progress, of the end of a start
    std::array<double, kStates> none{};
    std::vector<double> good, sure;
};

void SpotTable::gather(std::vector<double>& to, int work, double slack, double weight) const {
    if (work <= 0 || weight <= 0) return;
    if (slack < -1e-9) {
        for (auto& value : to) value += weight * static_cast<double>(kSpotNever);
        return;
    }
    const auto above = std::upper_bound(slacks_.begin(), slacks_.end(), slack + 1e-9);
    const auto s0 = static_cast<int>(above - slacks_.begin()) - 1;
    const double rest = std::max(slack - slacks_[static_cast<std::size_t>(s0)], 0.0);
    const float* low = &expected_[slot(work, s0)];
    if (rest < 1e-9) {
        for (std::size_t c = 0; c < width_; ++c) to[c] += weight * static_cast<double>(low[c]);
        return;
    }
    const float* high = &expected_[slot(work, s0 + 1)];
    const double part =
        rest / (slacks_[static_cast<std::size_t>(s0 + 1)] - slacks_[static_cast<std::size_t>(s0)]);
    for (std::size_t c = 0; c < width_; ++c) {
        to[c] += weight * ((1 - part) * static_cast<double>(low[c]) + part * static_cast<double>(high[c]));
    }
}

void SpotTable::settle(int work, int slack, Scratch& scratch) {
    auto& [idle, run, last, none, good, sure] = scratch;
    const double s = slacks_[static_cast<std::size_t>(slack)];
    for (auto* values : {&idle, &run, &last}) std::fill(values->begin(), values->end(), 0.0);
    gather(idle, work, s - 1, 1);
    gather(run, work - 1, s, 1);
    if (startups_ > 0 && slack > 0 && s - last_part_ <= slacks_[static_cast<std::size_t>(slack) - 1] + 1e-9) {
        gather(last, work, s - last_part_, last_part_);
        gather(last, work - 1, s - last_part_, 1 - last_part_);
    } else if (startups_ > 0) {
        // The exact place lies beside the point that is being settled; on average this is as far.
        gather(last, work, s - 1, last_part_);
        gather(last, work - 1, s, 1 - last_part_);
    }
    const auto begun = [&](int j) -> const std::vector<double>& {
        return j == 0 ? run : j > 1 ? idle : last;
    };
    const auto after = [](int j) { return j > 1 ? j - 1 : 0; };
    for (int x = 0; x < kStates; ++x) {
        const bool up = x < kSpotAges;
        const auto on_sure = [&](int j) { return step_h_ + begun(j)[sure_column(after(j), x)]; };
        const auto on_good = [&](int j) {
            return good_level_ * step_h_ + begun(j)[good_column(after(j), x)];
        };
        const double wait = idle[none_column(x)];
        const double begin_sure = on_sure(startups_);
        const double begin_good = up ? on_good(startups_) : static_cast<double>(kSpotNever);
        none[static_cast<std::size_t>(x)] = at_most_never(std::min({wait, begin_sure, begin_good}));
        for (int j = 0; j <= startups_; ++j) {
            if (up)
                good[static_cast<std::size_t>(j * kSpotAges + x)] =
                    at_most_never(std::min({on_good(j), wait, begin_sure}));
            sure[static_cast<std::size_t>(j * kStates + x)] =
                at_most_never(std::min({on_sure(j), wait, begin_good}));
        }
    }
    // Where the market goes within a step: it stays, and may grow older, or it turns.
    float* const out = &expected_[slot(work, slack)];
    const auto moved = [&](int x, auto value) {
        const bool up = x < kSpotAges;
        const int age = up ? x : x - kSpotAges;
        const auto n = static_cast<std::size_t>(age);
        const double stay = up ? stay_up_[n] : stay_down_[n];
        const int older = age + 1 < kSpotAges ? x + 1 : x;
        const int turned = up ? kSpotAges : 0;
        return stay * ((1 - older_[n]) * value(x) + older_[n] * value(older)) + (1 - stay) * value(turned);
    };
    const auto none_of = [&](int x) { return none[static_cast<std::size_t>(x)]; };
    for (int x = 0; x < kStates; ++x) {
        out[none_column(x)] = static_cast<float>(moved(x, none_of));
        for (int j = 0; j <= startups_; ++j) {
            out[sure_column(j, x)] = static_cast<float>(
                moved(x, [&](int y) { return sure[static_cast<std::size_t>(j * kStates + y)]; }));
            if (x >= kSpotAges) continue;
            out[good_column(j, x)] = static_cast<float>(moved(x, [&](int y) {
                if (y >= kSpotAges) return none_of(y);
                return (1 - churn_) * good[static_cast<std::size_t>(j * kSpotAges + y)] + churn_ * none_of(y);
            }));
        }
    }
}

void SpotTable::solve() {
    expected_.assign(static_cast<std::size_t>(key_.work_steps + 1) * slacks_.size() * width_, 0.0F);
    Scratch scratch{.idle = std::vector<double>(width_),
                    .run = std::vector<double>(width_),
                    .last = std::vector<double>(width_),
                    .good = std::vector<double>(static_cast<std::size_t>(startups_ + 1) * kSpotAges),
                    .sure = std::vector<double>(static_cast<std::size_t>(startups_ + 1) * kStates)};
    for (int work = 1; work <= key_.work_steps; ++work) {
        for (int slack = 0; slack < static_cast<int>(slacks_.size()); ++slack) settle(work, slack, scratch);
    }
}

SpotCosts SpotTable::costs(std::int64_t work_ms, std::int64_t slack_ms, SpotState state, SpotRole role,
                           std::int64_t startup_ms) const {
    const double step = static_cast<double>(key_.step_ms);
    const double work = static_cast<double>(work_ms) / step;
    const double slack = static_cast<double>(slack_ms) / step;
    const double started = static_cast<double>(startup_ms) / step;
    const int x = state_of(state);
    // The rest of a start is not a whole number of steps: what it lacks of a start of that many steps is
    // given back as slack.
    const auto startup_of = [&](double left) {
        return std::min(static_cast<int>(std::ceil(left - 1e-9)), startups_);
    };
    SpotCosts costs;
    costs.idle = through_idle(work, slack, x);
    costs.sure = through_sure(work, slack, x, startups_);
    if (state.spell == Spell::up) costs.good = through_good(work, slack, state.age, startups_);
    const int j = startup_of(started);
    const double full = j == 0 ? 0 : j - 1 + last_part_;
    if (role == SpotRole::good && state.spell == Spell::up)
        costs.good = through_good(work, slack + full - started, state.age, j);
    if (role == SpotRole::sure) costs.sure = through_sure(work, slack + full - started, x, j);
    const double later = read(work, slack - 1, none_column(x));
    const double sooner = read(work - 1, slack, none_column(x));
    costs.hour_value =
        later >= static_cast<double>(kSpotNever) / 2 ? 1.0 : std::max((later - sooner) / step_h_, 0.0);
    return costs;
}

const SpotTable& SpotTables::get(const SpotTableKey& key) {
    SpotTableKey kind = key;
    kind.work_steps = 0;
    kind.slack_ms = 0;
    SpotTableKey size = key;
    if (const auto found = by_key_.find(kind); found != by_key_.end()) {
        if (found->second->second.covers(key)) {
            tables_.splice(tables_.begin(), tables_, found->second);
            return found->second->second;
        }
        size.work_steps = std::max(size.work_steps, found->second->second.key().work_steps);
        size.slack_ms = std::max(size.slack_ms, found->second->second.key().slack_ms);
        bytes_ -= found->second->second.bytes();
        tables_.erase(found->second);
        by_key_.erase(found);
    }
    tables_.emplace_front(kind, SpotTable(size));
    by_key_[kind] = tables_.begin();
    bytes_ += tables_.front().second.bytes();
    while (bytes_ > bytes_max_ && tables_.size() > 1) {
        bytes_ -= tables_.back().second.bytes();
        by_key_.erase(tables_.back().first);
        tables_.pop_back();
    }
    ++made_;
    return tables_.front().second;
}

}  // namespace gf
