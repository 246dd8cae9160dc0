#include "daemon/http/digest.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <array>

#include "model/result.hpp"

namespace gf::http {
namespace {

std::string hex(const unsigned char* bytes, std::size_t count) {
    static constexpr std::string_view digits = "0123456789abcdef";
    std::string out;
    out.reserve(count * 2);
    for (std::size_t i = 0; i < count; ++i) {
        out += digits[bytes[i] >> 4U];
        out += digits[bytes[i] & 15U];
    }
    return out;
}

}  // namespace

std::string hmac_sha256_hex(std::string_view key, std::string_view text) {
    std::array<unsigned char, EVP_MAX_MD_SIZE> out{};
    unsigned int length = 0;
    const auto* made = HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                            reinterpret_cast<const unsigned char*>(text.data()), text.size(), out.data(), &length);
    GF_ASSERT(made != nullptr);
    return hex(out.data(), length);
}

std::string random_hex(std::size_t bytes) {
    std::string raw(bytes, '\0');
    auto* data = reinterpret_cast<unsigned char*>(raw.data());
    // A generator that fails is a broken system: going on would hand out guessable tokens.
    GF_ASSERT(RAND_bytes(data, static_cast<int>(bytes)) == 1);
    return hex(data, bytes);
}

bool equal_constant_time(std::string_view a, std::string_view b) {
    return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace gf::http
