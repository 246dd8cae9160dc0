#include "scheduler/estimate/shape.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <tuple>
#include <utility>

namespace gf {
namespace {

struct Anchor {
    double params;
    double layers;
    double hidden;
};
// Published decoders of the years 2023 to 2025, by size: SmolLM2, Qwen2.5-0.5B, Qwen3-1.7B, Llama-3.2-3B,
// Llama-3-8B, Qwen3-14B, Mistral-Small-24B, Qwen3-32B, Llama-3-70B, Mistral-Large, Llama-3.1-405B.
constexpr std::array<Anchor, 11> kAnchors{{{0.13e9, 30, 576},
                                           {0.5e9, 24, 1024},
                                           {1.3e9, 24, 2048},
                                           {3.2e9, 28, 3072},
                                           {7.5e9, 32, 4096},
                                           {14e9, 40, 5120},
                                           {24e9, 40, 5120},
                                           {32e9, 64, 5120},
                                           {70e9, 80, 8192},
                                           {120e9, 88, 12288},
                                           {405e9, 126, 16384}}};
constexpr double kTiedBelow = 4e9;  // smaller decoders share embedding and head
constexpr std::int64_t kHeadDim = 128;
constexpr std::int64_t kKvHeads = 8;

std::pair<double, double> layers_and_hidden(double params) {
    if (params <= kAnchors.front().params) return {kAnchors.front().layers, kAnchors.front().hidden};
    for (std::size_t i = 1; i < kAnchors.size(); ++i) {
        const Anchor& low = kAnchors[i - 1];
        const Anchor& high = kAnchors[i];
        if (params > high.params) continue;
        const double t = std::log(params / low.params) / std::log(high.params / low.params);
        return {std::round(low.layers + (high.layers - low.layers) * t),
                std::round((low.hidden + (high.hidden - low.hidden) * t) / 128) * 128};
    }
    return {kAnchors.back().layers, kAnchors.back().hidden};
}

double attention_params(const ModelShape& s) {
    const auto h = static_cast<double>(s.hidden);
    const auto q = static_cast<double>(s.heads * s.head_dim);
    const auto kv = static_cast<double>(s.kv_heads * s.head_dim);
    return 2 * h * q + 2 * h * kv;
}

}  // namespace

double counted_params(const ModelShape& s) {
    const auto h = static_cast<double>(s.hidden);
    const double matrices = s.gated ? 3 : 2;
    const double mlp = s.expert_mixture() ? static_cast<double>(s.experts) * matrices * h *
                                                    static_cast<double>(s.moe_intermediate) +
                                                matrices * h * static_cast<double>(s.shared_intermediate) +
                                                h * static_cast<double>(s.experts)
                                          : matrices * h * static_cast<double>(s.intermediate);
    return static_cast<double>(s.layers) * (attention_params(s) + mlp) + s.embeddings();
}

Result<void> check_shape(const ModelShape& s) {
    using Limit = std::tuple<std::string_view, std::int64_t, std::int64_t, std::int64_t>;
    const std::array<Limit, 16> limits{
        {{"layers", s.layers, 0, 10'000},
         {"hidden", s.hidden, 0, 1'000'000},
         {"heads", s.heads, 0, 100'000},
         {"kv_heads", s.kv_heads, 0, 100'000},
         {"head_dim", s.head_dim, 0, 100'000},
         {"vocab", s.vocab, 0, 100'000'000},
         {"intermediate", s.intermediate, 0, 10'000'000},
         {"experts", s.experts, 0, 100'000},
         {"active_experts", s.active_experts, 0, 100'000},
         {"moe_intermediate", s.moe_intermediate, 0, 10'000'000},
         {"shared_intermediate", s.shared_intermediate, 0, 10'000'000},
         {"attention_layers", s.attention_layers, 0, s.layers},
         {"kv_latent", s.kv_latent, 0, 1'000'000},
         {"window", s.window, 0, 100'000'000},
         {"full_attention_every", s.full_every, 0, 10'000},
         {"active_experts", s.active_experts, 0, std::max<std::int64_t>(s.experts, 0)}}};
    for (const auto& [field, value, least, most] : limits)
        if (value < least || value > most)
            return fail(Error{.kind = ErrorKind::invalid,
                              .message = std::string(field) + " must be from " + std::to_string(least) +
                                         " to " + std::to_string(most) + ", not " + std::to_string(value),
                              .field = std::string(field)});
    if (!(s.params >= 1e5 && s.params <= 1e14))
        return fail(Error{.kind = ErrorKind::invalid,
                          .message = "the model must have from 100 thousand to 100,000 billion parameters",
                          .field = "params_b"});
    return {};
}

ModelShape inferred_shape(std::string name, double params, double active) {
    ModelShape s;
    s.name = std::move(name);
    s.inferred = true;
    s.params = params;
    s.active_params = std::clamp(active, 0.0, params);
    const bool mixture = active > 0 && active < 0.7 * params;
    // A mixture is as wide as a dense model of what one token passes, and as deep as one between that and the
    // whole.
    const auto [layers, hidden] = layers_and_hidden(mixture ? active : params);
    s.hidden = static_cast<std::int64_t>(hidden);
    s.layers =
        static_cast<std::int64_t>(mixture ? layers_and_hidden(std::sqrt(active * params)).first : layers);
    s.head_dim = kHeadDim;
    s.heads = std::max<std::int64_t>(1, s.hidden / kHeadDim);
    s.kv_heads = std::min(kKvHeads, s.heads);
    s.vocab = params > 0.3e9 ? 131'072 : 49'152;
    s.tied = (mixture ? active : params) < kTiedBelow && !mixture;
    const double left = (mixture ? active : params) - s.embeddings();
    const double per_layer = left / static_cast<double>(s.layers) - attention_params(s);
    const double width = per_layer / (3 * hidden);
    s.intermediate = static_cast<std::int64_t>(std::clamp(width, hidden / 2, 8 * hidden));
    if (mixture) {
        s.active_experts = 8;
        s.moe_intermediate = std::max<std::int64_t>(1, s.intermediate / s.active_experts);
        const double body = params - s.embeddings() - static_cast<double>(s.layers) * attention_params(s);
        const double one =
            3 * hidden * static_cast<double>(s.moe_intermediate) * static_cast<double>(s.layers);
        s.experts = std::max<std::int64_t>(s.active_experts, static_cast<std::int64_t>(body / one));
    }
    return s;
}

double active_params_in_name(std::string_view name) {
    // "-A3B", "-A22B", "-A1.7B" at the end of a word.
    for (std::size_t at = 0; at + 2 < name.size(); ++at) {
        if (name[at] != '-' || (name[at + 1] != 'A' && name[at + 1] != 'a')) continue;
        double value = 0;
        double scale = 1;
        bool point = false;
        std::size_t i = at + 2;
        for (; i < name.size() && i < at + 10; ++i) {
            const char c = name[i];
            if (c >= '0' && c <= '9') {
                if (point) scale /= 10;
                value = point ? value + (c - '0') * scale : value * 10 + (c - '0');
            } else if (c == '.' && !point && i > at + 2) {
                point = true;
            } else {
                break;
            }
        }
        const bool unit = i > at + 2 && i < name.size() && (name[i] == 'B' || name[i] == 'b');
        const bool ends =
            i + 1 >= name.size() || name[i + 1] == '-' || name[i + 1] == '_' || name[i + 1] == ' ';
        if (unit && ends && value > 0) return value * 1e9;
    }
    return 0;
}

}  // namespace gf
