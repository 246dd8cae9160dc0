#include "checkpoints/digest.hpp"

#include <openssl/evp.h>

#include "model/result.hpp"

namespace gf::checkpoints {

std::string Digest::hex() const {
    static constexpr std::string_view kDigits = "0123456789abcdef";
    std::string out;
    out.reserve(bytes.size() * 2);
    for (const std::uint8_t b : bytes) {
        out += kDigits[b >> 4U];
        out += kDigits[b & 15U];
    }
    return out;
}

std::optional<Digest> Digest::from_hex(std::string_view text) {
    Digest out;
    if (text.size() != out.bytes.size() * 2) return std::nullopt;
    const auto value = [](char c) -> int {
        if (c >= '0' && c <= '9') return c - '0';
        if (c >= 'a' && c <= 'f') return c - 'a' + 10;
        return -1;
    };
    for (std::size_t i = 0; i < out.bytes.size(); ++i) {
        const int high = value(text[2 * i]);
        const int low = value(text[2 * i + 1]);
        if (high < 0 || low < 0) return std::nullopt;
        out.bytes[i] = static_cast<std::uint8_t>(high * 16 + low);
    }
    return out;
}

struct Sha256::Context {
    EVP_MD_CTX* md{EVP_MD_CTX_new()};
    Context() = default;
    Context(const Context&) = delete;
    Context& operator=(const Context&) = delete;
    ~Context() { EVP_MD_CTX_free(md); }
    void start() {
        GF_ASSERT(md != nullptr);
        GF_ASSERT(EVP_DigestInit_ex(md, EVP_sha256(), nullptr) == 1);
    }
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
    context_->start();
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::add(std::string_view bytes) {
    GF_ASSERT(EVP_DigestUpdate(context_->md, bytes.data(), bytes.size()) == 1);
}

Digest Sha256::finish() {
    Digest out;
    unsigned length = 0;
    GF_ASSERT(EVP_DigestFinal_ex(context_->md, out.bytes.data(), &length) == 1);
    GF_ASSERT(length == out.bytes.size());
    context_->start();
    return out;
}

Digest sha256(std::string_view bytes) {
    Sha256 hash;
    hash.add(bytes);
    return hash.finish();
}

}  // namespace gf::checkpoints
