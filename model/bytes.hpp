// Sizes. GB is 10^9, GiB is 2^30; the words live only in this parser and printer.
#pragma once
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gf {

struct Bytes {
    std::int64_t count{0};
    friend auto operator<=>(Bytes, Bytes) = default;
};

inline constexpr std::int64_t kGB = 1'000'000'000;
inline constexpr std::int64_t kGiB = 1'073'741'824;
inline constexpr std::int64_t kMiB = 1'048'576;

/// Memory of one GPU as a spec asks for it. `class_gb` is the marketing class ("24GB" and "24GiB" both name the
/// 24 GB class, because cards sold so report 22.5 to 24 GiB); `exact` is plain bytes, held against usable memory.
struct VramDemand {
    std::optional<int> class_gb;
    std::optional<Bytes> exact;
    friend bool operator==(const VramDemand&, const VramDemand&) = default;
};

/// Reads "64KB", "1.5GiB", "100GB", "12345" (plain bytes). Units B KB MB GB TB KiB MiB GiB TiB, any case, one
/// optional space. Nothing for negatives, other units, or more than 2^62 bytes.
[[nodiscard]] std::optional<Bytes> parse_bytes(std::string_view text);
/// Reads a `vram:` value: with GB/GiB and a whole number it is a class, otherwise exact bytes.
[[nodiscard]] std::optional<VramDemand> parse_vram(std::string_view text);
/// "1.50 GB" with the largest unit that keeps the number at one or more; for people.
[[nodiscard]] std::string bytes_text(Bytes b);

}  // namespace gf
