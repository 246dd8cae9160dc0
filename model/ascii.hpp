// Letters of ASCII, whatever the locale.
#pragma once
#include <string>
#include <string_view>

namespace gf {

/// A-Z become a-z; every other byte stays.
[[nodiscard]] inline std::string ascii_lower(std::string_view text) {
    std::string out(text);
    for (char& c : out)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return out;
}

}  // namespace gf
