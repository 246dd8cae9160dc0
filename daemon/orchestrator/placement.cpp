// Giving waiting tasks a machine: page by page over the queue, on market reads that are fresh enough to be rented from.
#include <algorithm>

#include "daemon/orchestrator/orchestrator.hpp"
#include "daemon/orchestrator/step.hpp"

namespace gf {
namespace {

std::string offer_key(const Offer& offer) { return offer.provider.get() + "/" + offer.id; }

bool provider_named(const std::vector<std::string>& list, const std::string& name) {
    return std::ranges::find(list, name) != list.end();
}

}  // namespace

ChoiceWorld choice_world(const World& world, Instant now, bool local_allowed) {
    ChoiceWorld out;
    out.now = now;
    out.gpus = world.settings.gpus;
    out.cloud_reachable = world.settings.cloud_reachable;
    out.agent_archs = world.settings.agent_archs;
    out.fleet_rate_max = world.settings.usd_per_hour_max;
    out.machines_max = world.settings.machines_max;
    out.local_allowed = local_allowed;
    for (const auto& [name, p] : world.providers) {
        if (!p.pause_reason.empty() && now < p.pause_until) out.paused_providers[name] = p.pause_reason;
        if (p.not_trusted) out.paused_providers[name] = "listing_not_trusted";
        else if (!p.listing_error.empty()) out.paused_providers[name] = p.listing_error;
        else if (!p.listing_at) out.paused_providers[name] = "not_listed_yet";
        if (p.balance) out.balances[name] = *p.balance;
    }
    for (const auto& [key, entry] : world.cooled_offers)
        if (now < entry.first) out.cooled_offers[key] = entry.second;
    for (const auto& [key, entry] : world.bad_hosts)
        if (now < entry.first) out.bad_hosts[key] = entry.second;
    for (const auto& [id, m] : world.machines) {
        if (m.row.state == MachineState::gone) continue;
        out.machines += 1;
        out.fleet_rate = out.fleet_rate + m.row.rate.value_or(m.row.offer.gpu_rate);
        if (m.row.offer.exclusive) out.taken_offers.insert(offer_key(m.row.offer));
    }
    return out;
}

bool Step::price_fresh(const LiveProvider& p, int gpu_count, bool spot) const {
    if (!p.capabilities.search_per_count) return p.offers_at && now_ - *p.offers_at <= w_.settings.offers_fresh;
    const auto read = p.offers_read.find({gpu_count, spot});
    return read != p.offers_read.end() && now_ - read->second <= w_.settings.offers_fresh;
}

bool Step::prices_fresh(const LiveProvider& p, const ResourceSpec& wanted) const {
    const int count = std::max(1, wanted.gpus);
    const bool bids = p.capabilities.spot && wanted.spot != SpotChoice::never;
    const bool fixed = !p.capabilities.spot || wanted.spot != SpotChoice::always;
    return (!bids || price_fresh(p, count, true)) && (!fixed || price_fresh(p, count, false));
}

OfferQuery Step::query_for(const LiveProvider& p, const JobSpec& spec) {
    const ResourceSpec& r = spec.resources;
    return {.gpu_counts = {std::max(1, r.gpus)}, .provider_gpu_names = {}, .disk_gb = disk_gb(spec),
            .on_demand = !p.capabilities.spot || r.spot != SpotChoice::always,
            .spot = p.capabilities.spot && r.spot != SpotChoice::never};
}

bool Step::offers_settled(const JobSpec& spec) {
    // Rent only from fresh prices, but let no slow or broken provider hold up the others: each gets a bounded wait.
    bool settled = true;
    for (auto& [name, p] : w_.providers) {
        const auto& r = spec.resources;
        if (!r.providers.empty() && !provider_named(r.providers, name)) continue;
        if (provider_named(r.exclude_providers, name)) continue;
        if (prices_fresh(p, r)) continue;
        if (p.offers_failures > 0 && now_ < p.offers_next) continue;
        if (p.offers_call && now_ - *p.offers_call > w_.settings.offers_patience) continue;
        settled = false;
        if (!p.offers_wanted) p.offers_wanted = query_for(p, spec);
        if (!p.offers_call) p.offers_next = now_;
    }
    return settled;
}

LiveMachine* Step::warm_machine(const LiveJob& job, const LiveTask& task) {
    // Used again only for the same image and project, and only if a fresh choice over its own offer would take it.
    LiveMachine* best = nullptr;
    for (auto& [id, machine] : w_.machines) {
        const MachineRecord& row = machine.row;
        if (row.state != MachineState::ready || !machine.connected || !machine.checked) continue;
        if (!row.task.empty() && row.task != task.row.id) continue;
        if (row.image != job.spec->image || !machine.reservation || machine.reservation->project != job.row.project) continue;
        if (row.disk.count < job.spec->resources.disk.count) continue;
        ChoiceWorld world = choice_world(w_, now_, job.row.local_allowed);
        world.paused_providers.erase(row.provider.get());
        world.cooled_offers.clear();
        world.taken_offers.clear();
        world.machines = 0;
        world.fleet_rate = {};
        const Decision fits = choose(*job.spec, task.row, std::span(&row.offer, 1), world);
        if (!fits.chosen) continue;
        if (!best || row.offer.gpu_rate < best->row.offer.gpu_rate) best = &machine;
    }
    return best;
}

void Step::write_decision(const JobId& job, const Decision& decision) {
    std::string json = decision_json(decision);
    auto& [written_at, written] = w_.decisions_written[job];
    const bool due = decision.chosen || written.empty() || now_ - written_at >= w_.settings.decision_write;
    if (!due || written == json) return;
    written_at = now_;
    written = json;
    out_.rows.push_back(PutDecision{{.job = job, .at = now_, .json = std::move(json)}});
    // Bounded: reasons of queued jobs are only remembered to avoid writing them again.
    constexpr std::size_t kRemembered = 4096;
    if (w_.decisions_written.size() > kRemembered) w_.decisions_written.erase(w_.decisions_written.begin());
}

bool Step::place(LiveJob& job, LiveTask& task, bool fresh_enough) {
    if (LiveMachine* warm = warm_machine(job, task)) {
        task.row.attempt += 1;
        task.attempt = AttemptRecord{.id = AttemptId{w_.ids.make("att_", now_)}, .task = task.row.id, .job = job.row.id,
                                     .number = task.row.attempt, .state = AttemptState::leased, .cause = {}, .detail = {},
                                     .machine = warm->row.id, .created_at = now_};
        task.attempt->start_generation = task.row.generation;
        job.row.attempts += 1;
        warm->row.job = job.row.id;
        warm->row.task = task.row.id;
        warm->row.attempt = task.row.attempt;
        warm->first_hello = now_;
        if (job.row.state == JobState::queued) move(job, JobState::provisioning, "warm_machine");
        move(job, JobState::starting, "warm_machine");
        move(task, TaskState::assigned, "warm_machine");
        out_.rows.push_back(PutAttempt{*task.attempt, std::nullopt});
        // From here on its time is this job's: a new interval on the same rate.
        if (warm->ledger) {
            const LedgerRecord open = *warm->ledger;
            close_ledger(*warm, now_);
            warm->ledger = open;
            warm->ledger->number += 1;
            warm->ledger->from = now_;
            warm->ledger->until.reset();
            warm->ledger->job = job.row.id;
            warm->ledger->project = job.row.project;
            out_.rows.push_back(PutLedger{*warm->ledger});
        }
        reserve(*warm, *job.spec, task);
        lease(*warm);
        return true;
    }
    if (!fresh_enough) return false;
    std::vector<Offer> offers;
    for (const auto& [name, p] : w_.providers)
        for (const Offer& offer : p.offers)
            if (price_fresh(p, offer.gpu_count, offer.spot)) offers.push_back(offer);
    const Decision decision = choose(*job.spec, task.row, offers, choice_world(w_, now_, job.row.local_allowed));
    write_decision(job.row.id, decision);
    if (!decision.chosen) return false;
    rent(job, task, *decision.chosen);
    return true;
}

void Step::on(const QueuePage& e, const StoredRows&) {
    w_.queue_read_open = false;
    bool waiting_for_offers = false;
    for (const auto& item : e.items) {
        const JobId id = item.row.job.id;
        w_.queue_cursor = {item.row.task.priority, item.row.task.id.get()};
        // The page was read before this step: the live row, where there is one, is newer than it.
        const bool was_live = w_.jobs.contains(id);
        if (!was_live) {
            if (item.row.job.state != JobState::queued) continue;
            w_.jobs[id] = LiveJob{item.row.job, item.spec};
            w_.tasks[item.row.task.id] = LiveTask{.row = item.row.task, .attempt = {}};
        }
        LiveJob& job = w_.jobs.at(id);
        const auto live = w_.tasks.find(item.row.task.id);
        if (live == w_.tasks.end()) continue;
        LiveTask& task = live->second;
        touched_.push_back(id);
        if (task.row.state != TaskState::waiting || task.attempt) continue;
        if (job.row.state != JobState::queued && job.row.state != JobState::recovering) continue;
        if (!job.spec) {
            finish(job, task, TaskState::failed, JobState::failed, "spec_unreadable", "the stored spec no longer parses");
            continue;
        }
        if (job.spec->limits.wait && now_ - task.row.waiting_since > *job.spec->limits.wait) {
            finish(job, task, TaskState::failed, JobState::failed, "wait_limit",
                   "no machine within limits.wait of " + duration_text(*job.spec->limits.wait));
            continue;
        }
        if (task.row.not_before && now_ < *task.row.not_before) continue;
        const bool fresh = offers_settled(*job.spec);
        waiting_for_offers = waiting_for_offers || !fresh;
        place(job, task, fresh);
    }
    if (e.full) {
        w_.queue_dirty = true;  // more pages follow before the queue is looked at from the start again
    } else {
        w_.queue_cursor = {};
    }
    for (auto& [name, p] : w_.providers) drive_provider(p);
    w_.queue_next = now_ + (waiting_for_offers ? Millis{200} : Millis{Seconds{5}});
}

void Step::look_at_queue() {
    if (w_.queue_read_open) return;
    const bool anything_waits = w_.queued_jobs > 0 || std::ranges::any_of(w_.tasks, [](const auto& entry) {
        return entry.second.row.state == TaskState::waiting;
    });
    if (!anything_waits || (!w_.queue_dirty && now_ < w_.queue_next)) return;
    if (now_ < w_.queue_pass_not_before) return;
    w_.queue_dirty = false;
    w_.queue_read_open = true;
    w_.queue_pass_not_before = now_ + Millis{static_cast<std::int64_t>(20 * w_.settings.time_scale)};
    effect(ReadQueue{.after = w_.queue_cursor, .limit = 64});
}

}  // namespace gf
