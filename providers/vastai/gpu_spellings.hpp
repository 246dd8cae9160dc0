// The names that Vast.ai gives to GPUs. Which card a name stands for is the alias table's to say.
#pragma once
#include <string>
#include <vector>

#include "providers/gpu_lookup.hpp"

namespace gf::vastai {

/// Every name, spelled with spaces as in the rows, that can stand for one of these cards. Nothing when one of them has no
/// name here: a search by the others' names would lose its offers.
[[nodiscard]] std::vector<std::string> spellings_of(const std::vector<std::string>& canonical,
                                                    const GpuLookup& lookup);

}  // namespace gf::vastai
