// What one pass of the planner is asked for, sorted out: tasks by id, grouped by what makes them alike, in
// units and in projects. A part of the planner; made once for a pass and not changed by it, but for what a
// variant's world has left.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/planner.hpp"
#include "scheduler/task_shape.hpp"

namespace gf {

class PlanRequest {
 public:
    using TaskAt = std::uint32_t;  // of the span

    /// One choice world and what becomes of it in the pass: they differ in who may have the local machine and
    /// in barred providers.
    struct Variant {
        ChoiceWorld before;  // with no machine running: what never has room in a quota fails here
        ChoiceWorld now;
        ChoiceWorld warm;  // for machines that are up: they are neither launched nor taken
    };
    /// Tasks that are alike to the market.
    struct Shape {
        ShapeKey key;
        TaskAt like{0};  // any of them, the first by id
        std::size_t variant{0};
        std::optional<std::size_t> pool;  // of warm machines
        std::size_t tasks{0};
    };
    struct Unit {
        std::vector<TaskAt> tasks;
        int priority{0};
        std::size_t project{0};
        std::size_t rank{0};  // of its first task by id
    };
    struct Project {
        std::int64_t rate{0};
        int weight{1};
    };

    PlanRequest(std::span<const PlanTask> tasks, const PlanWorld& world, const Scoring& scoring);

    /// So long that a host of bad repute may do.
    [[nodiscard]] bool has_waited(TaskAt task) const;

    std::vector<TaskAt> by_id;
    std::vector<std::size_t> rank;                // of a task by id
    std::vector<Project> projects;                // by name
    std::vector<std::vector<std::size_t>> pools;  // of warm machines, by image and project; each by id
    std::vector<std::unique_ptr<Variant>> variants;
    std::vector<Shape> shapes;
    /// Tasks of a shape whose money comes from the same places, and who would all take a host of bad repute,
    /// or none would.
    std::vector<std::size_t> shape_of_group;
    std::vector<std::size_t> group_of;  // of a task
    std::vector<Unit> units;            // by priority, project, and age

 private:
    void rank_tasks();
    void find_projects();
    void find_pools();
    void find_groups(const Scoring& scoring);
    void find_units();
    std::size_t variant_of(const PlanTask& task);
    [[nodiscard]] std::string money_key(TaskAt task) const;

    std::span<const PlanTask> tasks_;
    const PlanWorld& world_;
    std::vector<std::size_t> project_of_;                                 // of a task
    std::map<std::pair<std::string, std::string>, std::size_t> pool_of_;  // image and project
    std::map<std::pair<bool, std::map<std::string, std::string>>, std::size_t> variant_numbers_;
};

}  // namespace gf
