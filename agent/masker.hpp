// Covers declared secrets in the job's output with as many stars, before a byte of it is written anywhere. A secret that
// is split over two writes is found too: bytes that could be its beginning are held back until the next ones come.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace gf::agent {

class Masker {
 public:
    /// Secrets below four bytes are not masked: stars on every "1" would destroy the log and hide nothing.
    static constexpr std::size_t kSecretBytesMin = 4;

    explicit Masker(std::vector<std::string> secrets);
    /// The bytes that are safe to show now, in order. The length of all outputs is that of all inputs.
    [[nodiscard]] std::string feed(std::string_view bytes);
    /// What was held back; call it at the end of the output.
    [[nodiscard]] std::string finish();

 private:
    /// How many bytes at the end of `held_` are the beginning of some secret.
    [[nodiscard]] std::size_t open_suffix() const;
    [[nodiscard]] std::string emit(std::size_t count);

    std::vector<std::string> secrets_;
    std::string held_;    // as it came
    std::string covered_;  // one byte per byte of held_: '*' where a secret lies
};

}  // namespace gf::agent
