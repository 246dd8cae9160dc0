// Jobs with a deadline among real offers: what the spot policy (spot_policy.hpp) has to know of a task is worked out here from its fitting
// offers and their expected money to finish. Pure.
//
// * The policy knows one length of work. It is that of the *sure* offer, the on-demand one that finishes for least; other cards are held
//   against it by what a unit of work costs on them. So the guards, which bring a task to that offer in time, count in its own hours.
// * Offers that would take longer than twice that are left out: their progress is too slow for a slack that is counted in sure hours.
// * Starts are those that own history shows of each provider and image, the worst for the guards, over the sure offer and the one chosen.
// * Without checkpoints a loss takes all that was done, so that only a deadline of twice the work and more leaves room for spot.
// * Where it is not known how much work there is, limits.duration stands for it; where that is not given either, there is no plan, and a
//   deadline is only told when it is missed.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "scheduler/choice.hpp"
#include "scheduler/spot_policy.hpp"

namespace gf {

/// The machine that the task is on.
struct HeldMachine {
    Offer offer;             // as rented
    UsdPerHour rate;         // all-in, by now
    bool up{true};
    Millis startup_left{0};  // until its command makes progress; 0 = it does
};

struct DeadlineCase {
    Instant now;
    Instant deadline;
    std::optional<HeldMachine> on;
    Millis look{0};          // until the next decision at the latest; above 0
    bool local_allowed{false};
};

struct DeadlinePlan {
    SpotJob job;
    std::vector<SpotOffer> offers;
    /// For each of `offers` the place in the ranked list that it was made of; absent for the machine that the task is on.
    std::vector<std::optional<std::size_t>> ranked;
    std::vector<SpotSeen> seen;  // of spot: to be shown to the history before `decide_spot`
};

inline constexpr std::size_t kDeadlineOffersMost = 60;  // of spot; the history has room for 64 keys
inline constexpr std::size_t kDeadlineShown = 256;      // ChoiceWorld::shown that is wanted for `ranked`

/// The key of an offer in the plan: that of its market for spot, "provider/id" else.
[[nodiscard]] std::string deadline_key(const Offer& offer);

/// Where the task is to be is decided by its deadline. Other jobs with a deadline are only told when it is missed.
[[nodiscard]] inline bool by_deadline(const JobSpec& spec) {
    return spec.limits.deadline && spec.resources.spot == SpotChoice::automatic;
}

/// `ranked`: `Decision::ranked` for this task, best first. Nothing where work is not known, or nothing fits and the task is nowhere.
[[nodiscard]] std::optional<DeadlinePlan> deadline_plan(const JobSpec& spec, const TaskRecord& task, std::span<const RankedOffer> ranked,
                                                        const Expectations& expect, const DeadlineCase& at);

}  // namespace gf
