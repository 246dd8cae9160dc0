#include "scheduler/plan_request.hpp"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <tuple>

namespace gf {

PlanRequest::PlanRequest(std::span<const PlanTask> tasks, const PlanWorld& world, const Scoring& scoring)
    : tasks_(tasks), world_(world) {
    rank_tasks();
    find_projects();
    find_pools();
    find_groups(scoring);
    find_units();
}

void PlanRequest::rank_tasks() {
    by_id.resize(tasks_.size());
    std::iota(by_id.begin(), by_id.end(), 0U);
    std::ranges::sort(by_id, {}, [this](TaskAt t) -> const TaskId& { return tasks_[t].row->id; });
    rank.resize(tasks_.size());
    for (std::size_t i = 0; i < by_id.size(); ++i) rank[by_id[i]] = i;
}

void PlanRequest::find_projects() {
    std::map<std::string_view, std::size_t> numbers;
    std::vector<std::map<std::string_view, std::size_t>::const_iterator> named;
    named.reserve(tasks_.size());
    for (const PlanTask& task : tasks_) named.push_back(numbers.try_emplace(task.spec->project).first);
    for (auto& [name, number] : numbers) {
        number = projects.size();
        const auto known = world_.projects.find(std::string(name));
        if (known == world_.projects.end())
            projects.emplace_back();
        else
            projects.push_back({known->second.running.micros, std::max(1, known->second.weight)});
    }
    project_of_.reserve(named.size());
    for (const auto& at : named) project_of_.push_back(at->second);
}

void PlanRequest::find_pools() {
    std::vector<std::size_t> order(world_.warm.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::sort(order, {}, [this](std::size_t w) -> const MachineId& { return world_.warm[w].id; });
    for (const std::size_t w : order) {
        const auto [at, added] =
            pool_of_.try_emplace({world_.warm[w].image, world_.warm[w].project}, pools.size());
        if (added) pools.emplace_back();
        pools[at->second].push_back(w);
    }
}

std::size_t PlanRequest::variant_of(const PlanTask& task) {
    const auto [at, added] = variant_numbers_.try_emplace({task.local_allowed, task.barred}, variants.size());
    if (!added) return at->second;
    Variant v{world_.choice, world_.choice, world_.choice};
    for (ChoiceWorld* w : {&v.before, &v.now, &v.warm}) w->local_allowed = task.local_allowed;
    for (const auto& [provider, reason] : task.barred)
        v.before.paused_providers[provider] = v.now.paused_providers[provider] = reason;
    for (ChoiceWorld* w : {&v.before, &v.warm}) {
        w->machines = 0;
        w->fleet_rate = {};
    }
    v.warm.paused_providers.clear();
    v.warm.cooled_offers.clear();
    v.warm.taken_offers.clear();
    variants.push_back(std::make_unique<Variant>(std::move(v)));
    return at->second;
}

bool PlanRequest::has_waited(TaskAt t) const {
    const Instant since = tasks_[t].row->waiting_since;
    return since != Instant{} && world_.choice.now - since >= kReputePatience;
}

std::string PlanRequest::money_key(TaskAt t) const {
    const PlanTask& task = tasks_[t];
    std::string key(has_waited(t) ? "w" : "");
    if (!task.budgets.empty()) put_part(key, task.reserve_for.count());
    for (const std::size_t budget : task.budgets) put_part(key, static_cast<std::int64_t>(budget));
    return key;
}

/// By id, so that which task stands for its shape hangs on nothing else.
void PlanRequest::find_groups(const Scoring& scoring) {
    std::multimap<std::uint64_t, std::size_t> by_hash;  // -> shapes
    std::map<std::pair<std::size_t, std::string>, std::size_t> groups;
    group_of.resize(tasks_.size());
    ShapeKey key;
    for (const TaskAt t : by_id) {
        const PlanTask& task = tasks_[t];
        const std::size_t variant = variant_of(task);
        std::optional<std::size_t> pool;
        if (!pools.empty())
            if (const auto at = pool_of_.find({task.spec->image, task.spec->project}); at != pool_of_.end())
                pool = at->second;
        shape_key(*task.spec, *task.row, key);
        put_part(key.rest, static_cast<std::int64_t>(variant));
        put_part(key.rest, pool ? static_cast<std::int64_t>(*pool) : -1);
        if (scoring.key != nullptr) scoring.key(scoring.self, *task.spec, *task.row, key.rest);
        const std::uint64_t hash = key_hash(key);
        std::size_t shape = shapes.size();
        for (auto [at, end] = by_hash.equal_range(hash); at != end; ++at)
            if (shapes[at->second].key == key) shape = at->second;
        if (shape == shapes.size()) {
            by_hash.emplace(hash, shape);
            shapes.push_back({.key = key, .like = t, .variant = variant, .pool = pool});
        }
        ++shapes[shape].tasks;
        const auto [group, new_group] = groups.try_emplace({shape, money_key(t)}, shape_of_group.size());
        if (new_group) shape_of_group.push_back(shape);
        group_of[t] = group->second;
    }
}

void PlanRequest::find_units() {
    std::map<std::string_view, std::size_t> gangs;
    for (const TaskAt t : by_id) {
        const PlanTask& task = tasks_[t];
        if (!task.gang.empty()) {
            const auto [at, added] = gangs.try_emplace(task.gang, units.size());
            if (!added) {
                units[at->second].tasks.push_back(t);
                units[at->second].priority = std::max(units[at->second].priority, task.row->priority);
                continue;
            }
        }
        units.push_back(
            {.tasks = {t}, .priority = task.row->priority, .project = project_of_[t], .rank = rank[t]});
    }
    std::ranges::sort(units, {}, [](const Unit& u) { return std::tuple(-u.priority, u.project, u.rank); });
}

}  // namespace gf
