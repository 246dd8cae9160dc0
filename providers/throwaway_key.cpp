#include "providers/throwaway_key.hpp"

#include <openssl/evp.h>

#include <array>
#include <memory>

namespace gf {
namespace {

constexpr std::string_view kType = "ssh-ed25519";

/// A length in four bytes, most significant first, and the bytes: how all of SSH writes a text.
void put(std::string& blob, std::string_view bytes) {
    for (int shift = 24; shift >= 0; shift -= 8)
        blob += static_cast<char>(
            static_cast<unsigned char>((bytes.size() >> static_cast<unsigned>(shift)) & 0xFFU));
    blob += bytes;
}

}  // namespace

Result<std::string> throwaway_public_key() {
    const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(
        EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"), &EVP_PKEY_free);
    std::array<unsigned char, 32> raw{};
    std::size_t length = raw.size();
    if (!key || EVP_PKEY_get_raw_public_key(key.get(), raw.data(), &length) != 1 || length != raw.size())
        return fail(ErrorKind::io, "no SSH key could be made: the system gives no randomness");
    std::string blob;
    put(blob, kType);
    put(blob, std::string_view(reinterpret_cast<const char*>(raw.data()), raw.size()));
    std::string base64(4 * ((blob.size() + 2) / 3) + 1, '\0');  // it writes an end mark as well
    EVP_EncodeBlock(reinterpret_cast<unsigned char*>(base64.data()),
                    reinterpret_cast<const unsigned char*>(blob.data()), static_cast<int>(blob.size()));
    base64.pop_back();
    return std::string(kType) + " " + base64 + " gpuferry";
}

}  // namespace gf
