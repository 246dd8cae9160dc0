#include "model/money.hpp"

namespace gf {
namespace {

constexpr int kScale = 6;
constexpr std::int64_t kLimit = 1'000'000'000;  // dollars

}  // namespace

std::optional<std::int64_t> parse_decimal_micros(std::string_view s) {
    std::size_t at = 0;
    if (at < s.size() && s[at] == '+') ++at;
    std::string digits;  // significant digits, the point removed
    int point = -1;
    for (; at < s.size(); ++at) {
        const char c = s[at];
        if (c >= '0' && c <= '9') {
            digits.push_back(c);
            if (digits.size() > 64) return std::nullopt;
        } else if (c == '.' && point < 0) {
            point = static_cast<int>(digits.size());
        } else {
            break;
        }
    }
    if (digits.empty()) return std::nullopt;
    if (point < 0) point = static_cast<int>(digits.size());
    if (at < s.size()) {
        if (s[at] != 'e' && s[at] != 'E') return std::nullopt;
        ++at;
        int sign = 1;
        if (at < s.size() && (s[at] == '+' || s[at] == '-')) sign = s[at++] == '-' ? -1 : 1;
        if (at >= s.size()) return std::nullopt;
        int exponent = 0;
        for (; at < s.size(); ++at) {
            if (s[at] < '0' || s[at] > '9' || exponent > 999) return std::nullopt;
            exponent = exponent * 10 + (s[at] - '0');
        }
        point += sign * exponent;
    }
    // The value is 0.DIGITS x 10^point; we want its millionths, so the first `point + 6` digits, and the next one
    // decides the rounding.
    const int keep = point + kScale;
    if (keep < 0) return 0;
    std::int64_t micros = 0;
    for (int i = 0; i < keep; ++i) {
        const int digit = i < static_cast<int>(digits.size()) ? digits[static_cast<std::size_t>(i)] - '0' : 0;
        micros = micros * 10 + digit;
        if (micros > kLimit * 1'000'000) return std::nullopt;
    }
    if (keep < static_cast<int>(digits.size()) && digits[static_cast<std::size_t>(keep)] >= '5') ++micros;
    return micros;
}

std::string dollars(std::int64_t micros) {
    const bool negative = micros < 0;
    const auto value = negative ? 0 - static_cast<std::uint64_t>(micros) : static_cast<std::uint64_t>(micros);
    std::string fraction = std::to_string(value % 1'000'000);
    fraction.insert(0, 6 - fraction.size(), '0');
    while (fraction.size() > 2 && fraction.back() == '0') fraction.pop_back();
    return (negative ? "-" : "") + std::to_string(value / 1'000'000) + "." + fraction;
}

}  // namespace gf
