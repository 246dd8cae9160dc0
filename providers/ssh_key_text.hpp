// How an ed25519 public key is written for SSH (RFC 4251, RFC 8709), and base64 (RFC 4648) by OpenSSL. Pure.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace gf {

inline constexpr std::string_view kEd25519Type = "ssh-ed25519";

/// With padding, in one line.
[[nodiscard]] std::string base64(std::string_view bytes);

/// RFC 4251's "uint32": four bytes, most significant first.
void put_ssh_number(std::string& out, std::uint32_t value);
/// Its "string": its length as such a number, then the bytes.
void put_ssh_text(std::string& out, std::string_view text);

/// What stands behind "ssh-ed25519 " before it is made base64. `point` = the 32 bytes of the public key.
[[nodiscard]] std::string ed25519_blob(std::string_view point);

}  // namespace gf
