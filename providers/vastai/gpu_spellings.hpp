// The names that Vast.ai gives to GPUs. Which card a name stands for is the alias table's to say.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "providers/gpu_lookup.hpp"

namespace gf::vastai {

/// Every name, spelled with spaces as in the rows, that can stand for one of these cards. A card that has no
/// name here is not to be had there; nothing when none of them has one.
[[nodiscard]] std::vector<std::string> spellings_of(const std::vector<std::string>& canonical,
                                                    const GpuLookup& lookup);

/// Every card that this name can stand for: one name may hide several memory sizes.
[[nodiscard]] std::vector<std::string> cards_of(std::string_view name, const GpuLookup& lookup);

}  // namespace gf::vastai
