// Which offer a task gets, and why the others did not. Pure: a snapshot goes in, a decision with its reasons comes out.
// Among the offers that pass every filter the one with the least expected money to finish wins (finish_cost.hpp); where the amount
// of work is not known, the lowest all-in price per unit of throughput; where not even the cards' speeds are given, the lowest
// all-in price per hour.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "model/job_spec.hpp"
#include "model/offer.hpp"
#include "model/records.hpp"
#include "scheduler/finish_cost.hpp"
#include "scheduler/gpu_names.hpp"
#include "scheduler/relaxation.hpp"
#include "scheduler/reputation.hpp"
#include "scheduler/spot_policy.hpp"

namespace gf {

/// Limits on what may be rented at one provider, and what is.
struct ProviderQuota {
    std::optional<int> machines_max;     // absent = no limit
    std::optional<UsdPerHour> rate_max;  // of all its machines together; absent = no limit
    int machines{0};                     // now
    UsdPerHour rate;
};

/// What choosing may know besides the offers. All of it comes from the core's own state.
struct ChoiceWorld {
    Instant now;
    /// The card table, for demands that the offer itself does not answer (bf16, fp8, NVLink, bandwidth,
    /// memory that the provider does not tell). Not owned; may be null, then such demands are refused as
    /// "gpu_unknown".
    const GpuNames* gpus{nullptr};
    /// Providers that must not get a launch now, with the reason ("auth", "no_money", "listing_not_trusted",
    /// …).
    std::map<std::string, std::string> paused_providers;
    /// Providers that take no login for a private image now; other jobs go there.
    std::set<std::string> no_logins;
    /// Offers in cool-down after a refusal: "provider/offer id" -> reason.
    std::map<std::string, std::string> cooled_offers;
    /// Hosts remembered as bad: "provider/host id" -> reason.
    std::map<std::string, std::string> bad_hosts;
    /// What is remembered of hosts, owners and data centres; null = nothing.
    std::shared_ptr<const HostMarks> host_marks;
    /// Money that is left per prepaid provider; absent = not known.
    std::map<std::string, Usd> balances;
    /// Offers that live machines hold already: "provider/offer id".
    std::set<std::string> taken_offers;
    /// Providers whose machines can reach the daemon, by advertise_url or by a tunnel. "local" always can.
    std::set<std::string> reached_providers;
    /// The agent architectures that this daemon has a binary for.
    std::set<std::string> agent_archs{"amd64"};
    UsdPerHour fleet_rate;  // of all machines now
    std::optional<UsdPerHour> fleet_rate_max;
    int machines{0};
    int machines_max{50};
    std::map<std::string, ProviderQuota> provider_quotas;  // of those that have one
    bool local_allowed{false};  // the job came over the unix socket
    Expectations expect;        // without its `speeds`, offers are ranked by their price per hour
    std::size_t shown{20};      // ranked offers and near misses that are kept, each
    bool list_seen{false};      // fill in Decision::seen
};

/// One line of a price ("gpu", "disk"), so that the sum can be shown.
struct PriceLine {
    std::string name;
    UsdPerHour rate;
};

struct RankedOffer {
    Offer offer;
    UsdPerHour all_in;  // sum of the lines
    std::vector<PriceLine> lines;
    UsdPerHour ranked_at;   // all_in, made dearer by steps of the bill and by what is remembered of the host
    std::string host_note;  // why, for people; empty = nothing is
    /// What it is ordered by, the lowest first. With `finish`: micro-dollars until the job is done, or of an hour at the speed of one
    /// V100, made dearer as `ranked_at` is. Without: `ranked_at`. Comparable within one decision only.
    std::int64_t score{0};
    std::optional<FinishCost> finish;  // absent without ChoiceWorld::expect.speeds
};

struct NearMiss {
    Offer offer;
    UsdPerHour all_in;
    std::string reason;  // the one filter it failed
    std::string key;     // of the spec, that the reason comes from; empty = none
    std::string detail;  // "0.43 $/h is over max_price 0.40"
};

/// Where a refusal reason of a decision comes from.
struct RefusalSource {
    std::string reason;
    std::string key;  // of the spec, or of the configuration
    bool of_config{false};
    int line{0};  // of the submitted spec; 0 = not written there
};

/// One offer that was looked at, in short.
struct SeenOffer {
    ProviderName provider;
    std::string id;
    std::string gpu;
    int gpu_count{0};
    bool spot{false};
    UsdPerHour all_in;
    std::string reason;     // the first filter that stopped it; empty = it fits
    std::int64_t score{0};  // RankedOffer::score; 0 where it does not fit
};

struct Decision {
    std::optional<RankedOffer> chosen;
    std::vector<RankedOffer> ranked;     // best first, at most 20
    std::map<std::string, int> refused;  // reason -> offers; the first failing filter counts
    std::vector<NearMiss> near_misses;  // failed by exactly one filter, the lowest `ranked_at` first, at most 20
    int considered{0};
    std::vector<RefusalSource> sources;    // of the reasons in `refused` that are a line of the spec or the configuration
    std::vector<Relaxation> relaxations;   // what one change of the spec would let in
    std::vector<SeenOffer> seen;           // all of them, by provider and id; only with ChoiceWorld::list_seen
    /// When nothing is chosen: "no_offers" (none was shown), "no_provider" (every offer's provider is paused
    /// or out of reach), "quota", "balance", "cooling_down", "host_reputation", "max_price" (an offer failed this filter only),
    /// "no_offer_fits". The core's own: "secret_missing", when nothing was looked at for want of a secret.
    std::string wait_reason;
    /// Of a decision that was made for many tasks at once (planner.hpp), whose words `wait_reason` then has too ("turn", "next_pass"):
    /// more of what it waits for ("quota_machines"), and since when it waits for that.
    std::string wait_detail;
    std::optional<Instant> wait_since;
    /// Why `chosen` is not the first of `ranked`: "kept" (chosen before, and others are not better by enough), "next_best" (better ones
    /// went to tasks before it, are kept for others, or have no room in a quota or balance). Empty = it is.
    std::string passed_over;
    /// Where a deadline decides between spot and on-demand: what was decided, and why (spot_policy.hpp). `chosen` follows it.
    std::optional<SpotDecision> deadline;
    std::optional<MemoryEstimate> estimate;  // of the spec: what was asked for by resources.estimate, as it was known then
};

/// The filters and their reasons are in scheduler/filters.hpp. What is expected to run into limits.duration, and so to end without
/// being done, comes after all that is not. Filters and ranks by the score (above; without known work the price
/// per hour is, where limits.duration is known, that of an hour of that run: its bill may grow in hours),
/// raised by the handicap of a host of bad repute (one that is out is taken only by a task that has waited
/// kReputePatience with nothing else that fits); at equal score the local machine comes first, then provider and offer id order.
/// `task.vram_above`, `task.ran` and the spec decide what fits. Deterministic, whatever the order of `offers`. Never blocks or throws.
[[nodiscard]] Decision choose(const JobSpec& spec, const TaskRecord& task, std::span<const Offer> offers,
                              const ChoiceWorld& world);

/// What a waiting job waits for, in one word (Decision::wait_reason): the nearest thing that would let it start. `sole_reasons`
/// are those that alone kept some offer from it.
[[nodiscard]] std::string wait_reason(int considered, const std::map<std::string, int>& refused,
                                      const std::set<std::string>& sole_reasons);

/// What `choose` ranks an offer that fits by (RankedOffer::ranked_at): at least its all-in price.
struct Fit;
[[nodiscard]] UsdPerHour ranked_rate(const Fit& fit);

/// Smallest whole GB of disk to ask for: the spec's demand rounded up.
[[nodiscard]] std::int64_t disk_gb(const JobSpec& spec);

/// As plan and explain show it: {"text": "21.5 GiB x 1.15 = 24.8 GiB", "model": …, "parts": {…}, …}.
[[nodiscard]] std::string estimate_json(const MemoryEstimate& estimate);

/// JSON for explain, plan and the stored decision row.
[[nodiscard]] std::string decision_json(const Decision& decision);

}  // namespace gf
