// How long spot capacity lasts, and how long it stays away, by the age of the spell. Fresh capacity is the
// most fragile: of what has just come up a third is gone within ten minutes, of what has stood for ten hours
// less than one in a hundred.
//
// The two tables are means of the three that docs/spot.md gives (V100 2023, K80 and V100 2022, H100 2025;
// they hardly differ); no other number is taken from any trace. A multiplier m says how much worse (above 1)
// or better than the table a place is.
#pragma once

namespace gf {

enum class Spell { up, down };

/// Chance per hour, as a rate, that a spell of this age (hours, not negative) ends.
[[nodiscard]] double spell_rate(Spell spell, double age_h);

/// Integral of the rate from one age to another (hours): how many ends a spell that lived through this was
/// expected to see.
[[nodiscard]] double spell_hazard(Spell spell, double from_h, double to_h);

/// Expected hours until the spell ends, seen no further than `horizon_h`, for a rate that is `multiplier`
/// times the table's.
[[nodiscard]] double spell_remaining(Spell spell, double age_h, double multiplier, double horizon_h);

/// A spell that was under way at the first look is taken to be this old: whoever looks at any time rather
/// hits a long spell.
inline constexpr double kUnseenAgeHours = 4.0;

}  // namespace gf
