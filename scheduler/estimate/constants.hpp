// The constants of the estimate, by program. What follows from the shape of a model is in the formulas
// (inference.cpp, training.cpp); what a program adds by its own habits is here, each by the mechanism that
// causes it. `neutral` has the values of the literature for a program of which nothing is known; `shipped`
// has those of the programs that were measured (docs/estimate.md says on what).
#pragma once
#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "scheduler/estimate/request.hpp"

namespace gf {

inline constexpr std::size_t kStacks = 16;  // as many as Stack has

struct InferenceConstants {
    double fixed_gib{0.25};   // workspaces of cuBLAS, kernels' tables
    double split_gib{0.3};    // on each of several GPUs: buffers of the transfer, uneven halves
    double share{0.01};       // of quantised weights: padding
    double scratch{2};        // times the largest matrix, which is dequantised and transposed
    double chunk{8192};       // prompt tokens that pass at once
    double prompt_logits{0};  // bytes per prompt token and entry of the vocabulary; 0 = only the last token's
    double score_bytes{
        0};  // per attention score of a prompt, where the program writes them out for grouped heads
};

struct TrainingConstants {
    double fixed_gib{
        1.2};  // with what the driver counts and fragmentation, as most published figures have it
    double fixed_torch_gib{0.3};  // where PyTorch's own counters were read
    double adapter_bytes{16};     // per adapter parameter: weight, gradient, two moments, and copies
    double logits{10};            // bytes per token and entry of the vocabulary
    double activations{1};        // of the formula's
};

/// What a program does differently, as facts and not as figures.
struct StackTraits {
    bool fuses_qkv{false};           // joins the three projections while it loads: both copies live together
    bool head_quantised{false};      // by bitsandbytes, like any other matrix
    bool token_by_token{false};      // the prompt passes one token at a time
    bool pure_low_precision{false};  // 16-bit weights, gradients and optimiser states
    bool double_quant{false};        // NF4 with quantised scales, unless told otherwise
    bool query_value{false};         // adapters on query and value only, unless told otherwise
    bool windowed_cache{true};       // a sliding window bounds the cache
};

struct Constants {
    std::array<InferenceConstants, kStacks> inference{};
    std::array<TrainingConstants, kStacks> training{};
    double concatenated_cache{2.0};  // times the cache, where it grows by concatenation
    double concatenated_gib{0.25};
    double quantised_inputs{
        2};  // bytes per element of a quantised layer's input that is kept for the backward pass
    double bucket_factor{4.5};  // of DeepSpeed's two buckets of 5e8 elements, with overlapped communication
    double bucket_fixed_gib{1.2};
    double mixture_gather{2};       // times what sharding gathers, for layers of experts
    double sharded_fixed_gib{0.5};  // on each GPU of a sharded training

    [[nodiscard]] const InferenceConstants& infer(Stack stack) const {
        return inference[static_cast<std::size_t>(stack)];
    }
    [[nodiscard]] const TrainingConstants& train(Stack stack) const {
        return training[static_cast<std::size_t>(stack)];
    }
    [[nodiscard]] static Constants neutral();
    [[nodiscard]] static const Constants& shipped();
};

[[nodiscard]] StackTraits traits_of(Stack stack);

/// One constant that a fit may move, between two bounds.
struct Tunable {
    std::string name;  // "training.peft.logits"
    double* value{nullptr};
    double least{0};
    double most{0};
};
/// All that were fitted for `shipped`; the pointers are into `constants`.
[[nodiscard]] std::vector<Tunable> tunables(Constants& constants);

}  // namespace gf
