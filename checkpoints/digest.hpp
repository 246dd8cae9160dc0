// SHA-256 as a value. Everything in the checkpoint format is named by one, so that a name can be checked
// against the bytes and can never be a path. The hash itself is OpenSSL's.
#pragma once
#include <array>
#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace gf::checkpoints {

struct Digest {
    std::array<std::uint8_t, 32> bytes{};

    /// 64 lower-case hexadecimal digits.
    [[nodiscard]] std::string hex() const;
    /// Exactly 64 lower-case hexadecimal digits, otherwise nothing.
    [[nodiscard]] static std::optional<Digest> from_hex(std::string_view text);
    friend auto operator<=>(const Digest&, const Digest&) = default;
};

[[nodiscard]] Digest sha256(std::string_view bytes);

/// SHA-256 over bytes that come in pieces. Aborts if the crypto library has no SHA-256: that is a broken
/// build.
class Sha256 {
 public:
    Sha256();
    ~Sha256();
    Sha256(Sha256&&) noexcept;
    Sha256& operator=(Sha256&&) noexcept;
    void add(std::string_view bytes);
    /// The hash of all that was added; the object starts anew afterwards.
    [[nodiscard]] Digest finish();

 private:
    struct Context;
    std::unique_ptr<Context> context_;
};

}  // namespace gf::checkpoints
