#include "model/secret_name.hpp"

#include <algorithm>

namespace gf {
namespace {

/// RFC 3629: shortest form, no surrogates, at most U+10FFFF.
bool is_utf8(std::string_view text) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    for (std::size_t i = 0; i < text.size();) {
        const unsigned lead = byte(i);
        const std::size_t more = lead < 0x80 ? 0 : lead >= 0xC2 && lead < 0xE0 ? 1 : (lead & 0xF0U) == 0xE0 ? 2 : lead >= 0xF0 && lead < 0xF5 ? 3 : 4;
        if (more == 4 || text.size() - i <= more) return false;
        for (std::size_t k = 1; k <= more; ++k)
            if ((byte(i + k) & 0xC0U) != 0x80) return false;
        if (more > 1) {
            const unsigned second = byte(i + 1);
            if ((lead == 0xE0 && second < 0xA0) || (lead == 0xED && second >= 0xA0) || (lead == 0xF0 && second < 0x90) ||
                (lead == 0xF4 && second >= 0x90))
                return false;
        }
        i += more + 1;
    }
    return true;
}

}  // namespace

bool is_secret_name(std::string_view name) {
    const auto letter = [](char c) { return (c >= 'A' && c <= 'Z') || c == '_'; };
    return !name.empty() && name.size() <= kSecretNameMax && letter(name.front()) && !name.starts_with("GPUFERRY_") &&
           std::ranges::all_of(name, [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

bool is_secret_value(std::string_view value) {
    return !value.empty() && value.size() <= kSecretBytesMax && value.find('\0') == std::string_view::npos && is_utf8(value);
}

}  // namespace gf
