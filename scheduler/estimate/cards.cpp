#include "scheduler/estimate/cards.hpp"

#include <algorithm>
#include <tuple>

namespace gf {

std::vector<CardFit> cards_that_fit(const GpuNames& gpus, Bytes demand) {
    std::vector<CardFit> out;
    for (const auto& card : gpus.cards()) {
        if (card.vendor != "nvidia" || card.tier == "edge") continue;
        const Bytes usable = usable_memory(card);
        if (usable < demand) continue;
        const auto gib = [](Bytes b) { return static_cast<double>(b.count) / static_cast<double>(kGiB); };
        out.push_back(
            {.canonical = card.canonical, .usable_gib = gib(usable), .room_gib = gib(usable) - gib(demand)});
    }
    std::ranges::sort(out, [](const CardFit& a, const CardFit& b) {
        return std::tie(a.usable_gib, a.canonical) < std::tie(b.usable_gib, b.canonical);
    });
    return out;
}

}  // namespace gf
