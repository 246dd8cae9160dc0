// Comma-separated tables as shipped in config/: a header line, quoted fields with doubled quotes, LF or CRLF,
// with or without the mark of UTF-8.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "model/result.hpp"

namespace gf {

struct CsvTable {
    struct Row {
        int line{0};                      // 1-based, of the row's first character
        std::vector<std::string> fields;  // as many as there are columns
    };
    std::vector<std::string> columns;
    std::vector<Row> rows;

    /// Place of a column; `columns.size()` if there is none of that name.
    [[nodiscard]] std::size_t column(std::string_view name) const;
};

/// Errors: `malformed` with the line: no header, a row with another number of fields than the header, an open
/// quote. Empty lines are skipped.
Result<CsvTable> parse_csv(std::string_view text);

}  // namespace gf
