#include "scheduler/choice.hpp"

#include <algorithm>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "scheduler/billing.hpp"
#include "scheduler/filters.hpp"

namespace gf {
namespace {

constexpr std::size_t kShown = 20;

struct Candidate {
    const Offer* offer{nullptr};
    UsdPerHour ranked_at;
    UsdPerHour all_in;
    bool local{false};
    bool of_repute{false};  // something is remembered of its host
};

/// Cheapest first; the local machine before a cloud at the same price; then names, so that the order of the
/// input does not matter.
bool before(const Candidate& a, const Candidate& b) {
    const bool a_rented = !a.local, b_rented = !b.local;
    return std::tie(a.ranked_at, a_rented, a.offer->provider, a.offer->id, a.offer->spot) <
           std::tie(b.ranked_at, b_rented, b.offer->provider, b.offer->id, b.offer->spot);
}

/// The reason of the first filter that refuses, and how many do, counted up to two.
struct Refused {
    std::string first;
    int count{0};
};
Refused refused_by(const Fit& fit) {
    Refused out;
    for (const auto filter : filters()) {
        auto refusal = filter(fit);
        if (!refusal) continue;
        if (++out.count > 1) break;
        out.first = std::move(refusal->reason);
    }
    return out;
}

NearMiss explain(Fit fit) {
    fit.explain = true;
    for (const auto filter : filters())
        if (auto refusal = filter(fit))
            return NearMiss{fit.offer, fit.all_in, std::move(refusal->reason), std::move(refusal->detail)};
    return {};
}

/// What an hour of the job costs where the bill of its whole run grows in steps: ten minutes on a machine by the hour cost the
/// hour. Where nothing says how long it runs, the price per hour is all there is.
UsdPerHour per_hour_of_run(const Fit& fit) {
    const auto& limit = fit.spec.limits.duration;
    const bool in_steps = fit.offer.billing_step > Seconds{1} || fit.offer.billing_minimum > Millis{0};
    if (!in_steps || !limit || *limit <= fit.task.ran) return fit.all_in;
    const Millis run = *limit - fit.task.ran;
    const auto bill = static_cast<__int128>(fit.all_in.micros) * billed_time(fit.offer, run).count();
    return UsdPerHour{static_cast<std::int64_t>(std::min<__int128>(bill / run.count(), INT64_MAX / 4))};
}

std::string host_note(const Offer& offer, const ChoiceWorld& world) {
    return standing_text(standing(*world.host_marks, offer, world.now), world.now);
}

bool is_provider_reason(std::string_view reason) {
    return (reason.starts_with("provider_") && reason != "provider_excluded") ||
           reason == "agent_cannot_reach_daemon" || reason == "local_not_allowed";
}

}  // namespace

Decision choose(const JobSpec& spec, const TaskRecord& task, std::span<const Offer> offers,
                const ChoiceWorld& world) {
    Decision decision;
    std::vector<Candidate> fitting, near, of_bad_repute;
    std::set<std::string> sole_reasons;
    for (const auto& offer : offers) {
        ++decision.considered;
        const Fit fit = make_fit(spec, task, offer, world);
        auto refused = refused_by(fit);
        const Candidate candidate{&offer, ranked_rate(fit), fit.all_in, fit.local, fit.standing.handicap_percent != 0};
        if (refused.count == 0) fitting.push_back(candidate);
        if (refused.count == 1) {
            near.push_back(candidate);
            sole_reasons.insert(refused.first);
            if (refused.first == "host_reputation") of_bad_repute.push_back(candidate);
        }
        if (refused.count > 0) ++decision.refused[refused.first];
    }
    // Where nothing but hosts of bad repute would do, a task that has waited long enough takes one after all.
    const bool waited = task.waiting_since != Instant{} && world.now - task.waiting_since >= kReputePatience;
    if (fitting.empty() && waited) fitting = std::move(of_bad_repute);
    std::ranges::sort(fitting, before);
    std::ranges::sort(near, before);
    fitting.resize(std::min(fitting.size(), kShown));
    near.resize(std::min(near.size(), kShown));
    for (const auto& c : fitting)
        decision.ranked.push_back({*c.offer, c.all_in, price_lines(spec, *c.offer), c.ranked_at,
                                   c.of_repute ? host_note(*c.offer, world) : std::string()});
    for (const auto& c : near) decision.near_misses.push_back(explain(make_fit(spec, task, *c.offer, world)));
    if (decision.ranked.empty())
        decision.wait_reason = wait_reason(decision.considered, decision.refused, sole_reasons);
    else
        decision.chosen = decision.ranked.front();
    return decision;
}

std::string wait_reason(int considered, const std::map<std::string, int>& refused, const std::set<std::string>& sole_reasons) {
    if (considered == 0) return "no_offers";
    if (sole_reasons.contains("quota_machines") || sole_reasons.contains("quota_usd_per_hour"))
        return "quota";
    if (sole_reasons.contains("balance")) return "balance";
    if (sole_reasons.contains("offer_cooling_down") || sole_reasons.contains("bad_host")) return "cooling_down";
    if (sole_reasons.contains("host_reputation")) return "host_reputation";
    if (sole_reasons.contains("max_price")) return "max_price";
    const bool all_providers =
        std::ranges::all_of(refused, [](const auto& r) { return is_provider_reason(r.first); });
    return all_providers ? "no_provider" : "no_offer_fits";
}

UsdPerHour ranked_rate(const Fit& fit) {
    const UsdPerHour rate = per_hour_of_run(fit);
    const auto dearer = static_cast<__int128>(rate.micros) * (100 + fit.standing.handicap_percent);
    return fit.standing.handicap_percent == 0 ? rate : UsdPerHour{static_cast<std::int64_t>(dearer / 100)};
}

std::int64_t disk_gb(const JobSpec& spec) {
    return (spec.resources.disk.count + kGB - 1) / kGB;
}

}  // namespace gf
