#include "providers/decimal.hpp"

#include <algorithm>
#include <cctype>

namespace gf {
namespace {

std::string_view trimmed(std::string_view s) {
    constexpr std::string_view blanks = " \t\r\n";
    while (!s.empty() && blanks.contains(s.front())) s.remove_prefix(1);
    while (!s.empty() && blanks.contains(s.back())) s.remove_suffix(1);
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

/// A sign, digits with at most one point, an exponent: then `parse_decimal_micros` said no because of the size.
bool looks_like_a_number(std::string_view s) {
    const auto digits = [&] {
        std::size_t n = 0;
        for (; !s.empty() && s.front() >= '0' && s.front() <= '9'; s.remove_prefix(1)) ++n;
        return n;
    };
    const auto sign = [&] {
        if (s.starts_with('+') || s.starts_with('-')) s.remove_prefix(1);
    };
    sign();
    auto figures = digits();
    if (s.starts_with('.')) {
        s.remove_prefix(1);
        figures += digits();
    }
    if (figures == 0) return false;
    if (s.empty()) return true;
    if (s.front() != 'e' && s.front() != 'E') return false;
    s.remove_prefix(1);
    sign();
    return digits() > 0 && s.empty();
}

/// "-0.0" is no figure below zero.
bool is_zero(std::string_view s) {
    const auto mantissa = s.substr(0, s.find_first_of("eE"));
    return mantissa.find_first_of("123456789") == std::string_view::npos;
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
    if (s.front() == '-') {
        if (!looks_like_a_number(s)) return refused(what, "not_a_number");
        return is_zero(s) ? PriceReading{} : refused(what, "negative");
    }
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
