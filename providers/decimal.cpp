#include "providers/decimal.hpp"

#include <algorithm>
#include <cctype>

namespace gf {
namespace {

std::string_view trimmed(std::string_view s) {
    while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) s.remove_prefix(1);
    while (!s.empty() && (s.back() == ' ' || s.back() == '\t')) s.remove_suffix(1);
    return s;
}

bool says_not_finite(std::string_view s) {
    std::string low(s);
    std::ranges::transform(low, low.begin(), [](char c) {
        return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    });
    if (low.starts_with('+') || low.starts_with('-')) low.erase(0, 1);
    return low == "nan" || low == "inf" || low == "infinity";
}

/// Digits, point and exponent only: then `parse_decimal_micros` said no because of the size.
bool looks_like_a_number(std::string_view s) {
    return !s.empty() && s.find_first_of("0123456789") != std::string_view::npos &&
           s.find_first_not_of("0123456789.eE+-") == std::string_view::npos;
}

PriceReading refused(std::string_view what, std::string_view why) {
    return {.micros = 0, .reason = std::string(what) + "_" + std::string(why)};
}

}  // namespace

PriceReading read_price_or_zero(const NumberText& text, std::string_view what) {
    if (!text) return refused(what, "missing");
    const auto s = trimmed(*text);
    if (s.empty()) return refused(what, "empty");
    if (says_not_finite(s)) return refused(what, "not_finite");
    if (s.front() == '-') return refused(what, looks_like_a_number(s) ? "negative" : "not_a_number");
    if (const auto micros = parse_decimal_micros(s)) return {.micros = *micros, .reason = {}};
    // 1e309 is a well-formed number that no double holds: other readers see infinity.
    return refused(what, looks_like_a_number(s) ? "too_large" : "not_a_number");
}

PriceReading read_price(const NumberText& text, std::string_view what) {
    auto reading = read_price_or_zero(text, what);
    if (reading.ok() && reading.micros == 0) return refused(what, "zero");
    return reading;
}

std::optional<std::int64_t> read_amount(const NumberText& text) {
    if (!text) return std::nullopt;
    auto s = trimmed(*text);
    const bool negative = s.starts_with('-');
    if (negative) s.remove_prefix(1);
    if (s.starts_with('+') && negative) return std::nullopt;
    const auto micros = parse_decimal_micros(s);
    if (!micros) return std::nullopt;
    return negative ? -*micros : *micros;
}

}  // namespace gf
