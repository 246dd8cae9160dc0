// Lambda's words <-> the model. Pure: no IO, no clock. Every trap of Lambda is handled here and named in a
// comment.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "providers/gpu_lookup.hpp"
#include "providers/lambda/client.hpp"
#include "providers/port.hpp"

namespace gf::lambda {

/// The tag's key at Lambda; its value is the machine's tag.
inline constexpr std::string_view kTagKey = "gpuferry-machine";

/// "gpu_1x_a10/us-west-1".
struct OfferId {
    std::string type;
    std::string region;
};
[[nodiscard]] std::string offer_id(const OfferId& id);
[[nodiscard]] std::optional<OfferId> parse_offer_id(std::string_view text);

/// Memory of one GPU out of "H100 (80 GB SXM5)"; nothing if the text has not that form.
[[nodiscard]] std::optional<int> vram_gb(std::string_view gpu_description);
/// Reason of a price that is no whole number of cents: dollars in a field of cents, most likely.
inline constexpr std::string_view kPriceUnit = "price_unit";
/// "price_unit" when more than half of the prices of an answer are no whole cents.
[[nodiscard]] std::optional<Drift> odd_prices(const std::vector<TypeListing>& types);
/// ISO 3166 code of a region, empty if it is not known.
[[nodiscard]] std::string country_of(std::string_view region);

/// One type in one region.
[[nodiscard]] std::variant<Offer, RejectedOffer> offer_of(const InstanceType& type, const std::string& region,
                                                          const GpuLookup& lookup);

/// `ssh_key` is the name of a registered key. Errors: `refused` when the offer is none of Lambda's.
[[nodiscard]] Result<LaunchCall> launch_call(const LaunchRequest& request, std::string ssh_key);

[[nodiscard]] ProviderMachine machine_of(const Instance& instance, const GpuLookup& lookup);

/// What came of a launch. Clean refusals are those listed in README.md by code; everything else is
/// `unknown_outcome`, and an id is an id even beside an error.
[[nodiscard]] LaunchOutcome outcome_of(const Reply<Launched>& reply);

/// The error of a call that changes nothing, or of one about SSH keys or names. `what` says what was tried
/// ("list instances").
[[nodiscard]] Error read_error(const Answer& answer, std::string_view what);
/// The error of a call that a launch needs first: nothing was rented, so it is a clean one.
[[nodiscard]] Error before_launch(const Answer& answer, std::string_view what);
/// The error of a terminate that was neither accepted nor pointless.
[[nodiscard]] Error destroy_error(const Answer& answer);

/// "There is no such instance", by code.
[[nodiscard]] bool says_no_such_object(const Answer& answer);
/// A 404 of another kind: the route, or an edge in between. Says nothing about the instance by itself.
[[nodiscard]] bool says_not_found(const Answer& answer);
/// A terminate of an instance that is terminating already is answered like this.
[[nodiscard]] bool may_be_terminating(const Answer& answer);
/// Whether an instance in this status needs no terminate any more.
[[nodiscard]] bool is_ending(std::string_view status);
/// Whether it is over: a row that is still shown, and no machine.
[[nodiscard]] bool is_over(std::string_view status);

/// What a failed call of `check` means in plain words, and what to do.
[[nodiscard]] Finding finding_of(const Answer& answer, std::string_view what);

// The registered SSH key.

/// "gf-<install>-": how everything of an installation begins.
[[nodiscard]] std::string own_prefix(std::string_view install);
/// "gf-<install>-<8 hex of the key>".
[[nodiscard]] std::string key_name(std::string_view install, std::string_view public_key);
/// Type and key of a public key line, without the comment and with one blank: what two lines are compared by.
[[nodiscard]] std::string key_text(std::string_view public_key);
/// The registered key with this text, one of our own names first; null if there is none.
[[nodiscard]] const SshKey* find_key(const std::vector<SshKey>& keys, std::string_view install,
                                     std::string_view public_key);
/// A registered key of this installation, whatever its text; null if there is none.
[[nodiscard]] const SshKey* find_own(const std::vector<SshKey>& keys, std::string_view install);
/// Whether this key was made by this installation. Never true for anybody else's.
[[nodiscard]] bool is_own_key(const SshKey& key, std::string_view install);

}  // namespace gf::lambda
