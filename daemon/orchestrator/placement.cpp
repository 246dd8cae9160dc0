// What waiting tasks may be given: market reads that are fresh enough to be rented from, and what choosing may know. Which task gets
// which machine is in planning.cpp.
#include <algorithm>
#include <utility>

#include "daemon/orchestrator/orchestrator.hpp"
#include "daemon/orchestrator/step.hpp"
#include "scheduler/filters.hpp"

namespace gf {
namespace {

bool provider_named(const std::vector<std::string>& list, const std::string& name) {
    return std::ranges::find(list, name) != list.end();
}

// Offers of this many looks back still show which one to take; its own price is read again before the rent.
constexpr int kKnownLooks = 4;
// A task that has waited this many patiences takes what is known now, however long the queue before a market is.
constexpr int kTurnPatiences = 4;

bool read_within(const LiveProvider& p, int count, bool spot, Instant now, Millis age) {
    const auto read = p.offers_read.find({count, spot});
    return read != p.offers_read.end() && now - read->second <= age;
}

bool all_read_within(const LiveProvider& p, const ResourceSpec& wanted, Instant now, Millis age) {
    const int count = std::max(1, wanted.gpus);
    const bool bids = p.capabilities.spot && wanted.spot != SpotChoice::never;
    const bool fixed = !p.capabilities.spot || wanted.spot != SpotChoice::always;
    return (!bids || read_within(p, count, true, now, age)) && (!fixed || read_within(p, count, false, now, age));
}

/// Precision, NVLink and bandwidth are a card's: no market knows them, every market knows the card's name.
std::vector<std::string> able_cards(const ResourceSpec& r, const GpuNames& gpus) {
    std::vector<std::string> out;
    for (const GpuCard& card : gpus.cards()) {
        if ((r.precision == "bf16" && !card.bf16) || (r.precision == "fp8" && !card.fp8)) continue;
        if (r.nvlink && card.nvlink_gb_s == 0) continue;
        if (r.memory_bandwidth && (!card.bandwidth_gb_s || *card.bandwidth_gb_s * kGB < r.memory_bandwidth->count)) continue;
        out.push_back(card.canonical);
    }
    return out;
}

/// Least reported memory that can meet the demand; the filters have the last word.
std::optional<Bytes> vram_reported(const VramDemand& demand) {
    double least = 0;
    if (demand.class_gb) least = kClassShare * *demand.class_gb * static_cast<double>(kGiB);
    if (demand.exact) least = std::max(least, static_cast<double>(demand.exact->count) / kReportedShare);
    return least > 0 && least < 1e15 ? std::optional(Bytes{static_cast<std::int64_t>(least)}) : std::nullopt;
}

/// What the task still needs where that is not what its spec says: a larger card or more memory after it ran out of that,
/// less time after a run.
JobSpec rest_of(const JobSpec& spec, const TaskRecord& task) {
    JobSpec rest = spec;
    if (task.vram_above) {
        rest.resources.vram = rest.resources.vram.value_or(VramDemand{});
        const auto above = static_cast<std::int64_t>(static_cast<double>(task.vram_above->count) * kNextClass * kReportedShare);
        rest.resources.vram->exact = Bytes{std::max(above, rest.resources.vram->exact.value_or(Bytes{}).count)};
    }
    if (task.memory_above) rest.resources.memory = std::max(rest.resources.memory.value_or(Bytes{}), *task.memory_above);
    if (rest.limits.duration) rest.limits.duration = std::max(Millis{0}, *rest.limits.duration - task.ran);
    return rest;
}

/// Registers what has to be looked at. A market with paced searches sees one look at a time: those who want different ones
/// have theirs in turn, in the order of the looks themselves, so that none is left out. The others are asked for all at once.
void want(LiveProvider& p, OfferQuery query) {
    if (!p.offers_wanted) {
        p.offers_wanted = std::move(query);
        return;
    }
    OfferQuery& wanted = *p.offers_wanted;
    if (wanted.look == Look::rent) return;
    if (!p.capabilities.search_per_count) {
        for (const int count : query.gpu_counts)
            if (std::ranges::find(wanted.gpu_counts, count) == wanted.gpu_counts.end()) wanted.gpu_counts.push_back(count);
        wanted.on_demand = wanted.on_demand || query.on_demand;
        wanted.spot = wanted.spot || query.spot;
        return;
    }
    if (query.market() == wanted.market()) {
        wanted.on_demand = wanted.on_demand || query.on_demand;
        wanted.spot = wanted.spot || query.spot;
        return;
    }
    const bool query_next = query.market() > p.offers_asked.market(), wanted_next = wanted.market() > p.offers_asked.market();
    if (query_next != wanted_next ? query_next : query.market() < wanted.market()) wanted = std::move(query);
}

/// What was read before the task began to wait shows nothing of what it waits for, unless it is young: a job gets one look of
/// its own, and then those of every `timing.offers`.
void forget_older_reads(LiveProvider& p, const ResourceSpec& wanted, Instant since, Instant now, Millis young) {
    std::erase_if(p.offers_read, [&](const auto& entry) {
        return entry.first.first == std::max(1, wanted.gpus) && entry.second <= since && now - entry.second > young;
    });
}

}  // namespace

void count_machine(ChoiceWorld& into, const Offer& offer, UsdPerHour rate) {
    into.machines += 1;
    into.fleet_rate = into.fleet_rate + rate;
    if (offer.exclusive) into.taken_offers.insert(offer_key(offer.provider, offer.id));
    const auto quota = into.provider_quotas.find(offer.provider.get());
    if (quota == into.provider_quotas.end()) return;
    quota->second.machines += 1;
    quota->second.rate = quota->second.rate + rate;
}

/// An offer that can be chosen: of what was looked at last, and not from a market that fails or hangs, which must not keep
/// the choice from the others.
static bool choosable(const LiveProvider& p, const Offer& offer, Instant now, const CoreSettings& settings) {
    if (p.capabilities.search_per_count && !p.offers_asked.covers(offer)) return false;
    if (read_within(p, offer.gpu_count, offer.spot, now, settings.offers_fresh)) return true;
    const bool hangs = p.offers_call && now - *p.offers_call > settings.offers_patience;
    return p.offers_failures == 0 && !hangs &&
           read_within(p, offer.gpu_count, offer.spot, now, kKnownLooks * settings.offers);
}

std::vector<Offer> Step::choosable_offers() const {
    std::vector<Offer> out;
    for (const auto& [name, p] : w_.providers)
        for (const Offer& offer : p.offers)
            if (choosable(p, offer, now_, w_.settings)) out.push_back(offer);
    return out;
}

bool Step::known_enough(const LiveJob& job, const LiveTask& task, bool& settled) {
    for (auto& [name, p] : w_.providers)
        forget_older_reads(p, job.spec->resources, task.row.waiting_since, now_, w_.settings.offers_fresh);
    const bool less_left = job.spec->limits.duration && task.row.ran > Millis{0};
    settled = task.row.vram_above || task.row.memory_above || less_left ? offers_settled(rest_of(*job.spec, task.row))
                                                                        : offers_settled(*job.spec);
    return settled || now_ - task.row.waiting_since > kTurnPatiences * w_.settings.offers_patience;
}

bool Step::ask_price(const Offer& chosen) {
    LiveProvider& from = w_.providers.at(chosen.provider.get());
    if (price_fresh(from, chosen.gpu_count, chosen.spot)) return false;
    OfferQuery query = from.offers_asked;
    query.gpu_counts = {chosen.gpu_count};
    query.on_demand = !chosen.spot;
    query.spot = chosen.spot;
    query.look = Look::rent;
    if (!from.offers_wanted || from.offers_wanted->look != Look::rent) from.offers_wanted = std::move(query);
    if (!from.offers_call) from.offers_next = now_;
    if (!w_.queue_return) w_.queue_return = w_.queue_page;
    return true;
}

ChoiceWorld choice_world(const World& world, Instant now, bool local_allowed) {
    ChoiceWorld out;
    out.now = now;
    out.gpus = world.settings.gpus;
    out.reached_providers = world.settings.reached_providers;
    out.agent_archs = world.settings.agent_archs;
    out.fleet_rate_max = world.settings.usd_per_hour_max;
    out.machines_max = world.settings.machines_max;
    for (const auto& [name, quota] : world.settings.provider_quotas)
        out.provider_quotas[name] = {.machines_max = quota.machines_max, .rate_max = quota.rate_max, .rate = {}};
    out.local_allowed = local_allowed;
    for (const auto& [name, p] : world.providers) {
        if (auto reason = p.paused(now); !reason.empty()) out.paused_providers[name] = std::move(reason);
        if (p.logins_paused(now)) out.no_logins.insert(name);
        if (breaker_state(p.breaker, now) != BreakerState::closed) out.paused_providers[name] = "creates_failing";
        if (!p.offers_drift.empty() || !p.listing_drift.empty()) out.paused_providers[name] = "drift";
        if (p.not_trusted) out.paused_providers[name] = "listing_not_trusted";
        else if (!p.listing_error.empty()) out.paused_providers[name] = p.listing_error;
        else if (!p.listing_at) out.paused_providers[name] = "not_listed_yet";
        if (p.balance) out.balances[name] = *p.balance;
        if (p.capabilities.gpu_free_while_booting) out.expect.boot_unbilled.insert(name);
    }
    for (const auto& [key, entry] : world.cooled_offers)
        if (now < entry.first) out.cooled_offers[key] = entry.second;
    for (const auto& [key, entry] : world.bad_hosts)
        if (now < entry.first) out.bad_hosts[key] = entry.second;
    out.host_marks = world.host_marks;
    out.expect.speeds = world.settings.card_speeds;
    out.expect.history = world.learned;
    out.expect.checkpoint_every = world.settings.checkpoint_every;
    for (const auto& [id, m] : world.machines) {
        if (m.row.state == MachineState::gone) continue;
        // The last listing lacked it, and the read that says which of the two is right is still under way.
        if (m.missed && m.row.state != MachineState::destroying) out.paused_providers.emplace(m.row.provider.get(), "listing_in_doubt");
        count_machine(out, m.row.offer, m.row.rate.value_or(m.row.offer.gpu_rate));
    }
    return out;
}

TaskWork Step::work_of(const LiveJob& job, const LiveTask& task) {
    return {.family = family_of(*job.spec), .total = task.total, .step = task.row.step, .download = {}, .upload = {},
            .checkpoint = task.checkpoint_size};
}

ChoiceWorld Step::choice_world_of(const LiveJob& job, const LiveTask& task) const {
    ChoiceWorld out = choice_world(w_, now_, job.row.local_allowed);
    out.expect.work = work_of(job, task);
    return out;
}

bool Step::price_fresh(const LiveProvider& p, int gpu_count, bool spot) const {
    return read_within(p, gpu_count, spot, now_, w_.settings.offers_fresh);
}

bool Step::prices_fresh(const LiveProvider& p, const ResourceSpec& wanted) const {
    return all_read_within(p, wanted, now_, w_.settings.offers);
}

OfferQuery Step::query_for(const LiveProvider& p, const JobSpec& spec) {
    const ResourceSpec& r = spec.resources;
    OfferQuery query{.gpu_counts = {std::max(1, r.gpus)},
                     .on_demand = !p.capabilities.spot || r.spot != SpotChoice::always,
                     .spot = p.capabilities.spot && r.spot != SpotChoice::never,
                     .look = Look::wanted};
    // Who answers with everything at once needs no demands, and one answer serves all jobs.
    if (!p.capabilities.search_per_count) return query;
    query.disk_gb = disk_gb(spec);
    query.demands = {.gpus = r.gpu, .regions = r.regions,
                     .vram_min = r.vram ? vram_reported(*r.vram) : std::nullopt,
                     .memory_min = r.memory, .cpus_min = r.cpus, .inet_down_min = r.inet_down_mbps,
                     .reliability_min = r.reliability,
                     .lease_min = spec.limits.duration.value_or(kLeaseDefault) + kLeaseMargin,
                     .cuda_min = r.cuda, .unvetted = spec.secrets_on_any};
    return query;
}

bool Step::offers_settled(const JobSpec& spec) {
    // Choose only from what is known lately, but let no slow or broken provider hold up the others: each gets a bounded wait.
    const ResourceSpec& r = spec.resources;
    bool settled = true;
    for (auto& [name, p] : w_.providers) {
        if (!r.providers.empty() && !provider_named(r.providers, name)) continue;
        if (provider_named(r.exclude_providers, name)) continue;
        OfferQuery query = query_for(p, spec);
        const bool by_ability = !r.precision.empty() || r.nvlink || r.memory_bandwidth;
        if (p.capabilities.search_per_count && by_ability && r.gpu.empty() && w_.settings.gpus != nullptr)
            query.demands.gpus = able_cards(r, *w_.settings.gpus);
        const bool looked = !p.capabilities.search_per_count || p.offers_asked.market() == query.market();
        if (looked && prices_fresh(p, r)) continue;
        if (p.offers_failures > 0 && now_ < p.offers_next) continue;
        want(p, std::move(query));
        if (!p.offers_call) p.offers_next = now_;
        if (looked && all_read_within(p, r, now_, kKnownLooks * w_.settings.offers)) continue;
        if (p.offers_call && now_ - *p.offers_call > w_.settings.offers_patience) continue;
        settled = false;
    }
    return settled;
}

std::optional<UsdPerHour> Step::best_elsewhere(const LiveJob& job, const LiveTask& task, const LiveMachine& machine) {
    const MachineRecord& row = machine.row;
    std::vector<Offer> offers;
    for (const auto& [name, p] : w_.providers)
        for (const Offer& offer : p.offers) {
            const bool same = offer.provider == row.provider &&
                              (offer.id == row.offer.id || (!row.offer.host_id.empty() && offer.host_id == row.offer.host_id));
            if (!same) offers.push_back(offer);
        }
    // A bid is a price per hour, and so is what it is held against.
    ChoiceWorld world = choice_world(w_, now_, job.row.local_allowed);
    world.expect.speeds = nullptr;
    const Decision other = choose(*job.spec, task.row, offers, world);
    return other.chosen ? std::optional(other.chosen->all_in) : std::nullopt;
}

bool Step::decision_due(const JobId& job) const {
    const auto written = w_.decisions_written.find(job);
    return written == w_.decisions_written.end() || now_ - written->second.first >= w_.settings.decision_write;
}

void Step::write_decision(const JobId& job, const Decision& decision) {
    if (!decision.chosen && !decision_due(job)) return;
    auto& [written_at, written] = w_.decisions_written[job];
    std::string json = decision_json(decision);
    const std::size_t hash = std::hash<std::string>{}(json);
    if (written == hash && written_at != Instant{}) return;
    written_at = now_;
    written = hash;
    out_.rows.push_back(PutDecision{{.job = job, .at = now_, .json = std::move(json)}});
    // Bounded: reasons of queued jobs are only remembered to avoid writing them again.
    constexpr std::size_t kRemembered = 4096;
    if (w_.decisions_written.size() > kRemembered) w_.decisions_written.erase(w_.decisions_written.begin());
}

void Step::look_at_queue_now() {
    // Whose choice waits for this answer goes on first, however far the walk is.
    if (w_.queue_return) w_.queue_cursor = *std::exchange(w_.queue_return, std::nullopt);
    w_.queue_dirty = true;
    w_.queue_pass_not_before = now_;
    look_at_queue();
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
    w_.left_since_read.clear();
    w_.queue_pass_not_before = now_ + Millis{static_cast<std::int64_t>(20 * w_.settings.time_scale)};
    w_.queue_page = w_.queue_cursor;
    if (w_.queue_page == QueueCursor{}) ++w_.queue_walks;
    effect(ReadQueue{.after = w_.queue_cursor, .limit = 64});
}

}  // namespace gf
