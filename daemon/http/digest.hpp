// HMAC, random tokens and comparisons, by OpenSSL. The plain SHA-256 is checkpoints/digest.hpp's.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace gf::http {

[[nodiscard]] std::string hmac_sha256_hex(std::string_view key, std::string_view text);
/// `bytes` from the system's generator, in hex. For keys and tokens.
[[nodiscard]] std::string random_hex(std::size_t bytes);
/// In time that does not depend on where they differ.
[[nodiscard]] bool equal_constant_time(std::string_view a, std::string_view b);

}  // namespace gf::http
