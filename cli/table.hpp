// Tables and colour for people. Colour and fitting to the width only where a terminal is there and NO_COLOR
// is not set; into a pipe the same cells go out plain, two spaces apart, so that they can be cut with
// ordinary tools.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "cli/environment.hpp"

namespace gf::cli {

enum class Colour { none, good, warn, bad, dim, strong };

class Style {
 public:
    explicit Style(const Environment& env);
    [[nodiscard]] std::string paint(Colour colour, std::string_view text) const;
    [[nodiscard]] bool terminal() const { return terminal_; }
    [[nodiscard]] int columns() const { return columns_; }

 private:
    bool terminal_;
    bool colour_;
    int columns_;
};

/// Text from elsewhere, made safe for a terminal: control characters and the marks that turn the writing
/// direction are shown as \xNN or \u{NNNN}; bytes that are not UTF-8 as \xNN.
[[nodiscard]] std::string shown(std::string_view text);

/// Columns that the text takes on a terminal; wide East Asian characters and most emoji take two.
[[nodiscard]] int display_width(std::string_view text);

struct Cell {
    std::string text;
    Colour colour{Colour::none};
};

class Table {
 public:
    /// Headings that start with '>' are right-aligned (numbers).
    /// `optional`, as long as the headings or empty: columns that a narrow terminal goes without, the last one first; a line below
    /// then names them.
    explicit Table(std::vector<std::string> headings, std::vector<bool> optional = {})
        : headings_(std::move(headings)), optional_(std::move(optional)) {}
    void add(std::vector<Cell> row) { rows_.push_back(std::move(row)); }
    [[nodiscard]] bool empty() const { return rows_.empty(); }
    [[nodiscard]] std::string print(const Style& style) const;

 private:
    std::vector<std::string> headings_;
    std::vector<bool> optional_;
    std::vector<std::vector<Cell>> rows_;
};

}  // namespace gf::cli
