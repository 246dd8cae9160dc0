// When a bid for a spot machine is raised, and to what. Pure. The first bid is the offer's rate (floor + margin, made where the
// market is read, because the offer is ranked by it); this is about machines that are held already.
//
// A bid is raised when the floor comes within kBidNear of it, or has passed it, to floor + kBidMargin. Never over what the job
// may pay, never to what the same card costs there without the risk, and never to more than moving would cost: the price
// elsewhere plus, spread over the next hour, the changeover and the work that would be lost.
#pragma once
#include <optional>
#include <string_view>

#include "model/money.hpp"

namespace gf {

inline constexpr int kBidMarginPercent = 10;  // over the floor; 10 to 25 % lowers churn
inline constexpr int kBidNearPercent = 3;     // a floor this close to the bid is about to pass it
inline constexpr Millis kBidChangeover = std::chrono::minutes{15};  // boot, image pull and restore somewhere else

struct BidView {
    UsdPerHour bid;
    UsdPerHour floor;                      // lowest bid that would win now
    UsdPerHour disk;                       // billed beside the bid
    std::optional<UsdPerHour> max_price;   // of the job, all-in
    std::optional<UsdPerHour> on_demand;   // of the same card and count there
    std::optional<UsdPerHour> elsewhere;   // all-in, of the best other offer for this job; absent = there is none
    Millis at_stake{0};                    // work since the last committed checkpoint
};

struct BidChoice {
    std::optional<UsdPerHour> raise_to;
    /// Why not, or "raise": "floor_is_far", "max_price", "on_demand_is_no_dearer", "moving_is_cheaper".
    std::string_view reason;
};
[[nodiscard]] BidChoice choose_bid(const BidView& view);

}  // namespace gf
