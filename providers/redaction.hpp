// What a provider's words may look like in an error text, a log line or an alert. Providers echo URLs and
// request bodies in their errors; keys, enrol tokens and registry passwords were in those.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "model/secret.hpp"

namespace gf {

inline constexpr std::size_t kForeignTextMax = 400;  // characters kept of a foreign text

/// `text` fit to be shown: every given secret in all its forms (model/secret_forms.hpp), the values after `api_key=`, `token=`
/// and the like, bearer credentials and the query string of any URL are replaced by ***; control characters
/// and broken UTF-8 become spaces; cut at `limit` bytes.
[[nodiscard]] std::string shown(std::string_view text, std::span<const Secret> secrets = {},
                                std::size_t limit = kForeignTextMax);

}  // namespace gf
