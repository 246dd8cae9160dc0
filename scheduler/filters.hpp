// What makes an offer unfit for a task: one small predicate per rule, each with a stable reason (the key in
// counts, explain and tests) and, on demand, a sentence with the figures. A figure that the provider does not
// tell is unknown, which is neither 0 nor enough: a demand for it refuses the offer with "<what>_unknown".
//
// Rules that are not obvious:
// * VRAM class: "24GB" accepts what a card sold as 24 GB reports, from 93 % of 24 GiB on. ECC and driver
//   reserves take 6.3 % at most (L4 22.5 GiB, L40S 45.0, T4 15.0); the next smaller kind of card (22 GB, 11 GB)
//   is at 92 % and stays out.
// * Exact bytes are held against usable memory (`usable_memory`).
// * After an out-of-memory end the next card must report more than 8 % more, or it is of the same class.
// * A GPU whose name the table does not know is refused for every demand by name, memory or ability.
// * Cards of other makers than nvidia are refused: the agent's look at the machine knows nvidia-smi only.
// * A slice of a card goes only to a job that asks for one GPU by its memory and names no card. It has no NVLink, and of the
//   bandwidth its share.
// * A task of `spot: auto` that was lost too often without progress is not given to spot again.
// * A lease must reach past now + what is left of `limits.duration` (if there is none: the expected run, and one hour at least)
//   + 15 minutes for start, last checkpoint and destruction.
// * `cpu_only` takes machines without GPUs, and the local machine whatever it has. Rented machines with a GPU
//   are refused: paying for a GPU that the job says it does not use would be a surprise.
// * `gpus` is exact for rented machines (the rest would be paid for), a minimum for the local one.
// * Disk: an unknown maximum does not refuse, because every job needs some disk and the create call settles it.
// * A job with secrets or a registry login takes only hosts that are known to be verified, unless secrets_on is any.
// * The local machine is not asked for spot, region or reliability: it is the user's own.
#pragma once
#include <chrono>
#include <optional>
#include <span>
#include <string>

#include "scheduler/choice.hpp"

namespace gf {

/// The name of an offer in ChoiceWorld::cooled_offers and taken_offers: "provider/offer id".
[[nodiscard]] std::string offer_key(const ProviderName& provider, const std::string& id);

inline constexpr double kClassShare = 0.93;      // of a class in GiB: 15/16 with ECC, less rounding in provider tables
inline constexpr double kNextClass = 1.08;       // two cards of one class differ by less
inline constexpr Millis kLeaseMargin = std::chrono::minutes{15};
inline constexpr Millis kLeaseDefault = std::chrono::hours{1};

/// One offer held against one task; what several filters need is worked out once.
struct Fit {
    const JobSpec& spec;
    const TaskRecord& task;
    const Offer& offer;
    const ChoiceWorld& world;
    const GpuCard* card{nullptr};  // of the offer; null = the table does not know it
    std::optional<Bytes> vram;     // per GPU: as reported, else as the table says; absent = unknown
    UsdPerHour all_in;
    Standing standing;  // what is remembered of the host
    bool local{false};
    bool explain{false};  // fill in Refusal::detail
    std::optional<Millis> expected;  // run time on this offer, where it is known (scheduler/finish_cost.hpp)
};

struct Refusal {
    std::string reason;
    std::string detail;  // empty unless Fit::explain
};

using Filter = std::optional<Refusal> (*)(const Fit& fit);

/// All filters in the order in which their reasons are counted.
[[nodiscard]] std::span<const Filter> filters();

/// Whoever holds many offers against one task judges whole groups at once. Of the offer, the filters before kMarketFilters read
/// nothing but its market (provider, arch, spot, the sign of its price, whether its bid is under its floor); those before
/// kCountFilters its number of GPUs and whether it is local besides; those before kCardFilters its card (canonical name, memory,
/// share).
inline constexpr std::size_t kMarketFilters = 7, kCountFilters = 8, kCardFilters = 14;
/// The others, in their order: demands on what the offer is, which read figures of which better ones are never refused where worse
/// ones pass (scheduler/offer_bound.hpp), but for the one of the region; the state of the offer, in which nothing of the task is
/// read; and money, which reads no more of the offer than provider and price, and never refuses the lower price alone.
[[nodiscard]] std::span<const Filter> demand_filters();
[[nodiscard]] Filter region_filter();
[[nodiscard]] std::span<const Filter> state_filters();
[[nodiscard]] std::span<const Filter> money_filters();

/// What a fit needs to know of an offer whoever asks for it: to be kept where one offer is held against many tasks.
struct OfferFacts {
    const GpuCard* card{nullptr};
    std::optional<Bytes> vram;
    Standing standing;
    bool local{false};
};
[[nodiscard]] OfferFacts offer_facts(const Offer& offer, const ChoiceWorld& world);

[[nodiscard]] Fit make_fit(const JobSpec& spec, const TaskRecord& task, const Offer& offer,
                           const ChoiceWorld& world);
[[nodiscard]] Fit make_fit(const JobSpec& spec, const TaskRecord& task, const Offer& offer,
                           const ChoiceWorld& world, const OfferFacts& facts);

/// How much of each card is offered: 1 = a whole one. A slice tells its share, or has less memory than its card.
[[nodiscard]] double card_share(const Fit& fit);
/// `card` may be null.
[[nodiscard]] double card_share(const Offer& offer, const GpuCard* card);

/// The lines of an offer's price for this spec: "gpu", then "disk" where it costs something.
[[nodiscard]] std::vector<PriceLine> price_lines(const JobSpec& spec, const Offer& offer);

}  // namespace gf
