// A decision of the scheduler as people read it: the offer that was chosen with its price lines, how many
// were refused for which reason, those that nearly fitted, and why a job waits.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cli/table.hpp"

namespace gf::cli {

[[nodiscard]] std::string explain_text(const nlohmann::json& explanation, const Style& style);
/// "vastai 18442711, 1x RTX 4090, spot" of an offer; empty when there is none.
[[nodiscard]] std::string offer_line(const nlohmann::json& offer);
/// "RTX 4090: 2x" style name of an offer's GPUs.
[[nodiscard]] std::string gpu_of(const nlohmann::json& offer);

}  // namespace gf::cli
