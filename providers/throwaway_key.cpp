#include "providers/throwaway_key.hpp"

#include <openssl/evp.h>

#include <array>
#include <memory>

#include "providers/ssh_key_text.hpp"

namespace gf {

Result<std::string> throwaway_public_key() {
    const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(
        EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"), &EVP_PKEY_free);
    std::array<unsigned char, 32> raw{};
    std::size_t length = raw.size();
    if (!key || EVP_PKEY_get_raw_public_key(key.get(), raw.data(), &length) != 1 || length != raw.size())
        return fail(ErrorKind::io, "no SSH key could be made: the system gives no randomness");
    const auto blob = ed25519_blob(std::string_view(reinterpret_cast<const char*>(raw.data()), raw.size()));
    return std::string(kEd25519Type) + " " + base64(blob) + " gpuferry";
}

}  // namespace gf
