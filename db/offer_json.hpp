// The offer of a machine as one JSON text: it is read back only as a whole, and providers' offers differ.
#pragma once
#include <string>
#include <string_view>

#include "model/offer.hpp"
#include "model/result.hpp"

namespace gf::db {

/// Absent figures are left out; money stays in micro-dollars. Reading gives an equal offer.
[[nodiscard]] std::string offer_json(const Offer& offer);
/// Errors: `malformed` for a text that `offer_json` cannot have written. Unknown keys are ignored.
Result<Offer> parse_offer_json(std::string_view json);

}  // namespace gf::db
