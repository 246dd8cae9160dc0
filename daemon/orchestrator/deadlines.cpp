// Jobs with a deadline and `spot: auto`: on spot while it is safe and pays, on demand when it must be, or nowhere for a while
// (scheduler/deadline.hpp, scheduler/spot_policy.hpp). Asked when such a task is placed, and of a running one every minute.
#include <algorithm>

#include "daemon/orchestrator/orchestrator.hpp"
#include "daemon/orchestrator/step.hpp"

namespace gf {
namespace {

/// How often a running job is asked. A decision may cost some 100 ms (SpotTables), so that few are made in one tick.
constexpr Millis kLook = std::chrono::minutes{1};
constexpr int kLooksPerTick = 2;

std::string figures(const SpotDecision& d) {
    std::string out = std::string(text(d.why)) + ", slack " + duration_text(std::chrono::floor<Seconds>(std::max(Millis{0}, d.slack)));
    if (d.slack < Millis{0}) out = std::string(text(d.why)) + ", late by " + duration_text(std::chrono::ceil<Seconds>(-d.slack));
    return out;
}

}  // namespace

std::optional<SpotDecision> Step::ask_spot_policy(LiveTask& task, const DeadlinePlan& plan) {
    std::vector<SpotSeen> seen = plan.seen;
    // What it could have had at an earlier look, and does not see in this one, is down: offers are only chosen from while they are young.
    for (std::size_t i = 0; i < task.market.keys().size(); ++i) {
        const std::string& key = task.market.keys()[i];
        if (std::ranges::find(seen, key, &SpotSeen::key) == seen.end())
            seen.push_back({.key = key, .up = false, .rate = task.market.rates()[i]});
    }
    task.market.observe(now_, seen);
    return decide_spot(plan.job, plan.offers, task.market, now_, *w_.spot_tables);
}

void Step::choose_by_deadline(const LiveJob& job, LiveTask& task, const ChoiceWorld& world, Decision& decision) {
    if (!by_deadline(*job.spec) || decision.ranked.empty()) return;
    const DeadlineCase at{.now = now_, .deadline = *job.spec->limits.deadline, .on = {}, .look = w_.settings.offers,
                          .local_allowed = job.row.local_allowed};
    const auto plan = deadline_plan(*job.spec, task.row, decision.ranked, world.expect, at);
    if (!plan || plan->offers.empty()) return;
    decision.deadline = ask_spot_policy(task, *plan);
    const std::string late = "deadline/" + job.row.id.get();
    if (decision.deadline->why == SpotWhy::too_late)
        alert("deadline_at_risk", "warning", late, job.row.name + ": not even on-demand is expected to meet its deadline " +
              rfc3339(*job.spec->limits.deadline) + " (" + figures(*decision.deadline) + ")");
    else clear_alert(late);
    decision.chosen.reset();
    if (decision.deadline->move == SpotMove::move) {
        const auto found = std::ranges::find(plan->offers, decision.deadline->key, &SpotOffer::key);
        if (found != plan->offers.end())
            if (const auto rank = plan->ranked[static_cast<std::size_t>(found - plan->offers.begin())]) decision.chosen = decision.ranked[*rank];
    }
    if (!decision.chosen) decision.wait_reason = "waits_for_spot";
    constexpr std::size_t kKept = 20;
    if (decision.ranked.size() > kKept) decision.ranked.resize(kKept);
    if (decision.near_misses.size() > kKept) decision.near_misses.resize(kKept);
}

void Step::look_at_deadline(LiveJob& job, LiveTask& task) {
    // Without checkpoints a move would throw away what was done: it stays where it is.
    if (!job.spec || !by_deadline(*job.spec) || !job.spec->checkpoint.declared || !task.attempt ||
        task.attempt->state != AttemptState::running || task.stop_sent || !task.stop_reason.empty())
        return;
    LiveMachine* machine = machine_of(task);
    if (!machine || machine->leave_stop || now_ - task.deadline_looked < kLook || deadline_looks_ >= kLooksPerTick) return;
    const LiveProvider* from = provider(machine->row.provider);
    if (!from || from->capabilities.is_local) return;
    ++deadline_looks_;
    task.deadline_looked = now_;
    ChoiceWorld world = choice_world_of(job, task);
    world.shown = kDeadlineShown;
    world.expect.work.step = std::max(task.row.step, task.attempt->progress_step);
    std::vector<Offer> offers;
    for (const auto& [name, p] : w_.providers)
        for (const Offer& offer : p.offers)
            if (p.offers_at && now_ - *p.offers_at <= kMarketGap) offers.push_back(offer);
    // What this attempt has run so far is done, as far as limits.duration stands for the work.
    TaskRecord row = task.row;
    row.ran += std::max(Millis{0}, now_ - task.attempt->started_at.value_or(now_));
    const Decision decision = choose(*job.spec, row, offers, world);
    const DeadlineCase at{.now = now_, .deadline = *job.spec->limits.deadline,
                          .on = HeldMachine{.offer = machine->row.offer, .rate = rate_held(*machine), .up = true, .startup_left = {}},
                          .look = kLook, .local_allowed = job.row.local_allowed};
    const auto plan = deadline_plan(*job.spec, row, decision.ranked, world.expect, at);
    if (!plan) return;
    const auto decided = ask_spot_policy(task, *plan);
    if (decided->move == SpotMove::stay) return;
    leave(*machine, task, "deadline", std::string(decided->move == SpotMove::idle ? "to wait for spot" : "to " + decided->key) + ": " + figures(*decided));
}

}  // namespace gf
