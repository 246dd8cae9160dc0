// The check that foreign text passes before any parser sees it, and walking over its characters.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gf {

/// Reads the character at `at` (< text.size()) and moves `at` past it. Nothing, `at` unmoved, where the bytes
/// are no UTF-8: overlong forms, surrogates, above U+10FFFF, cut sequences.
[[nodiscard]] std::optional<char32_t> next_character(std::string_view text, std::size_t& at);

/// Characters of valid UTF-8; invalid bytes count as one each.
[[nodiscard]] std::size_t character_count(std::string_view text);

/// Place and description of the first thing that keeps `text` from being read at all: invalid UTF-8, a byte
/// order mark, or a control character other than tab, line feed and carriage return. Nothing for a readable
/// text.
struct TextFault {
    std::size_t offset{0};
    std::string what;
};
[[nodiscard]] std::optional<TextFault> find_text_fault(std::string_view text);

/// True for C0, DEL and C1 controls, and for the characters that turn the direction of writing
/// (U+202A-U+202E, U+2066-U+2069): they make a name look like another one.
[[nodiscard]] bool is_control(char32_t c);

/// A value for a message: at most 60 bytes, cut at a character, controls as \u{…}.
[[nodiscard]] std::string shown(std::string_view text);

}  // namespace gf
