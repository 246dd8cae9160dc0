// The market as a history: what stood at which place, from when on and at which price. The book (scheduler/market_book.hpp) makes
// changes of looks, the market store (db/market_store.hpp) keeps them, `/v1/offers/history` and gpuferry-replay read them.
// Pure data and sums; nothing here reads a clock.
#pragma once
#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/enum_text.hpp"
#include "model/money.hpp"
#include "model/strong.hpp"
#include "model/time.hpp"

namespace gf {

/// One thing that can be had or not. Offer ids come and go; this stays (Vast.ai: machine and number of GPUs, SPOT.md 1).
struct MarketKey {
    ProviderName provider;
    std::string place;   // "host/31877", "cloud/secure", "data_center/us-east-1", "region/…", or "any"
    std::string card;    // canonical name of config/gpus.csv, never empty
    int gpu_count{1};    // 1 and more
    int share{1000};     // thousandths of one card: below 1000 for slices
    bool spot{false};
    friend auto operator<=>(const MarketKey&, const MarketKey&) = default;
};

/// "vastai/host/31877/RTX 4090 x2/spot": for people and as the name of a zone in a trace. One key, one text.
[[nodiscard]] std::string text(const MarketKey& key);

/// `unknown` is not `down`: nobody looked, or the look could not have shown it.
enum class MarketState : std::uint8_t { up, down, unknown };
GF_ENUM_NAMES(MarketState, {{E::up, "up"}, {E::down, "down"}, {E::unknown, "unknown"}});

/// From `at` on, until the next point. A look dates what it shows: the change itself may be older by the time between two looks.
struct MarketPoint {
    Instant at;
    MarketState state{MarketState::unknown};
    UsdPerHour price;  // all GPUs together, without disk; 0 unless up. For spot the bid that would be placed
    friend bool operator==(const MarketPoint&, const MarketPoint&) = default;
};

struct MarketChange {
    MarketKey key;
    MarketPoint point;
    friend bool operator==(const MarketChange&, const MarketChange&) = default;
};

/// How far a key is known, beside its points.
struct MarketSight {
    MarketKey key;
    Instant seen;                     // the last look that covered it, whether it was there or not
    Instant shown;                    // the last one whose answer had it
    std::optional<UsdPerHour> price;  // the last one that it was up at
    friend bool operator==(const MarketSight&, const MarketSight&) = default;
};

/// How far an answer of a provider went, for one GPU count and kind. Of two lines that fit a key the one with its place counts, then
/// the one with its card.
struct MarketReach {
    int gpu_count{1};
    bool spot{false};
    std::string card{};                 // canonical name; empty = any
    std::string place{};                // as in MarketKey; empty = any
    std::optional<UsdPerHour> up_to{};  // what costs less was shown (all GPUs, without disk); absent = all was; 0 = nothing was
};

/// Without a look for longer than this a state is not carried on: the key is unknown from the last look on. Markets that are
/// searched piece by piece are gone through in 40 minutes while nothing waits (daemon/orchestrator/market.cpp).
inline constexpr Millis kMarketGap = std::chrono::hours{1};

/// What a span of one key comes to.
struct MarketSum {
    Millis known{0};                // up or down
    Millis up{0};
    std::optional<UsdPerHour> p10;  // of the price while up, weighted by time; absent = never up
    std::optional<UsdPerHour> p50;
    std::optional<UsdPerHour> p90;
    int changes{0};                 // of state or price inside the span, from one known to another: a gap is none
    friend bool operator==(const MarketSum&, const MarketSum&) = default;
};

/// Sums [from, to). `points` are in order of time; before the first the key is unknown, and the last holds to the end.
[[nodiscard]] MarketSum market_sum(std::span<const MarketPoint> points, Instant from, Instant to);

/// The points that describe [from, to): the first is at `from`, equal neighbours are one, and what the last says ends at
/// `known_until` (unknown from there). Empty when nothing at all is known.
[[nodiscard]] std::vector<MarketPoint> market_window(std::span<const MarketPoint> points, Instant from, Instant to,
                                                     Instant known_until);

/// The same points as a trace has them: the state at the first moment of tick 0, 1, … `ticks` - 1, equal neighbours are one entry.
/// Tick 0 begins at `from`. `points` as `market_window` gives them; `tick` is above 0.
struct MarketTick {
    std::int64_t tick{0};
    MarketState state{MarketState::unknown};
    UsdPerHour price;
    friend bool operator==(const MarketTick&, const MarketTick&) = default;
};
[[nodiscard]] std::vector<MarketTick> market_ticks(std::span<const MarketPoint> points, Instant from, Millis tick,
                                                   std::int64_t ticks);

}  // namespace gf
