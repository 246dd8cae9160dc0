// Where a machine may stand: ISO 3166-1 alpha-2 country codes and the group names that a spec may use for
// many of them.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gf {

/// The canonical spelling of what a user typed: a known country code ("de" gives "DE", "UK" gives "GB") or a
/// group ("eu" gives "EU", "north-america" gives "NORTH_AMERICA"). Nothing for any other text.
[[nodiscard]] std::optional<std::string> canonical_region(std::string_view typed);

/// True if `country` (upper-case code) is `region` or lies in that group. `region` is canonical.
[[nodiscard]] bool in_region(std::string_view country, std::string_view region);

/// Names of the groups, for messages.
[[nodiscard]] const std::vector<std::string_view>& region_groups();

}  // namespace gf
