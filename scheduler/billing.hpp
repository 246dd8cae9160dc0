// How providers round: a bill grows in steps and has a minimum (Vultr: hours from creation; Lambda: minutes from running on).
// One place, for the ledger, the reservation and whoever estimates.
#pragma once
#include <algorithm>

#include "model/offer.hpp"

namespace gf {

/// The time that is billed for a machine that was billable for `held`. 0 stays 0: what never became billable has no bill.
[[nodiscard]] constexpr Millis billed_time(const Offer& offer, Millis held) {
    if (held <= Millis{0}) return Millis{0};
    const Millis step = offer.billing_step > Millis{1} ? offer.billing_step : Millis{1};
    const Millis whole = (held + step - Millis{1}) / step * step;
    return std::max(whole, offer.billing_minimum);
}

}  // namespace gf
