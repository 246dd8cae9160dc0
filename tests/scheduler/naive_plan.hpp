// The planner's rule, written down plainly: every task held against every offer, nothing sorted, nothing
// shared. What the planner must come to, by whatever short cuts.
#pragma once
#include <algorithm>
#include <climits>
#include <functional>
#include <tuple>

#include "plan_world.hpp"
#include "scheduler/task_shape.hpp"

namespace gf::test {

class NaivePlan {
 public:
    explicit NaivePlan(const PlanCase& c, const Scoring& scoring = rate_scoring())
        : c_(c), scoring_(scoring), left_(c.world.choice), quotas_(c.world.provider_quotas) {
        for (const auto& budget : c.world.budgets) budgets_.push_back(budget.left);
        for (const auto& [name, project] : c.world.projects) rates_[name] = project.running.micros;
    }

    Plan run() {
        std::vector<std::vector<std::size_t>> units = units_of();
        std::ranges::sort(units, {}, [&](const auto& u) { return std::pair(-priority(u), id(u.front())); });
        for (const auto& unit : units)
            for (const auto t : unit)
                if (c_.tasks[t].kept) keepers_.push_back(t);
        std::ranges::sort(keepers_, {},
                          [&](std::size_t t) { return std::pair(-priority(unit_with(units, t)), id(t)); });
        for (const auto t : keepers_)
            if (const Offer* o = kept_offer(t); o && o->exclusive) kept_by_.try_emplace(unit_name(*o), t);
        while (!units.empty()) {
            const auto next =
                std::ranges::min_element(units, [&](const auto& a, const auto& b) { return before(a, b); });
            const auto unit = *next;
            units.erase(next);
            serve(unit);
        }
        std::ranges::sort(plan_.waiting, {}, [&](const Waiting& w) { return id(w.task); });
        return plan_;
    }

    /// A task like one that was refused found something after all: never, since what is left only shrinks.
    bool grew{false};

 private:
    struct Why {
        std::string reason, detail;
        UsdPerHour rate;
    };
    struct Found {
        std::size_t task{0};
        std::optional<std::size_t> offer, warm;
        UsdPerHour all_in;
        std::int64_t score{0};
        bool kept{false};
    };

    const TaskId& id(std::size_t t) const { return c_.tasks[t].row->id; }
    int priority(const std::vector<std::size_t>& unit) const {
        int out = INT_MIN;
        for (const auto t : unit) out = std::max(out, c_.tasks[t].row->priority);
        return out;
    }
    static std::vector<std::size_t> unit_with(const std::vector<std::vector<std::size_t>>& units,
                                              std::size_t t) {
        for (const auto& unit : units)
            if (std::ranges::find(unit, t) != unit.end()) return unit;
        return {};
    }
    std::vector<std::vector<std::size_t>> units_of() const {
        std::map<std::string, std::vector<std::size_t>> units;
        for (std::size_t t = 0; t < c_.tasks.size(); ++t)
            units[c_.tasks[t].gang.empty() ? "single " + id(t).get() : "gang " + c_.tasks[t].gang].push_back(
                t);
        std::vector<std::vector<std::size_t>> out;
        for (auto& [name, unit] : units) {
            std::ranges::sort(unit, {}, [&](std::size_t t) { return id(t); });
            out.push_back(unit);
        }
        return out;
    }
    bool before(const std::vector<std::size_t>& a, const std::vector<std::size_t>& b) const {
        if (priority(a) != priority(b)) return priority(a) > priority(b);
        const std::string &x = c_.tasks[a.front()].spec->project, &y = c_.tasks[b.front()].spec->project;
        const auto weight = [&](const std::string& p) {
            return c_.world.projects.contains(p) ? c_.world.projects.at(p).weight : 1;
        };
        const auto rate = [&](const std::string& p) { return rates_.contains(p) ? rates_.at(p) : 0; };
        if (x != y) {
            const auto left = rate(x) * weight(y), right = rate(y) * weight(x);
            return left != right ? left < right : x < y;
        }
        return id(a.front()) < id(b.front());
    }

    // ---- offers ----

    std::string unit_name(const Offer& o) const {
        return o.provider.get() + "/" + o.id + (o.exclusive ? "" : (o.spot ? " spot" : " fixed"));
    }
    int most(const Offer& o) const {
        if (o.exclusive) return 1;
        return o.stock == 1   ? c_.rule.stock_low
               : o.stock == 2 ? c_.rule.stock_medium
               : o.stock >= 3 ? c_.rule.stock_high
                              : c_.rule.stock_unknown;
    }
    bool is_free(const Offer& o, std::size_t task) const {
        const auto used = used_.find(unit_name(o));
        const auto kept = kept_by_.find(unit_name(o));
        return (used == used_.end() || used->second < most(o)) &&
               (kept == kept_by_.end() || kept->second == task);
    }
    const Offer* kept_offer(std::size_t t) const {
        for (const Offer& o : c_.offers)
            if (OfferKey{o.provider, o.id, o.spot} == *c_.tasks[t].kept) return &o;
        return nullptr;
    }
    ChoiceWorld of_task(ChoiceWorld w, std::size_t t) const {
        w.local_allowed = c_.tasks[t].local_allowed;
        for (const auto& [provider, reason] : c_.tasks[t].barred) w.paused_providers[provider] = reason;
        return w;
    }
    ChoiceWorld before_pass(std::size_t t) const {
        ChoiceWorld w = of_task(c_.world.choice, t);
        w.machines = 0;
        w.fleet_rate = {};
        return w;
    }
    static std::vector<std::string> refusals(const Fit& fit) {
        std::vector<std::string> out;
        for (const auto filter : filters())
            if (auto refusal = filter(fit)) out.push_back(refusal->reason);
        return out;
    }
    Fit fit(std::size_t t, const Offer& o, const ChoiceWorld& w) const {
        Fit f = make_fit(*c_.tasks[t].spec, *c_.tasks[t].row, o, w);
        if (scoring_.pace != nullptr) f.expected = scoring_.pace(scoring_.self, f).expected;
        return f;
    }
    std::int64_t score(const Fit& f) const { return scoring_.score(scoring_.self, f); }

    std::optional<Why> no_room(std::size_t t, const Offer& o, bool of_bad_repute) const {
        const std::string& p = o.provider.get();
        const ChoiceWorld w = of_task(left_, t);
        const Fit f = fit(t, o, w);
        if (!f.local && (held_fleet_ || held_provider_ == p)) return Why{"turn", "quota_held", f.all_in};
        for (const auto& reason : refusals(f)) {
            if (of_bad_repute && reason == "host_reputation") continue;
            return reason == "balance" ? Why{reason, p, f.all_in} : Why{"quota", reason, f.all_in};
        }
        if (const auto q = quotas_.find(p); q != quotas_.end()) {
            if (q->second.machines_max && q->second.machines + 1 > *q->second.machines_max)
                return Why{"quota", "quota_provider_machines/" + p, f.all_in};
            if (q->second.rate_max && q->second.rate + f.all_in > *q->second.rate_max)
                return Why{"quota", "quota_provider_usd_per_hour/" + p, f.all_in};
        }
        for (const auto b : c_.tasks[t].budgets)
            if (cost(f.all_in, c_.tasks[t].reserve_for) > budgets_[b])
                return Why{"budget", c_.world.budgets[b].name, f.all_in};
        return std::nullopt;
    }

    // ---- one task ----

    std::optional<Found> best_of(std::size_t t, bool of_bad_repute, std::optional<Why>& why,
                                 bool& others) const {
        const ChoiceWorld w = before_pass(t);
        std::vector<std::size_t> free;
        for (std::size_t i = 0; i < c_.offers.size(); ++i) {
            const auto refused = refusals(fit(t, c_.offers[i], w));
            if (of_bad_repute ? refused != std::vector<std::string>{"host_reputation"} : !refused.empty())
                continue;
            if (is_free(c_.offers[i], t))
                free.push_back(i);
            else
                others = true;
        }
        std::ranges::sort(free, {}, [&](std::size_t i) {
            const Offer& o = c_.offers[i];
            return std::tuple(score(fit(t, o, w)), o.provider.get() != "local", o.provider, o.id, o.spot);
        });
        for (const auto i : free) {
            const auto room = no_room(t, c_.offers[i], of_bad_repute);
            if (room && !why) why = room;
            if (room) continue;
            const Fit f = fit(t, c_.offers[i], w);
            return Found{t, i, {}, f.all_in, score(f), false};
        }
        return std::nullopt;
    }

    std::optional<Found> best_warm(std::size_t t) const {
        const PlanTask& task = c_.tasks[t];
        ChoiceWorld w = of_task(c_.world.choice, t);
        w.paused_providers.clear();
        w.cooled_offers.clear();
        w.taken_offers.clear();
        w.machines = 0;
        w.fleet_rate = {};
        std::optional<Found> best;
        for (std::size_t i = 0; i < c_.world.warm.size(); ++i) {
            const WarmMachine& m = c_.world.warm[i];
            if (warm_used_.contains(i) || m.image != task.spec->image || m.project != task.spec->project)
                continue;
            if ((!m.only_for.empty() && m.only_for != task.row->id) || m.disk < task.spec->resources.disk)
                continue;
            Offer held = m.offer;
            held.gpu_rate = std::max(held.gpu_rate,
                                     UsdPerHour{m.rate.micros - disk_rate(held, disk_gb(*task.spec)).micros});
            const Fit f = fit(t, held, w);
            if (!refusals(f).empty()) continue;
            if (std::ranges::any_of(task.budgets, [&](std::size_t b) {
                    return cost(f.all_in, task.reserve_for) > budgets_[b];
                }))
                continue;
            const Millis ahead = m.billed_from ? paid_ahead(held, kNow - *m.billed_from) : Millis{0};
            const Found found{t, {}, i, f.all_in, scoring_.warm(scoring_.self, f, ahead), false};
            const auto key = [&](const Found& x) {
                return std::tuple(x.score, c_.world.warm[*x.warm].only_for.empty(),
                                  c_.world.warm[*x.warm].id);
            };
            if (!best || key(found) < key(*best)) best = found;
        }
        return best;
    }

    std::optional<Found> kept(std::size_t t) const {
        const Offer* o = c_.tasks[t].kept ? kept_offer(t) : nullptr;
        if (!o || !is_free(*o, t)) return std::nullopt;
        const ChoiceWorld w = before_pass(t);
        const Fit f = fit(t, *o, w);
        if (!refusals(f).empty() || no_room(t, *o, false)) return std::nullopt;
        return Found{t, static_cast<std::size_t>(o - c_.offers.data()), {}, f.all_in, score(f), true};
    }

    std::string word(std::size_t t, bool& fits) const {
        const ChoiceWorld w = before_pass(t);
        std::map<std::string, int> refused;
        std::set<std::string> sole;
        for (const Offer& o : c_.offers) {
            const auto reasons = refusals(fit(t, o, w));
            fits = fits || reasons.empty();
            if (!reasons.empty()) ++refused[reasons.front()];
            if (reasons.size() == 1) sole.insert(reasons.front());
        }
        return wait_reason(static_cast<int>(c_.offers.size()), refused, sole);
    }

    /// Tasks that are alike to the market and to the money.
    std::string likeness(std::size_t t) const {
        const PlanTask& task = c_.tasks[t];
        const bool waited = kNow - task.row->waiting_since >= kReputePatience;
        ShapeKey key;
        shape_key(*task.spec, *task.row, key);
        std::string out = (waited ? "waited " : "") + key.market + key.card + key.rest +
                          (task.local_allowed ? "local" : "");
        for (const auto& [provider, reason] : task.barred) out += provider + reason;
        if (has_pool(t)) out += task.spec->image + " of " + task.spec->project;
        if (!task.budgets.empty()) put_part(out, task.reserve_for.count());
        for (const auto b : task.budgets) put_part(out, static_cast<std::int64_t>(b));
        return out;
    }
    bool has_pool(std::size_t t) const {
        const JobSpec& spec = *c_.tasks[t].spec;
        return std::ranges::any_of(c_.world.warm, [&](const WarmMachine& m) {
            return m.image == spec.image && m.project == spec.project;
        });
    }

    std::optional<Found> take(std::size_t t, Why& why) {
        const auto warm = best_warm(t);
        const auto mine = kept(t);
        std::optional<Why> room;
        bool others = false, others_of_bad_repute = false;
        auto found = best_of(t, false, room, others);
        const bool waited = kNow - c_.tasks[t].row->waiting_since >= kReputePatience;
        if (!found && !room && waited) found = best_of(t, true, room, others_of_bad_repute);
        const bool keeps = c_.tasks[t].kept && kept_offer(t);
        const auto known = keeps ? refused_.end() : refused_.find(likeness(t));
        if (known != refused_.end() && found) grew = true;
        if (known != refused_.end()) found.reset();
        if (!found && !warm && !mine) {
            bool fits = false;
            const std::string plain = word(t, fits);
            if (known != refused_.end())
                why = known->second;
            else if (room)
                why = *room;
            else
                why = {others || fits ? "turn" : plain, "", {}};
            if (asked_.empty()) refused_.try_emplace(likeness(t), why);
            return std::nullopt;
        }
        auto best = warm;
        if (found && (!best || found->score < best->score)) best = found;
        if (!mine) return best;
        const auto margin = std::abs(mine->score) * c_.rule.keep_margin_percent / 100;
        return best && best->offer != mine->offer && best->score < mine->score - margin ? best : mine;
    }

    // ---- one unit ----

    void apply(const Found& f, int sign) {
        const PlanTask& task = c_.tasks[f.task];
        for (const auto b : task.budgets)
            budgets_[b].micros -= sign * cost(f.all_in, task.reserve_for).micros;
        if (f.warm) {
            if (sign > 0)
                warm_used_.insert(*f.warm);
            else
                warm_used_.erase(*f.warm);
            return;
        }
        const Offer& o = c_.offers[*f.offer];
        const std::string& p = o.provider.get();
        used_[unit_name(o)] += sign;
        left_.machines += sign;
        left_.fleet_rate.micros += sign * f.all_in.micros;
        if (left_.balances.contains(p))
            left_.balances[p].micros -= sign * cost(f.all_in, std::chrono::hours{1}).micros;
        if (quotas_.contains(p)) {
            quotas_[p].machines += sign;
            quotas_[p].rate.micros += sign * f.all_in.micros;
        }
    }

    void serve(const std::vector<std::size_t>& unit) {
        asked_.clear();
        Why why;
        const bool alike =
            unit.size() > 1 && !has_pool(unit.front()) && std::ranges::all_of(unit, [&](std::size_t t) {
                return likeness(t) == likeness(unit.front()) && (!c_.tasks[t].kept || !kept_offer(t));
            });
        const auto known = alike ? refused_gangs_.find(likeness(unit.front())) : refused_gangs_.end();
        const bool refused_before =
            known != refused_gangs_.end() && std::get<0>(known->second) <= unit.size();
        for (const auto t : unit) {
            const auto found = take(t, why);
            if (!found) break;
            apply(*found, 1);
            asked_.push_back(*found);
        }
        if (asked_.size() == unit.size()) {
            if (refused_before) grew = true;
            for (const Found& f : asked_) {
                if (f.offer) rates_[c_.tasks[unit.front()].spec->project] += f.all_in.micros;
                plan_.placements.push_back({f.task, f.offer, f.warm, f.all_in, f.score, f.kept});
            }
            return;
        }
        for (const Found& f : asked_) apply(f, -1);
        int found = static_cast<int>(asked_.size());
        if (refused_before) {
            std::tie(std::ignore, why, found) = known->second;
            asked_.clear();
        } else if (alike) {
            refused_gangs_[likeness(unit.front())] = {unit.size(), why, found};
        }
        hold(unit, why);
        const bool money = why.reason == "quota" || why.reason == "balance" || why.reason == "budget";
        if (unit.size() > 1 && found > 0 && !money)
            why = {"gang", why.reason == "turn" ? "" : why.reason, {}};
        for (const auto t : unit) {
            const PlanTask& task = c_.tasks[t];
            const bool same = task.wait_reason == why.reason && task.wait_since != Instant{};
            plan_.waiting.push_back({t,
                                     why.reason,
                                     why.detail,
                                     same ? task.wait_since : kNow,
                                     kNow,
                                     unit.size() > 1 ? found : 0,
                                     {},
                                     task.counted_at});
        }
    }

    void hold(const std::vector<std::size_t>& unit, const Why& why) {
        const Millis waited = kNow - c_.tasks[unit.front()].row->waiting_since;
        if (held_ || waited < c_.rule.hold_after) return;
        if (why.reason == "quota") {
            std::int64_t total = why.rate.micros * static_cast<std::int64_t>(unit.size() - asked_.size());
            for (const Found& f : asked_)
                if (!f.warm) total += f.all_in.micros;
            const auto slash = why.detail.find('/');
            const int size = static_cast<int>(unit.size());
            if (slash == std::string::npos) {
                const auto& w = c_.world.choice;
                held_fleet_ = held_ =
                    size <= w.machines_max && (!w.fleet_rate_max || total <= w.fleet_rate_max->micros);
            } else {
                const ProviderQuota& q = quotas_.at(why.detail.substr(slash + 1));
                held_ = (!q.machines_max || size <= *q.machines_max) &&
                        (!q.rate_max || total <= q.rate_max->micros);
                if (held_) held_provider_ = why.detail.substr(slash + 1);
            }
            return;
        }
        if (why.reason == "balance" || why.reason == "budget" || unit.size() < 2 ||
            2 * asked_.size() < unit.size())
            return;
        if ((waited - c_.rule.hold_after) / c_.rule.hold_most % 2 != 0) return;
        held_ = true;
        for (const Found& f : asked_)
            if (f.offer && c_.offers[*f.offer].exclusive)
                kept_by_.try_emplace(unit_name(c_.offers[*f.offer]), unit.front());
    }

    const PlanCase& c_;
    const Scoring& scoring_;
    ChoiceWorld left_;
    std::map<std::string, ProviderQuota> quotas_;
    std::vector<Usd> budgets_;
    std::map<std::string, std::int64_t> rates_;
    std::vector<std::size_t> keepers_;
    std::map<std::string, std::size_t> kept_by_;
    std::map<std::string, int> used_;
    std::set<std::size_t> warm_used_;
    std::vector<Found> asked_;
    std::map<std::string, Why> refused_;
    std::map<std::string, std::tuple<std::size_t, Why, int>> refused_gangs_;
    bool held_{false}, held_fleet_{false};
    std::string held_provider_;
    Plan plan_;
};

}  // namespace gf::test
