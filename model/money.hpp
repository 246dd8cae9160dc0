// Money is integer micro-dollars. There is no floating point here and no arithmetic between an amount and a rate
// except `cost`. A foreign price text becomes micro-dollars in one place, `parse_decimal_micros`.
#pragma once
#include <chrono>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "model/time.hpp"

namespace gf {

struct Usd {
    std::int64_t micros{0};
    friend auto operator<=>(Usd, Usd) = default;
    friend constexpr Usd operator+(Usd a, Usd b) { return {a.micros + b.micros}; }
    friend constexpr Usd operator-(Usd a, Usd b) { return {a.micros - b.micros}; }
    constexpr Usd& operator+=(Usd b) { micros += b.micros; return *this; }
};

struct UsdPerHour {
    std::int64_t micros{0};
    friend auto operator<=>(UsdPerHour, UsdPerHour) = default;
    friend constexpr UsdPerHour operator+(UsdPerHour a, UsdPerHour b) { return {a.micros + b.micros}; }
};

/// What holding a machine for `held` costs at `rate`, rounded up to whole micro-dollars: a bill is never shown too
/// low. `held` must not be negative; 128-bit inside, so no span or rate overflows.
[[nodiscard]] constexpr Usd cost(UsdPerHour rate, Millis held) {
    const auto exact = static_cast<__int128>(rate.micros) * held.count();
    return Usd{static_cast<std::int64_t>((exact + 3'599'999) / 3'600'000)};
}
static_assert(cost(UsdPerHour{2'500'000}, std::chrono::minutes{30}).micros == 1'250'000);
static_assert(cost(UsdPerHour{1}, Millis{1}).micros == 1);

/// Reads a plain or exponent decimal ("0.39", "1e-3", "2") exactly into millionths, rounded to nearest. Nothing
/// for an empty text, a sign of minus, NaN, infinity, trailing characters, or a value above 1e9.
[[nodiscard]] std::optional<std::int64_t> parse_decimal_micros(std::string_view text);

/// "$0.39" forms: dollars with at least two and at most six decimals, no trailing zeros past the second ("0.3825").
[[nodiscard]] std::string dollars(std::int64_t micros);
[[nodiscard]] inline std::string dollars(Usd v) { return dollars(v.micros); }
[[nodiscard]] inline std::string dollars(UsdPerHour v) { return dollars(v.micros); }

}  // namespace gf
