// From a list of the API to a table: which members become which columns.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/table.hpp"

namespace gf::cli {

enum class Shape : std::uint8_t {
    text,
    state,    // a state of DESIGN section 5, coloured
    dollars,  // decimal dollars
    bytes,    // a whole number of bytes
    age,      // a time, shown as how long ago
    number,   // right-aligned
    yes,      // a boolean, shown as "yes" or nothing
    list,     // a list of texts, joined by blanks
};

struct Column {
    std::string heading;
    std::vector<std::string> keys;  // the first that is there; dots go into objects ("offer.gpu.canonical")
    Shape shape{Shape::text};
    bool always{false};  // shown even when no row has it
};

/// Columns for which no row has a value are dropped, unless `always`.
[[nodiscard]] Table table_of(const nlohmann::json& rows, const std::vector<Column>& columns,
                             std::int64_t now_ms);

/// The colour in which a state is shown: good when it is over well or at work, bad when it failed.
[[nodiscard]] Colour colour_of_state(const std::string& state);

}  // namespace gf::cli
