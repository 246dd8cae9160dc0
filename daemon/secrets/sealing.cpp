#include "daemon/secrets/sealing.hpp"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/rand.h>

#include <memory>
#include <span>

namespace gf {
namespace {

constexpr std::string_view kMagic = "gfs1:";
constexpr std::size_t kKeyNameSize = 8;
constexpr std::size_t kNonceBytes = 12;
constexpr std::size_t kTagBytes = 16;
constexpr std::size_t kHeadSize = kMagic.size() + kKeyNameSize + 1;

using Context = std::unique_ptr<EVP_CIPHER_CTX, decltype(&EVP_CIPHER_CTX_free)>;

const unsigned char* bytes(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }
unsigned char* bytes(std::string& text) { return reinterpret_cast<unsigned char*>(text.data()); }
int size_of(std::string_view text) { return static_cast<int>(text.size()); }

std::string hex(std::string_view raw) {
    static constexpr std::string_view digits = "0123456789abcdef";
    std::string out;
    out.reserve(raw.size() * 2);
    for (const char c : raw) {
        out += digits[static_cast<unsigned char>(c) >> 4U];
        out += digits[static_cast<unsigned char>(c) & 15U];
    }
    return out;
}

std::optional<std::string> unhex(std::string_view text) {
    const auto digit = [](char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; };
    if (text.size() % 2 != 0) return std::nullopt;
    std::string out;
    out.reserve(text.size() / 2);
    for (std::size_t i = 0; i < text.size(); i += 2) {
        const int high = digit(text[i]), low = digit(text[i + 1]);
        if (high < 0 || low < 0) return std::nullopt;
        out += static_cast<char>(high << 4 | low);
    }
    return out;
}

void derive(std::string_view from, std::string_view label, std::span<unsigned char> out) {
    const std::unique_ptr<EVP_KDF, decltype(&EVP_KDF_free)> kdf(EVP_KDF_fetch(nullptr, "HKDF", nullptr), EVP_KDF_free);
    GF_ASSERT(kdf != nullptr);
    const std::unique_ptr<EVP_KDF_CTX, decltype(&EVP_KDF_CTX_free)> context(EVP_KDF_CTX_new(kdf.get()), EVP_KDF_CTX_free);
    GF_ASSERT(context != nullptr);
    std::string digest = "SHA256", key(from), info(label);
    const OSSL_PARAM how[] = {OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest.data(), 0),
                              OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, key.data(), key.size()),
                              OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, info.data(), info.size()),
                              OSSL_PARAM_construct_end()};
    GF_ASSERT(EVP_KDF_derive(context.get(), out.data(), out.size(), how) == 1);
    OPENSSL_cleanse(key.data(), key.size());
}

std::string bound_name(std::string_view name) { return "gpuferry secret\n" + std::string(name); }

}  // namespace

SecretSeal::SecretSeal(const Secret& install_key) {
    derive(install_key.reveal(), "gpuferry secrets: sealing key 1", key_);
    std::array<unsigned char, kKeyNameSize / 2> name{};
    derive(install_key.reveal(), "gpuferry secrets: name of sealing key 1", name);
    key_name_ = hex({reinterpret_cast<const char*>(name.data()), name.size()});
}

SecretSeal::~SecretSeal() { OPENSSL_cleanse(key_.data(), key_.size()); }

std::string SecretSeal::seal(std::string_view name, const Secret& value) const {
    const std::string& plain = value.reveal();
    std::string nonce(kNonceBytes, '\0'), hidden(plain.size(), '\0'), tag(kTagBytes, '\0');
    // A generator that fails is a broken system, and a nonce that comes twice would open both values.
    GF_ASSERT(RAND_bytes(bytes(nonce), static_cast<int>(nonce.size())) == 1);
    const Context context(EVP_CIPHER_CTX_new(), EVP_CIPHER_CTX_free);
    GF_ASSERT(context != nullptr);
    GF_ASSERT(EVP_EncryptInit_ex2(context.get(), EVP_aes_256_gcm(), key_.data(), bytes(std::string_view(nonce)), nullptr) == 1);
    const std::string bound = bound_name(name);
    int done = 0;
    GF_ASSERT(EVP_EncryptUpdate(context.get(), nullptr, &done, bytes(std::string_view(bound)), size_of(bound)) == 1);
    GF_ASSERT(EVP_EncryptUpdate(context.get(), bytes(hidden), &done, bytes(std::string_view(plain)), size_of(plain)) == 1);
    unsigned char rest[kTagBytes];  // GCM leaves nothing for the end, but wants a place for it
    GF_ASSERT(EVP_EncryptFinal_ex(context.get(), rest, &done) == 1);
    GF_ASSERT(EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_GET_TAG, kTagBytes, tag.data()) == 1);
    return std::string(kMagic) + key_name_ + ":" + hex(nonce + hidden + tag);
}

Result<Secret> SecretSeal::open(std::string_view name, std::string_view sealed) const {
    const auto broken = [&](std::string_view how) {
        return fail(ErrorKind::malformed, "secret " + std::string(name) + " cannot be opened: what is stored " + std::string(how) + "; set it again");
    };
    if (!sealed_value_bytes(sealed)) return broken("is not a sealed value");
    if (sealed.substr(kMagic.size(), kKeyNameSize) != key_name_)
        return fail(ErrorKind::auth, "secret " + std::string(name) +
                                         " cannot be opened: it was sealed with another key than this data folder's install_key; "
                                         "put that file back, or set the secret again");
    const auto raw = unhex(sealed.substr(kHeadSize));
    if (!raw) return broken("is not a sealed value");
    const std::string_view all(*raw);
    const auto nonce = all.substr(0, kNonceBytes);
    const auto hidden = all.substr(kNonceBytes, all.size() - kNonceBytes - kTagBytes);
    std::string tag(all.substr(all.size() - kTagBytes)), plain(hidden.size(), '\0');
    const Context context(EVP_CIPHER_CTX_new(), EVP_CIPHER_CTX_free);
    GF_ASSERT(context != nullptr);
    GF_ASSERT(EVP_DecryptInit_ex2(context.get(), EVP_aes_256_gcm(), key_.data(), bytes(nonce), nullptr) == 1);
    const std::string bound = bound_name(name);
    int done = 0;
    unsigned char rest[kTagBytes];
    const bool whole = EVP_DecryptUpdate(context.get(), nullptr, &done, bytes(std::string_view(bound)), size_of(bound)) == 1 &&
                       EVP_DecryptUpdate(context.get(), bytes(plain), &done, bytes(hidden), size_of(hidden)) == 1 &&
                       EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_SET_TAG, kTagBytes, tag.data()) == 1 &&
                       EVP_DecryptFinal_ex(context.get(), rest, &done) == 1;
    if (!whole) {
        OPENSSL_cleanse(plain.data(), plain.size());
        return broken("was changed, or belongs to another name");
    }
    return Secret{std::move(plain)};
}

std::optional<std::int64_t> sealed_value_bytes(std::string_view sealed) {
    constexpr std::size_t kLeast = kHeadSize + 2 * (kNonceBytes + kTagBytes + 1);
    if (!sealed.starts_with(kMagic) || sealed.size() < kLeast || sealed[kHeadSize - 1] != ':' || (sealed.size() - kHeadSize) % 2 != 0)
        return std::nullopt;
    return static_cast<std::int64_t>((sealed.size() - kHeadSize) / 2 - kNonceBytes - kTagBytes);
}

}  // namespace gf
