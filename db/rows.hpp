// Reading whole results into vectors.
#pragma once
#include <optional>
#include <vector>

#include "db/columns.hpp"
#include "db/sqlite.hpp"

namespace gf::db {

/// All rows of a bound query; `read_row(query, row)` reads one.
template <class Row, class ReadRow>
std::vector<Row> all_rows(Query& query, ReadRow read_row) {
    std::vector<Row> rows;
    while (query.step()) read_row(query, rows.emplace_back());
    return rows;
}

template <class Row, class ReadRow>
std::optional<Row> one_row(Query& query, ReadRow read_row) {
    std::optional<Row> row;
    if (query.step()) read_row(query, row.emplace());
    return row;
}

}  // namespace gf::db
