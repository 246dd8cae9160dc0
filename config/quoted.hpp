// Where a quoted scalar ends, in YAML and in JSON: for the reader, which must not take the end of the file for a closing quote, and
// for the place of `code`, which is replaced in the text as the user wrote it.
#pragma once
#include <cstddef>
#include <optional>
#include <string_view>

namespace gf {

/// Past the closing quote of the scalar that starts at `at` with ' or "; nothing if it is never closed.
[[nodiscard]] inline std::optional<std::size_t> quoted_end(std::string_view s, std::size_t at) {
    const char quote = s[at];
    for (std::size_t i = at + 1; i < s.size(); ++i) {
        if (s[i] == '\\' && quote == '"')
            ++i;
        else if (s[i] == quote && quote == '\'' && i + 1 < s.size() && s[i + 1] == quote)
            ++i;
        else if (s[i] == quote)
            return i + 1;
    }
    return std::nullopt;
}

}  // namespace gf
