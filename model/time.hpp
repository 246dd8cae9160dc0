// Instants, durations and their texts. Nothing here reads a clock: `now` always comes in as an argument.
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gf {

using Millis = std::chrono::milliseconds;
using Seconds = std::chrono::seconds;
using Instant = std::chrono::sys_time<Millis>;

/// Milliseconds since 1970-01-01T00:00:00Z: the form stored in the database and sent to the agent.
[[nodiscard]] constexpr std::int64_t unix_millis(Instant t) { return t.time_since_epoch().count(); }
[[nodiscard]] constexpr Instant instant_of(std::int64_t unix_ms) { return Instant{Millis{unix_ms}}; }

/// RFC 3339 in UTC with milliseconds, "2026-11-30T09:12:44.000Z". What is before the year 0000 or after 9999 is told as their ends.
[[nodiscard]] std::string rfc3339(Instant t);
/// Reads RFC 3339 with `Z` or a numeric offset, with or without a fraction. Nothing for any other text, or for
/// years outside 1970..9999.
[[nodiscard]] std::optional<Instant> parse_rfc3339(std::string_view text);

/// Reads a duration with its unit: "250ms", "60s", "5m", "12h", "7d", and sums of them ("1h30m"). Decimal parts
/// are refused, as are a missing unit, a negative value and anything above 10 years.
[[nodiscard]] std::optional<Millis> parse_duration(std::string_view text);
/// The shortest exact text of a duration: "90s" gives "1m30s".
[[nodiscard]] std::string duration_text(Millis d);

}  // namespace gf
