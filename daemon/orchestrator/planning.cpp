// Giving waiting tasks a machine: page by page over the queue, each page by one plan (scheduler/planner.hpp).
// What the plan cannot see of the rest of the queue is seen to here: a project that has more waiting than the
// page shows gets its next page before others are served beyond their share; a quota that is held for a task
// stays held over the pages; a choice whose price has to be read again stays.
#include <algorithm>
#include <memory>
#include <tuple>
#include <utility>

#include "daemon/orchestrator/learned.hpp"
#include "daemon/orchestrator/orchestrator.hpp"
#include "daemon/orchestrator/step.hpp"
#include "scheduler/filters.hpp"
#include "scheduler/finish_scoring.hpp"

namespace gf {
namespace {

/// A launch and a waiting task's record hold every offer against the task once more, to tell what was seen.
/// So many looks in a pass take about a tenth of a second; what is left over comes in the next one.
constexpr std::size_t kLooksPerPass = 100'000;
constexpr std::size_t kLaunchesMost = 64;
constexpr std::size_t kNotesMost = 4096;
/// A choice whose price was not read within so many patiences is let go.
constexpr int kKeptPatiences = 4;
/// Whose page was not seen in so many walks over the queue does not wait any more.
constexpr int kHolderWalks = 2;

OfferKey key_of(const Offer& offer) {
    return {offer.provider, offer.id, offer.spot};
}

}  // namespace

struct Step::Ready {
    LiveJob* job{nullptr};    // never null
    LiveTask* task{nullptr};  // never null
    /// Of the holder that was taken along and is not on the page: it is planned for, and served when its own
    /// page is there.
    std::shared_ptr<std::pair<LiveJob, LiveTask>> taken_along;
};

/// What a pass over one page has in hand.
class Step::QueuePass {
 public:
    QueuePass(const QueuePage& page, const World& world, std::vector<Offer> known, Instant now)
        : offers(std::move(known)), page_(page), choice_(choice_world(world, now, false)), paused_(choice_.paused_providers) {
        for (const auto& [id, machine] : world.machines)
            if (machine.row.state == MachineState::unknown)
                unknown_[machine.row.task].emplace(machine.row.provider.get(), "create_outcome_unknown");
    }

    /// As all tasks see it.
    [[nodiscard]] ChoiceWorld choice() const {
        ChoiceWorld out = choice_;
        out.paused_providers = paused_;
        return out;
    }
    /// The same as this task sees it, until the next one is asked for.
    [[nodiscard]] const ChoiceWorld& choice_of(const LiveJob& job, const LiveTask& task) {
        choice_.paused_providers = paused_;
        for (const auto& [name, reason] : barred(task.row.id)) choice_.paused_providers[name] = reason;
        choice_.local_allowed = job.row.local_allowed;
        choice_.expect.work = work_of(job, task);
        return choice_;
    }
    /// A create of this task whose outcome is not known may have made a machine: nothing more for it there
    /// until that is settled.
    [[nodiscard]] std::map<std::string, std::string> barred(const TaskId& task) const {
        const auto found = unknown_.find(task);
        return found == unknown_.end() ? std::map<std::string, std::string>() : found->second;
    }
    [[nodiscard]] std::size_t launches_left() const {
        const std::size_t most = std::clamp(kLooksPerPass / std::max(std::size_t{1}, offers.size()),
                                            std::size_t{1}, kLaunchesMost);
        return most > launched_ ? most - launched_ : 0;
    }
    /// True if there is time for one more record of all offers.
    bool may_look() {
        if (looks_ > 0 && looks_ + offers.size() > kLooksPerPass) return false;
        looks_ += offers.size();
        return true;
    }
    void placed_new(const Offer& offer) {
        count_machine(choice_, offer, offer.gpu_rate);
        looks_ += offers.size();
        placed();
    }
    void placed() { ++launched_; }
    [[nodiscard]] bool any_placed() const { return launched_ > 0; }
    /// The store has more of this project at this priority than the page shows.
    [[nodiscard]] bool more_of(const std::string& project, int priority) const {
        return page_.next && page_.next->priority == priority && page_.next->after.contains(project);
    }

    const std::vector<Offer> offers;
    bool cut{false};      // the rest of the page is for the next pass
    bool restart{false};  // the holder can be served, on its own page

 private:
    const QueuePage& page_;
    ChoiceWorld choice_;
    std::map<std::string, std::string> paused_;
    std::map<TaskId, std::map<std::string, std::string>> unknown_;
    std::size_t launched_{0};
    std::size_t looks_{0};
};

void Step::on(const QueuePage& e, const StoredRows&) {
    w_.queue_read_open = false;
    bool waits_for_offers = false;
    std::vector<Ready> ready = ready_tasks(e, waits_for_offers);
    take_holder(ready);
    QueuePass pass(e, w_, ready.empty() ? std::vector<Offer>() : choosable_offers(), now_);
    // Those with a deadline are decided one by one (deadlines.cpp), in their place among the priorities, before others of their own.
    std::ranges::sort(ready, {}, [](const Ready& r) {
        return std::tuple<int, bool, const TaskId&>(-r.task->row.priority, !by_deadline(*r.job->spec), r.task->row.id);
    });
    for (auto at = ready.begin(); at != ready.end() && !pass.cut;) {
        const auto end =
            std::find_if(at, ready.end(), [](const Ready& r) { return by_deadline(*r.job->spec); });
        if (at != end) plan_tasks({at, end}, pass);
        for (at = end; at != ready.end() && !pass.cut && by_deadline(*at->job->spec); ++at)
            place_by_deadline(*at, pass);
    }
    if (pass.restart && w_.queue_holder)
        w_.queue_cursor = w_.queue_holder->page;
    else if (!pass.cut)
        w_.queue_cursor = e.next.value_or(QueueCursor{});
    // More follows before the queue is looked at from the start again.
    if (pass.restart || pass.cut || e.next) w_.queue_dirty = true;
    for (auto& [name, p] : w_.providers) drive_provider(p);
    w_.queue_next = now_ + (waits_for_offers ? Millis{200} : Millis{Seconds{5}});
}

std::vector<Step::Ready> Step::ready_tasks(const QueuePage& page, bool& waits_for_offers) {
    std::vector<Ready> out;
    for (const auto& item : page.items) {
        const JobId id = item.row.job.id;
        if (w_.queue_holder && w_.queue_holder->job.id == id)
            w_.queue_holder.reset();  // the plan of its page says whether it holds on
        // The page was read before this step: the live row, where there is one, is newer than it.
        if (!w_.jobs.contains(id)) {
            if (item.row.job.state != JobState::queued) continue;
            if (w_.left_since_read.contains(id)) {
                w_.queue_dirty = true;  // a command has changed it meanwhile; the next page shows how
                continue;
            }
            // What runs of its family took outranks the formula by which the stored spec was read.
            w_.jobs[id] = LiveJob{item.row.job, with_peaks(item.spec, *w_.learned)};
            w_.tasks[item.row.task.id] = LiveTask{.row = item.row.task, .attempt = {}};
        }
        LiveJob& job = w_.jobs.at(id);
        const auto live = w_.tasks.find(item.row.task.id);
        if (live == w_.tasks.end()) continue;
        touched_.push_back(id);
        if (is_ready(job, live->second, waits_for_offers)) out.push_back({&job, &live->second, nullptr});
    }
    return out;
}

bool Step::is_ready(LiveJob& job, LiveTask& task, bool& waits_for_offers) {
    if (task.row.state != TaskState::waiting || task.attempt) return false;
    if (job.row.state != JobState::queued && job.row.state != JobState::recovering) return false;
    if (!job.spec) {
        finish(job, task, TaskState::failed, JobState::failed, "spec_unreadable",
               "the stored spec no longer parses");
        return false;
    }
    if (job.spec->limits.wait && now_ - task.row.waiting_since > *job.spec->limits.wait) {
        finish(job, task, TaskState::failed, JobState::failed, "wait_limit",
               "no machine within limits.wait of " + duration_text(*job.spec->limits.wait));
        return false;
    }
    if (task.row.not_before && now_ < *task.row.not_before) return false;
    if (waits_for_secrets(job, task)) return false;
    bool settled = false;
    const bool enough = known_enough(job, task, settled);
    waits_for_offers = waits_for_offers || !settled;
    return enough;
}

void Step::take_holder(std::vector<Ready>& ready) {
    if (!w_.queue_holder) return;
    const QueueHolder& holder = *w_.queue_holder;
    const auto live = w_.tasks.find(holder.task.id);
    const bool waits =
        live == w_.tasks.end() || (live->second.row.state == TaskState::waiting && !live->second.attempt);
    const bool left = holder.page == w_.queue_page;  // where it would have been shown
    if (!waits || left || !holder.spec || w_.queue_walks - holder.walk > kHolderWalks) {
        w_.queue_holder.reset();
        return;
    }
    auto copy = std::make_shared<std::pair<LiveJob, LiveTask>>(LiveJob{holder.job, holder.spec},
                                                               LiveTask{.row = holder.task, .attempt = {}});
    ready.push_back({&copy->first, &copy->second, copy});
}

// ---- one plan ----

QueueNote& Step::note_of(const LiveTask& task) {
    const auto [at, added] = w_.queue_notes.try_emplace(task.row.id);
    // Of an earlier wait of this task.
    if (!added && at->second.since != Instant{} && at->second.since < task.row.waiting_since) at->second = {};
    // A task that asks for a price is noted whatever is: the last ones of the queue are forgotten first.
    if (added && w_.queue_notes.size() > kNotesMost) {
        const auto last = std::prev(w_.queue_notes.end());
        w_.queue_notes.erase(last == at ? std::prev(last) : last);
    }
    return at->second;
}

std::vector<WarmMachine> Step::warm_machines() const {
    std::vector<WarmMachine> out;
    for (const auto& [id, machine] : w_.machines) {
        const MachineRecord& row = machine.row;
        if (row.state != MachineState::ready || !machine.connected || !machine.checked ||
            !machine.reservation)
            continue;
        out.push_back({.id = id,
                       .offer = row.offer,
                       .rate = rate_held(machine),
                       .disk = row.disk,
                       .image = row.image,
                       .project = machine.reservation->project,
                       .only_for = row.task,
                       .billed_from = machine.billed_from});
    }
    return out;
}

std::map<std::string, PlanProject> Step::projects_now() const {
    std::map<std::string, PlanProject> out;
    for (const auto& [name, weight] : w_.settings.project_weights) out[name].weight = weight;
    for (const auto& [id, machine] : w_.machines) {
        if (machine.row.state == MachineState::gone || !machine.reservation) continue;
        PlanProject& project = out[machine.reservation->project];
        project.running = project.running + rate_held(machine);
    }
    return out;
}

void Step::plan_tasks(std::span<const Ready> ready, QueuePass& pass) {
    PlanWorld world{.choice = pass.choice(),
                    .projects = projects_now(),
                    .provider_quotas = {},
                    .budgets = {},
                    .warm = warm_machines()};
    world.choice.expect.work = {};
    world.provider_quotas = std::exchange(world.choice.provider_quotas, {});
    std::vector<PlanTask> tasks;
    std::map<TaskId, TaskWork> works;
    for (const Ready& r : ready) {
        const QueueNote& note = note_of(*r.task);
        PlanTask task{.spec = r.job->spec.get(),
                      .row = &r.task->row,
                      .local_allowed = r.job->row.local_allowed,
                      .barred = pass.barred(r.task->row.id),
                      .gang = {},
                      .kept = note.kept,
                      .wait_reason = note.reason,
                      .wait_since = note.since,
                      .looked_at = note.looked_at,
                      .counted_at = note.counted_at,
                      .budgets = {}};
        works[r.task->row.id] = work_of(*r.job, *r.task);
        tasks.push_back(std::move(task));
    }
    // What is kept for tasks of other pages is taken for those of this one.
    for (auto& [id, note] : w_.queue_notes) {
        if (!note.kept) continue;
        if (now_ - note.kept_at > kKeptPatiences * w_.settings.offers_patience)
            note.kept.reset();
        else if (!works.contains(id))
            world.choice.taken_offers.insert(offer_key(note.kept->provider, note.kept->id));
    }
    PlanRule rule;
    rule.launches_max = std::max(std::size_t{1}, pass.launches_left());
    for (Millis* span : {&rule.hold_after, &rule.hold_most})
        *span =
            Millis{static_cast<std::int64_t>(static_cast<double>(span->count()) * w_.settings.time_scale)};
    std::optional<FinishScoring> finish_money;
    if (world.choice.expect.speeds != nullptr)
        finish_money.emplace(world.choice.expect, std::move(works), pass.offers, world.choice.gpus, now_);
    const Plan made =
        plan(tasks, pass.offers, world, rule, finish_money ? finish_money->scoring() : rate_scoring());

    std::map<std::pair<int, std::string>, int> unplaced;
    for (const Ready& r : ready)
        if (!r.taken_along) ++unplaced[{r.task->row.priority, r.job->row.project}];
    bool drained = false;  // a project has more, and its next task may come before whatever is next here
    for (const Placement& placement : made.placements) {
        const Ready& r = ready[placement.task];
        if (r.taken_along) {
            pass.restart = true;
            continue;
        }
        if (drained || pass.launches_left() == 0) {
            pass.cut = true;
            break;
        }
        QueueNote& note = note_of(*r.task);
        if (placement.warm) {
            take_warm(*r.job, *r.task, w_.machines.at(world.warm[*placement.warm].id));
            pass.placed();
        } else {
            const Offer& offer = pass.offers[*placement.offer];
            if (!may_launch(offer)) {
                pass.cut = true;
                continue;
            }
            if (ask_price(offer)) {
                note = {.kept = key_of(offer),
                        .kept_at = placement.kept ? note.kept_at : now_,
                        .reason = {},
                        .since = {},
                        .looked_at = now_,
                        .counted_at = note.counted_at};
                continue;
            }
            if (!launch(r, offer, placement.kept, pass)) continue;
        }
        w_.queue_notes.erase(r.task->row.id);
        const std::pair<int, std::string> from{r.task->row.priority, r.job->row.project};
        drained = --unplaced[from] == 0 && pass.more_of(from.second, from.first);
    }
    if (made.more && pass.any_placed()) pass.cut = true;
    for (const Waiting& waiting : made.waiting)
        if (!ready[waiting.task].taken_along) note_waiting(ready[waiting.task], waiting, pass);
    keep_holder(ready, made);
}

void Step::keep_holder(std::span<const Ready> ready, const Plan& made) {
    for (const Waiting& waiting : made.waiting)
        if (ready[waiting.task].taken_along && waiting.reason != "quota" && waiting.reason != "gang" &&
            waiting.reason != "next_pass")
            w_.queue_holder.reset();
    if (!made.holder || w_.queue_holder) return;
    const Ready& r = ready[*made.holder];
    if (!r.taken_along)
        w_.queue_holder =
            QueueHolder{.job = r.job->row, .task = r.task->row, .spec = r.job->spec, .page = w_.queue_page, .walk = w_.queue_walks};
}

void Step::note_waiting(const Ready& ready, const Waiting& waiting, QueuePass& pass) {
    QueueNote& note = note_of(*ready.task);
    note.kept.reset();
    // Whoever was not reached waits for what it waited for before.
    if (waiting.reason != "next_pass" || note.reason.empty()) {
        note.reason = waiting.reason;
        note.since = waiting.since;
    }
    note.looked_at = waiting.looked_at;
    note.counted_at = waiting.counted_at;
    // In a moment it is asked again.
    if (pass.cut || !decision_due(ready.job->row.id) || !pass.may_look()) return;
    const ChoiceWorld& world = pass.choice_of(*ready.job, *ready.task);
    Decision decision = choose(*ready.job->spec, ready.task->row, pass.offers, world);
    decision.chosen.reset();
    decision.wait_reason = waiting.reason;
    decision.wait_detail = waiting.detail;
    decision.wait_since = waiting.since;
    write_decision(ready.job->row.id, decision);
}

// ---- carrying it out ----

bool Step::may_launch(const Offer& offer) const {
    return breaker_state(w_.providers.at(offer.provider.get()).breaker, now_) == BreakerState::closed;
}

bool Step::launch(const Ready& ready, const Offer& offer, bool kept, QueuePass& pass) {
    const ChoiceWorld& world = pass.choice_of(*ready.job, *ready.task);
    Decision decision = choose(*ready.job->spec, ready.task->row, pass.offers, world);
    const OfferKey key = key_of(offer);
    const auto is_it = [&](const RankedOffer& r) { return key_of(r.offer) == key; };
    const auto found = std::ranges::find_if(decision.ranked, is_it);
    std::optional<RankedOffer> planned;
    if (found != decision.ranked.end())
        planned = *found;
    else
        planned = choose(*ready.job->spec, ready.task->row, std::span(&offer, 1), world).chosen;
    if (!planned) return false;
    if (found != decision.ranked.begin()) decision.passed_over = kept ? "kept" : "next_best";
    decision.chosen = *planned;
    decision.wait_reason.clear();
    write_decision(ready.job->row.id, decision);
    rent(*ready.job, *ready.task, *planned);
    pass.placed_new(offer);
    return true;
}

void Step::take_warm(LiveJob& job, LiveTask& task, LiveMachine& warm) {
    supersede(task, warm.row.id);
    task.row.attempt += 1;
    task.attempt = AttemptRecord{.id = AttemptId{w_.ids.make("att_", now_)},
                                 .task = task.row.id,
                                 .job = job.row.id,
                                 .number = task.row.attempt,
                                 .state = AttemptState::leased,
                                 .cause = {},
                                 .detail = {},
                                 .machine = warm.row.id,
                                 .created_at = now_};
    task.attempt->start_generation = task.row.generation;
    job.row.attempts += 1;
    warm.row.job = job.row.id;
    warm.row.task = task.row.id;
    warm.row.attempt = task.row.attempt;
    warm.first_hello = now_;
    if (job.row.state == JobState::queued) move(job, JobState::provisioning, "warm_machine");
    move(job, JobState::starting, "warm_machine");
    move(task, TaskState::assigned, "warm_machine");
    out_.rows.push_back(PutAttempt{*task.attempt, std::nullopt});
    bill_to(warm, job.row.id, job.row.project);
    // What it costs by now is what this job agreed to when it was chosen; `rate_over` holds it against that.
    if (warm.ledger) warm.row.offer.gpu_rate = std::max(warm.row.offer.gpu_rate, warm.ledger->gpu_rate);
    reserve(warm, *job.spec, task);
    lease(warm);
}

void Step::place_by_deadline(const Ready& ready, QueuePass& pass) {
    const bool time_left = pass.may_look();
    if (pass.launches_left() == 0 || (pass.any_placed() && !time_left)) {
        pass.cut = true;
        return;
    }
    LiveJob& job = *ready.job;
    LiveTask& task = *ready.task;
    ChoiceWorld world = pass.choice_of(job, task);
    // A machine that is up, where it would do: its start is saved, and what it costs is known.
    PlanWorld of_warm{
        .choice = world, .projects = {}, .provider_quotas = {}, .budgets = {}, .warm = warm_machines()};
    of_warm.choice.provider_quotas.clear();
    const PlanTask asked{.spec = job.spec.get(),
                         .row = &task.row,
                         .local_allowed = job.row.local_allowed,
                         .barred = {},
                         .gang = {},
                         .kept = {},
                         .wait_reason = {},
                         .looked_at = {},
                         .counted_at = {},
                         .budgets = {}};
    for (const Placement& placement : plan(std::span(&asked, 1), {}, of_warm, {}).placements) {
        take_warm(job, task, w_.machines.at(of_warm.warm[placement.warm.value()].id));
        pass.placed();
        return;
    }
    for (const auto& [id, note] : w_.queue_notes)
        if (note.kept && id != task.row.id)
            world.taken_offers.insert(offer_key(note.kept->provider, note.kept->id));
    world.shown = kDeadlineShown;
    Decision decision = choose(*job.spec, task.row, pass.offers, world);
    choose_by_deadline(job, task, world, decision);
    if (decision.chosen && !may_launch(decision.chosen->offer)) {
        pass.cut = true;
        return;
    }
    if (decision.chosen && ask_price(decision.chosen->offer)) return;
    write_decision(job.row.id, decision);
    if (!decision.chosen) return;
    const Offer rented = decision.chosen->offer;
    rent(job, task, *decision.chosen);
    pass.placed_new(rented);
}

}  // namespace gf
