#include "scheduler/move_rule.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "offers.hpp"

using namespace gf;
using gf::test::offer;
using std::chrono::hours;
using std::chrono::minutes;

namespace {

Offer priced(std::string id, std::int64_t micros) {
    Offer o = offer("vastai", std::move(id));
    o.gpu_rate = UsdPerHour{micros};
    return o;
}

struct Case {
    JobSpec spec{test::job()};
    TaskRecord row;
    Offer here{priced("here", 1'000'000)};
    std::vector<Offer> offers{priced("there", 400'000)};
    ChoiceWorld world{test::world()};
    UsdPerHour rate{1'000'000};
    Millis held{hours{3}}, left{hours{10}};
    MoveCosts costs{.changeover = minutes{15}, .redo = minutes{30}, .transfer = Usd{200'000}};
    MoveRule rule{.on = true};

    [[nodiscard]] std::optional<Move> move() const {
        const RunningTask task{
            .spec = &spec, .row = &row, .offer = &here, .rate = rate, .held = held, .left = left};
        return consider_move(task, offers, world, costs, rule, same_card(here));
    }
};

}  // namespace

TEST_CASE("a move is off unless it is switched on, and its lines add up") {
    Case c;
    const auto move = c.move();
    REQUIRE(move.has_value());
    CHECK(move->offer.id == "there");
    // 10 h at 1.00; a quarter of an hour at 1.00; 10:45 h at 0.40; the transfer.
    CHECK(move->lines == std::vector<MoveLine>{{"stay", Usd{10'000'000}},
                                               {"overlap", Usd{250'000}},
                                               {"machine", Usd{4'300'000}},
                                               {"transfer", Usd{200'000}}});
    CHECK(move->saving == Usd{5'250'000});
    c.rule.on = false;
    CHECK_FALSE(c.move());
    CHECK_FALSE(MoveRule{}.on);
}

TEST_CASE("only a saving after all costs that passes the threshold moves a job") {
    struct Row {
        const char* what;
        void (*change)(Case&);
        bool moves;
    };
    const Row rows[] = {
        {"as it is", [](Case&) {}, true},
        {"a little cheaper only", [](Case& c) { c.offers[0].gpu_rate = UsdPerHour{800'000}; }, false},
        {"the work is nearly done", [](Case& c) { c.left = minutes{40}; }, false},
        {"much would be done again", [](Case& c) { c.costs.redo = hours{10}; }, false},
        {"a large checkpoint", [](Case& c) { c.costs.transfer = Usd{4'000'000}; }, false},
        {"a higher threshold", [](Case& c) { c.rule.saving_percent = 60; }, false},
        {"a least saving", [](Case& c) { c.rule.saving_least = Usd{6'000'000}; }, false},
        {"what is paid for already", [](Case& c) { c.here.billing_step = hours{24}; },
         false},  // 13 of 24 hours: nothing is left to save
        {"a minimum over there", [](Case& c) { c.offers[0].billing_minimum = hours{24}; }, false},
        {"another card", [](Case& c) { c.offers[0].gpu.canonical = "RTX-3090"; }, false},
        {"the same host", [](Case& c) { c.here.host_id = c.offers[0].host_id = "7"; }, false},
        {"a filter refuses it", [](Case& c) { c.world.taken_offers = {"vastai/there"}; }, false},
        {"no room for both", [](Case& c) { c.world.machines = c.world.machines_max; }, false},
    };
    for (const auto& row : rows) {
        CAPTURE(std::string(row.what));
        Case c;
        row.change(c);
        CHECK(c.move().has_value() == row.moves);
    }
}

TEST_CASE("the largest saving, whatever the order") {
    Case c;
    c.offers = {priced("b", 400'000), priced("c", 300'000), priced("a", 300'000), priced("d", 900'000)};
    std::ranges::sort(c.offers, {}, &Offer::id);
    do {
        const auto move = c.move();
        REQUIRE(move.has_value());
        CHECK(move->offer.id == "a");
    } while (std::ranges::next_permutation(c.offers, {}, &Offer::id).found);
}

TEST_CASE("a faster card may be dearer and still save") {
    Case c;
    c.offers = {priced("fast", 2'000'000)};
    c.offers[0].gpu = {
        .canonical = "A100-SXM-80GB", .provider_name = "A100 SXM4", .memory = test::mib(81920)};
    c.costs = {.changeover = minutes{15}, .redo = Millis{0}, .transfer = {}};
    const RunningTask task{
        .spec = &c.spec, .row = &c.row, .offer = &c.here, .rate = c.rate, .held = c.held, .left = c.left};
    const auto move = consider_move(task, c.offers, c.world, c.costs, c.rule,
                                    [](const Offer&, Millis work) { return std::optional(work / 4); });
    REQUIRE(move.has_value());
    CHECK(move->saving == Usd{10'000'000 - 250'000 - 2 * 2'750'000});  // 2:45 h at 2.00
}
