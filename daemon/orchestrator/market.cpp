// When each provider is asked what: offers for what waits, one listing per sweep, the balance. Failures back off and are
// told; they never change a machine.
#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <utility>

#include "daemon/orchestrator/step.hpp"

namespace gf {

namespace {

// What people are shown of a market that is looked at piece by piece. Placement goes by the last look alone.
constexpr std::size_t kOffersShown = 1024;
constexpr Millis kRejectedShown = std::chrono::minutes{10};

/// Lays an answer over what is known: it replaces what it was asked about, the rest stays with its own age.
void take_offers(LiveProvider& p, const OfferList& list, Instant began) {
    OfferQuery asked = p.offers_asked;
    // Only a search leaves out hosts that nobody has vetted; who answers with everything has said of them too that they are gone.
    if (!p.capabilities.search_per_count) asked.demands.unvetted = true;
    std::set<std::string_view> ids;
    for (const Offer& offer : list.offers) ids.insert(offer.id);
    std::erase_if(p.offers, [&](const Offer& o) {
        return p.capabilities.is_local || asked.replaces(o) || ids.contains(o.id);
    });
    // The oldest stand first, so the cut takes what was read longest ago and never this answer.
    if (p.offers.size() > kOffersShown) p.offers.erase(p.offers.begin(), p.offers.end() - kOffersShown);
    p.offers.insert(p.offers.end(), list.offers.begin(), list.offers.end());
    if (list.reads.empty()) {
        for (const int count : asked.gpu_counts) {
            if (asked.on_demand) p.offers_read[{count, false}] = began;
            if (asked.spot) p.offers_read[{count, true}] = began;
        }
        for (const Offer& offer : list.offers) p.offers_read[{offer.gpu_count, offer.spot}] = began;
    }
    for (const PriceRead& read : list.reads) p.offers_read[{read.gpu_count, read.spot}] = read.at;
    // A market that is searched piece by piece tells in each answer of that piece alone; pieces are not always cut alike.
    std::erase_if(p.rejected, [&](const auto& piece) {
        return !p.capabilities.search_per_count || began - piece.second.first > kRejectedShown;
    });
    p.rejected[{asked.gpu_counts, asked.on_demand, asked.spot}] = {began, list.rejected};
    p.offers_at = began;
}

}  // namespace

void Step::on(const OffersSeen& e, const StoredRows&) {
    LiveProvider* p = provider(e.provider);
    if (!p) return;
    p->offers_call.reset();
    p->offers_wanted.reset();  // whoever still waits says so again when the queue is looked at
    p->offers_asked_once = true;
    if (!e.result) {
        p->offers_failures += 1;
        p->offers_error = e.result.error().message;
        p->offers_next = now_ + std::max(backoff(p->offers_failures), e.result.error().retry_after.value_or(Millis{0}));
        if (e.result.error().kind == ErrorKind::auth || e.result.error().kind == ErrorKind::api_retired)
            pause(*p, text(e.result.error().kind), e.result.error().message);
        look_at_queue_now();  // those who waited for this answer go on without it
        return;
    }
    p->offers_failures = 0;
    p->offers_error.clear();
    // One clean piece of a market that is searched piece by piece says nothing unless there was something in it to look at.
    const bool whole = !p->capabilities.search_per_count || !e.result->offers.empty() || !e.result->rejected.empty();
    take_drift(*p, p->offers_drift, e.result->drift, whole);
    take_offers(*p, *e.result, e.began);
    p->offers_next = now_ + w_.settings.offers;
    // Refusals are forgotten when their time is over; the maps stay as small as the market.
    std::erase_if(w_.cooled_offers, [&](const auto& entry) { return entry.second.first <= now_; });
    std::erase_if(w_.bad_hosts, [&](const auto& entry) { return entry.second.first <= now_; });
    look_at_queue_now();
}

void Step::take_drift(LiveProvider& p, std::vector<Drift>& kept, const std::vector<Drift>& seen, bool whole) {
    if (seen.empty() && !whole) return;
    constexpr std::size_t kKept = 8;  // for people; one is enough to stop
    kept.assign(seen.begin(), seen.begin() + static_cast<std::ptrdiff_t>(std::min(seen.size(), kKept)));
    const std::string key = "drift/" + p.name.get();
    if (p.offers_drift.empty() && p.listing_drift.empty()) {
        if (w_.open_alerts.contains(key)) {
            history({.at = now_, .kind = "provider_resumed", .reason = "drift", .detail = p.name.get()});
            w_.queue_dirty = true;
        }
        return clear_alert(key);
    }
    if (w_.open_alerts.contains(key)) return;
    std::string what;
    for (const auto* list : {&p.offers_drift, &p.listing_drift})
        for (const Drift& d : *list) what += (what.empty() ? "" : "; ") + d.what + (d.detail.empty() ? "" : ": " + d.detail);
    alert("provider_drift", "critical", key,
          p.name.get() + " answers in another shape or in other units than it did (" + what +
              "); no launches there until its answers are whole again, running jobs and destroys go on",
          nullptr, p.name);
}

void Step::drive_tidy(LiveProvider& p, bool machines_here) {
    // A while after the last machine, so that a pause between two jobs costs no calls; once after each start of the daemon too.
    constexpr Millis kTidyAfter = std::chrono::minutes{10};
    if (machines_here) {
        p.empty_since.reset();
        p.tidied = false;
        return;
    }
    if (p.tidied || p.capabilities.is_local || !p.listing_at || !p.listing_error.empty()) return;
    if (!p.empty_since) p.empty_since = now_;
    // After a suspend the last listing may be from before.
    if (now_ - *p.empty_since < kTidyAfter || *p.listing_at < *p.empty_since) return;
    p.tidied = true;
    effect(CallTidy{p.name});
}

void Step::on(const BalanceSeen& e, const StoredRows&) {
    LiveProvider* p = provider(e.provider);
    if (!p) return;
    const Instant asked = std::exchange(p->balance_call, std::nullopt).value_or(now_);
    p->balance_next = now_ + w_.settings.balance;
    if (e.result) {
        p->balance = *e.result;
        p->balance_at = asked;
        p->balance_missed = 0;
        return judge_losses(*p, asked, true);
    }
    // A passing trouble leaves the figure standing for a while. Every other answer says that there is none to be had, and an old
    // one would refuse offers, or not, for ever.
    constexpr int kMissedMax = 3;
    const ErrorKind why = e.result.error().kind;
    const bool passing = why == ErrorKind::unavailable || why == ErrorKind::rate_limited || why == ErrorKind::unknown_outcome;
    if (!passing || ++p->balance_missed >= kMissedMax) p->balance.reset();
    judge_losses(*p, asked, false);
}

void Step::drive_provider(LiveProvider& p) {
    // A call that was never answered (a dead worker) is asked again after a long while.
    constexpr Millis kCallLost = Seconds{600};
    std::erase_if(p.pauses, [&](const auto& pause) {
        if (now_ < pause.second) return false;
        clear_alert("provider/" + p.name.get() + "/" + pause.first);
        w_.queue_dirty = true;
        return true;
    });
    bool waits = w_.queued_jobs > 0;
    bool machines_here = false;
    for (const auto& [id, task] : w_.tasks) {
        if (task.row.state != TaskState::waiting) continue;
        waits = true;
    }
    for (const auto& [id, machine] : w_.machines)
        machines_here = machines_here || (machine.row.provider == p.name && machine.row.state != MachineState::gone);

    drive_tidy(p, machines_here);

    // A market that is searched piece by piece is swept in turn for those who look at it (`plan`, the list of offers): while
    // nothing waits and once everything was seen, rarely, since a job that comes meanwhile waits for the piece to end. One
    // whose answer is whole has nothing to add to what the waiting jobs ask of it.
    constexpr std::array kCommonCounts{1, 2, 4, 8};
    const std::size_t pieces = kCommonCounts.size() * (p.capabilities.spot ? 2 : 1);
    const Millis idle_pause = waits || p.offers_turn < pieces ? Millis{0} : 9 * w_.settings.offers;
    const bool sweep_due = p.capabilities.search_per_count && now_ >= p.offers_next + idle_pause;
    // Whether its answers are whole again is only seen by asking.
    const bool doubted = !p.offers_drift.empty() && now_ >= p.offers_next;
    // The record of the market (daemon/market) has to see each of them now and then, whatever the jobs ask for; but nothing comes
    // between a job and the price that it is about to pay.
    const bool record_due = w_.settings.market_every > Millis{0} && !p.capabilities.is_local && now_ >= p.market_next &&
                            !(p.offers_wanted && p.offers_wanted->look == Look::rent);
    // Where one answer serves both, the record waits a little for those who want one.
    const bool record_alone =
        record_due && (p.capabilities.search_per_count || !waits || now_ >= p.market_next + 2 * w_.settings.offers);
    const bool offers_due = !p.offers_asked_once || (p.offers_wanted && now_ >= p.offers_next) || sweep_due || doubted ||
                            (record_alone && now_ >= p.offers_next);
    if (offers_due && (!p.offers_call || now_ - *p.offers_call > kCallLost)) {
        // What queued jobs ask for is not known without reading them all; the common counts serve them.
        OfferQuery query{.gpu_counts = {kCommonCounts.begin(), kCommonCounts.end()}, .spot = p.capabilities.spot};
        if (p.capabilities.search_per_count && !p.offers_asked_once) query.gpu_counts = {1};
        const bool piece_due = p.capabilities.search_per_count && p.offers_asked_once && (!p.offers_wanted || record_due);
        if (piece_due) {
            const std::size_t piece = p.offers_turn++ % pieces;
            query.gpu_counts = {kCommonCounts.at(piece % kCommonCounts.size())};
            query.on_demand = piece < kCommonCounts.size();
            query.spot = !query.on_demand;
            if (p.offers_wanted) query.look = Look::wanted;  // one search, and then those who wait
        }
        if (!p.offers_asked_once) query.look = Look::wanted;  // readiness and the first job wait for it
        if (p.offers_wanted && !piece_due) {
            const std::vector<int> common = std::move(query.gpu_counts);
            query = *std::exchange(p.offers_wanted, std::nullopt);
            if (record_due && !p.capabilities.search_per_count) {  // one answer for those who wait and for the record
                for (const int count : common)
                    if (std::ranges::find(query.gpu_counts, count) == query.gpu_counts.end()) query.gpu_counts.push_back(count);
                query.on_demand = true;
                query.spot = p.capabilities.spot;
                query.demands = {};
            }
        }
        if (piece_due || record_due) p.market_next = now_ + w_.settings.market_every;
        // Ages are those of one look: with another one under way, what is left of the last says nothing of this market.
        if (p.capabilities.search_per_count && query.market() != p.offers_asked.market()) p.offers_read.clear();
        p.offers_asked = query;
        p.offers_call = now_;
        effect(CallOffers{p.name, std::move(query)});
    }
    // The sweep goes on without machines too, only more rarely: that is how orphans are found.
    const Millis sweep = machines_here || waits ? w_.settings.sweep : w_.settings.sweep * 6;
    const bool listing_due = !p.listing_asked || (now_ - *p.listing_asked >= sweep && now_ >= p.listing_next);
    if (listing_due && (!p.listing_call || now_ - *p.listing_call > kCallLost)) {
        p.listing_call = now_;
        p.listing_asked = now_;
        effect(CallList{p.name});
    }
    judge_losses(p, Instant{}, false);
    if (p.capabilities.balance && now_ >= p.balance_next && (!p.balance_call || now_ - *p.balance_call > kCallLost)) {
        p.balance_call = now_;
        effect(CallBalance{p.name});
    }
}

}  // namespace gf
