#include "scheduler/deadline.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "scheduler/filters.hpp"
#include "scheduler/market_book.hpp"

namespace gf {
namespace {

/// Its work takes more than this many times as long as on the sure offer.
constexpr int kTooSlow = 2;

struct Start {
    Millis typical{0};
    Millis worst{0};
};

Start start_of(const JobSpec& spec, const Offer& offer, const Expectations& expect) {
    const auto record = [&](StartPhase phase) -> const StartRecord* {
        if (!expect.history) return nullptr;
        const auto found = expect.history->starts.find(start_key(phase, offer.provider.get(), spec.image));
        return found == expect.history->starts.end() ? nullptr : &found->second;
    };
    Start out;
    const StartTime parts[] = {boot_time(record(StartPhase::boot)), image_time(record(StartPhase::image), !spec.image.empty()),
                               restore_time(record(StartPhase::restore), expect.work.checkpoint, offer.inet_down_mbps)};
    for (const StartTime& part : parts) {
        out.typical += part.typical;
        out.worst += part.worst;
    }
    out.worst = std::max(out.worst, out.typical);
    return out;
}

/// `rate` for as long as the work takes here, as if it took as long as on the sure offer.
UsdPerHour per_sure_hour(UsdPerHour rate, Millis here, Millis sure) {
    const auto scaled = static_cast<__int128>(rate.micros) * here.count() / std::max<std::int64_t>(1, sure.count());
    return UsdPerHour{static_cast<std::int64_t>(std::clamp<__int128>(scaled, 1, INT64_MAX / 4))};
}

Usd beside_time(const FinishCost& cost) {
    Usd out;
    for (const MoneyLine& line : cost.lines)
        if (line.name == "rounding" || line.name == "traffic_down") out = out + line.amount;
    return out;
}

/// Time of the task's work on an offer of this list; nothing where nobody knows how much there is.
std::optional<Millis> run_on(const JobSpec& spec, const TaskRecord& task, const FinishCost* cost) {
    if (cost && cost->known && !cost->hopeless) return std::max(Millis{1}, cost->run);
    if (spec.limits.duration) return std::max(Millis{1}, *spec.limits.duration - task.ran);
    return std::nullopt;
}

}  // namespace

std::string deadline_key(const Offer& offer) {
    if (offer.spot)
        if (const auto key = market_key(offer)) return text(*key);
    return offer.provider.get() + "/" + offer.id + (offer.spot ? "/spot" : "");
}

std::optional<DeadlinePlan> deadline_plan(const JobSpec& spec, const TaskRecord& task, std::span<const RankedOffer> ranked,
                                          const Expectations& expect, const DeadlineCase& at) {
    const RankedOffer* sure = nullptr;
    for (const RankedOffer& r : ranked)
        if (!r.offer.spot && (!sure || r.score < sure->score)) sure = &r;
    const RankedOffer* measure = sure ? sure : ranked.empty() ? nullptr : &ranked.front();
    const FinishCost* measured = measure && measure->finish ? &*measure->finish : nullptr;
    std::optional<Millis> work = run_on(spec, task, measured);
    std::optional<Millis> here;
    if (at.on && expect.speeds) {
        const FinishEstimator estimator(spec, task, expect, at.now);
        const GpuCard* card = nullptr;
        here = estimator.run(at.on->offer, card_share(at.on->offer, card));
    }
    if (at.on && !here && spec.limits.duration) here = std::max(Millis{1}, *spec.limits.duration - task.ran);
    if (!work) work = here;
    if (!work || (ranked.empty() && !at.on)) return std::nullopt;

    DeadlinePlan plan;
    Start start = measure ? start_of(spec, measure->offer, expect) : start_of(spec, at.on->offer, expect);
    plan.job = {.work_left = *work, .to_deadline = std::max(Millis{0}, at.deadline - at.now), .look = at.look, .on = {}};
    std::map<std::string, std::size_t> by_key;
    std::size_t spot = 0;
    for (std::size_t i = 0; i < ranked.size(); ++i) {
        const RankedOffer& r = ranked[i];
        const auto run = run_on(spec, task, r.finish ? &*r.finish : nullptr);
        if (!run || *run > kTooSlow * *work) continue;
        if (r.offer.spot && spot == kDeadlineOffersMost) continue;
        SpotOffer offer{.key = deadline_key(r.offer), .spot = r.offer.spot, .up = true, .rate = per_sure_hour(r.all_in, *run, *work),
                        .move_fee = r.finish ? beside_time(*r.finish) : Usd{}};
        if (const auto same = by_key.find(offer.key); same != by_key.end()) {
            if (offer.rate >= plan.offers[same->second].rate) continue;
            plan.offers[same->second] = std::move(offer);
            plan.ranked[same->second] = i;
            continue;
        }
        spot += r.offer.spot ? 1 : 0;
        by_key[offer.key] = plan.offers.size();
        if (r.offer.spot) start.worst = std::max(start.worst, start_of(spec, r.offer, expect).worst);
        plan.offers.push_back(std::move(offer));
        plan.ranked.emplace_back(i);
    }
    if (at.on) {
        SpotOffer held{.key = deadline_key(at.on->offer), .spot = at.on->offer.spot, .up = at.on->up,
                       .rate = per_sure_hour(at.on->rate, here.value_or(*work), *work), .move_fee = {}};
        plan.job.on = held.key;
        plan.job.startup_left = at.on->startup_left;
        // Another of its kind may stand in the market under the same key: the machine that is there is the one that counts.
        if (const auto same = by_key.find(held.key); same != by_key.end()) {
            plan.offers[same->second] = std::move(held);
            plan.ranked[same->second] = std::nullopt;
        } else {
            plan.offers.push_back(std::move(held));
            plan.ranked.emplace_back(std::nullopt);
        }
    }
    plan.job.changeover = start.typical;
    plan.job.changeover_worst = start.worst;
    const Millis every = spec.checkpoint.every.value_or(expect.checkpoint_every);
    // A save that is under way when the machine goes is lost with it: one interval and the one before it.
    plan.job.lost_worst = spec.checkpoint.declared ? std::min(2 * every, *work) : *work;
    for (const SpotOffer& offer : plan.offers)
        if (offer.spot) plan.seen.push_back({.key = offer.key, .up = offer.up, .rate = offer.rate});
    return plan;
}

}  // namespace gf
