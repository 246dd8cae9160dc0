#include "scheduler/bid_rule.hpp"

#include <doctest/doctest.h>

#include "scheduler/billing.hpp"

using namespace gf;

namespace {

BidView view() {
    return {.bid = UsdPerHour{220'000}, .floor = UsdPerHour{218'000}, .disk = UsdPerHour{5'000}, .max_price = {}, .on_demand = {},
            .elsewhere = {}, .at_stake = {}};
}

}  // namespace

TEST_CASE("a bid is raised when the floor comes near, and never beyond what it is worth") {
    struct Row {
        const char* what;
        void (*change)(BidView&);
        std::int64_t to;  // 0 = kept
        const char* reason;
    };
    const Row rows[] = {
        {"near", [](BidView&) {}, 239'800, "raise"},
        {"passed", [](BidView& v) { v.floor = UsdPerHour{300'000}; }, 330'000, "raise"},
        {"far", [](BidView& v) { v.floor = UsdPerHour{200'000}; }, 0, "floor_is_far"},
        {"just far enough", [](BidView& v) { v.floor = UsdPerHour{213'591}; }, 0, "floor_is_far"},
        {"just near enough", [](BidView& v) { v.floor = UsdPerHour{213'593}; }, 235'000, "raise"},
        {"no floor", [](BidView& v) { v.floor = UsdPerHour{0}; }, 0, "floor_is_far"},
        {"a cap that holds", [](BidView& v) { v.max_price = UsdPerHour{244'800}; }, 239'800, "raise"},
        {"a cap that does not", [](BidView& v) { v.max_price = UsdPerHour{244'799}; }, 0, "max_price"},
        {"on-demand is dearer", [](BidView& v) { v.on_demand = UsdPerHour{239'801}; }, 239'800, "raise"},
        {"on-demand is as cheap", [](BidView& v) { v.on_demand = UsdPerHour{239'800}; }, 0, "on_demand_is_no_dearer"},
        {"as good elsewhere, but a move costs", [](BidView& v) { v.elsewhere = UsdPerHour{200'000}; }, 239'800, "raise"},
        {"much better elsewhere", [](BidView& v) { v.elsewhere = UsdPerHour{150'000}; }, 0, "moving_is_cheaper"},
        {"much better elsewhere, but the work is here",
         [](BidView& v) {
             v.elsewhere = UsdPerHour{150'000};
             v.at_stake = std::chrono::hours{2};
         },
         239'800, "raise"},
        {"a negative stake is none",
         [](BidView& v) {
             v.elsewhere = UsdPerHour{150'000};
             v.at_stake = Seconds{-7200};
         },
         0, "moving_is_cheaper"},
    };
    for (const Row& row : rows) {
        CAPTURE(row.what);
        BidView v = view();
        row.change(v);
        const BidChoice choice = choose_bid(v);
        CHECK(choice.reason == row.reason);
        CHECK(choice.raise_to.value_or(UsdPerHour{0}).micros == row.to);
    }
}

TEST_CASE("a bill grows in steps and has a minimum") {
    using std::chrono::hours;
    using std::chrono::minutes;
    struct Row {
        Millis step, minimum, held, billed;
    };
    for (const Row& row : {Row{Seconds{1}, Millis{0}, Seconds{90}, Seconds{90}}, Row{Seconds{1}, Millis{0}, Millis{90'001}, Seconds{91}},
                           Row{Millis{1}, Millis{0}, Millis{90'001}, Millis{90'001}}, Row{Millis{0}, Millis{0}, Millis{7}, Millis{7}},
                           Row{minutes{1}, minutes{1}, Seconds{61}, minutes{2}}, Row{minutes{1}, minutes{1}, Seconds{60}, minutes{1}},
                           Row{hours{1}, hours{1}, Seconds{1}, hours{1}}, Row{hours{1}, hours{1}, hours{1}, hours{1}},
                           Row{hours{1}, hours{1}, hours{1} + Millis{1}, hours{2}}, Row{Seconds{1}, minutes{10}, Seconds{5}, minutes{10}},
                           Row{hours{1}, hours{1}, Millis{0}, Millis{0}}, Row{hours{1}, hours{1}, Millis{-5}, Millis{0}}}) {
        Offer o;
        o.billing_step = row.step;
        o.billing_minimum = row.minimum;
        CAPTURE(row.held.count());
        CHECK(billed_time(o, row.held) == row.billed);
    }
}
