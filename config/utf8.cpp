#include "config/utf8.hpp"

#include <cstdio>

namespace gf {
namespace {

constexpr std::size_t kShownBytes = 60;

std::string hex_of(unsigned value, const char* format) {
    char out[24];
    std::snprintf(out, sizeof out, format, value);
    return out;
}

}  // namespace

std::optional<char32_t> next_character(std::string_view s, std::size_t& at) {
    const auto byte = [&](std::size_t i) -> unsigned { return static_cast<unsigned char>(s[i]); };
    const unsigned first = byte(at);
    if (first < 0x80) {
        ++at;
        return first;
    }
    const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
    if (first < 0xC2 || first > 0xF4 || at + length > s.size()) return std::nullopt;
    char32_t c = first & (0xFFU >> (length + 1));
    for (std::size_t i = 1; i < length; ++i) {
        if ((byte(at + i) & 0xC0) != 0x80) return std::nullopt;
        c = (c << 6) | (byte(at + i) & 0x3F);
    }
    constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
    if (c < kSmallest[length] || c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF)) return std::nullopt;
    at += length;
    return c;
}

std::size_t character_count(std::string_view text) {
    std::size_t count = 0;
    for (std::size_t at = 0; at < text.size(); ++count)
        if (!next_character(text, at)) ++at;
    return count;
}

std::optional<TextFault> find_text_fault(std::string_view text) {
    if (text.starts_with("\xEF\xBB\xBF")) return TextFault{0, "a byte order mark is not allowed"};
    if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF"))
        return TextFault{0, "the text is UTF-16 with a byte order mark; write UTF-8 without one"};
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t start = at;
        const auto c = next_character(text, at);
        if (!c)
            return TextFault{
                start, "invalid UTF-8: byte " + hex_of(static_cast<unsigned char>(text[start]), "0x%02X")};
        const bool control = (*c < 0x20 && *c != '\t' && *c != '\n' && *c != '\r') || *c == 0x7F;
        if (control)
            return TextFault{start, "control character " + hex_of(static_cast<unsigned>(*c), "U+%04X")};
    }
    return std::nullopt;
}

bool is_control(char32_t c) {
    return c < 0x20 || (c >= 0x7F && c <= 0x9F) || (c >= 0x202A && c <= 0x202E) ||
           (c >= 0x2066 && c <= 0x2069);
}

std::string shown(std::string_view text) {
    std::string out;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t start = at;
        const auto c = next_character(text, at);
        if (!c) ++at;
        if (start > kShownBytes) return out + "…";
        if (!c)
            out += "\\x" + hex_of(static_cast<unsigned char>(text[start]), "%02X");
        else if (is_control(*c))
            out += hex_of(static_cast<unsigned>(*c), "\\u{%04X}");
        else
            out += text.substr(start, at - start);
    }
    return out;
}

}  // namespace gf
