// How an adapter learns the canonical name of a GPU. Injected, because the alias table lives with the
// scheduler and this room knows only the model.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "model/bytes.hpp"

namespace gf {

/// (provider as in the alias table: "runpod", "vastai", "nvidia-smi"; name as the provider spells it; memory
/// per GPU if it was told)
/// -> canonical name, or nothing for an unknown or ambiguous one. Called from several threads; must not
/// throw.
using GpuLookup = std::function<std::optional<std::string>(std::string_view provider, std::string_view name,
                                                           std::optional<Bytes> memory)>;

}  // namespace gf
