#include "model/market.hpp"

#include <algorithm>

namespace gf {

std::string text(const MarketKey& key) {
    std::string out = key.provider.get() + "/" + key.place + "/" + key.card;
    if (key.share != 1000) out += " share " + std::to_string(key.share);
    return out + " x" + std::to_string(key.gpu_count) + (key.spot ? "/spot" : "/on_demand");
}

MarketSum market_sum(std::span<const MarketPoint> points, Instant from, Instant to) {
    MarketSum sum;
    std::vector<std::pair<std::int64_t, std::int64_t>> prices;  // micro-dollars, milliseconds
    for (std::size_t i = 0; i < points.size(); ++i) {
        const MarketPoint& p = points[i];
        const Instant begin = std::max(p.at, from);
        const Instant end = i + 1 < points.size() ? std::min(points[i + 1].at, to) : to;
        if (i > 0 && p.at > from && p.at < to && p.state != MarketState::unknown && points[i - 1].state != MarketState::unknown &&
            (points[i - 1].state != p.state || points[i - 1].price != p.price))
            ++sum.changes;
        if (end <= begin || p.state == MarketState::unknown) continue;
        sum.known += end - begin;
        if (p.state != MarketState::up) continue;
        sum.up += end - begin;
        prices.emplace_back(p.price.micros, (end - begin).count());
    }
    std::ranges::sort(prices);
    // The lowest price at or below which the market stood for that share of the time.
    const auto quantile = [&](int percent) -> std::optional<UsdPerHour> {
        std::int64_t below = 0;
        for (const auto& [micros, held] : prices) {
            below += held;
            if (static_cast<__int128>(below) * 100 >= static_cast<__int128>(sum.up.count()) * percent) return UsdPerHour{micros};
        }
        return std::nullopt;
    };
    sum.p10 = quantile(10);
    sum.p50 = quantile(50);
    sum.p90 = quantile(90);
    return sum;
}

std::vector<MarketPoint> market_window(std::span<const MarketPoint> points, Instant from, Instant to, Instant known_until) {
    std::vector<MarketPoint> out;
    const auto add = [&out](MarketPoint point) {
        if (!out.empty() && out.back().at == point.at) out.pop_back();
        if (!out.empty() && out.back().state == point.state && out.back().price == point.price) return;
        out.push_back(point);
    };
    if (to <= from) return out;
    add({.at = from});
    for (const MarketPoint& p : points) {
        if (p.at >= std::min(to, known_until)) break;
        add({.at = std::max(p.at, from), .state = p.state, .price = p.price});
    }
    if (known_until < to) add({.at = std::max(known_until, from)});
    if (out.size() == 1 && out.front().state == MarketState::unknown) out.clear();
    return out;
}

std::vector<MarketTick> market_ticks(std::span<const MarketPoint> points, Instant from, Millis tick, std::int64_t ticks) {
    std::vector<MarketTick> out;
    for (std::size_t i = 0; i < points.size(); ++i) {
        const MarketPoint& p = points[i];
        // The first tick that begins at or after the point; one that a later point overtakes is never seen.
        const std::int64_t at = std::max<std::int64_t>(0, (p.at - from + tick - Millis{1}) / tick);
        if (at >= ticks) break;
        if (!out.empty() && out.back().tick == at) out.pop_back();
        if (!out.empty() && out.back().state == p.state && out.back().price == p.price) continue;
        out.push_back({.tick = at, .state = p.state, .price = p.price});
    }
    return out;
}

}  // namespace gf
