#include "scheduler/bid_rule.hpp"

#include <algorithm>

namespace gf {
namespace {

/// Bids travel with at most four decimals; rounded up, so that rounding never lands under the floor.
constexpr std::int64_t kBidStep = 100;

UsdPerHour raised_over(UsdPerHour floor, int percent) {
    const std::int64_t micros = floor.micros + (floor.micros * percent + 99) / 100;
    return UsdPerHour{(micros + kBidStep - 1) / kBidStep * kBidStep};
}

}  // namespace

BidChoice choose_bid(const BidView& view) {
    if (view.floor.micros <= 0 || view.floor.micros + view.floor.micros * kBidNearPercent / 100 < view.bid.micros)
        return {{}, "floor_is_far"};
    const UsdPerHour to = raised_over(view.floor, kBidMarginPercent);
    if (to <= view.bid) return {{}, "floor_is_far"};
    const UsdPerHour all_in = to + view.disk;
    if (view.max_price && all_in > *view.max_price) return {{}, "max_price"};
    if (view.on_demand && to >= *view.on_demand) return {{}, "on_demand_is_no_dearer"};
    if (view.elsewhere) {
        const UsdPerHour moving{cost(*view.elsewhere, kBidChangeover + std::max(Millis{0}, view.at_stake)).micros};
        if (all_in > *view.elsewhere + moving) return {{}, "moving_is_cheaper"};
    }
    return {to, "raise"};
}

}  // namespace gf
