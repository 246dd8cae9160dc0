// Whether a running job is moved to a much cheaper offer. Pure; off unless switched on. Both ways are
// reckoned to the end of the work, with what either costs from now on and nothing that is paid already:
//     stay        what the bill of its machine still grows by, in its steps, until the work is done
//     overlap     the same until the old machine is destroyed: it works, and is billed, until the new one is
//     ready to take over machine     the bill of the new machine: changeover, work done again, the rest of
//     the work, in its steps and with its minimum transfer    traffic of checkpoint and inputs
// A move is worth it only if it saves `saving_percent` of the stay and `saving_least`, so that small
// differences and the noise of a market move nobody; a job that has just moved or whose work is nearly done
// saves nothing by these lines.
#pragma once
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/money.hpp"
#include "scheduler/choice.hpp"

namespace gf {

struct MoveRule {
    bool on{false};
    int saving_percent{25};
    Usd saving_least{1'000'000};
};

/// A job that runs, as the core sees it.
struct RunningTask {
    const JobSpec* spec{nullptr};    // not owned, never null
    const TaskRecord* row{nullptr};  // not owned, never null
    const Offer* offer{nullptr};     // of its machine, as rented; not owned, never null
    UsdPerHour rate;                 // what that costs by now, all lines
    Millis held{0};                  // since it became billable
    Millis left{0};                  // of its work, on its machine
};

struct MoveCosts {
    Millis changeover{0};  // boot, image pull and restore
    Millis redo{0};        // work since the last committed checkpoint
    Usd transfer;
};

struct MoveLine {
    std::string name;
    Usd amount;
    friend bool operator==(const MoveLine&, const MoveLine&) = default;
};

struct Move {
    Offer offer;
    UsdPerHour all_in;
    std::vector<MoveLine> lines;  // "stay", then those of the move
    Usd saving;
};

/// How long `work` of the task's machine takes on `offer`; nothing where that is not known, and the offer is
/// passed over.
using WorkThere = std::function<std::optional<Millis>(const Offer& offer, Millis work)>;
/// On the same card, count and share it takes as long, elsewhere it is not known.
[[nodiscard]] WorkThere same_card(const Offer& here);

/// The offer with the largest saving, if that passes the rule; at equal saving by provider, id and spot.
/// `offers` are those that are free; they pass the filters of `choose` with `world` as it is, so a quota must
/// have room for both machines. The offer that the task is on, and others on the same host, are passed over.
/// Times must not be negative. Deterministic, whatever the order of `offers`.
[[nodiscard]] std::optional<Move> consider_move(const RunningTask& task, std::span<const Offer> offers,
                                                const ChoiceWorld& world, const MoveCosts& costs,
                                                const MoveRule& rule, const WorkThere& there);

}  // namespace gf
