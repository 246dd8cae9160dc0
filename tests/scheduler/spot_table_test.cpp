#include "scheduler/spot_table.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <map>
#include <tuple>

using namespace gf;

namespace {

constexpr std::int64_t kStep = 600'000;

SpotTableKey key_of(std::int64_t changeover_ms, int work, int slack) {
    return {.step_ms = kStep,
            .changeover_ms = changeover_ms,
            .work_steps = work,
            .slack_ms = slack * kStep,
            .good_price = 40,
            .ends = 0,
            .returns = 0,
            .churn = 0};
}

/// The same problem by plain recursion, for a changeover of exactly one step: what is best from (work, slack)
/// in whole steps.
class Naive {
 public:
    explicit Naive(int good_price, double churn_per_hour)
        : price_(std::exp(-kSpotLevelStep * good_price)), churn_(1 - std::exp(-churn_per_hour * kHours)) {}

    /// place: 0 none, 1 good, 2 sure; starting: a start is under way and takes this step.
    double best(int work, int slack, int state, int place, bool starting) {
        if (work <= 0) return 0;
        if (slack < 0) return kSpotNever;
        const auto key = std::tuple(work, slack, state, place, starting);
        if (const auto known = memory_.find(key); known != memory_.end()) return known->second;
        double least = step(work, slack, state, 0, false);
        if (place != 0) least = std::min(least, step(work, slack, state, place, starting));
        if (place != 2) least = std::min(least, step(work, slack, state, 2, true));
        if (place != 1 && state < kSpotAges) least = std::min(least, step(work, slack, state, 1, true));
        return memory_[key] = std::min(least, static_cast<double>(kSpotNever));
    }
    double step(int work, int slack, int state, int place, bool starting) {
        const bool progress = place != 0 && !starting;
        const double paid = place == 0 ? 0 : (place == 1 ? price_ : 1) * kHours;
        const int w = progress ? work - 1 : work;
        const int s = progress ? slack : slack - 1;
        double sum = 0;
        const int age = state % kSpotAges;
        const bool up = state < kSpotAges;
        const double from = age == 0 ? 0 : 1 << (age - 1);
        const double width = age == 0 ? 1 : 1 << (age - 1);
        const double stay = std::exp(
            -spell_hazard(up ? Spell::up : Spell::down, from * kHours, (from + width) * kHours) / width);
        const double older = age + 1 < kSpotAges ? 1 / width : 0;
        const auto add = [&](double chance, int next) {
            if (chance <= 0) return;
            const bool next_up = next < kSpotAges;
            if (place != 1) {
                sum += chance * best(w, s, next, place, false);
            } else if (!next_up) {
                sum += chance * best(w, s, next, 0, false);
            } else {
                sum += chance *
                       ((1 - churn_) * best(w, s, next, 1, false) + churn_ * best(w, s, next, 0, false));
            }
        };
        add(stay * (1 - older), state);
        add(stay * older, state + 1);
        add(1 - stay, up ? kSpotAges : 0);
        return paid + sum;
    }

 private:
    static constexpr double kHours = 1 / 6.0;
    double price_;
    double churn_;
    std::map<std::tuple<int, int, int, int, bool>, double> memory_;
};

}  // namespace

TEST_CASE("the table is what plain recursion gives") {
    for (const int churn : {0, 3}) {
        auto key = key_of(kStep, 6, 6);
        key.churn = churn;
        const SpotTable table(key);
        Naive naive(40, kSpotChurn[static_cast<std::size_t>(churn)]);
        int compared = 0;
        for (int work = 1; work <= 6; ++work) {
            for (int slack = 0; slack <= 6; ++slack) {
                for (int state = 0; state < 2 * kSpotAges; ++state) {
                    const bool up = state < kSpotAges;
                    const SpotState at{.spell = up ? Spell::up : Spell::down, .age = state % kSpotAges};
                    for (const auto role : {SpotRole::none, SpotRole::good, SpotRole::sure}) {
                        if (role == SpotRole::good && !up) continue;
                        const auto costs = table.costs(work * kStep, slack * kStep, at, role, 0);
                        const auto same = [&](double a, double b) {
                            // Beyond a thousand the deadline may be missed, and only that matters.
                            if (a > 1e3 || b > 1e3) return a > 1e3 && b > 1e3;
                            return std::abs(a - b) < 1e-4;
                        };
                        CAPTURE(work);
                        CAPTURE(slack);
                        CAPTURE(state);
                        CHECK(same(costs.idle, naive.step(work, slack, state, 0, false)));
                        CHECK(same(costs.sure, naive.step(work, slack, state, 2, role != SpotRole::sure)));
                        if (up)
                            CHECK(
                                same(costs.good, naive.step(work, slack, state, 1, role != SpotRole::good)));
                        ++compared;
                    }
                }
            }
        }
        CHECK(compared == 6 * 7 * 40);
    }
}

TEST_CASE("nothing that the table offers can miss the deadline") {
    struct Row {
        const char* what;
        double slack_steps;
        SpotRole role;
        bool idle, good, sure;  // may be chosen
    };
    // The changeover is a step and a half.
    const Row rows[] = {
        {"no slack, nothing runs", 0, SpotRole::none, false, false, false},
        {"no slack, on the sure one", 0, SpotRole::sure, false, false, true},
        {"one start fits", 1.5, SpotRole::none, false, false, true},
        {"one start fits, on spot", 1.5, SpotRole::good, false, true, true},
        {"two starts fit", 3, SpotRole::none, true, true, true},
        {"less than one start, on spot", 1, SpotRole::good, false, false, false},
    };
    const SpotTable table(key_of(kStep * 3 / 2, 50, 20));
    for (const auto& row : rows) {
        CAPTURE(row.what);
        const auto costs = table.costs(40 * kStep, static_cast<std::int64_t>(row.slack_steps * kStep),
                                       {.spell = Spell::up, .age = 3}, row.role, 0);
        CHECK((costs.idle < 1e3) == row.idle);
        CHECK((costs.good < 1e3) == row.good);
        CHECK((costs.sure < 1e3) == row.sure);
    }
}

TEST_CASE("more slack never costs more, more work always does") {
    for (const std::int64_t changeover : {std::int64_t{0}, kStep * 3 / 10, kStep, kStep * 2}) {
        const SpotTable table(key_of(changeover, 60, 40));
        const SpotState up{.spell = Spell::up, .age = 2};
        const SpotState down{.spell = Spell::down, .age = 2};
        for (int slack = 5; slack < 40; ++slack) {
            for (const auto state : {up, down}) {
                const auto less = table.costs(50 * kStep, slack * kStep, state, SpotRole::none, 0);
                const auto more = table.costs(50 * kStep, (slack + 1) * kStep, state, SpotRole::none, 0);
                CHECK(more.idle <= less.idle + 1e-4);
                CHECK(table.costs(51 * kStep, slack * kStep, state, SpotRole::none, 0).idle > less.idle);
                CHECK(less.hour_value >= std::exp(-kSpotLevelStep * 40) * 0.5);
                CHECK(less.sure <= (50 + 3) / 6.0 + 1e-3);  // never more than on-demand from now on
            }
        }
    }
}

TEST_CASE("a table does not depend on its size, nor a memory of tables on what was asked before") {
    const SpotTable small(key_of(kStep, 30, 10));
    const std::size_t one = SpotTable(key_of(kStep, 80, 40)).bytes();
    SpotTables memory(one * 5 / 2);  // two tables, not three
    const auto& large = memory.get(key_of(kStep, 80, 40));
    for (int work = 1; work <= 30; ++work) {
        for (int slack = 0; slack <= 10; ++slack) {
            const SpotState state{.spell = Spell::up, .age = work % kSpotAges};
            const auto a = small.costs(work * kStep, slack * kStep, state, SpotRole::none, 0);
            const auto b = large.costs(work * kStep, slack * kStep, state, SpotRole::none, 0);
            CHECK(a.idle == b.idle);
            CHECK(a.good == b.good);
            CHECK(a.sure == b.sure);
        }
    }
    CHECK(memory.made() == 1);
    (void)memory.get(key_of(kStep, 30, 10));
    CHECK(memory.made() == 1);
    auto other = key_of(kStep, 80, 40);
    for (const int ends : {1, 2}) {
        other.ends = ends;
        (void)memory.get(other);
    }
    CHECK(memory.made() == 3);
    CHECK(memory.bytes() == 2 * one);
    other.ends = 1;
    (void)memory.get(other);  // still there
    CHECK(memory.made() == 3);
    (void)memory.get(key_of(kStep, 30, 10));  // was pushed out
    CHECK(memory.made() == 4);
}

TEST_CASE("the step suits the changeover") {
    for (const std::int64_t changeover : {0, 1'000, 180'000, 400'000, 720'000, 1'800'000, 7'200'000}) {
        const auto step = spot_step(400'000, changeover);
        CHECK(step > 0);
        CHECK(step <= 540'000);
        if (4 * changeover >= 3 * 400'000)
            CHECK((changeover + step - 1) / step * step - changeover < step / 100 + 20);
    }
}
