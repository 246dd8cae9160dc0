// The seam between placing tasks and what an offer is worth to one: micro-dollars for the task's work on a
// machine, lower is better. Plain functions over a fit, so that another measure (expected money to finish)
// goes in without a change of the planner.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "scheduler/filters.hpp"

namespace gf {

/// What a kind of card makes of a task's work, in one count at one provider.
struct Pace {
    std::int64_t least{
        3'600'000};  // ms: the work takes no less; an hour for all makes the score a price per hour
    std::optional<Millis> expected;  // Fit::expected of every offer there
};

struct Scoring {
    const void* self{nullptr};  // handed to each function; outlives the pass
    /// Of a new machine on this offer. At least the cost of `fit.all_in` for `Pace::least`, rounded down:
    /// offers whose price alone is over the best score are not looked at.
    std::int64_t (*score)(const void* self, const Fit& fit){nullptr};
    /// `like`: a fit of any offer there. Null = an hour, and nothing is expected.
    Pace (*pace)(const void* self, const Fit& like){nullptr};
    /// Of a machine that is up already, `fit.all_in` its real rate, with `paid_ahead` of it paid whether it
    /// is used or not.
    std::int64_t (*warm)(const void* self, const Fit& fit, Millis paid_ahead){nullptr};
    /// Adds to `key` whatever of spec and task the functions above read and the filters do not (what they
    /// read is in `shape_key`): tasks with equal keys are scored once. Null = nothing.
    void (*key)(const void* self, const JobSpec& spec, const TaskRecord& task, std::string& key){nullptr};
};

/// The price per hour that `choose` ranks by. A warm machine costs its rate for the hour less what is paid
/// ahead and less the start of a new one (kBidChangeover), over what is left of limits.duration or an hour
/// where there is none.
[[nodiscard]] const Scoring& rate_scoring();

/// How much of the bill of a machine that is billable since `held` is paid for beyond now.
[[nodiscard]] Millis paid_ahead(const Offer& offer, Millis held);

}  // namespace gf
