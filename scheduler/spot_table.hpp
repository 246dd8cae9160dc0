// What a job with a deadline costs from here on, under the best use of one interruptible market and one
// machine that is always to be had: a table over (work left, slack left, state of the market, where the job
// is), computed backwards.
//
// The market: capacity that comes and goes, up or down for so long (eight ages, doubling), with the rates of
// spot_hazard.hpp times two multipliers. "Good" is that market, "sure" is the fallback; prices are relative
// to the fallback's. Slack is the time to the deadline less the work left; waiting uses it one to one, every
// start uses the changeover. States from which the deadline could be missed cost kSpotNever, so that no
// choice made by the table leads there.
//
// Same parameters, same table, bit for bit: one thread, a fixed order, no reduction that a compiler may
// reorder. One table takes 3 to 160 ms and 2 to 30 MB (bench/RESULTS.md). The caller keeps
// tables (SpotTables) or not; the answer is the same.
#pragma once
#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <utility>
#include <vector>

#include "model/time.hpp"
#include "scheduler/spot_hazard.hpp"

namespace gf {

inline constexpr float kSpotNever = 1e9F;
inline constexpr int kSpotAges = 8;

/// Everything that a table depends on. Whole numbers, so that equal keys are equal tables.
struct SpotTableKey {
    std::int64_t step_ms{0};        // one move of the search; positive
    std::int64_t changeover_ms{0};  // not negative
    int work_steps{0};              // covers work up to this many steps
    std::int64_t slack_ms{0};       // and slack up to this
    int good_price{
        0};       // of the good market, in steps of kSpotLevelStep of the sure price's logarithm; 0 = equal
    int ends{0};  // multipliers: 2^n of the table's rates
    int returns{0};
    int churn{0};  // machines lost while the market stays up: kSpotChurn[n] per hour
    friend auto operator<=>(const SpotTableKey&, const SpotTableKey&) = default;
};
inline constexpr double kSpotLevelStep = 0.03;
inline constexpr std::array<double, 6> kSpotChurn{0, 0.02, 0.05, 0.12, 0.3, 0.7};

struct SpotState {
    Spell spell{Spell::down};
    int age{0};  // bucket: 0 = first step, 1 = second, 2 = up to four, 3 = up to eight, …
};
/// A step near `about_ms` that suits the changeover: a start takes a whole number of steps, or a part of one.
[[nodiscard]] std::int64_t spot_step(std::int64_t about_ms, std::int64_t changeover_ms);
/// The bucket of an age for steps of this length.
[[nodiscard]] int spot_age_bucket(double age_h, double step_h);

enum class SpotRole { none, good, sure };

/// Costs to finish, in hours at the sure price, for what can be done now. kSpotNever or more = may miss the
/// deadline.
struct SpotCosts {
    double idle{kSpotNever};
    double good{kSpotNever};
    double sure{kSpotNever};
    double hour_value{0};  // what an hour of progress saves, in hours at the sure price
};

class SpotTable {
 public:
    explicit SpotTable(const SpotTableKey& key);

    /// `work_ms`, `slack_ms`: left now; beyond the table's size they are cut to it. `role` is where the job
    /// is and `startup_ms` what is left of its start. Not for slack below nothing.
    [[nodiscard]] bool covers(const SpotTableKey& key) const {
        return key.work_steps <= key_.work_steps && key.slack_ms <= key_.slack_ms;
    }
    [[nodiscard]] const SpotTableKey& key() const { return key_; }
    [[nodiscard]] std::size_t bytes() const { return expected_.size() * sizeof(float); }
    [[nodiscard]] SpotCosts costs(std::int64_t work_ms, std::int64_t slack_ms, SpotState state, SpotRole role,
                                  std::int64_t startup_ms) const;

 private:
    [[nodiscard]] std::size_t slot(int work, int slack) const {
        return (static_cast<std::size_t>(work) * slacks_.size() + static_cast<std::size_t>(slack)) * width_;
    }
    struct Scratch;
    void solve();
    void gather(std::vector<double>& to, int work, double slack, double weight) const;
    void settle(int work, int slack, Scratch& scratch);
    [[nodiscard]] double read(double work, double slack, std::size_t column) const;
    [[nodiscard]] std::size_t none_column(int state) const { return static_cast<std::size_t>(state); }
    [[nodiscard]] std::size_t good_column(int startup, int age) const;
    [[nodiscard]] std::size_t sure_column(int startup, int state) const;
    [[nodiscard]] double through_idle(double work, double slack, int state) const;
    [[nodiscard]] double through_good(double work, double slack, int age, int startup) const;
    [[nodiscard]] double through_sure(double work, double slack, int state, int startup) const;

    SpotTableKey key_;
    double step_h_;
    double good_level_;           // of the good market
    int startups_;                // steps that a start takes
    double last_part_;            // of a step: what the last of them lacks
    std::vector<double> slacks_;  // in steps, ascending, close together where it is scarce
    std::size_t width_{0};
    std::array<double, kSpotAges> stay_up_{};
    std::array<double, kSpotAges> stay_down_{};
    std::array<double, kSpotAges> older_{};  // chance that a spell that stays grows into the next bucket
    double churn_{0};
    std::vector<float> expected_;  // by slot and column: the value one step later, the market having moved on
};

/// Tables by key, the last used kept. A larger table serves for a smaller one: what stands at a place does
/// not depend on the size. Owned by one caller at a time; only a memory, never part of an answer.
class SpotTables {
 public:
    /// Keeps tables of so many bytes together, and in any case the last one.
    explicit SpotTables(std::size_t bytes_max = std::size_t{96} << 20) : bytes_max_(bytes_max) {}
    /// Valid until the next call.
    [[nodiscard]] const SpotTable& get(const SpotTableKey& key);
    [[nodiscard]] std::size_t made() const { return made_; }
    [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
    using Tables = std::list<std::pair<SpotTableKey, SpotTable>>;  // the last used first
    std::size_t bytes_max_;
    std::size_t bytes_{0};
    std::size_t made_{0};
    Tables tables_;
    std::map<SpotTableKey, Tables::iterator> by_key_;  // sizes left out
};

}  // namespace gf
