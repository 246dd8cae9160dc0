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

struct Candidate {
    const Offer* offer{nullptr};
    bool cut_off{false};    // expected to run into limits.duration; of those that fit
    std::int64_t score{0};  // of near misses the price that they would be ranked at
    UsdPerHour ranked_at;
    UsdPerHour all_in;
    int handicap_percent{0};
    double share{1};  // of each card
    bool local{false};
};

/// Lowest score first; the local machine before a cloud at the same score; then names, so that the order of the
/// input does not matter.
bool before(const Candidate& a, const Candidate& b) {
    const bool a_rented = !a.local, b_rented = !b.local;
    return std::tie(a.cut_off, a.score, a_rented, a.offer->provider, a.offer->id, a.offer->spot) <
           std::tie(b.cut_off, b.score, b_rented, b.offer->provider, b.offer->id, b.offer->spot);
}

/// Money to finish, for all offers of one decision.
class Reckoning {
 public:
    Reckoning(const JobSpec& spec, const TaskRecord& task, const ChoiceWorld& world) : spec_(spec) {
        if (world.expect.speeds != nullptr) estimator_.emplace(spec, task, world.expect, world.now);
    }

    [[nodiscard]] std::optional<Millis> run(const Fit& fit) const {
        return estimator_ ? estimator_->run(fit.offer, card_share(fit)) : std::nullopt;
    }
    /// What is of unknown speed is taken for the slowest among these; where nothing is known of any, the work counts as not known.
    void see(const std::vector<Candidate>& candidates) {
        if (!estimator_ || !estimator_->work_known()) return;
        for (const auto& c : candidates)
            if (const auto speed = estimator_->speed(*c.offer, c.share); speed && (slowest_ <= 0 || *speed < slowest_)) slowest_ = *speed;
        if (slowest_ <= 0) estimator_->without_work();
    }
    [[nodiscard]] std::optional<FinishCost> finish(const Candidate& c, bool explain) const {
        if (!estimator_) return std::nullopt;
        return estimator_->reckon(*c.offer, c.share, disk_rate(*c.offer, disk_gb(spec_)), slowest_, explain);
    }
    void rank(Candidate& c) const {
        c.score = c.ranked_at.micros;
        const auto cost = finish(c, false);
        if (!cost) return;
        c.cut_off = cost->cut_off;
        c.score = finish_score(*cost, c.all_in, c.ranked_at, c.handicap_percent);
    }

 private:
    const JobSpec& spec_;
    std::optional<FinishEstimator> estimator_;
    double slowest_{0};
};

SeenOffer seen(const Fit& fit, const std::string& reason) {
    const auto& o = fit.offer;
    return {.provider = o.provider, .id = o.id, .gpu = o.gpu.canonical.empty() ? o.gpu.provider_name : o.gpu.canonical,
            .gpu_count = o.gpu_count, .spot = o.spot, .all_in = fit.all_in, .reason = reason};
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
            return NearMiss{fit.offer, fit.all_in, refusal->reason, std::string(spec_key(fit.spec, refusal->reason)),
                            std::move(refusal->detail)};
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
    decision.estimate = spec.estimate;
    Reckoning reckoning(spec, task, world);
    Relaxations relaxations;
    std::vector<Candidate> fitting, near, of_bad_repute;
    std::set<std::string> sole_reasons;
    for (const auto& offer : offers) {
        ++decision.considered;
        Fit fit = make_fit(spec, task, offer, world);
        fit.expected = reckoning.run(fit);
        auto refused = refused_by(fit);
        const UsdPerHour rate = ranked_rate(fit);
        const Candidate candidate{.offer = &offer, .score = rate.micros, .ranked_at = rate, .all_in = fit.all_in,
                                  .handicap_percent = fit.standing.handicap_percent, .share = card_share(fit), .local = fit.local};
        if (refused.count == 0) fitting.push_back(candidate);
        if (refused.count == 1) {
            near.push_back(candidate);
            relaxations.add(fit, refused.first);
            sole_reasons.insert(refused.first);
            if (refused.first == "host_reputation") of_bad_repute.push_back(candidate);
        }
        if (refused.count > 0) ++decision.refused[refused.first];
        if (world.list_seen) decision.seen.push_back(seen(fit, refused.first));
    }
    // Where nothing but hosts of bad repute would do, a task that has waited long enough takes one after all.
    const bool waited = task.waiting_since != Instant{} && world.now - task.waiting_since >= kReputePatience;
    if (fitting.empty() && waited) fitting = std::move(of_bad_repute);
    reckoning.see(fitting);
    for (auto& c : fitting) reckoning.rank(c);
    std::ranges::sort(fitting, before);
    std::ranges::sort(near, before);
    if (world.list_seen) {
        const auto place = [](const auto& o) { return std::tie(o.provider, o.id, o.spot); };
        std::ranges::sort(decision.seen, [&](const auto& a, const auto& b) { return place(a) < place(b); });
        for (const auto& c : fitting) {
            const auto found = std::ranges::lower_bound(decision.seen, place(*c.offer), {}, place);
            found->score = c.score;
        }
    }
    fitting.resize(std::min(fitting.size(), world.shown));
    near.resize(std::min(near.size(), world.shown));
    for (const auto& c : fitting)
        decision.ranked.push_back({*c.offer, c.all_in, price_lines(spec, *c.offer), c.ranked_at,
                                   c.handicap_percent != 0 ? host_note(*c.offer, world) : std::string(), c.score,
                                   reckoning.finish(c, true)});
    for (const auto& c : near) {
        Fit fit = make_fit(spec, task, *c.offer, world);
        fit.expected = reckoning.run(fit);
        decision.near_misses.push_back(explain(std::move(fit)));
    }
    for (const auto& [reason, count] : decision.refused) {
        const auto key = spec_key(spec, reason), config = config_key(reason);
        if (!key.empty()) decision.sources.push_back({reason, std::string(key), false, line_of(spec, key)});
        else if (!config.empty()) decision.sources.push_back({reason, std::string(config), true, 0});
    }
    decision.relaxations = relaxations.list(spec);
    if (decision.ranked.empty())
        decision.wait_reason = wait_reason(decision.considered, decision.refused, sole_reasons);
    else
        decision.chosen = decision.ranked.front();
    return decision;
}

std::string wait_reason(int considered, const std::map<std::string, int>& refused, const std::set<std::string>& sole_reasons) {
    if (considered == 0) return "no_offers";
    if (std::ranges::any_of(sole_reasons, [](const std::string& reason) { return reason.starts_with("quota_"); })) return "quota";
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
