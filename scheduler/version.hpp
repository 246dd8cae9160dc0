// Versions such as "12.10", "560.35.03", "535.183.06", compared component by component as numbers: 12.10 is
// above 12.9.
#pragma once
#include <optional>
#include <string_view>

namespace gf {

/// True if `have` >= `least`. A missing component counts as 0. Nothing if either text is not digits and
/// single points, has more than 6 components, or one of more than 9 digits.
[[nodiscard]] std::optional<bool> version_at_least(std::string_view have, std::string_view least);

}  // namespace gf
