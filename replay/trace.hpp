// A market over time, as read from CSV: for each zone and tick whether a spot machine could be had or kept,
// and what it cost. Ticks are equally long. On-demand is taken to be always there, at one price per zone.
// Owned by value; nothing here reads a clock.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/money.hpp"
#include "model/result.hpp"
#include "model/time.hpp"

namespace gf::replay {

struct Trace {
    std::vector<std::string> zones;
    Millis tick{0};
    std::int64_t first_label{0};                // what the file calls its first tick
    std::vector<std::vector<std::uint8_t>> up;  // [zone][tick], 0 or 1
    std::vector<std::vector<UsdPerHour>> spot;  // [zone][tick]
    std::vector<UsdPerHour> on_demand;          // [zone]

    [[nodiscard]] std::size_t length() const { return up.empty() ? 0 : up.front().size(); }
    /// Beyond the end of the file nothing is known to be up.
    [[nodiscard]] bool is_up(std::size_t zone, std::size_t at) const {
        return at < length() && up[zone][at] != 0;
    }
    /// The last known price holds on beyond the end.
    [[nodiscard]] UsdPerHour price(std::size_t zone, std::size_t at) const {
        return spot[zone][at < length() ? at : length() - 1];
    }
};

struct TraceOptions {
    Millis tick{0};                  // must be positive
    int at_least{1};                 // a count of this many or more is "up"
    std::vector<std::string> zones;  // only these, in this order; empty = all columns
    UsdPerHour spot;                 // until prices are read
    UsdPerHour on_demand;
};

/// Reads "tick,zone,zone,…" (the first column may be any label) with a row of 0/1 or counts per tick.
/// Errors: `malformed` with the line; `invalid` for an unknown zone, no rows or a tick that is not positive.
Result<Trace> read_trace(std::string_view csv, const TraceOptions& options);

/// Puts prices in. Two forms, told apart by their header: change points "zone,tick,spot_usd_per_h" (ticks as
/// the trace labels them), or constants "zone,spot_usd_per_h,ondemand_usd_per_h". Zones that the trace does
/// not have are skipped. Errors: `malformed` with the line; `invalid` where a zone of the trace has no price.
Result<void> read_prices(Trace& trace, std::string_view csv);

/// Reads what was seen of a market at any times: "time,key,usd_per_h,up" (RFC 3339, key, dollars, 0/1), a row
/// per change, and samples it every `options.tick` from the first row to the last. A key is down before its
/// first row.
Result<Trace> read_history(std::string_view csv, const TraceOptions& options);

}  // namespace gf::replay
