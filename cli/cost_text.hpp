// The cost table: one line per span of a machine, a total that adds up, and "at least" where a rate is not
// known.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cli/table.hpp"

namespace gf::cli {

/// `cost` as the API answers it: total, at_least, lines.
[[nodiscard]] std::string cost_text(const nlohmann::json& cost, const Style& style);

}  // namespace gf::cli
