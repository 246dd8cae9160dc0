#include <algorithm>
#include <cmath>

#include "scheduler/estimate/terms.hpp"

namespace gf {
namespace {

double largest_matrix(const ModelShape& s) {
    const std::int64_t width = s.expert_mixture() ? s.moe_intermediate : s.intermediate;
    return static_cast<double>(s.hidden) * static_cast<double>(std::max(width, s.hidden));
}

/// Elements of the cache per sequence of so many tokens, all layers.
double cache_elements(const ModelShape& s, double tokens, bool windowed) {
    if (s.task == "encoder") return 0;  // nothing is generated
    const auto layers = static_cast<double>(s.attention_layers > 0 ? s.attention_layers : s.layers);
    if (s.kv_latent > 0) return layers * static_cast<double>(s.kv_latent) * tokens;
    const double per_token = 2 * static_cast<double>(s.kv_heads * s.head_dim);
    const double seen = windowed && s.window > 0 ? std::min(tokens, static_cast<double>(s.window)) : tokens;
    const double full = s.window == 0      ? layers
                        : s.full_every > 0 ? std::floor(layers / static_cast<double>(s.full_every))
                                           : 0;
    return per_token * (full * tokens + (layers - full) * seen);
}

}  // namespace

WeightBytes weight_bytes(const EstimateRequest& r, const ModelShape& s, const Constants& constants) {
    const auto& c = constants.infer(r.stack);
    const auto traits = traits_of(r.stack);
    const Quantization& q = r.quantization;
    const double embedding = std::min(s.embedding(), s.params / 2);
    const double body = s.body();
    WeightBytes w;
    const double per_weight = q.quantised() ? q.bits / 8 : r.weight_bytes;
    switch (q.kernel) {
        case QuantKernel::none:
            w.embedding = embedding * per_weight;
            w.head = s.tied ? 0 : w.embedding;
            w.body = s.params * per_weight - w.embedding - w.head;
            return w;
        case QuantKernel::gguf:
            w.embedding = embedding * per_weight;
            w.head = s.tied ? 0 : w.embedding;
            w.body = body * per_weight;
            return w;
        case QuantKernel::fp8:
            // The checkpoint holds the head apart, also where it is the embedding.
            w.embedding = w.head = embedding * 2;
            w.body = body * per_weight;
            return w;
        case QuantKernel::mxfp4: {
            // A mixture's attention stays in 16 bits, all else of its body are experts. A dense body has
            // nothing that is left out.
            const auto h = static_cast<double>(s.hidden);
            const double attention = s.expert_mixture()
                                         ? static_cast<double>(s.layers) * 2 * h *
                                               static_cast<double>((s.heads + s.kv_heads) * s.head_dim)
                                         : 0;
            w.embedding = embedding * 2;
            w.head = s.tied ? 0 : w.embedding;
            w.body = std::min(attention, body) * 2 + std::max(0.0, body - attention) * per_weight;
            return w;
        }
        case QuantKernel::bitsandbytes: {
            const bool double_quant = traits.double_quant && q.bits > 4.2 && q.bits < 5;
            const double bytes = double_quant ? 4.127 / 8 : per_weight;
            w.embedding = embedding * 2;
            w.head = s.tied ? 0 : traits.head_quantised ? embedding * bytes : w.embedding;
            w.body = body * bytes * (1 + c.share);
            w.largest = traits.head_quantised ? std::max(embedding, largest_matrix(s)) : largest_matrix(s);
            w.largest *= 2;
            return w;
        }
        case QuantKernel::gptq:
        case QuantKernel::awq:
        case QuantKernel::exl2:
        case QuantKernel::on_load:
            w.embedding = embedding * 2;
            w.head = s.tied ? 0 : w.embedding;
            w.body = body * per_weight * (1 + c.share);
            // Code that quantises while it loads unpacks the matrices of a layer to 16 bits, and keeps what
            // it took for it (measured on one model, ChatGLM2).
            w.largest = q.kernel == QuantKernel::on_load ? 10 * largest_matrix(s) : 0;
            return w;
    }
    return w;
}

Terms inference_terms(const EstimateRequest& r, const ModelShape& s, const Constants& constants) {
    const auto& c = constants.infer(r.stack);
    const auto traits = traits_of(r.stack);
    const WeightBytes w = weight_bytes(r, s, constants);
    const auto gpus = static_cast<double>(r.gpus);
    const auto batch = static_cast<double>(std::max<std::int64_t>(1, r.batch));
    const auto prompt = static_cast<double>(std::max<std::int64_t>(1, r.seq));
    const auto tokens = static_cast<double>(std::max<std::int64_t>(1, r.seq) + r.generated);
    const auto vocab = static_cast<double>(s.vocab);
    const auto hidden = static_cast<double>(s.hidden);

    Terms base;
    base.weights = w.all();
    double cache_gpus = gpus;
    if (r.gpus > 1) {
        const bool layers = r.sharding == Sharding::layer_split || r.sharding == Sharding::pipeline;
        if (layers && s.layers > 0) {
            // Whole layers: the fullest GPU has one more, and the first the embedding as well.
            const double most =
                std::ceil(static_cast<double>(s.layers) / gpus) / static_cast<double>(s.layers);
            base.weights = w.body * std::max(most, 1 / gpus) + std::max(w.embedding, w.head);
        } else if (r.sharding == Sharding::data) {
            cache_gpus = 1;
        } else {
            base.weights = w.all() / gpus;
            // Fewer key heads than GPUs: they are there several times. A latent cannot be cut at all.
            if (s.kv_latent > 0)
                cache_gpus = 1;
            else if (s.kv_heads > 0)
                cache_gpus = std::min(gpus, static_cast<double>(s.kv_heads));
        }
        base.buffers += c.split_gib * kGiBd;
    }
    base.overhead = c.fixed_gib * kGiBd;
    base.buffers += c.scratch * w.largest;
    if (r.scope == MemoryScope::device) base.overhead += 0.4 * kGiBd;  // the CUDA context
    if (r.method == EstimateMethod::load_only) return base;

    // A program that runs in 32 bits keeps its cache and its activations so as well. Kernels for integers in
    // groups, and llama.cpp's, have them in 16 whatever the rest is.
    const bool wide = r.weight_bytes >= 4 && !r.mixed_precision &&
                      (!r.quantization.quantised() || r.quantization.kernel == QuantKernel::bitsandbytes ||
                       r.quantization.kernel == QuantKernel::on_load);
    const double element = wide ? 4 : 2;
    const double per_element = r.kv_bytes.value_or(element);
    const auto cache = [&](double length) {
        return batch * cache_elements(s, length, traits.windowed_cache) * per_element / cache_gpus;
    };
    double factor = 1;
    if (s.concatenated_cache && r.stack != Stack::vllm && r.stack != Stack::llama_cpp) {
        factor = constants.concatenated_cache;
        base.overhead += constants.concatenated_gib * kGiBd;
    }

    const auto activations = [&](double rows) {
        return element * rows * (6 * hidden + 2 * s.active_width());
    };
    // The prompt passes, and the cache is filled with it.
    Terms prefill = base;
    const bool preallocated = r.stack == Stack::autoawq || r.stack == Stack::exllama ||
                              r.stack == Stack::vllm || r.stack == Stack::llama_cpp;
    prefill.cache = preallocated ? cache(tokens) : cache(prompt);
    if (!traits.token_by_token) {
        const double rows = batch * std::min(prompt, c.chunk);
        double pass = activations(rows);
        if (r.eager_attention)
            pass += 3 * element * batch * static_cast<double>(s.heads) * prompt * std::min(prompt, c.chunk);
        if (c.score_bytes > 0 && s.kv_heads < s.heads)
            pass += c.score_bytes * batch * static_cast<double>(s.heads) * prompt * prompt;
        const double logits =
            c.prompt_logits > 0 ? c.prompt_logits * vocab * batch * prompt : 6 * vocab * batch;
        // The layers' pass is over when the logits are made.
        if (pass > logits)
            prefill.activations = pass;
        else
            prefill.logits = logits;
        if (c.prompt_logits > 0 && pass > logits) prefill.logits = 0.5 * logits;
    }
    if (r.stack == Stack::llama_cpp) prefill.buffers += (vocab * 4 + hidden * 40) * 512;
    // The last token is made.
    Terms decode = base;
    decode.cache = cache(tokens) * factor;
    decode.activations = activations(batch);
    decode.logits = 6 * vocab * batch;
    Terms peak = peak_of(prefill, decode);
    if (traits.fuses_qkv && r.quantization.quantised()) {
        // Query, key and value are joined into one matrix layer by layer, and the old ones are let go at the
        // end.
        Terms load = base;
        const double qkv = static_cast<double>(s.layers) * hidden *
                           static_cast<double>((s.heads + 2 * s.kv_heads) * s.head_dim);
        const bool apart = s.gated;  // models without a gate (Falcon, MPT) come with the joined matrix
        load.buffers += apart ? qkv * r.quantization.bits / 8 / gpus : 0;
        load.cache = cache(tokens);
        peak = peak_of(peak, load);
    }
    return peak;
}

}  // namespace gf
