// From an answer of /v1/offers/history with ticks to the files that gpuferry-replay reads. Pure but for the
// streams.
#pragma once
#include <iosfwd>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/failure.hpp"

namespace gf::cli {

/// One zone without holes: where nobody looked it stays as it was, and at the beginning as it first was seen.
struct TraceZone {
    struct Step {
        std::int64_t tick{0};
        bool up{false};
        bool known{false};
        std::string
            price;  // decimal dollars per hour; the last one that was seen, at the beginning the first
    };
    std::string name;         // without comma, quote and blank
    std::vector<Step> steps;  // the first at tick 0; never empty
};
struct TraceZones {
    std::vector<TraceZone> zones;
    std::int64_t ticks{0};
    std::size_t hardly_known{0};  // left out: known for less than asked
    std::size_t never_up{0};      // left out: no price is known
    double carried_share{0};      // of all ticks of all zones
};

/// Errors: `unexpected` for an answer that is not of that shape.
[[nodiscard]] Outcome<TraceZones> trace_zones(const nlohmann::json& answer, double known_least);

/// "tick,zone,…" and a row of 0/1 per tick.
void write_availability(std::ostream& out, const TraceZones& trace);
/// The same with 1 where the state was seen and 0 where it was carried on.
void write_known(std::ostream& out, const TraceZones& trace);
/// "zone,tick,spot_usd_per_h": for each zone its first price at tick 0 and then each other one.
void write_prices(std::ostream& out, const TraceZones& trace);

}  // namespace gf::cli
