#include "scheduler/offer_bound.hpp"

#include <algorithm>
#include <optional>
#include <string>

#include "scheduler/version.hpp"

namespace gf {
namespace {

/// Unknown is refused by a demand, so any figure is better.
template <class T>
void raise(std::optional<T>& best, const std::optional<T>& have) {
    if (have && (!best || *have > *best)) best = have;
}
/// Here absent means that there is no limit.
template <class T>
void raise_limit(std::optional<T>& best, const std::optional<T>& have) {
    if (!have || (best && *have > *best)) best = have;
}
void raise_version(std::string& best, const std::string& have) {
    if (have == best) return;
    if (!version_at_least(best, "0") || version_at_least(have, best).value_or(false)) best = have;
}

}  // namespace

void improve(Offer& best, const Offer& offer) {
    best.gpu_rate = std::min(best.gpu_rate, offer.gpu_rate);
    // A price of nothing, or one that is not to be reckoned with, costs nothing.
    const bool free = offer.disk_micros_per_gb_month <= 0 || offer.hours_per_month <= 0;
    best.disk_micros_per_gb_month =
        free ? 0 : std::min(best.disk_micros_per_gb_month, offer.disk_micros_per_gb_month);
    if (best.hours_per_month <= 0) best.disk_micros_per_gb_month = 0;
    best.hours_per_month = std::max(best.hours_per_month, offer.hours_per_month);
    raise(best.cpus, offer.cpus);
    raise(best.memory, offer.memory);
    raise(best.reliability, offer.reliability);
    raise(best.verified, offer.verified);
    raise(best.inet_down_mbps, offer.inet_down_mbps);
    raise_limit(best.disk_max, offer.disk_max);
    raise_limit(best.lease_end, offer.lease_end);
    raise_version(best.cuda_max, offer.cuda_max);
    raise_version(best.driver, offer.driver);
}

}  // namespace gf
