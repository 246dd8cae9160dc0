// Expected money to finish: what the rest of a task costs on one offer, line by line. Pure.
//
// Work is known when it is known how much is left (a total of `progress`, of this task or of an earlier job of its family, or a
// whole run of a family that reports none) and how fast the family goes somewhere. Then
//     gpu           its rate over the hours of useful work
//     disk          its rate over the same hours
//     traffic_down  declared downloads, once per machine; the checkpoint where one is restored
//     traffic_up    declared uploads once, and each checkpoint
//     start         boot and image pull of the first machine, at both rates
//     restore       of the checkpoint that it goes on from, at both rates
//     interruption  what losses are expected to add: work done again, and start and restore of each further machine, at both rates
//     rounding      what the billing steps and the minimum add to each machine's bill
// A total that the task's steps have reached is none: a family that was told another length by its environment, or a counter that
// begins again with each epoch. It never means that nothing is left.
// A card of which no speed is known is taken for the slowest of the card table; where that tells nothing, for the slowest that is
// known among the offers (`slowest`). A job that uses no GPU is measured by its cores.
//
// Work is not known otherwise, nor where the family's speed is known on none of the offers (`FinishEstimator::without_work`). Then
// there are no hours and no lines, and offers compare by `per_unit`: the price of an hour, all in, lengthened by losses, over the
// card's speed beside one V100 (over the number of cores for a job that uses no GPU). Losses are then counted over what is left of limits.duration, or
// over four hours where it has none (nine jobs in ten are shorter: SPOT.md section 1, philly-traces).
//
// Rounding rule: hours become milliseconds once, upwards; each line is then integer micro-dollars, rounded up by `cost`; the total
// is the sum of the lines as they are shown.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/job_spec.hpp"
#include "model/offer.hpp"
#include "model/records.hpp"
#include "scheduler/card_speed.hpp"
#include "scheduler/estimate/peaks.hpp"
#include "scheduler/interruption.hpp"
#include "scheduler/start_times.hpp"
#include "scheduler/throughput.hpp"

namespace gf {

/// Everything that own history says. Held by the core, changed by the `observed` functions.
struct RunHistory {
    std::map<std::pair<std::string, WorkUnit>, std::vector<ThroughputRecord>> speeds;  // by family and unit
    std::map<std::pair<std::string, WorkUnit>, FamilyRecord> families;
    std::map<std::string, LossRecord> losses;
    std::map<std::string, StartRecord> starts;
    std::map<std::string, std::vector<PeakRecord>> peaks;  // by family; at most kPeaksKept each
};

/// Corrects the spec's `resources.estimate`, and the memory that it asks for, by what runs of its family took (estimate/peaks.hpp).
/// False, and nothing changed, where nothing is known.
bool take_peaks(JobSpec& spec, const RunHistory& history);

/// What is known of one task's work besides its spec. Absent or 0 = not known.
struct TaskWork {
    std::string family;                 // `family_of`; empty = no history is looked up
    std::optional<std::int64_t> total;  // steps, as `progress` told
    std::int64_t step{0};               // done, of the newest committed checkpoint
    Bytes download;                     // code and inputs, per machine
    Bytes upload;                       // outputs, once
    Bytes checkpoint;                   // one of them
};

/// What choosing may know to reckon with money to finish. With `speeds` null nothing of this is done.
struct Expectations {
    const CardSpeeds* speeds{nullptr};          // not owned
    std::shared_ptr<const RunHistory> history;  // null = none
    TaskWork work;
    Millis checkpoint_every{std::chrono::minutes{10}};  // where the spec leaves it to the daemon
    std::set<std::string> boot_unbilled;                // providers whose bill begins when the machine is up
};

struct MoneyLine {
    std::string name;
    Usd amount;
    std::string note;  // how it came about, for people
    friend bool operator==(const MoneyLine&, const MoneyLine&) = default;
};

struct FinishCost {
    bool known{false};  // there are hours, lines and a total
    std::vector<MoneyLine> lines;
    Usd total;
    Millis run{0};   // useful work left, on this machine; for a job with a deadline what has to be reckoned with (`FinishEstimator::run`)
    Millis held{0};  // of all machines that it takes, losses included
    UsdPerHour per_unit;  // price of an hour at the speed of one V100, or of one core; where work is not known
    double speed{0};  // beside one V100, or in cores; 0 = not known
    double units_per_hour{0};  // of the family's unit; 0 = not known
    WorkUnit unit{WorkUnit::step};
    double losses{0};  // machines expected to be lost
    bool by_cores{false};  // it uses no GPU: `speed` counts cores
    bool hopeless{false};  // losses would take more than it gains
    bool cut_off{false};   // the work takes longer than what is left of limits.duration
    // Where each figure comes from, for people.
    std::string work_from, speed_from, losses_from, start_from;
};

/// What offers are ordered by (RankedOffer::score). `ranked_at` over `all_in` is how much dearer an hour of the run is than the price
/// per hour; it counts where the work is not known, `handicap_percent` of the host where it is.
[[nodiscard]] std::int64_t finish_score(const FinishCost& cost, UsdPerHour all_in, UsdPerHour ranked_at, int handicap_percent);

/// Everything that is the same for all offers, worked out once per task. What it is made from must outlive it. It remembers the
/// speeds that it has worked out: one thread at a time.
class FinishEstimator {
 public:
    FinishEstimator(const JobSpec& spec, const TaskRecord& task, const Expectations& expect, Instant now);

    /// True if the amount of work is known, so that prices are of the kind `known`.
    [[nodiscard]] bool work_known() const { return left_.has_value(); }
    /// To be called when `speed` is known of none of the offers that could be taken: from here on the work counts as not known.
    void without_work();

    /// Speed of an offer, in units per hour if work is known, else beside one V100. Nothing where it is not known.
    [[nodiscard]] std::optional<double> speed(const Offer& offer, double share) const;
    /// Useful work left on this offer, as time. Nothing where work or speed is not known. For a job with a deadline and a
    /// limits.duration, of which only an earlier job has told how long it is, at least what is left of that limit on the place that
    /// its family is known from best: to be late is worse than to have reckoned with too much. The money is not reckoned with that.
    [[nodiscard]] std::optional<Millis> run(const Offer& offer, double share) const;
    /// Time that is paid for at the least: the useful work, or where it is not known an hour at the speed of one V100.
    [[nodiscard]] Millis least_time(const Offer& offer, double share, double slowest) const;
    /// `slowest`: in units per hour, above 0; taken for an offer whose speed is not known where work is. `explain` fills in the texts
    /// and notes. `is_up`: the machine is there, with its image; only those after it have to start.
    [[nodiscard]] FinishCost reckon(const Offer& offer, double share, UsdPerHour disk, double slowest, bool explain, bool is_up = false) const;

 private:
    struct Pace {
        std::optional<double> units;  // per hour
        std::optional<CardSpeed> prior;
        bool guessed{false};          // the prior is that of the slowest card
        std::optional<SpeedEstimate> learned;
    };
    [[nodiscard]] Pace pace(const Offer& offer, double share) const;
    [[nodiscard]] const LossRecord* losses(const std::string& key) const;
    struct Starts {
        StartTime boot, image;
        const StartRecord* restore{nullptr};
    };
    /// Of a provider's machines, the local one's apart.
    [[nodiscard]] const Starts& starts(const std::string& provider) const;
    [[nodiscard]] double redone_hours() const;
    void stretch_to_limit();

    const JobSpec& spec_;
    const TaskRecord& task_;
    const Expectations& expect_;
    Instant now_;
    WorkKind work_{};
    WorkUnit unit_{WorkUnit::step};
    std::optional<double> left_;  // units
    double stretch_{1};           // of the time that it takes, for what has to be reckoned with
    std::string work_from_;
    const std::vector<ThroughputRecord>* seen_{nullptr};  // of the family in that unit
    // Offers of one card and count are many, and of one provider.
    mutable std::map<RunPlace, Pace> paces_;
    mutable std::map<std::string, Starts> starts_;
};

}  // namespace gf
