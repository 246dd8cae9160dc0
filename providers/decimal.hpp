// Foreign figures of money. A client keeps each as the text that came ("0.69", "1e-3", "NaN"); here it
// becomes micro-dollars or the reason why not, once, so that an unusable price can never sort as the
// cheapest.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "model/money.hpp"

namespace gf {

/// A number as it stood in the answer, digits untouched; absent = the field was missing or null.
using NumberText = std::optional<std::string>;

struct PriceReading {
    std::int64_t micros{0};
    std::string reason;  // empty = fine; else "price_missing", "price_empty", "price_zero", "price_negative",
                         // "price_not_finite", "price_not_a_number", "price_too_large"
    [[nodiscard]] bool ok() const { return reason.empty(); }
};

/// Nobody rents or sells at more than this: such a figure is a slip of the provider, and no price.
inline constexpr std::int64_t kMicrosPerHourMax = 10'000'000'000;     // $10,000 for all GPUs of an offer, or its disk
inline constexpr std::int64_t kMicrosPerGbMonthMax = 100'000'000;     // $100
inline constexpr std::int64_t kMicrosPerGbTrafficMax = 100'000'000;   // $100
inline constexpr std::int64_t kDiskGbMax = 1'000'000'000;             // a larger disk is no figure either

/// A price that must be above zero. `what` replaces "price" in the reasons.
[[nodiscard]] PriceReading read_price(const NumberText& text, std::string_view what = "price");
/// The same where 0 is a real value (traffic, disk).
[[nodiscard]] PriceReading read_price_or_zero(const NumberText& text, std::string_view what = "price");
/// An amount that may be below zero (a balance). Nothing if it is not a finite decimal.
[[nodiscard]] std::optional<std::int64_t> read_amount(const NumberText& text);

}  // namespace gf
