#include "cli/table.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdint>

namespace gf::cli {
namespace {

// Columns are not cut below the first; while others can go, what always stays is not cut below the second.
constexpr int kNarrow = 12;
constexpr int kReadable = 30;

struct Decoded {
    char32_t code{0};
    std::size_t size{0};  // 0 = not valid UTF-8 here
};

Decoded decode(std::string_view text) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned first = byte(0);
    if (first < 0x80) return {first, 1};
    const std::size_t size = first >= 0xF0 && first < 0xF5 ? 4U
                             : first >= 0xE0               ? 3U
                             : first >= 0xC2               ? 2U
                                                           : 0U;
    if (size == 0 || first > 0xF4 || text.size() < size) return {};
    char32_t code = first & (0x7FU >> size);
    for (std::size_t i = 1; i < size; ++i) {
        if ((byte(i) & 0xC0U) != 0x80U) return {};
        code = (code << 6) | (byte(i) & 0x3FU);
    }
    constexpr std::array<char32_t, 5> smallest{0, 0, 0x80, 0x800, 0x10000};
    if (code < smallest[size] || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return {};
    return {code, size};
}

bool changes_the_terminal(char32_t c) {
    return c < 0x20 || (c >= 0x7F && c < 0xA0) || (c >= 0x200E && c <= 0x200F) ||
           (c >= 0x202A && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069) || c == 0x2028 || c == 0x2029 ||
           c == 0xFEFF;
}

int width_of(char32_t c) {
    if ((c >= 0x300 && c <= 0x36F) || (c >= 0x200B && c <= 0x200D) || (c >= 0xFE00 && c <= 0xFE0F)) return 0;
    const bool wide = (c >= 0x1100 && c <= 0x115F) || (c >= 0x2E80 && c <= 0xA4CF) ||
                      (c >= 0xAC00 && c <= 0xD7A3) || (c >= 0xF900 && c <= 0xFAFF) ||
                      (c >= 0xFE30 && c <= 0xFE6F) || (c >= 0xFF00 && c <= 0xFF60) ||
                      (c >= 0x1F300 && c <= 0x1FAFF) || (c >= 0x20000 && c <= 0x3FFFD);
    return wide ? 2 : 1;
}

/// Cuts to `columns` with an ellipsis; never inside a character.
std::string fitted(const std::string& text, int columns) {
    if (display_width(text) <= columns) return text;
    std::string cut;
    int used = 0;
    for (std::string_view rest = text; !rest.empty();) {
        const auto d = decode(rest);
        const auto size = std::max<std::size_t>(d.size, 1);
        if (used + width_of(d.code) > columns - 1) break;
        used += width_of(d.code);
        cut += rest.substr(0, size);
        rest.remove_prefix(size);
    }
    return cut + "…";
}

}  // namespace

Style::Style(const Environment& env)
    : terminal_(env.out_is_terminal),
      colour_(env.out_is_terminal && !(env.variable && !env.variable("NO_COLOR").value_or("").empty()) &&
              !(env.variable && env.variable("TERM").value_or("") == "dumb")),
      columns_(std::max(env.columns, 40)) {}

std::string Style::paint(Colour colour, std::string_view text) const {
    if (!colour_ || colour == Colour::none) return std::string(text);
    const char* code = "0";
    switch (colour) {
        case Colour::none:
            break;
        case Colour::good:
            code = "32";
            break;
        case Colour::warn:
            code = "33";
            break;
        case Colour::bad:
            code = "31";
            break;
        case Colour::dim:
            code = "2";
            break;
        case Colour::strong:
            code = "1";
            break;
    }
    return fmt::format("\x1b[{}m{}\x1b[0m", code, text);
}

std::string shown(std::string_view text) {
    std::string safe;
    safe.reserve(text.size());
    while (!text.empty()) {
        const auto d = decode(text);
        if (d.size == 0) {
            safe += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
            text.remove_prefix(1);
            continue;
        }
        if (!changes_the_terminal(d.code))
            safe += text.substr(0, d.size);
        else if (d.code < 0x100)
            safe += fmt::format("\\x{:02x}", static_cast<std::uint32_t>(d.code));
        else
            safe += fmt::format("\\u{{{:x}}}", static_cast<std::uint32_t>(d.code));
        text.remove_prefix(d.size);
    }
    return safe;
}

int display_width(std::string_view text) {
    int width = 0;
    while (!text.empty()) {
        const auto d = decode(text);
        width += d.size == 0 ? 1 : width_of(d.code);
        text.remove_prefix(std::max<std::size_t>(d.size, 1));
    }
    return width;
}

std::string Table::print(const Style& style) const {
    const std::size_t columns = headings_.size();
    std::vector<int> widths(columns, 0);
    std::vector<bool> right(columns, false);
    std::vector<std::string> names(columns);
    for (std::size_t c = 0; c < columns; ++c) {
        right[c] = headings_[c].starts_with('>');
        names[c] = right[c] ? headings_[c].substr(1) : headings_[c];
        widths[c] = display_width(names[c]);
    }
    for (const auto& row : rows_)
        for (std::size_t c = 0; c < columns && c < row.size(); ++c)
            widths[c] = std::max(widths[c], display_width(shown(row[c].text)));
    // On a terminal columns that one can do without go, then the widest give way, until a line fits; a pipe gets everything.
    std::vector<bool> hidden(columns, false);
    std::string left_out;
    if (style.terminal() && columns > 0) {
        const auto total = [&](int optional_most, int other_most) {
            int sum = -2;
            for (std::size_t c = 0; c < columns; ++c)
                if (!hidden[c]) sum += 2 + std::min(widths[c], c < optional_.size() && optional_[c] ? optional_most : other_most);
            return sum;
        };
        for (std::size_t c = columns; c-- > 0 && total(kNarrow, kReadable) > style.columns();) {
            if (c >= optional_.size() || !optional_[c]) continue;
            hidden[c] = true;
            widths[c] = 0;
            left_out = names[c] + (left_out.empty() ? "" : ", ") + left_out;
        }
        for (int now = total(INT_MAX, INT_MAX); now > style.columns(); --now) {
            auto widest = std::max_element(widths.begin(), widths.end());
            if (*widest <= kNarrow) break;
            --*widest;
        }
    }
    std::string out;
    const auto line = [&](const auto& cell_of, const auto& colour_of) {
        std::string text;
        std::size_t last_shown = columns - 1;
        while (last_shown > 0 && hidden[last_shown]) --last_shown;
        for (std::size_t c = 0; c < columns; ++c) {
            if (hidden[c]) continue;
            const auto cell = fitted(cell_of(c), widths[c]);
            const auto pad =
                std::string(static_cast<std::size_t>(std::max(0, widths[c] - display_width(cell))), ' ');
            const bool last = c == last_shown;
            if (right[c]) text += pad;
            text += style.paint(colour_of(c), cell);
            if (!right[c] && !last) text += pad;
            if (!last) text += "  ";
        }
        out += text + "\n";
    };
    line([&](std::size_t c) { return names[c]; }, [](std::size_t) { return Colour::strong; });
    for (const auto& row : rows_)
        line([&](std::size_t c) { return c < row.size() ? shown(row[c].text) : std::string{}; },
             [&](std::size_t c) { return c < row.size() ? row[c].colour : Colour::none; });
    if (!left_out.empty())
        out += style.paint(Colour::dim, "not shown: " + left_out + "; a wider terminal or --json has them") + "\n";
    return out;
}

}  // namespace gf::cli
