#include "model/time.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>

namespace gf {
namespace {

struct Unit {
    std::string_view name;
    std::int64_t millis;
};
constexpr std::array<Unit, 5> kUnits{{{"d", 86'400'000}, {"h", 3'600'000}, {"m", 60'000}, {"s", 1'000}, {"ms", 1}}};
constexpr std::int64_t kDurationMax = 10LL * 366 * 86'400'000;

bool digit(char c) { return c >= '0' && c <= '9'; }

/// Reads exactly `n` digits at `at`; -1 if they are not all digits.
int digits(std::string_view s, std::size_t at, std::size_t n) {
    if (at + n > s.size()) return -1;
    int value = 0;
    for (std::size_t i = at; i < at + n; ++i) {
        if (!digit(s[i])) return -1;
        value = value * 10 + (s[i] - '0');
    }
    return value;
}

}  // namespace

std::string rfc3339(Instant t) {
    using namespace std::chrono;
    // The form has four digits for a year, and days of the far ends of time are beyond what their arithmetic holds.
    t = std::clamp<Instant>(t, sys_days{year{0} / 1 / 1}, sys_days{year{9999} / 12 / 31} + hours{24} - Millis{1});
    const auto day = floor<days>(t);
    const year_month_day date{day};
    const auto ms = (t - day).count();
    char out[40];
    std::snprintf(out, sizeof out, "%04d-%02u-%02uT%02d:%02d:%02d.%03dZ", static_cast<int>(date.year()),
                  static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                  static_cast<int>(ms / 3'600'000), static_cast<int>(ms / 60'000 % 60),
                  static_cast<int>(ms / 1000 % 60), static_cast<int>(ms % 1000));
    return out;
}

std::optional<Instant> parse_rfc3339(std::string_view s) {
    using namespace std::chrono;
    if (s.size() < 20 || s[4] != '-' || s[7] != '-' || (s[10] != 'T' && s[10] != 't' && s[10] != ' ') ||
        s[13] != ':' || s[16] != ':')
        return std::nullopt;
    const int y = digits(s, 0, 4), mo = digits(s, 5, 2), d = digits(s, 8, 2);
    const int h = digits(s, 11, 2), mi = digits(s, 14, 2), sec = digits(s, 17, 2);
    if (y < 1970 || mo < 1 || d < 1 || h < 0 || h > 23 || mi < 0 || mi > 59 || sec < 0 || sec > 60) return std::nullopt;
    const year_month_day date{year{y}, month{static_cast<unsigned>(mo)}, day{static_cast<unsigned>(d)}};
    if (!date.ok()) return std::nullopt;
    std::size_t at = 19;
    int ms = 0;
    if (at < s.size() && s[at] == '.') {
        ++at;
        int scale = 100, seen = 0;
        for (; at < s.size() && digit(s[at]); ++at, ++seen, scale /= 10) ms += (s[at] - '0') * scale;
        if (seen == 0) return std::nullopt;
    }
    if (at >= s.size()) return std::nullopt;
    minutes offset{0};
    if (s[at] == 'Z' || s[at] == 'z') {
        ++at;
    } else if (s[at] == '+' || s[at] == '-') {
        const int oh = digits(s, at + 1, 2);
        const bool colon = at + 3 < s.size() && s[at + 3] == ':';
        const int om = digits(s, at + (colon ? 4 : 3), 2);
        if (oh < 0 || oh > 23 || om < 0 || om > 59) return std::nullopt;
        offset = minutes{(oh * 60 + om) * (s[at] == '-' ? -1 : 1)};
        at += colon ? 6 : 5;
    } else {
        return std::nullopt;
    }
    if (at != s.size()) return std::nullopt;
    return Instant{sys_days{date} + hours{h} + minutes{mi} + seconds{sec} + Millis{ms} - offset};
}

std::optional<Millis> parse_duration(std::string_view s) {
    if (s.empty()) return std::nullopt;
    std::int64_t total = 0;
    while (!s.empty()) {
        std::size_t n = 0;
        std::int64_t value = 0;
        while (n < s.size() && digit(s[n])) {
            value = value * 10 + (s[n] - '0');
            if (value > kDurationMax) return std::nullopt;
            ++n;
        }
        if (n == 0) return std::nullopt;
        s.remove_prefix(n);
        std::size_t letters = 0;
        while (letters < s.size() && !digit(s[letters])) ++letters;
        const Unit* unit = nullptr;
        for (const auto& u : kUnits)
            if (u.name == s.substr(0, letters)) unit = &u;
        if (!unit || value > kDurationMax / unit->millis) return std::nullopt;
        total += value * unit->millis;
        if (total > kDurationMax) return std::nullopt;
        s.remove_prefix(letters);
    }
    return Millis{total};
}

std::string duration_text(Millis d) {
    std::int64_t rest = d.count();
    if (rest == 0) return "0s";
    std::string out;
    if (rest < 0) {
        out = "-";
        rest = -rest;
    }
    for (const auto& u : kUnits) {
        if (rest < u.millis) continue;
        out += std::to_string(rest / u.millis) + std::string(u.name);
        rest %= u.millis;
    }
    return out;
}

}  // namespace gf
