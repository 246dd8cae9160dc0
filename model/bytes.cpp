#include "model/bytes.hpp"

#include <array>
#include <cctype>
#include <cstdio>
#include <string>

namespace gf {
namespace {

struct Unit {
    std::string_view name;
    std::int64_t bytes;
};
constexpr std::array<Unit, 9> kUnits{{{"b", 1},
                                      {"kb", 1'000},
                                      {"mb", 1'000'000},
                                      {"gb", kGB},
                                      {"tb", 1'000 * kGB},
                                      {"kib", 1'024},
                                      {"mib", kMiB},
                                      {"gib", kGiB},
                                      {"tib", 1'024 * kGiB}}};

struct Split {
    std::int64_t millionths;  // of the number
    bool whole;
    std::string unit;  // lower case, empty = none
};

std::optional<Split> split(std::string_view s) {
    std::int64_t value = 0;
    int decimals = -1;
    std::size_t at = 0;
    for (; at < s.size(); ++at) {
        const char c = s[at];
        if (c >= '0' && c <= '9') {
            if (decimals >= 6) return std::nullopt;
            if (value > (std::int64_t{1} << 62) / 10) return std::nullopt;
            value = value * 10 + (c - '0');
            if (decimals >= 0) ++decimals;
        } else if (c == '.' && decimals < 0 && at > 0) {
            decimals = 0;
        } else {
            break;
        }
    }
    if (at == 0 || s[at - 1] == '.') return std::nullopt;
    const bool whole = decimals <= 0;
    for (int i = decimals < 0 ? 0 : decimals; i < 6; ++i) {
        if (value > (std::int64_t{1} << 62) / 10) {
            // Too large to carry millionths: only whole plain byte counts get here, and those are refused above
            // 2^62 / 10^6 anyway (4.6 TB as a plain number is written with a unit instead).
            return std::nullopt;
        }
        value *= 10;
    }
    if (at < s.size() && s[at] == ' ') ++at;
    std::string unit;
    for (; at < s.size(); ++at) unit.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(s[at]))));
    return Split{value, whole, unit};
}

}  // namespace

std::optional<Bytes> parse_bytes(std::string_view text) {
    const auto parts = split(text);
    if (!parts) return std::nullopt;
    std::int64_t unit = 0;
    if (parts->unit.empty()) {
        if (!parts->whole) return std::nullopt;
        unit = 1;
    }
    for (const auto& u : kUnits)
        if (u.name == parts->unit) unit = u.bytes;
    if (unit == 0) return std::nullopt;
    const auto exact = static_cast<__int128>(parts->millionths) * unit / 1'000'000;
    if (exact > static_cast<__int128>(std::int64_t{1} << 62)) return std::nullopt;
    return Bytes{static_cast<std::int64_t>(exact)};
}

std::optional<VramDemand> parse_vram(std::string_view text) {
    const auto parts = split(text);
    const auto bytes = parse_bytes(text);
    if (!parts || !bytes || bytes->count <= 0) return std::nullopt;
    if ((parts->unit == "gb" || parts->unit == "gib") && parts->whole && parts->millionths <= 4'096'000'000)
        return VramDemand{.class_gb = static_cast<int>(parts->millionths / 1'000'000), .exact = {}};
    return VramDemand{.class_gb = {}, .exact = bytes};
}

std::string bytes_text(Bytes b) {
    constexpr std::array<std::pair<std::string_view, std::int64_t>, 4> steps{
        {{"TB", 1'000 * kGB}, {"GB", kGB}, {"MB", 1'000'000}, {"KB", 1'000}}};
    char out[48];
    for (const auto& [name, size] : steps) {
        if (b.count < size) continue;
        std::snprintf(out, sizeof out, "%.2f %s", static_cast<double>(b.count) / static_cast<double>(size),
                      std::string(name).c_str());
        return out;
    }
    return std::to_string(b.count) + " B";
}

}  // namespace gf
