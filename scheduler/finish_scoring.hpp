// Money to finish as the measure of the planner (scoring.hpp): what `choose` ranks one task's offers by, for many tasks in one pass.
// Pure. What is expected to run into limits.duration comes after all that is not, by a step that no price reaches.
#pragma once
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "scheduler/finish_cost.hpp"
#include "scheduler/scoring.hpp"

namespace gf {

class FinishScoring {
 public:
    /// `common` is the same for all tasks, and its `speeds` are not null; its `work` is not read: `works` has each task's, by id, and a
    /// task without an entry has none that is known. What is of unknown speed is taken for the slowest of `offers`, whether they fit a
    /// task or not. All that is handed in is copied but what `common` points to.
    FinishScoring(const Expectations& common, std::map<TaskId, TaskWork> works, std::span<const Offer> offers, const GpuNames* gpus,
                  Instant now);

    /// Refers to this object, which must outlive the pass; one pass at a time, and specs and rows that live as long.
    [[nodiscard]] Scoring scoring() const;

 private:
    struct Task;
    struct Seen {  // one kind of card, in one count
        Offer like;
        double share{1};
    };
    const Task& task_of(const JobSpec& spec, const TaskRecord& row) const;
    [[nodiscard]] const TaskWork& work_of(const TaskRecord& row) const;

    static std::int64_t score(const void* self, const Fit& fit);
    static Pace pace(const void* self, const Fit& like);
    static std::int64_t warm(const void* self, const Fit& fit, Millis paid_ahead);
    static void key(const void* self, const JobSpec& spec, const TaskRecord& row, std::string& key);

    Expectations common_;
    std::map<TaskId, TaskWork> works_;
    std::vector<Seen> kinds_;
    Instant now_;
    mutable std::map<TaskId, std::shared_ptr<const Task>> tasks_;  // worked out when they are first asked for
};

}  // namespace gf
