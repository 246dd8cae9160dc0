#include "scheduler/version.hpp"

#include <array>
#include <cstddef>

namespace gf {
namespace {

constexpr std::size_t kComponentsMax = 6;
constexpr std::size_t kDigitsMax = 9;
using Components = std::array<long, kComponentsMax>;

std::optional<Components> components(std::string_view s) {
    Components out{};
    std::size_t index = 0, digits = 0;
    for (const char c : s) {
        if (c >= '0' && c <= '9') {
            if (++digits > kDigitsMax) return std::nullopt;
            out[index] = out[index] * 10 + (c - '0');
        } else if (c == '.' && digits > 0 && index + 1 < kComponentsMax) {
            ++index;
            digits = 0;
        } else {
            return std::nullopt;
        }
    }
    if (digits == 0) return std::nullopt;
    return out;
}

}  // namespace

std::optional<bool> version_at_least(std::string_view have, std::string_view least) {
    const auto a = components(have), b = components(least);
    if (!a || !b) return std::nullopt;
    return *a >= *b;
}

}  // namespace gf
