// The text form of a seal: one small JSON object, see docs/checkpoint-format.md.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "checkpoints/store.hpp"

namespace gf::checkpoints {

[[nodiscard]] std::string encode_seal(const Seal& seal);
/// Nothing for any text that is not a seal of format 1.
[[nodiscard]] std::optional<Seal> decode_seal(std::string_view text);

}  // namespace gf::checkpoints
