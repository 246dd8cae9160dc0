// Vast.ai's words <-> the model. Pure: no IO, no clock (`now` comes in). Every trap of Vast.ai is handled
// here and named in a comment.
#pragma once
#include <string>
#include <string_view>
#include <variant>

#include "providers/gpu_lookup.hpp"
#include "providers/port.hpp"
#include "providers/vastai/client.hpp"

namespace gf::vastai {

inline constexpr int kHoursPerMonth =
    720;  // storage_cost is per GB and month of 720 h; holds in the docs' own examples
inline constexpr std::int64_t kDiskGbMin = 8;
inline constexpr std::size_t kArgsMax = 4096;  // args + onstart together
inline constexpr std::size_t kEnvValueMax = 256;
/// Bids stand this much above the floor: dearer by as much, but not outbid by the next cent. Peers bid the
/// bare floor.
inline constexpr std::int64_t kBidMarginPercent = 10;

inline constexpr std::int64_t kBidMicrosMin = 1'000;  // $0.001, for create and change alike

/// Runs where the job names none: has Python, the CUDA libraries and PyTorch, and is common enough to be
/// cached on hosts.
inline constexpr std::string_view kDefaultImage = "pytorch/pytorch:2.5.1-cuda12.4-cudnn9-runtime";

/// "on_demand/18442711" or "bid/18442711". One ask can be rented in both ways, and `price` alone decides
/// which.
struct OfferId {
    bool bid{false};
    std::int64_t ask{0};
};
[[nodiscard]] std::string offer_id(OfferId id);
[[nodiscard]] std::optional<OfferId> parse_offer_id(std::string_view text);

/// One search by everything of `query` that Vast.ai can search by, but the names.
[[nodiscard]] SearchRequest search_request(const OfferQuery& query, int num_gpus, bool bid);

/// `disk_gb` is what the search was priced with.
[[nodiscard]] std::variant<Offer, RejectedOffer> offer_of(const Ask& ask, bool bid, std::int64_t disk_gb,
                                                          int num_gpus, Instant now, const GpuLookup& lookup);

/// Errors: `refused` when the request cannot be put into Vast.ai's words (too long, login with blanks).
[[nodiscard]] Result<CreateRequest> create_request(const LaunchRequest& request);

[[nodiscard]] ProviderMachine machine_of(const Instance& instance, const GpuLookup& lookup);

/// What came of a create. Clean refusals are those listed in README.md by (status, code, text); everything
/// else is `unknown_outcome`, and a contract is a contract even beside an error.
[[nodiscard]] LaunchOutcome outcome_of(const Reply<Created>& reply);

/// The error of a call that changes nothing. `what` says what was tried ("list instances").
[[nodiscard]] Error read_error(const Answer& answer, std::string_view what);

/// "There is no such instance", in any of the forms seen. Means nothing without a proof that the key is good.
[[nodiscard]] bool says_no_such_instance(const Answer& answer);
/// The key was refused. Comes as 401, 403 and, in truth, as 404.
[[nodiscard]] bool says_bad_key(const Answer& answer);

/// The error of a change that may be asked for again (a label, a bid). `unclear` is for whatever may have been carried out.
[[nodiscard]] Error change_error(const Answer& answer, std::string_view what, ErrorKind unclear);

/// Nothing for a row without readable times or amount. The machine is empty where the source names none.
[[nodiscard]] std::optional<Charge> charge_of(const ChargeRow& row);

/// The error of a destroy that was neither accepted nor pointless.
[[nodiscard]] Error destroy_error(const Answer& answer);

}  // namespace gf::vastai
