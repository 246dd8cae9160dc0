// What runs teach of speeds, losses and start-up times (scheduler/throughput.hpp, interruption.hpp, start_times.hpp): observations are
// made here, kept in the world and written to the store, so that the next choice knows more than the last.
#include <algorithm>
#include <tuple>
#include <utility>

#include "daemon/orchestrator/learned.hpp"
#include "daemon/orchestrator/step.hpp"
#include "scheduler/filters.hpp"

namespace gf {
namespace {

/// How often the speed of a running attempt is noted. A look is also taken at its end, if that says something.
constexpr Millis kLook = std::chrono::minutes{10};
/// Records of one kind beyond this: those that were not touched for longest go.
constexpr std::size_t kKeptMost = 4096;
/// Start-up times and totals that nothing has touched for so long say nothing any more.
constexpr Millis kStale = std::chrono::hours{24 * 90};

bool works(MachineState state) {
    return state == MachineState::ready || state == MachineState::busy || state == MachineState::draining;
}

RunPlace place_of(const Offer& offer, const GpuNames* gpus) {
    const GpuCard* card = gpus ? gpus->card(offer.gpu.canonical) : nullptr;
    return place_of(offer, card_share(offer, card));
}

}  // namespace

std::shared_ptr<RunHistory> Step::history_to_change() const { return std::make_shared<RunHistory>(*w_.learned); }

void Step::learn_speed(const LiveTask& task, const LiveMachine& machine, WorkUnit unit, std::int64_t work, Millis busy) {
    const LiveJob* job = job_of(task);
    if (!job || !job->spec || !tells(work, busy)) return;
    const std::string family = family_of(*job->spec);
    const RunPlace place = place_of(machine.row.offer, w_.settings.gpus);
    auto changed = history_to_change();
    auto& places = changed->speeds[{family, unit}];
    auto at = std::ranges::find(places, place, &ThroughputRecord::place);
    if (at == places.end()) at = places.insert(places.end(), {.family = family, .unit = unit, .place = place, .at = now_});
    *at = observed(*at, work, busy, now_);
    out_.rows.push_back(PutLearned{learned_row(*at)});
    w_.learned = std::move(changed);
}

void Step::learn_total(const LiveTask& task, WorkUnit unit, std::int64_t total) {
    const LiveJob* job = job_of(task);
    if (!job || !job->spec || total <= 0 || total > INT64_MAX / 1000) return;
    FamilyRecord record{.family = family_of(*job->spec), .unit = unit, .total = total * 1000, .at = now_};
    const auto known = w_.learned->families.find({record.family, unit});
    // Written again now and then, so that what is still used does not look stale.
    if (known != w_.learned->families.end() && known->second.total == record.total && now_ - known->second.at < std::chrono::hours{24}) return;
    auto changed = history_to_change();
    out_.rows.push_back(PutLearned{learned_row(record)});
    changed->families[{record.family, unit}] = std::move(record);
    w_.learned = std::move(changed);
}

void Step::learn_progress(LiveTask& task, const LiveMachine& machine, std::int64_t step, std::int64_t total) {
    constexpr std::int64_t kStepsMost = 1'000'000'000'000;  // beyond, it is no count of steps
    if (step < 0 || step > kStepsMost || total > kStepsMost) return;
    task.total = total > 0 && step < total ? std::optional(total) : std::nullopt;
    // Over a suspend of ours nobody knows when the steps were made; and a program that counts again from below began again.
    const bool usable = task.look && step >= task.look->last.second && task.look->at >= w_.observations_from;
    if (usable && now_ - task.look->at < kLook) {
        task.look->last = {now_, step};
        return;
    }
    if (usable) {
        learn_speed(task, machine, WorkUnit::step, (step - task.look->step) * 1000, now_ - task.look->at);
        // Told by steps that only grew for a whole look: a counter of epochs or of an evaluation begins again before.
        learn_total(task, WorkUnit::step, total);
    }
    task.look = ProgressLook{.at = now_, .step = step, .last = {now_, step}};
}

void Step::learn_end(const LiveTask& task, const LiveMachine& machine, bool succeeded) {
    if (task.look && task.look->at >= w_.observations_from) {
        const auto& [at, step] = task.look->last;
        learn_speed(task, machine, WorkUnit::step, (step - task.look->step) * 1000, at - task.look->at);
    }
    // Who tells no steps is counted in whole runs, where one attempt made all of one.
    const bool whole = succeeded && !task.look && task.attempt && task.attempt->number == 1 && task.attempt->started_at &&
                       *task.attempt->started_at >= w_.observations_from && task.attempt->start_generation == 0;
    if (whole) {
        learn_speed(task, machine, WorkUnit::run, 1000, now_ - *task.attempt->started_at);
        learn_total(task, WorkUnit::run, 1);
    }
}

void Step::learn_life(LiveMachine& machine, bool lost) {
    const LiveProvider* of = provider(machine.row.provider);
    if (!of || of->capabilities.is_local || !machine.row.ready_at) return;
    const Instant began = *machine.row.ready_at, since = std::max(began, machine.life_from.value_or(began));
    if (now_ < since || (now_ == since && !lost)) return;
    auto changed = history_to_change();
    for (const std::string& key : {loss_market_key(machine.row.offer), loss_host_key(machine.row.offer)}) {
        if (key.empty()) continue;
        LossRecord& record = changed->losses[key];
        record.key = key;
        record = observed(record, machine.row.offer.spot, since - began, now_ - began, lost, now_);
        out_.rows.push_back(PutLearned{learned_row(record)});
    }
    w_.learned = std::move(changed);
    machine.life_from = now_;
}

void Step::learn_life(LiveMachine& machine, MachineState from, MachineState to) {
    if (!works(from) && works(to)) machine.life_from = now_;  // up, or up again
    if (works(from) && !works(to)) learn_life(machine, false);  // its hours; whether it was lost is judged apart (`mark_loss`)
}

void Step::learn_start(StartPhase phase, const LiveMachine& machine, Millis took) {
    const LiveProvider* of = provider(machine.row.provider);
    if (!of || of->capabilities.is_local) return;
    const std::string key = start_key(phase, machine.row.provider.get(), machine.row.image);
    auto changed = history_to_change();
    StartRecord& record = changed->starts[key];
    record.key = key;
    record = observed(record, took, now_);
    out_.rows.push_back(PutLearned{learned_row(record)});
    w_.learned = std::move(changed);
}

void Step::learn_started(LiveTask& task, const LiveMachine& machine) {
    const Instant heard_from = w_.observations_from;  // before a restart or a suspend of ours nothing was timed
    Millis restore{0};
    if (task.restore_from && *task.restore_from >= heard_from) {
        restore = now_ - *task.restore_from;
        if (const auto each = per_gb(restore, task.checkpoint_size)) learn_start(StartPhase::restore, machine, *each);
    }
    task.restore_from.reset();
    // On a machine that is used again its image lies there already.
    const bool first = task.attempt->created_at <= machine.row.created_at && machine.row.created_at >= heard_from;
    if (first && !machine.row.image.empty() && machine.first_hello && *machine.first_hello >= heard_from)
        learn_start(StartPhase::image, machine, std::max(Millis{0}, now_ - *machine.first_hello - restore));
}

void Step::forget_learned() {
    auto changed = history_to_change();
    std::vector<std::pair<Instant, LearnedRecord>> kept_speeds, kept_losses, kept_starts, kept_families;
    std::vector<LearnedRecord> dropped;
    const auto sort_out = [&](auto& kept, LearnedRecord row, Instant at, bool gone) {
        if (gone) dropped.push_back(std::move(row));
        else kept.emplace_back(at, std::move(row));
    };
    for (const auto& [key, places] : changed->speeds)
        for (const auto& record : places) sort_out(kept_speeds, learned_row(record), record.at, forgotten(record, now_));
    for (const auto& [key, record] : changed->families) sort_out(kept_families, learned_row(record), record.at, now_ - record.at > kStale);
    for (const auto& [key, record] : changed->losses) sort_out(kept_losses, learned_row(record), record.at, now_ - record.at > kStale);
    for (const auto& [key, record] : changed->starts) sort_out(kept_starts, learned_row(record), record.at, now_ - record.at > kStale);
    RunHistory rest;
    for (auto* kept : {&kept_speeds, &kept_families, &kept_losses, &kept_starts}) {
        std::ranges::sort(*kept, [](const auto& a, const auto& b) { return std::tie(b.first, a.second.key) < std::tie(a.first, b.second.key); });
        for (std::size_t i = 0; i < kept->size(); ++i) {
            if (i >= kKeptMost) dropped.push_back(std::move((*kept)[i].second));
            else (void)take_learned(rest, (*kept)[i].second);
        }
    }
    if (dropped.empty()) return;
    for (LearnedRecord& row : dropped) out_.rows.push_back(DropLearned{std::move(row.kind), std::move(row.key)});
    *changed = std::move(rest);
    w_.learned = std::move(changed);
}

}  // namespace gf
