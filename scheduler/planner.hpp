// Which of many waiting tasks get a machine now, and which one; for the others, what each waits for and since
// when. Pure: one snapshot goes in, one plan comes out, the same bytes whatever the order of the input.
//
// The rule, which the implementation only makes fast (tests/scheduler/naive_plan.hpp is the rule written down
// plainly):
// * Tasks are served one after the other. Higher priority first; at equal priority the project that pays
// least per hour for its
//   weight (what runs plus what this pass gave it), then its name; within a project by task id, which is by
//   age. The tasks of a gang are one unit, at the place of its first task, in that one's project and at the
//   highest priority among them.
// * Each takes, of all offers that pass the same filters as `choose` and are not given away yet, the one of
// the lowest score
//   (scheduler/scoring.hpp); at equal score local before rented, then by provider, id and spot. A warm
//   machine of its image and project that fits goes before an offer at equal score.
// * Quotas, balances and budgets are those of the snapshot less what this pass gave away. What has no room in
// them is passed over
//   for the next best that has.
// * An exclusive offer goes to one task, under either of its prices; a stock item to as many per pass as its
// hint allows.
// * A gang gets a machine for each of its tasks or none. One that is refused gives everything back before the
// next is served.
// * One unit in a pass may *hold*: the first that was refused, has waited `hold_after`, and lacked room in a
// quota, or at least
//   half of whose gang was found. For want of quota nobody after it gets what counts against that quota,
//   until it fits: so the fleet drains towards it. For a gang its found offers are kept from those after it
//   for `hold_most`, then not for as long, in turn: offers come and go, so keeping them for ever would cost
//   others without end.
// * A choice of the last plan that was not rented yet (`kept`) stays, and is kept from others, unless
// something else is better by
//   `keep_margin_percent`. What its task lets go is free in the next pass.
// * Tasks that are alike fare alike: once one was refused, so are the others in this pass, for the same
// reason. The same for gangs.
// * Work is bounded: after `launches_max` placements, or `evaluations_max` fits looked at, the rest waits
// with "next_pass". A third
//   of the looks belongs to those who were not looked at for longest, so that each task has its turn whatever
//   stands before it. The counts of a task that nothing fits take looks of their own, and have their turns
//   too (`counts_max`).
//
// Cost: the offers are sorted once (scheduler/offer_index.hpp), the tasks grouped by shape (task_shape.hpp);
// each shape opens the trees of offers from the cheapest until nothing further can be better. That is n log n
// in either, plus the looks.
#pragma once
#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "scheduler/offer_index.hpp"
#include "scheduler/scoring.hpp"

namespace gf {

struct PlanTask {
    const JobSpec* spec{nullptr};    // not owned, never null; its priority is not read, the row's is
    const TaskRecord* row{nullptr};  // not owned, never null; ids are unique in a request
    bool local_allowed{false};
    std::map<std::string, std::string> barred;  // providers that must not get this task now -> reason
    std::string gang;              // tasks of one non-empty name are placed together or not at all
    std::optional<OfferKey> kept;  // chosen by the last plan and not rented yet
    std::string wait_reason;       // of the last plan, with its times
    Instant wait_since{};
    std::optional<Instant> looked_at;
    std::optional<Instant> counted_at;
    Millis reserve_for{std::chrono::hours{1}};  // the time that is reserved at launch
    std::vector<std::size_t> budgets;           // of PlanWorld::budgets, that the reservation falls under
};

struct PlanProject {
    int weight{1};       // at least 1
    UsdPerHour running;  // of its machines now
};

struct PlanBudget {
    std::string name;
    Usd left;
};

/// A machine of ours that is up, checked, and without work.
struct WarmMachine {
    MachineId id;
    Offer offer;      // as rented
    UsdPerHour rate;  // what it costs by now, all lines
    Bytes disk;
    std::string image;
    std::string project;
    TaskId only_for;                     // not empty: no other task gets it
    std::optional<Instant> billed_from;  // absent: nothing is paid ahead
};

struct PlanWorld {
    ChoiceWorld choice;                           // local_allowed is each task's own; provider_quotas is empty
    std::map<std::string, PlanProject> projects;  // those without an entry have weight 1 and nothing running
    std::map<std::string, ProviderQuota> provider_quotas;
    std::vector<PlanBudget> budgets;
    std::vector<WarmMachine> warm;  // ids are unique
};

struct PlanRule {
    std::size_t launches_max{64};
    std::size_t evaluations_max{
        200'000};  // of one task shape and one offer; the walk that passes it is ended first
    std::size_t counts_max{5'000};  // further looks, for the counts of those that nothing fits
    int keep_margin_percent{10};
    Millis hold_after{std::chrono::minutes{30}};
    Millis hold_most{std::chrono::minutes{15}};
    // How many of one stock item are launched in a pass, by its hint. A refusal cools it down, and each costs
    // a task minutes.
    int stock_low{1};
    int stock_medium{8};
    int stock_high{32};
    int stock_unknown{8};
};

struct Placement {
    std::size_t task{0};               // of the request
    std::optional<std::size_t> offer;  // of the request; absent for a warm machine
    std::optional<std::size_t> warm;   // of PlanWorld::warm
    UsdPerHour all_in;
    std::int64_t score{0};
    bool kept{false};  // the choice of the last plan again
};

struct Waiting {
    std::size_t task{0};
    /// As `Decision::wait_reason`, or "quota", "balance", "budget" (offers fit, and have no room there:
    /// `detail` says which), "turn" (what fits went to tasks before it, is kept for another one, or a task
    /// before it holds the quota), "gang" (`found` of its tasks would have had a machine), "next_pass".
    std::string reason;
    std::string detail;  // "quota_machines", the name of the budget, …; empty = the reason says it all
    Instant since{};     // of this reason
    std::optional<Instant> looked_at;
    int found{0};  // of a gang
    std::optional<std::size_t>
        refusals;  // of Plan::refusals, where no offer fits and it was this one's turn to be counted
    std::optional<Instant> counted_at;  // when it last was
};

/// The filters' counts for one shape of tasks: as `Decision::refused`.
struct Refusals {
    std::map<std::string, int> counts;
    int considered{0};
};

struct Plan {
    std::vector<Placement> placements;  // in the order of service: to be launched in this order
    std::vector<Waiting> waiting;       // in the order of task ids
    std::vector<Refusals> refusals;
    std::size_t evaluations{0};
    std::size_t shapes{0};
    bool more{false};  // another pass at once would get further
    std::optional<std::size_t> holder;  // the first task of the unit that holds (above)
};

/// `offers`: (provider, id, spot) is unique. Deterministic, whatever the order of tasks, offers and warm
/// machines. Never blocks, never throws for what came from outside.
[[nodiscard]] Plan plan(std::span<const PlanTask> tasks, std::span<const Offer> offers,
                        const PlanWorld& world, const PlanRule& rule,
                        const Scoring& scoring = rate_scoring());

/// The plan as JSON, by ids: equal plans give equal bytes.
[[nodiscard]] std::string plan_json(const Plan& plan, std::span<const PlanTask> tasks,
                                    std::span<const Offer> offers, const PlanWorld& world);

}  // namespace gf
