// Vultr's words <-> the model. Pure: no IO, no clock. Every trap of Vultr is handled here and named in a
// comment.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "providers/gpu_lookup.hpp"
#include "providers/port.hpp"
#include "providers/vultr/client.hpp"

namespace gf::vultr {

/// Tags are plain texts at Vultr; ours is "gpuferry-machine=<tag>".
inline constexpr std::string_view kTagKey = "gpuferry-machine=";
/// How it was sold when it was made: "gpuferry-sale=preemptible" or "gpuferry-sale=ondemand". An instance
/// does not tell, and its plan may be sold in another way by now.
inline constexpr std::string_view kSaleKey = "gpuferry-sale=";
/// A machine that is still locked after its creation takes no destroy; the next try is this much later.
inline constexpr Millis kLockedFor{Seconds{15}};
/// Bare metal has months of 672 h, cloud GPUs of 730 h: the shorter gives the higher price.
inline constexpr std::int64_t kHoursPerMonthLeast = 672;

/// "vcg-a16-2c-8g-2vram/ewr", and "…/preemptible" for a plan that is sold in that way alone.
struct OfferId {
    std::string plan;
    std::string region;
    bool preemptible{false};
};
[[nodiscard]] std::string offer_id(const OfferId& id);
[[nodiscard]] std::optional<OfferId> parse_offer_id(std::string_view text);

/// Whether the plan has a GPU, or a part of one.
[[nodiscard]] bool has_gpu(const Plan& plan);
/// The plan is for sale as preemptible only.
[[nodiscard]] bool is_preemptible(const Plan& plan);

/// GPUs of a plan: whole cards, or a share of one.
struct PlanGpus {
    GpuIdentity gpu;
    int count{0};
    double share{1};
    std::string reason;  // why it cannot be told
};
[[nodiscard]] PlanGpus gpus_of(const Plan& plan, const GpuLookup& lookup);
/// What an hour of it costs in a region, in one mode of sale.
[[nodiscard]] PriceReading price_in(const Plan& plan, const std::string& region, bool preemptible);

[[nodiscard]] std::variant<Offer, RejectedOffer> offer_of(const Plan& plan, const Region& region,
                                                          const GpuLookup& lookup);

/// The operating system that is installed: Ubuntu 22.04 for x64, which brings driver and docker on GPU plans.
[[nodiscard]] std::optional<std::int64_t> system_id(const std::vector<System>& systems);

/// Errors: `refused` when the offer is none of Vultr's.
[[nodiscard]] Result<CreateCall> create_call(const LaunchRequest& request, std::int64_t os_id);

/// `plan` may be null where the catalogue does not have it: then rate and GPU are not told.
[[nodiscard]] ProviderMachine machine_of(const Instance& instance, const Plan* plan, const GpuLookup& lookup);

/// What came of a create. Clean refusals are those listed in README.md by status and text; everything else is
/// `unknown_outcome`, and an id is an id even beside an error.
[[nodiscard]] LaunchOutcome outcome_of(const Reply<Instance>& reply);

/// The error of a call that changes nothing, or of a renaming. `what` says what was tried ("list instances").
[[nodiscard]] Error read_error(const Answer& answer, std::string_view what);
/// The error of a call that a create needs first: nothing was rented, so it is a clean one.
[[nodiscard]] Error before_create(const Answer& answer, std::string_view what);
/// The error of a destroy that was neither accepted nor pointless.
[[nodiscard]] Error destroy_error(const Answer& answer);

/// "There is no such instance": a 404, or a 400 that says so. Means nothing without a proof that the key is
/// good.
[[nodiscard]] bool says_no_such_instance(const Answer& answer);
/// A second destroy is answered with an error like this.
[[nodiscard]] bool says_pending_destruction(const Answer& answer);

/// Money left: a negative balance is credit, and what is pending is as good as spent. `not_found` where there
/// is no credit: such an account is paid by card, and its balance is no limit.
[[nodiscard]] Result<Usd> available(const Account& account);
/// The books by label: "Cloud GPU (label)". Lines without a label, without dates, or outside [from, until)
/// are left out.
[[nodiscard]] std::vector<Charge> charges_of(const std::vector<PendingCharge>& rows, Instant from,
                                             Instant until);

/// What a failed call of `check` means in plain words, and what to do.
[[nodiscard]] Finding finding_of(const Answer& answer, std::string_view what);

}  // namespace gf::vultr
