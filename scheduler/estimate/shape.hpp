// The shape of a model, as far as its memory follows from it: counts of layers, heads and widths, from
// config/models.csv, from a hub's config.json, or inferred from the number of parameters. Values; no IO.
#pragma once
#include <cstdint>
#include <string>

#include "model/result.hpp"

namespace gf {

struct ModelShape {
    std::string name;         // hub id, or what the caller called it
    std::string family;       // "Llama", "Qwen"; empty = unknown
    std::string task{"llm"};  // "llm", "seq2seq", "encoder", "vlm", "image", "video", "asr", "tts", "vision"
    double params{0};         // all weights
    double active_params{0};  // those that one token passes; = params for a dense model
    std::int64_t layers{0};   // of one stack
    std::int64_t attention_layers{0};  // of these, those that keep keys and values; 0 = all
    std::int64_t hidden{0};
    std::int64_t heads{0};
    std::int64_t kv_heads{0};
    std::int64_t head_dim{0};
    std::int64_t vocab{0};
    std::int64_t intermediate{0};      // width of the MLP
    bool gated{true};                  // gate, up and down projection; else two matrices
    std::int64_t experts{0};           // 0 = dense
    std::int64_t active_experts{0};    // per token
    std::int64_t moe_intermediate{0};  // width of one expert
    std::int64_t shared_intermediate{0};  // width of what every token passes beside the experts
    std::int64_t kv_latent{0};   // elements per token and layer of a latent cache (MLA); 0 = keys and values
    std::int64_t window{0};      // tokens that a layer with a sliding window sees; 0 = none has one
    std::int64_t full_every{0};  // with a window: each so many-th layer sees everything; 0 = no layer does
    bool tied{false};            // the head is the embedding
    bool concatenated_cache{false};  // the model's own code grows its cache by concatenation: the old and the
                                     // new one live together
    bool inferred{false};            // not known: made up from the number of parameters
    std::string native_dtype;        // how its weights are shipped, as typed; empty = not known
    std::string not_counted;         // what of it these counts leave out; empty = nothing known

    [[nodiscard]] bool expert_mixture() const { return experts > 0; }
    /// Width of the MLP that one token passes.
    [[nodiscard]] double active_width() const {
        return static_cast<double>(expert_mixture() ? active_experts * moe_intermediate + shared_intermediate
                                                    : intermediate);
    }
    [[nodiscard]] double embedding() const { return static_cast<double>(vocab * hidden); }
    [[nodiscard]] double embeddings() const {
        return embedding() * (tied ? 1 : 2);
    }  // with the head, where it is a matrix of its own
    /// What is in the layers.
    [[nodiscard]] double body() const { return params > embeddings() ? params - embeddings() : params; }
    [[nodiscard]] bool has_layers() const { return layers > 0 && hidden > 0 && heads > 0; }
};

/// Parameters that follow from the counts: attention, MLP or experts, embedding and head.
[[nodiscard]] double counted_params(const ModelShape& shape);

/// Whether every count is in its range, so that no product of them overflows. Errors: `invalid` with the
/// field ("layers").
Result<void> check_shape(const ModelShape& shape);

/// A likely shape for a decoder with so many parameters (1e6 to 1e13), of which one token passes `active` (=
/// `params` when dense). Marked `inferred`; the parameters are exactly those given.
[[nodiscard]] ModelShape inferred_shape(std::string name, double params, double active);

/// Active parameters as a name tells them ("Qwen3-30B-A3B": 3e9); 0 when it does not.
[[nodiscard]] double active_params_in_name(std::string_view name);

}  // namespace gf
