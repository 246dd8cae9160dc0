#include "scheduler/plan_request.hpp"

#include <algorithm>
#include <numeric>
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
    for (const PlanTask& task : tasks_) numbers.try_emplace(task.spec->project);
    for (auto& [name, number] : numbers) {
        number = projects.size();
        const auto known = world_.projects.find(std::string(name));
        if (known == world_.projects.end())
            projects.emplace_back();
        else
            projects.push_back({known->second.running.micros, std::max(1, known->second.weight)});
    }
    project_numbers_ = std::move(numbers);
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
    struct Keyed {
        std::uint64_t hash{0};
        std::size_t rank{0};
        ShapeKey key;
        std::size_t variant{0};
        std::optional<std::size_t> pool;
    };
    std::vector<Keyed> keyed;
    keyed.reserve(tasks_.size());
    for (const TaskAt t : by_id) {
        const PlanTask& task = tasks_[t];
        Keyed k{.rank = rank[t],
                .key = shape_key(*task.spec, *task.row),
                .variant = variant_of(task),
                .pool = {}};
        if (!pools.empty())
            if (const auto at = pool_of_.find({task.spec->image, task.spec->project}); at != pool_of_.end())
                k.pool = at->second;
        put_part(k.key.rest, static_cast<std::int64_t>(k.variant));
        put_part(k.key.rest, k.pool ? static_cast<std::int64_t>(*k.pool) : -1);
        if (scoring.key != nullptr) scoring.key(scoring.self, *task.spec, *task.row, k.key.rest);
        k.hash = key_hash(k.key);
        keyed.push_back(std::move(k));
    }
    std::ranges::sort(keyed, [](const Keyed& a, const Keyed& b) {
        if (a.hash != b.hash) return a.hash < b.hash;
        return std::tie(a.key, a.rank) < std::tie(b.key, b.rank);
    });
    std::map<std::string, std::size_t> groups;  // of one shape
    group_of.resize(tasks_.size());
    for (Keyed& k : keyed) {
        const TaskAt t = by_id[k.rank];
        const bool alike = !shapes.empty() && shapes.back().hash == k.hash && shapes.back().key == k.key;
        if (!alike) {
            shapes.push_back(
                {.hash = k.hash, .key = std::move(k.key), .like = t, .variant = k.variant, .pool = k.pool});
            groups.clear();
        }
        ++shapes.back().tasks;
        const auto [group, new_group] = groups.try_emplace(money_key(t), shape_of_group.size());
        if (new_group) shape_of_group.push_back(shapes.size() - 1);
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
        units.push_back({.tasks = {t},
                         .priority = task.row->priority,
                         .project = project_numbers_.at(task.spec->project),
                         .rank = rank[t]});
    }
    std::ranges::sort(units, {}, [](const Unit& u) { return std::tuple(-u.priority, u.project, u.rank); });
}

}  // namespace gf
