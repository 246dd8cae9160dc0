#include "model/market.hpp"

#include <doctest/doctest.h>

using namespace gf;

namespace {

constexpr Instant at(std::int64_t minute) { return instant_of(1'790'000'000'000 + minute * 60'000); }
constexpr MarketPoint up(std::int64_t minute, std::int64_t micros) { return {at(minute), MarketState::up, UsdPerHour{micros}}; }
constexpr MarketPoint down(std::int64_t minute) { return {at(minute), MarketState::down, UsdPerHour{}}; }
constexpr MarketPoint unknown(std::int64_t minute) { return {at(minute), MarketState::unknown, UsdPerHour{}}; }
constexpr Millis minutes(std::int64_t n) { return std::chrono::minutes{n}; }

}  // namespace

TEST_CASE("a span of the market is summed by time, and what nobody looked at is in neither sum") {
    struct Row {
        const char* what;
        std::vector<MarketPoint> points;
        MarketSum sum;  // of the minutes 10 to 110
    };
    const auto price = [](std::int64_t micros) { return std::optional(UsdPerHour{micros}); };
    const std::vector<Row> rows{
        {"nothing", {}, {}},
        {"up all along, from before", {up(0, 5)}, {minutes(100), minutes(100), price(5), price(5), price(5), 0}},
        {"unknown is not down, and a gap is no change", {unknown(0), up(20, 5), unknown(60), up(100, 5)},
         {minutes(50), minutes(50), price(5), price(5), price(5), 0}},
        {"down counts as known", {up(10, 5), down(35)}, {minutes(100), minutes(25), price(5), price(5), price(5), 1}},
        {"never up has no price", {down(0)}, {minutes(100), minutes(0), {}, {}, {}, 0}},
        {"prices weigh by their time", {up(10, 9), up(25, 3), up(105, 20)},
         {minutes(100), minutes(100), price(3), price(3), price(9), 2}},
        {"what begins after the end does not count", {up(0, 5), down(110)}, {minutes(100), minutes(100), price(5), price(5), price(5), 0}},
    };
    for (const auto& row : rows) {
        CAPTURE(row.what);
        CHECK(market_sum(row.points, at(10), at(110)) == row.sum);
    }
}

TEST_CASE("a window begins at its start and ends where knowledge does") {
    struct Row {
        const char* what;
        std::vector<MarketPoint> points;
        Instant known_until;
        std::vector<MarketPoint> window;  // of the minutes 10 to 110
    };
    const std::vector<Row> rows{
        {"nothing known", {}, at(200), {}},
        {"what was before holds", {down(0), up(2, 5)}, at(200), {up(10, 5)}},
        {"unknown before the first", {up(50, 5)}, at(200), {unknown(10), up(50, 5)}},
        {"at the very start", {up(10, 5), down(20)}, at(200), {up(10, 5), down(20)}},
        {"the end is not in it", {up(10, 5), down(110)}, at(200), {up(10, 5)}},
        {"knowledge ends", {up(0, 5)}, at(60), {up(10, 5), unknown(60)}},
        {"knowledge ended before", {up(0, 5)}, at(5), {}},
        {"equal neighbours are one", {up(0, 5), up(20, 5), down(30)}, at(200), {up(10, 5), down(30)}},
    };
    for (const auto& row : rows) {
        CAPTURE(row.what);
        CHECK(market_window(row.points, at(10), at(110), row.known_until) == row.window);
    }
    CHECK(market_window(std::vector{up(0, 5)}, at(10), at(10), at(200)).empty());
}

TEST_CASE("a tick shows its first moment") {
    using Ticks = std::vector<MarketTick>;
    const auto ticks = [](const std::vector<MarketPoint>& points, std::int64_t count) {
        return market_ticks(points, at(0), minutes(5), count);
    };
    const auto tick = [](std::int64_t n, MarketState state, std::int64_t micros = 0) { return MarketTick{n, state, UsdPerHour{micros}}; };
    CHECK(ticks({up(0, 5), down(10)}, 4) == Ticks{tick(0, MarketState::up, 5), tick(2, MarketState::down)});
    CHECK(ticks({up(0, 5), down(11)}, 4) == Ticks{tick(0, MarketState::up, 5), tick(3, MarketState::down)});
    // Gone and back between two ticks: no tick begins in it.
    CHECK(ticks({up(0, 5), down(6), up(9, 5)}, 4) == Ticks{tick(0, MarketState::up, 5)});
    CHECK(ticks({up(0, 5), down(6), up(9, 7)}, 4) == Ticks{tick(0, MarketState::up, 5), tick(2, MarketState::up, 7)});
    CHECK(ticks({up(0, 5), down(20)}, 4) == Ticks{tick(0, MarketState::up, 5)});
    CHECK(ticks({}, 4).empty());
}

TEST_CASE("one key, one text") {
    const MarketKey key{.provider = ProviderName{"vastai"}, .place = "host/31877", .card = "RTX 4090", .gpu_count = 2, .spot = true};
    CHECK(text(key) == "vastai/host/31877/RTX 4090 x2/spot");
    auto slice = key;
    slice.share = 250;
    slice.spot = false;
    CHECK(text(slice) == "vastai/host/31877/RTX 4090 share 250 x2/on_demand");
}
