// Where a job is to be now: on which spot machine, on demand, or nowhere for a while. Spot while it is safe
// and pays, on-demand when it must be, over all offers and zones at once (docs/spot.md has the formulas and
// what they were measured against).
//
// Pure: the answer depends on the arguments alone and not on the order of the offers. `SpotTables` is a
// memory of what was computed before; with an empty one the answer is the same and takes longer (3
// to 160 ms per table, a few to a few dozen tables). The caller asks again at the next look, whatever the
// answer was. Nothing here rents or knows of providers.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/money.hpp"
#include "model/time.hpp"
#include "scheduler/spot_history.hpp"
#include "scheduler/spot_table.hpp"

namespace gf {

struct SpotOffer {
    std::string key;  // as in the history, for spot; any unique name for on-demand
    bool spot{true};
    bool up{true};    // can be had now or, where the job is on it, is still there
    UsdPerHour rate;  // positive
    Usd move_fee;  // for bringing the newest checkpoint there: egress, and what a start costs beside its time
};

struct SpotJob {
    Millis work_left{0};                // computing time that is left, positive
    std::optional<Millis> to_deadline;  // absent = no deadline
    Millis changeover{0};               // from the order of a machine to progress: what it takes as a rule,
    Millis changeover_worst{0};         // and at worst, on-demand included; not less than `changeover`
    Millis lost_worst{0};               // work that a loss can take: at most the interval between checkpoints
    Millis look{0};                     // until the next decision at the latest; positive
    std::string on;                     // key of the machine that it is on; empty = none
    Millis startup_left{0};             // of that machine
};

enum class SpotMove { stay, move, idle };

/// Which rule decided. The guards (must_*) use worst cases only and are above everything that is estimated.
enum class SpotWhy {
    must_be_sure,  // any other choice could miss the deadline: on-demand
    too_late,      // on-demand would not make it any more: whatever runs, runs on
    nothing_offered,
    cheapest,  // least expected money to finish
    waits,     // waiting for spot is worth more than progress at today's prices
    no_deadline,
};
[[nodiscard]] std::string_view text(SpotMove move);
[[nodiscard]] std::string_view text(SpotWhy why);

struct SpotDecision {
    SpotMove move{SpotMove::idle};
    std::string key;  // where to be; empty when idle
    SpotWhy why{SpotWhy::nothing_offered};
    // The figures behind it; absent where no estimate was asked.
    Millis slack{0};                       // time to the deadline less work and start
    Millis guard{0};                       // slack below which only on-demand is left
    std::optional<UsdPerHour> hour_value;  // what an hour of progress is worth now
    std::optional<Millis> lifetime;        // expected, of the spot machine chosen or kept
    std::optional<Usd> if_idle;            // expected money to finish after each choice
    std::optional<Usd> if_spot;
    std::optional<Usd> if_sure;
    std::vector<std::string> acceptable;  // keys that count as spot worth taking
    friend bool operator==(const SpotDecision&, const SpotDecision&) = default;
};

/// `history` has been shown the market at `now`. Offers of spot that the history does not know count as seen
/// now for the first time.
[[nodiscard]] SpotDecision decide_spot(const SpotJob& job, std::span<const SpotOffer> offers,
                                       const SpotHistory& history, Instant now, SpotTables& tables);

}  // namespace gf
