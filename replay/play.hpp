// One job over one trace under one policy, tick by tick, by the rules of the papers whose figures it is held
// against (docs/replay.md): a machine that is taken is taken at the start of a tick, what ran in the tick
// before counts, a start takes the changeover out of the ticks that follow it, and each tick in which a
// machine is held is paid in full. One machine at a time.
#pragma once
#include <compare>
#include <cstddef>
#include <memory>
#include <vector>

#include "model/money.hpp"
#include "model/time.hpp"
#include "replay/trace.hpp"

namespace gf::replay {

struct Setting {
    Millis work{0};
    Millis deadline{0};          // from the start; the last tick that counts ends no later
    Millis changeover{0};        // from the start of a machine to the first progress
    Millis checkpoint_every{0};  // what runs after the last whole interval of a stay is lost with a spot
                                 // machine; 0 = nothing is lost
    std::vector<std::vector<Usd>> egress;  // [from zone][to zone], paid at a start; empty = nothing

    [[nodiscard]] Usd move_fee(int from, int to) const {
        if (from < 0 || egress.empty()) return Usd{};
        return egress[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)];
    }
};

enum class Mode { idle, spot, on_demand };

struct Place {
    Mode mode{Mode::idle};
    int zone{-1};  // -1 when idle
    friend auto operator<=>(const Place&, const Place&) = default;
};

/// What a policy sees at the start of a tick. `at` indexes the trace; a policy that is no oracle looks no
/// further.
struct Look {
    const Trace& trace;
    const Setting& setting;
    std::size_t at{0};
    std::size_t tick{0};  // since the start of the job
    Millis elapsed{0};
    Millis work_left{0};      // positive
    Millis to_deadline{0};    // may be negative: then the deadline is missed already
    Place current;            // idle after an interruption
    Millis startup_left{0};   // of the current machine
    int checkpoint_zone{-1};  // where the job ran last; -1 before its first start
};

class Policy {
 public:
    virtual ~Policy() = default;
    /// Where the job is to be in this tick. Spot in a zone that is down counts as idle.
    virtual Place decide(const Look& look) = 0;
};

struct Outcome {
    Usd cost;
    bool missed{false};
    int starts{0};
    int interruptions{0};  // spot machines taken while the job was on them
    int moves{0};          // starts in another zone than before
    Millis finished{0};    // from the start; exact within the last tick
    Millis spot{0};        // time held
    Millis on_demand{0};
    friend bool operator==(const Outcome&, const Outcome&) = default;
};

/// Plays to the end of the work; past the deadline, where it is missed, on the cheapest on-demand machine.
/// Bounded by the work.
[[nodiscard]] Outcome play(const Trace& trace, const Setting& setting, std::size_t start, Policy& policy);

/// What the work alone costs on demand in the cheapest zone, without a start and to the second: the measure
/// that the papers divide by.
[[nodiscard]] Usd on_demand_work(const Trace& trace, const Setting& setting);
/// Whether on-demand alone makes the deadline.
[[nodiscard]] bool feasible(const Setting& setting);
[[nodiscard]] int cheapest_on_demand(const Trace& trace, const Setting& setting, int from, Millis work);

}  // namespace gf::replay
