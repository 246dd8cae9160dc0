#include "scheduler/planner.hpp"

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <tuple>
#include <utility>

#include "scheduler/candidate_walk.hpp"
#include "scheduler/plan_request.hpp"

namespace gf {
namespace {

using Place = OfferIndex::Place;
using TaskAt = PlanRequest::TaskAt;
using Unit = PlanRequest::Unit;

struct Why {
    std::string reason;
    std::string detail;
    UsdPerHour rate;  // of the best that fits and has no room
};

struct WarmFit {
    std::int64_t score{0};
    std::size_t machine{0};
    UsdPerHour all_in;
};

/// What the pass knows of the tasks of a shape.
struct Shape {
    const PlanRequest::Shape* asked{nullptr};
    std::size_t tasks_left{0};
    std::unique_ptr<CandidateWalk> walk;
    bool lost{false};                               // something fits that went to others
    std::optional<std::vector<WarmFit>> warm;       // best first
    std::optional<CandidateWalk::Verdict> verdict;  // once nothing was left
};

/// And of those of a group.
struct Group {
    std::size_t shape{0};
    std::optional<Why> refused;          // nothing is left in this pass
    std::size_t gang_refused{SIZE_MAX};  // and so for a gang of so many, or more
    Why gang_why;
    int gang_found{0};
};

struct Taken {
    TaskAt task{0};
    Candidate candidate;
    std::optional<std::size_t> warm;
    bool kept{false};
};

class Pass {
 public:
    Pass(std::span<const PlanTask> tasks, std::span<const Offer> offers, const PlanWorld& world,
         const PlanRule& rule, const Scoring& scoring)
        : tasks_(tasks),
          world_(world),
          rule_(rule),
          scoring_(scoring),
          request_(tasks, world, scoring),
          index_(offers, world.choice),
          use_(offers.size()),
          states_(offers.size()) {}

    Plan run() {
        for (const auto& shape : request_.shapes)
            shapes_.push_back(
                {.asked = &shape, .tasks_left = shape.tasks, .walk = {}, .warm = {}, .verdict = {}});
        for (const std::size_t shape : request_.shape_of_group)
            groups_.push_back({.shape = shape, .refused = {}, .gang_why = {}});
        warm_taken_.resize(world_.warm.size());
        allow_units();
        keep_choices();
        for (const auto& budget : world_.budgets) budgets_left_.push_back(budget.left);
        quotas_ = world_.provider_quotas;
        serve_all();
        std::ranges::sort(plan_.waiting, {}, [this](const Waiting& w) { return request_.rank[w.task]; });
        count_refusals();
        plan_.shapes = shapes_.size();
        return std::move(plan_);
    }

 private:
    void allow_units() {
        for (Place place = 0; place < index_.size(); ++place) {
            const Offer& offer = index_.offer(place);
            int most = 1;
            if (!offer.exclusive) {
                most = rule_.stock_unknown;
                if (offer.stock == 1) most = rule_.stock_low;
                if (offer.stock == 2) most = rule_.stock_medium;
                if (offer.stock >= 3) most = rule_.stock_high;
            }
            use_.allow(index_.unit(place), std::max(1, most));
        }
    }

    /// Where two tasks keep one thing, the one that is served first has it.
    void keep_choices() {
        std::vector<std::pair<std::pair<int, std::size_t>, TaskAt>> keepers;
        kept_.assign(tasks_.size(), OfferIndex::kNone);
        for (const Unit& unit : request_.units)
            for (const TaskAt t : unit.tasks)
                if (tasks_[t].kept) keepers.push_back({{-unit.priority, request_.rank[t]}, t});
        std::ranges::sort(keepers);
        for (const auto& [order, t] : keepers) {
            const Place place = index_.find(*tasks_[t].kept);
            if (place == OfferIndex::kNone) continue;
            kept_[t] = place;
            if (index_.offer(place).exclusive) use_.keep(index_.unit(place), t);
        }
    }

    // ---- the order of service ----

    void serve_all() {
        const std::size_t own_looks = rule_.evaluations_max / 3;
        const std::size_t looks = rule_.evaluations_max - own_looks;
        std::vector<const Unit*> put_off;
        for (auto first = request_.units.begin(); first != request_.units.end();) {
            const auto last = std::find_if(first, request_.units.end(),
                                           [&](const Unit& u) { return u.priority != first->priority; });
            serve_class(first, last, looks, put_off);
            first = last;
        }
        if (put_off.empty()) return;
        // Whoever was not looked at for longest, so that each has its turn.
        const auto looked = [this](const Unit* u) {
            return std::pair(tasks_[u->tasks.front()].looked_at, u->rank);
        };
        std::ranges::sort(put_off, [&](const Unit* a, const Unit* b) { return looked(a) < looked(b); });
        bool any = false;
        for (const Unit* unit : put_off) {
            if (full_ || (any && plan_.evaluations >= rule_.evaluations_max))
                wait_for_next(*unit);
            else
                serve(*unit);
            any = true;
        }
    }

    using Units = std::vector<Unit>::iterator;
    void serve_class(Units first, Units last, std::size_t looks, std::vector<const Unit*>& put_off) {
        struct Queue {
            Units next, end;
            std::size_t project;
        };
        std::vector<Queue> queues;
        for (auto at = first; at != last;) {
            const auto end = std::find_if(at, last, [&](const Unit& u) { return u.project != at->project; });
            queues.push_back({at, end, at->project});
            at = end;
        }
        const auto after = [this](const Queue& a, const Queue& b) {
            const PlanRequest::Project &x = request_.projects[a.project], &y = request_.projects[b.project];
            const auto left = static_cast<__int128>(x.rate) * y.weight,
                       right = static_cast<__int128>(y.rate) * x.weight;
            return left != right ? left > right : a.project > b.project;
        };
        std::ranges::make_heap(queues, after);
        while (!queues.empty()) {
            std::ranges::pop_heap(queues, after);
            Queue& queue = queues.back();
            const Unit& unit = *queue.next++;
            if (full_)
                wait_for_next(unit);
            else if (plan_.evaluations >= looks)
                put_off.push_back(&unit);
            else
                serve(unit);
            if (queue.next == queue.end)
                queues.pop_back();
            else
                std::ranges::push_heap(queues, after);
        }
    }

    void wait_for_next(const Unit& unit) {
        plan_.more = true;
        for (const TaskAt t : unit.tasks) wait(t, {"next_pass", {}, {}}, 0, tasks_[t].looked_at);
    }

    void wait(TaskAt t, const Why& why, int found, std::optional<Instant> looked_at) {
        const PlanTask& task = tasks_[t];
        const bool same = task.wait_reason == why.reason && task.wait_since != Instant{};
        plan_.waiting.push_back({.task = t,
                                 .reason = why.reason,
                                 .detail = why.detail,
                                 .since = same ? task.wait_since : world_.choice.now,
                                 .looked_at = looked_at,
                                 .found = found,
                                 .refusals = {},
                                 .counted_at = task.counted_at});
    }

    void serve(const Unit& unit) {
        if (!plan_.placements.empty() && plan_.placements.size() + unit.tasks.size() > rule_.launches_max) {
            full_ = true;  // nobody slips in before it
            wait_for_next(unit);
            return;
        }
        asked_.clear();
        Why why;
        Group* refused_by = nullptr;
        const bool alike = are_alike(unit);
        for (const TaskAt t : unit.tasks) {
            Group& group = groups_[request_.group_of[t]];
            auto taken = alike && unit.tasks.size() >= group.gang_refused ? std::nullopt : take(t, why);
            if (!taken) {
                refused_by = &group;
                break;
            }
            apply(*taken, 1);
            asked_.push_back(*taken);
        }
        if (refused_by == nullptr)
            give(unit);
        else
            refuse(unit, *refused_by, why, alike);
        for (const TaskAt t : unit.tasks) {
            Shape& shape = shapes_[groups_[request_.group_of[t]].shape];
            if (--shape.tasks_left == 0) shape.walk.reset();
        }
    }

    void give(const Unit& unit) {
        for (const Taken& taken : asked_) {
            if (taken.warm) {
                plan_.placements.push_back(
                    {taken.task, {}, taken.warm, taken.candidate.all_in, taken.candidate.score, false});
                continue;
            }
            const std::uint32_t thing = index_.unit(taken.candidate.offer);
            use_.give(thing);
            if (use_.gone(thing)) index_.remove(thing);
            request_.projects[unit.project].rate += taken.candidate.all_in.micros;
            plan_.placements.push_back({taken.task,
                                        taken.candidate.offer,
                                        {},
                                        taken.candidate.all_in,
                                        taken.candidate.score,
                                        taken.kept});
        }
    }

    // ---- refusal ----

    /// A gang whose tasks all fare alike: what one of them is refused, another such gang is refused for the
    /// rest of the pass.
    bool are_alike(const Unit& unit) const {
        if (unit.tasks.size() < 2 ||
            shapes_[groups_[request_.group_of[unit.tasks.front()]].shape].asked->pool)
            return false;
        return std::ranges::all_of(unit.tasks, [&](TaskAt t) {
            return request_.group_of[t] == request_.group_of[unit.tasks.front()] &&
                   kept_[t] == OfferIndex::kNone;
        });
    }

    void refuse(const Unit& unit, Group& group, Why why, bool alike) {
        const std::size_t size = unit.tasks.size();
        int found = static_cast<int>(asked_.size());
        if (alike && size >= group.gang_refused) {
            why = group.gang_why;
            found = group.gang_found;
        } else if (alike) {
            group.gang_refused = size;
            group.gang_why = why;
            group.gang_found = found;
        }
        for (const Taken& taken : asked_) apply(taken, -1);
        hold(unit, why);
        if (size > 1 && found > 0 && !is_of_money(why))
            why = {"gang", why.reason == "turn" ? "" : why.reason, {}};
        for (const TaskAt t : unit.tasks) wait(t, why, size > 1 ? found : 0, world_.choice.now);
    }

    static bool is_of_money(const Why& why) {
        return why.reason == "quota" || why.reason == "balance" || why.reason == "budget";
    }

    /// Whether a quota would have room for the unit if nothing else ran: waiting for that would be waiting
    /// for ever.
    bool ever_has_room(const Unit& unit, UsdPerHour rate, int machines_max,
                       std::optional<UsdPerHour> rate_max) const {
        std::int64_t total = rate.micros * static_cast<std::int64_t>(unit.tasks.size() - asked_.size());
        for (const Taken& taken : asked_)
            if (!taken.warm) total += taken.candidate.all_in.micros;
        return std::cmp_less_equal(unit.tasks.size(), machines_max) &&
               (!rate_max || UsdPerHour{total} <= *rate_max);
    }

    void hold(const Unit& unit, const Why& why) {
        const Instant since = tasks_[unit.tasks.front()].row->waiting_since;
        const Millis waited = since == Instant{} ? Millis{0} : world_.choice.now - since;
        if (held_ || waited < rule_.hold_after) return;
        if (why.reason == "quota") {
            const auto slash = why.detail.find('/');
            const std::string provider =
                slash == std::string::npos ? std::string() : why.detail.substr(slash + 1);
            if (provider.empty()) {
                held_fleet_ =
                    ever_has_room(unit, why.rate, world_.choice.machines_max, world_.choice.fleet_rate_max);
            } else if (const ProviderQuota& q = quotas_.at(provider);
                       ever_has_room(unit, why.rate, q.machines_max.value_or(INT_MAX), q.rate_max)) {
                held_provider_ = provider;
            }
            held_ = held_fleet_ || !held_provider_.empty();
            if (held_) plan_.holder = unit.tasks.front();
            return;
        }
        const bool half = unit.tasks.size() > 1 && 2 * asked_.size() >= unit.tasks.size();
        const bool its_turn =
            rule_.hold_most > Millis{0} && (waited - rule_.hold_after) / rule_.hold_most % 2 == 0;
        if (!half || !its_turn || is_of_money(why)) return;
        held_ = true;
        plan_.holder = unit.tasks.front();
        for (const Taken& taken : asked_)
            if (!taken.warm && index_.offer(taken.candidate.offer).exclusive)
                use_.keep(index_.unit(taken.candidate.offer), unit.tasks.front());
    }

    /// What to say of a task for which nothing was left.
    Why nothing_left(Shape& shape, const std::optional<Why>& no_room, bool others) {
        if (no_room) return *no_room;
        if (others || shape.lost) return {"turn", {}, {}};
        if (!shape.verdict) shape.verdict = shape.walk->judge();
        if (shape.verdict->fits) return {"turn", {}, {}};
        return {shape.verdict->word, {}, {}};
    }

    /// Counts for shapes that nothing fits, those first whose counts are oldest, as far as the looks for it
    /// go.
    void count_refusals() {
        std::map<std::size_t, std::vector<Waiting*>> waiting;  // by shape
        for (Waiting& w : plan_.waiting) {
            const std::size_t shape = groups_[request_.group_of[w.task]].shape;
            if (w.reason != "next_pass" && shapes_[shape].verdict && !shapes_[shape].verdict->fits)
                waiting[shape].push_back(&w);
        }
        std::vector<std::pair<std::pair<std::optional<Instant>, std::size_t>, std::size_t>> turns;
        for (const auto& [shape, tasks] : waiting)
            turns.push_back(
                {{tasks_[tasks.front()->task].counted_at, request_.rank[tasks.front()->task]}, shape});
        std::ranges::sort(turns);
        const std::size_t most = plan_.evaluations + rule_.counts_max;
        for (const auto& [turn, shape] : turns) {
            if (plan_.evaluations >= most) break;
            plan_.refusals.push_back({walk_of(shapes_[shape]).count(), static_cast<int>(index_.size())});
            for (Waiting* w : waiting[shape]) {
                w->refusals = plan_.refusals.size() - 1;
                w->counted_at = world_.choice.now;
            }
        }
    }

    // ---- one task ----

    std::optional<Taken> take(TaskAt t, Why& why) {
        Group& group = groups_[request_.group_of[t]];
        Shape& shape = shapes_[group.shape];
        std::optional<Taken> best = best_warm(t, shape);
        const auto kept = kept_candidate(t, shape);
        // Those that are alike fare alike from then on, but for what is kept for one of them.
        if (group.refused && kept_[t] == OfferIndex::kNone) {
            if (!best) why = *group.refused;
            return best;
        }
        std::optional<Why> no_room;
        bool others = false;
        const auto found = best_new(t, shape, no_room, others);
        if (found && (!best || found->score < best->candidate.score)) best = Taken{t, *found, {}, false};
        if (!best && !kept) {
            why = nothing_left(shape, no_room, others);
            if (asked_.empty() && !group.refused) group.refused = why;
        }
        if (!kept) return best;
        const auto margin = static_cast<std::int64_t>(static_cast<__int128>(std::abs(kept->score)) *
                                                      rule_.keep_margin_percent / 100);
        if (best && best->candidate.offer != kept->offer && best->candidate.score < kept->score - margin)
            return best;
        return Taken{t, *kept, {}, true};
    }

    CandidateWalk& walk_of(Shape& shape) {
        if (shape.walk) return *shape.walk;
        const PlanTask& like = tasks_[shape.asked->like];
        const PlanRequest::Variant& variant = *request_.variants[shape.asked->variant];
        const auto& markets = verdicts_.markets(shape.asked->key.market, shape.asked->variant, *like.spec,
                                                *like.row, variant.before, index_);
        const auto& cards =
            verdicts_.cards(shape.asked->key.card, *like.spec, *like.row, variant.before, index_);
        const auto countries = verdicts_.countries(*like.spec, *like.row, variant.before, index_);
        shape.walk = std::make_unique<CandidateWalk>(
            CandidateWalk::Demand{like.spec, like.row, &variant.before},
            CandidateWalk::Market{index_, use_, states_, scoring_, plan_.evaluations}, markets, cards,
            countries);
        return *shape.walk;
    }

    std::optional<Candidate> best_new(TaskAt t, Shape& shape, std::optional<Why>& no_room, bool& others) {
        CandidateWalk& walk = walk_of(shape);
        aside_.clear();
        std::optional<Candidate> out;
        const auto has_room = [&](const Candidate& candidate) {
            auto refusal = no_room_for(t, shape, candidate);
            if (refusal && !no_room) no_room = refusal;
            return !refusal;
        };
        const auto is_free = [&](const Candidate& candidate) {
            const std::uint32_t unit = index_.unit(candidate.offer);
            return use_.left(unit) && !use_.barred(unit, t);
        };
        while (auto candidate = walk.pop()) {
            if (use_.gone(index_.unit(candidate->offer))) {
                shape.lost = true;
                continue;
            }
            aside_.push_back(*candidate);
            if (!is_free(*candidate)) {
                others = true;
                continue;
            }
            if (has_room(*candidate)) {
                out = candidate;
                break;
            }
            // Now it is known that something fits and has no room: only what may have room is worth another
            // look.
            if (!walk.any_left([&](Place place, UsdPerHour rate) { return may_have_room(t, place, rate); }))
                break;
        }
        for (const Candidate& candidate : aside_) walk.push_back(candidate);
        // Where nothing but hosts of bad repute would do, a task that has waited long enough takes one after
        // all, as in `choose`.
        if (out || no_room || !request_.has_waited(t)) return out;
        for (const Candidate& candidate : walk.of_bad_repute())
            if (is_free(candidate) && has_room(candidate)) return candidate;
        return std::nullopt;
    }

    Fit fit_of(TaskAt t, Place place, const ChoiceWorld& world) {
        Fit fit = make_fit(*tasks_[t].spec, *tasks_[t].row, index_.offer(place), world, index_.facts(place));
        if (scoring_.pace != nullptr) fit.expected = scoring_.pace(scoring_.self, fit).expected;
        return fit;
    }

    std::optional<Candidate> kept_candidate(TaskAt t, const Shape& shape) {
        const Place place = kept_[t];
        if (place == OfferIndex::kNone || !use_.left(index_.unit(place)) ||
            use_.barred(index_.unit(place), t))
            return std::nullopt;
        ++plan_.evaluations;
        const Fit fit = fit_of(t, place, request_.variants[shape.asked->variant]->before);
        for (const auto filter : filters())
            if (filter(fit)) return std::nullopt;
        const Candidate candidate{scoring_.score(scoring_.self, fit), fit.all_in, place, fit.local};
        if (no_room_for(t, shape, candidate)) return std::nullopt;
        return candidate;
    }

    std::optional<Taken> best_warm(TaskAt t, Shape& shape) {
        if (!shape.asked->pool) return std::nullopt;
        if (!shape.warm) shape.warm = warm_fits(shape);
        for (const WarmFit& fit : *shape.warm) {
            const WarmMachine& machine = world_.warm[fit.machine];
            if (warm_taken_[fit.machine] ||
                (!machine.only_for.empty() && machine.only_for != tasks_[t].row->id))
                continue;
            if (over_budget(t, fit.all_in)) continue;
            return Taken{t, {.score = fit.score, .all_in = fit.all_in}, fit.machine, false};
        }
        return std::nullopt;
    }

    std::vector<WarmFit> warm_fits(const Shape& shape) {
        const PlanTask& like = tasks_[shape.asked->like];
        std::vector<WarmFit> out;
        for (const std::size_t w : request_.pools[*shape.asked->pool]) {
            const WarmMachine& machine = world_.warm[w];
            if (machine.disk < like.spec->resources.disk) continue;
            Offer held = machine.offer;
            // At what it costs by now, not at what it was once offered for.
            held.gpu_rate.micros = std::max(
                held.gpu_rate.micros, machine.rate.micros - disk_rate(held, disk_gb(*like.spec)).micros);
            Fit fit = make_fit(*like.spec, *like.row, held, request_.variants[shape.asked->variant]->warm);
            if (scoring_.pace != nullptr) fit.expected = scoring_.pace(scoring_.self, fit).expected;
            ++plan_.evaluations;
            if (std::ranges::any_of(filters(), [&](Filter filter) { return filter(fit).has_value(); }))
                continue;
            const Millis ahead =
                machine.billed_from ? paid_ahead(held, world_.choice.now - *machine.billed_from) : Millis{0};
            out.push_back({scoring_.warm(scoring_.self, fit, ahead), w, fit.all_in});
        }
        // Those that may serve one task only come first at equal score: nobody else has a use for them.
        std::ranges::sort(out, {}, [this](const WarmFit& f) {
            return std::tuple(f.score, world_.warm[f.machine].only_for.empty(),
                              std::string_view(world_.warm[f.machine].id.get()));
        });
        return out;
    }

    // ---- money ----

    /// Why the candidate, which fits, cannot be had now.
    std::optional<Why> no_room_for(TaskAt t, const Shape& shape, const Candidate& candidate) {
        const Offer& offer = index_.offer(candidate.offer);
        const std::string& provider = offer.provider.get();
        if (!candidate.local && (held_fleet_ || held_provider_ == provider))
            return Why{"turn", "quota_held", candidate.all_in};
        const Fit fit = fit_of(t, candidate.offer, request_.variants[shape.asked->variant]->now);
        for (const auto filter : money_filters()) {
            const auto refusal = filter(fit);
            if (!refusal) continue;
            return refusal->reason == "balance" ? Why{"balance", provider, candidate.all_in}
                                                : Why{"quota", refusal->reason, candidate.all_in};
        }
        if (const auto quota = quotas_.find(provider); quota != quotas_.end()) {
            const ProviderQuota& q = quota->second;
            if (q.machines_max && q.machines >= *q.machines_max)
                return Why{"quota", "quota_provider_machines/" + provider, candidate.all_in};
            if (q.rate_max && q.rate + candidate.all_in > *q.rate_max)
                return Why{"quota", "quota_provider_usd_per_hour/" + provider, candidate.all_in};
        }
        if (const auto* budget = over_budget(t, candidate.all_in))
            return Why{"budget", budget->name, candidate.all_in};
        return std::nullopt;
    }

    /// False only if `no_room_for` would refuse the offer at any price from `rate` on: it spares looks, it
    /// decides nothing.
    bool may_have_room(TaskAt t, Place place, UsdPerHour rate) {
        const Offer& offer = index_.offer(place);
        const ChoiceWorld& now = request_.variants.front()->now;  // their money is the same
        const std::string& provider = offer.provider.get();
        if (!index_.facts(place).local &&
            (held_fleet_ || held_provider_ == provider || now.machines >= now.machines_max))
            return false;
        if (now.fleet_rate_max && now.fleet_rate + rate > *now.fleet_rate_max) return false;
        if (const auto quota = quotas_.find(provider); quota != quotas_.end()) {
            const ProviderQuota& q = quota->second;
            if ((q.machines_max && q.machines >= *q.machines_max) ||
                (q.rate_max && q.rate + rate > *q.rate_max))
                return false;
        }
        return over_budget(t, rate) == nullptr;
    }

    const PlanBudget* over_budget(TaskAt t, UsdPerHour rate) const {
        for (const std::size_t budget : tasks_[t].budgets)
            if (budgets_left_[budget] < cost(rate, tasks_[t].reserve_for)) return &world_.budgets[budget];
        return nullptr;
    }

    /// Takes what `taken` needs out of all that is limited, or with -1 puts it back.
    void apply(const Taken& taken, int sign) {
        const PlanTask& task = tasks_[taken.task];
        const std::int64_t reserved = sign * cost(taken.candidate.all_in, task.reserve_for).micros;
        for (const std::size_t budget : task.budgets) budgets_left_[budget].micros -= reserved;
        if (taken.warm) {
            warm_taken_[*taken.warm] = sign > 0;
            return;
        }
        const std::uint32_t unit = index_.unit(taken.candidate.offer);
        if (sign > 0)
            use_.ask(unit);
        else
            use_.unask(unit);
        const std::string& provider = index_.offer(taken.candidate.offer).provider.get();
        const std::int64_t rate = sign * taken.candidate.all_in.micros;
        const std::int64_t hour = sign * cost(taken.candidate.all_in, std::chrono::hours{1}).micros;
        for (const auto& variant : request_.variants) {
            variant->now.machines += sign;
            variant->now.fleet_rate.micros += rate;
            if (const auto balance = variant->now.balances.find(provider);
                balance != variant->now.balances.end())
                balance->second.micros -= hour;
        }
        if (const auto quota = quotas_.find(provider); quota != quotas_.end()) {
            quota->second.machines += sign;
            quota->second.rate.micros += rate;
        }
    }

    std::span<const PlanTask> tasks_;
    const PlanWorld& world_;
    const PlanRule& rule_;
    const Scoring& scoring_;
    PlanRequest request_;
    OfferIndex index_;
    OfferUse use_;
    GroupVerdicts verdicts_;
    StateVerdicts states_;
    Plan plan_;

    std::vector<Place> kept_;  // by a task
    std::vector<Shape> shapes_;
    std::vector<Group> groups_;
    std::vector<bool> warm_taken_;

    std::vector<Taken> asked_;  // by the unit that is being served
    std::vector<Candidate> aside_;
    std::vector<Usd> budgets_left_;
    std::map<std::string, ProviderQuota> quotas_;
    bool held_{false};  // by one unit of the pass: the fleet's quotas, one provider's, or offers
    bool held_fleet_{false};
    std::string held_provider_;
    bool full_{false};  // launches_max is reached
};

}  // namespace

Plan plan(std::span<const PlanTask> tasks, std::span<const Offer> offers, const PlanWorld& world,
          const PlanRule& rule, const Scoring& scoring) {
    return Pass(tasks, offers, world, rule, scoring).run();
}

}  // namespace gf
