// The Date header of HTTP: "Sun, 06 Nov 1994 08:49:37 GMT" (RFC 9110, IMF-fixdate; the two obsolete forms are not read).
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

namespace gf::cli {

/// Seconds since 1970; nothing for any other text.
[[nodiscard]] std::optional<std::int64_t> parse_http_date(std::string_view text);

}  // namespace gf::cli
