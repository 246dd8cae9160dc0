// Users' secrets at rest. A value is sealed with AES-256-GCM under a key that is derived (HKDF-SHA-256, a label of its own)
// from the installation's key, which is a file beside the database and never in it: a copy of the database alone opens
// nothing. The secret's name is bound into the seal, so that a row cannot be passed off under another name.
//
// A sealed text is "gfs1:KEY:HEX": KEY names the key (8 hex digits derived from it, of no use to find it), HEX is
// 12 bytes of random nonce, the ciphertext, and 16 bytes of tag, in lower-case hex.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "model/result.hpp"
#include "model/secret.hpp"

namespace gf {

class SecretSeal {
 public:
    /// `install_key`: DataDir::install_key. Its text is not kept.
    explicit SecretSeal(const Secret& install_key);
    ~SecretSeal();
    SecretSeal(const SecretSeal&) = delete;
    SecretSeal& operator=(const SecretSeal&) = delete;

    /// Never twice the same text. Any thread.
    [[nodiscard]] std::string seal(std::string_view name, const Secret& value) const;
    /// Errors name the secret and never hold a byte of it: `auth` when it was sealed with another key, `malformed` when the
    /// text is not whole or belongs to another name. Any thread.
    [[nodiscard]] Result<Secret> open(std::string_view name, std::string_view sealed) const;

 private:
    std::array<unsigned char, 32> key_{};
    std::string key_name_;
};

/// Bytes of the value in a sealed text, without opening it; nothing for a text that is none.
[[nodiscard]] std::optional<std::int64_t> sealed_value_bytes(std::string_view sealed);

}  // namespace gf
