// What runs teach of speeds, losses and start-up times (scheduler/throughput.hpp, interruption.hpp, start_times.hpp): observations are
// made here, kept in the world and written to the store, so that the next choice knows more than the last.
#include <algorithm>
#include <map>
#include <set>
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

RunPlace place_of(const Offer& offer, const JobSpec& spec, const GpuNames* gpus) {
    const GpuCard* card = gpus ? gpus->card(offer.gpu.canonical) : nullptr;
    return place_of(offer, card_share(offer, card), spec.resources.cpu_only);
}

}  // namespace

std::shared_ptr<RunHistory> Step::history_to_change() const { return std::make_shared<RunHistory>(*w_.learned); }

void Step::learn_speed(const LiveTask& task, const LiveMachine& machine, WorkUnit unit, std::int64_t work, Millis busy) {
    const LiveJob* job = job_of(task);
    if (!job || !job->spec || !tells(work, busy)) return;
    const std::string family = family_of(*job->spec);
    const RunPlace place = place_of(machine.row.offer, *job->spec, w_.settings.gpus);
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
    if (!job || !job->spec || total < 0 || total > INT64_MAX / 1000) return;
    FamilyRecord record{.family = family_of(*job->spec), .unit = unit, .total = total * 1000, .at = now_};
    const auto known = w_.learned->families.find({record.family, unit});
    // A family whose counter begins again has no total, whatever the first part of its next job tells.
    if (known != w_.learned->families.end() && known->second.total == 0 && total > 0) return;
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
    // A counter of epochs or of an evaluation ends and begins again; a program that goes back to a checkpoint does not go back so far.
    const bool same_counter = task.look && total > 0 && task.look->total == total;
    if (same_counter && task.look->last.second * 2 >= total && step * 2 < task.look->last.second && !task.counts_again) {
        task.counts_again = true;
        learn_total(task, WorkUnit::step, 0);
    }
    task.total = total > 0 && step < total && !task.counts_again ? std::optional(total) : std::nullopt;
    // Over a suspend of ours nobody knows when the steps were made; and a program that counts again from below began again.
    const bool usable = task.look && step >= task.look->last.second && task.look->at >= w_.observations_from;
    if (usable && now_ - task.look->at < kLook) {
        task.look->last = {now_, step};
        task.look->total = total;
        return;
    }
    if (usable) {
        learn_speed(task, machine, WorkUnit::step, (step - task.look->step) * 1000, now_ - task.look->at);
        // Told by steps that only grew for a whole look: a counter of epochs or of an evaluation begins again before.
        if (total > 0 && !task.counts_again) learn_total(task, WorkUnit::step, total);
    }
    task.look = ProgressLook{.at = now_, .step = step, .last = {now_, step}, .total = total};
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

void Step::learn_memory(const LiveTask& task, const LiveMachine& machine, Cause cause) {
    const LiveJob* job = job_of(task);
    if (!job || !job->spec || !job->spec->estimate || !task.attempt->started_at) return;
    // On the user's own machine the cards have other users too.
    const LiveProvider* of = provider(machine.row.provider);
    if (!of || of->capabilities.is_local) return;
    const MemoryEstimate& estimate = *job->spec->estimate;
    const Offer& offer = machine.row.offer;
    const GpuCard* card = w_.settings.gpus ? w_.settings.gpus->card(offer.gpu.canonical) : nullptr;
    const auto reported = offer.gpu.memory ? offer.gpu.memory : card ? std::optional(reported_memory(*card)) : std::nullopt;
    if (!reported) return;
    const RunEnd how = cause == Cause::succeeded ? RunEnd::well : cause == Cause::gpu_oom ? RunEnd::ran_out : RunEnd::cut_short;
    // What ran out wanted more than there is; what was seen of it lies somewhere below.
    const std::int64_t peak =
        how == RunEnd::ran_out ? usable_memory(card, *reported).count : without_context(card, *reported, std::min(task.gpu_peak, reported->count));
    const std::string family = family_of(*job->spec);
    const std::int64_t asked = formula_bytes(estimate);
    auto changed = history_to_change();
    auto& kept = changed->peaks[family];
    auto at = std::ranges::find_if(kept, [&](const auto& r) { return r.method == estimate.method && r.estimated == asked; });
    const PeakRecord known = at != kept.end() ? *at : PeakRecord{.family = family, .method = estimate.method, .estimated = asked};
    PeakRecord record = observed(known, how, peak, now_);
    if (record == known) return;
    if (at != kept.end()) {
        *at = record;
    } else {
        if (kept.size() >= kPeaksKept) {
            const auto oldest = std::ranges::min_element(kept, {}, &PeakRecord::at);
            const LearnedRecord gone = learned_row(*oldest);
            out_.rows.push_back(DropLearned{gone.kind, gone.key});
            kept.erase(oldest);
        }
        kept.push_back(record);
    }
    out_.rows.push_back(PutLearned{learned_row(record)});
    w_.learned = std::move(changed);
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
    std::map<std::string, std::vector<std::pair<Instant, std::string>>> kept;  // by kind: when it was touched, and its key
    std::set<std::pair<std::string, std::string>> dropped;
    const auto judge = [&](const LearnedRecord& row, bool over) {
        if (over) dropped.emplace(row.kind, row.key);
        else kept[row.kind].emplace_back(row.at, row.key);
    };
    for (const auto& [key, places] : w_.learned->speeds)
        for (const auto& record : places) judge(learned_row(record), forgotten(record, now_));
    for (const auto& [key, record] : w_.learned->families) judge(learned_row(record), now_ - record.at > kStale);
    for (const auto& [key, record] : w_.learned->losses) judge(learned_row(record), now_ - record.at > kStale);
    for (const auto& [key, record] : w_.learned->starts) judge(learned_row(record), now_ - record.at > kStale);
    for (const auto& [key, questions] : w_.learned->peaks)
        for (const auto& record : questions) judge(learned_row(record), now_ - record.at > kStale);
    for (auto& [kind, rows] : kept) {
        std::ranges::sort(rows, [](const auto& a, const auto& b) { return std::tie(b.first, a.second) < std::tie(a.first, b.second); });
        for (std::size_t i = kKeptMost; i < rows.size(); ++i) dropped.emplace(kind, rows[i].second);
    }
    if (dropped.empty()) return;
    auto changed = history_to_change();
    const auto goes = [&](const auto& record) {
        const LearnedRecord row = learned_row(record);
        return dropped.contains({row.kind, row.key});
    };
    const auto held_goes = [&](const auto& entry) { return goes(entry.second); };
    for (auto& [key, places] : changed->speeds) std::erase_if(places, goes);
    std::erase_if(changed->speeds, [](const auto& entry) { return entry.second.empty(); });
    for (auto& [key, questions] : changed->peaks) std::erase_if(questions, goes);
    std::erase_if(changed->peaks, [](const auto& entry) { return entry.second.empty(); });
    std::erase_if(changed->families, held_goes);
    std::erase_if(changed->losses, held_goes);
    std::erase_if(changed->starts, held_goes);
    for (const auto& [kind, key] : dropped) out_.rows.push_back(DropLearned{kind, key});
    w_.learned = std::move(changed);
}

}  // namespace gf
