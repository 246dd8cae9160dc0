#include "model/spelling.hpp"

#include <algorithm>
#include <array>

namespace gf {
namespace {

constexpr std::size_t kLengthMax = 64;

std::string folded(std::string_view s) {
    std::string out;
    for (const char c : s.substr(0, kLengthMax + 1)) {
        if (c >= 'A' && c <= 'Z')
            out.push_back(static_cast<char>(c - 'A' + 'a'));
        else
            out.push_back(c == '-' ? '_' : c);
    }
    return out;
}

}  // namespace

std::size_t spelling_distance(std::string_view a, std::string_view b) {
    if (a.size() > kLengthMax || b.size() > kLengthMax) return kSpellingFar;
    // Three rows of the usual table: two back for a swap of neighbours.
    std::array<std::array<std::size_t, kLengthMax + 1>, 3> rows{};
    for (std::size_t j = 0; j <= b.size(); ++j) rows[0][j] = j;
    for (std::size_t i = 1; i <= a.size(); ++i) {
        const auto& above = rows[(i - 1) % 3];
        const auto& two_above = rows[(i + 1) % 3];
        auto& row = rows[i % 3];
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const std::size_t replaced = above[j - 1] + (a[i - 1] == b[j - 1] ? 0U : 1U);
            row[j] = std::min({above[j] + 1, row[j - 1] + 1, replaced});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = std::min(row[j], two_above[j - 2] + 1);
        }
    }
    return rows[a.size() % 3][b.size()];
}

std::optional<std::string> nearest_spelling(std::string_view typed, std::span<const std::string_view> known) {
    const std::string wanted = folded(typed);
    std::optional<std::string> best;
    std::size_t best_distance = kSpellingFar;
    for (const auto name : known) {
        const std::size_t distance = spelling_distance(wanted, folded(name));
        const std::size_t near = std::max<std::size_t>(1, name.size() / 3);
        if (distance > near || distance >= best_distance) continue;
        best = std::string(name);
        best_distance = distance;
    }
    return best;
}

}  // namespace gf
