// From a model's config.json, as the hubs keep it beside the weights, to the named counts of a shape that an
// estimate takes
// ("layers", "hidden", …). Pure.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "config/node.hpp"

namespace gf {

/// Knows the names of the usual decoders (llama, qwen, mistral, gemma, phi, falcon, gpt_neox, gpt2, opt,
/// bloom, mpt, mixtures of experts, DeepSeek's latent attention) and the language part of models with several
/// ("text_config"). Counts that are not there are left out. Errors: `invalid` with the field, when it is not
/// a mapping or lacks the number of layers, the width or the heads.
Result<std::vector<std::pair<std::string, std::string>>> shape_of_model_config(const Node& config);

}  // namespace gf
