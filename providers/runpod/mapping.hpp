// RunPod's words <-> the model. Pure: no IO, no clock. Every trap of RunPod is handled here and named in a
// comment.
#pragma once
#include <string>
#include <string_view>
#include <variant>

#include "providers/gpu_lookup.hpp"
#include "providers/port.hpp"
#include "providers/runpod/client.hpp"

namespace gf::runpod {

/// RunPod quotes its disk per GB and month without saying how long a month is. 720 h is the shortest that
/// anybody bills by, so the hourly price is never shown too low (1.4 % above a 730 h month, on a line of
/// about a cent per hour).
inline constexpr int kHoursPerMonth = 720;
inline constexpr std::int64_t kDiskMicrosRunning = 100'000;  // $0.10/GB/month, container and volume disk
inline constexpr std::int64_t kVolumeMicrosStopped =
    200'000;  // $0.20 for a stopped pod's volume; its container disk is gone

/// Bids stand this much above the floor, as at Vast.ai: dearer by as much, but not outbid by the next cent.
inline constexpr std::int64_t kBidMarginPercent = 10;

/// Runs where the job names none: has Python, the CUDA libraries and PyTorch, and is common enough to be
/// cached on hosts.
inline constexpr std::string_view kDefaultImage = "pytorch/pytorch:2.5.1-cuda12.4-cudnn9-runtime";

/// "secure/NVIDIA GeForce RTX 4090/1": the sub-market, the type id byte for byte, GPUs per pod. An offer of
/// RunPod is a kind, not a thing: it can be rented again while there is stock.
/// Of the legacy spot market: "spot/secure/NVIDIA GeForce RTX 4090/1".
struct OfferId {
    std::string cloud;  // "secure" | "community"
    std::string gpu_id;
    int count{1};
    bool spot{false};
};
[[nodiscard]] std::string offer_id(const OfferId& id);
[[nodiscard]] std::optional<OfferId> parse_offer_id(std::string_view text);

/// Nothing when the type is not sold in that cloud at all or is the catalog's own placeholder.
[[nodiscard]] std::optional<std::variant<Offer, RejectedOffer>> offer_of(const GpuType& gpu,
                                                                         std::string_view cloud, int count,
                                                                         const GpuLookup& lookup);

[[nodiscard]] CreateRequest create_request(const LaunchRequest& request, const OfferId& offer,
                                           std::string registry_id);

/// The same of the legacy spot market; the bid that would be placed stands above the floor.
[[nodiscard]] std::optional<std::variant<Offer, RejectedOffer>> spot_offer_of(const SpotType& gpu, std::string_view cloud,
                                                                              int count, const GpuLookup& lookup);

[[nodiscard]] ProviderMachine machine_of(const Pod& pod, const GpuLookup& lookup);

/// What came of a create. Clean refusals are those listed in README.md by (status, shape, text); everything
/// else is `unknown_outcome`, and an id is an id even beside an error.
[[nodiscard]] LaunchOutcome outcome_of(const Reply<Pod>& reply);

/// The same of a spot create. `closed` = the call is gone or not open to this key, and no later one will fare better: a
/// `no_capacity` then, because on-demand pods are not concerned.
struct SpotOutcome {
    LaunchOutcome launch;
    bool closed{false};
};
[[nodiscard]] SpotOutcome spot_outcome_of(const Reply<Pod>& reply);

/// Nothing for a record that cannot be read.
[[nodiscard]] std::optional<Charge> charge_of(const BillingRecord& record);

/// The error of a call that changes nothing. `what` says what was tried ("list pods").
[[nodiscard]] Error read_error(const Answer& answer, std::string_view what);

/// The error of reading (`stores` = storing) a login for private images before a create: always a clean one, because no pod was
/// asked for yet. Only RunPod's word on the login itself or on the key's scope is `refused`; a key without that scope still
/// rents pods with public images, so it is never `auth`. What is wrong with this call alone (it is retired, fails or answers
/// something else) is `not_yet`, since pods with public images can be rented all the same.
[[nodiscard]] Error login_error(const Answer& answer, std::string_view what, bool stores);

/// Success of a destroy: done, or nothing there to destroy. A 404 counts only in v2's own voice.
[[nodiscard]] Result<void> destroyed(const Answer& answer);

/// v2 itself says that this account or key may not use the pool that was asked for.
[[nodiscard]] bool closed_to_account(const Answer& answer);

/// v2 itself says that there is no such pod.
[[nodiscard]] bool says_no_such_pod(const Answer& answer);

}  // namespace gf::runpod
