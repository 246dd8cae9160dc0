// How far two spellings are apart: for "did you mean", never for a match.
#pragma once
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace gf {

/// Insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`. Texts longer than 64
/// bytes count as `kSpellingFar` apart, so that a hostile key costs nothing.
inline constexpr std::size_t kSpellingFar = 1'000;
[[nodiscard]] std::size_t spelling_distance(std::string_view a, std::string_view b);

/// The nearest of `known` if it is near enough to be meant (at most a third of its length, at least one
/// slip), compared without case and with `-` read as `_`. Ties: the first. Nothing if none is near.
[[nodiscard]] std::optional<std::string> nearest_spelling(std::string_view typed,
                                                          std::span<const std::string_view> known);

}  // namespace gf
