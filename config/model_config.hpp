// From a model's config.json, as the hubs keep it beside the weights, to the named counts of a shape that an
// estimate takes
// ("layers", "hidden", …). Pure.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "config/node.hpp"

namespace gf {

/// Fields for `read_estimate_request`: the counts of a shape, `counted_b` (all parameters, counted layer by
/// layer: mixtures with shared experts and dense layers between, latent attention, blocks that differ, hybrids
/// with few layers of attention, a vision tower), `native_dtype` (of its quantization_config or torch_dtype),
/// `assumed` where a nested config leaves out what its class has by default, and `not_counted` for each part
/// that is left out, an architecture that is not known included. The language part of models with several
/// ("text_config", "llm_config") is read in their place; of encoder-decoders (T5, BART) both stacks.
/// Errors: `invalid` with the field ("config.hidden_size") and what to give instead, when it is not a mapping,
/// lacks a number of layers, width, heads or vocabulary, or is of a kind whose memory does not follow from it
/// (whisper).
Result<std::vector<std::pair<std::string, std::string>>> shape_of_model_config(const Node& config);

}  // namespace gf
