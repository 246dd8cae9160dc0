// Traces for tests: written as text, or drawn from a seed.
#pragma once
#include <string_view>
#include <vector>

#include "model/id.hpp"
#include "replay/play.hpp"

namespace gf::replay {

/// One string per zone, a character per tick: '1' is up. Ticks of ten minutes, spot 1 $/h, on-demand 3 $/h.
inline Trace drawn(const std::vector<std::string_view>& zones) {
    Trace trace{.zones = {}, .tick = std::chrono::minutes{10}, .up = {}, .spot = {}, .on_demand = {}};
    for (std::size_t z = 0; z < zones.size(); ++z) {
        trace.zones.push_back("zone-" + std::to_string(z));
        auto& up = trace.up.emplace_back();
        for (const char c : zones[z]) up.push_back(c == '1' ? 1 : 0);
        trace.spot.emplace_back(zones[z].size(), UsdPerHour{1'000'000});
        trace.on_demand.push_back(UsdPerHour{3'000'000});
    }
    return trace;
}

/// Spells of random length, longer or shorter by zone; prices that move.
inline Trace random_market(Entropy& chance, std::size_t zones, std::size_t ticks) {
    Trace trace{.zones = {}, .tick = std::chrono::minutes{10}, .up = {}, .spot = {}, .on_demand = {}};
    for (std::size_t z = 0; z < zones; ++z) {
        trace.zones.push_back("zone-" + std::to_string(z));
        auto& up = trace.up.emplace_back();
        auto& rates = trace.spot.emplace_back();
        const auto turns = 2 + chance.below(40);
        std::uint8_t now = chance.below(2) == 0 ? 1 : 0;
        auto rate = static_cast<std::int64_t>(300'000 + chance.below(2'500'000));
        for (std::size_t t = 0; t < ticks; ++t) {
            if (chance.below(turns) == 0) now = now == 0 ? 1 : 0;
            if (chance.below(50) == 0) rate = static_cast<std::int64_t>(300'000 + chance.below(2'500'000));
            up.push_back(now);
            rates.push_back(UsdPerHour{rate});
        }
        trace.on_demand.push_back(UsdPerHour{static_cast<std::int64_t>(2'000'000 + chance.below(2'000'000))});
    }
    return trace;
}

}  // namespace gf::replay
