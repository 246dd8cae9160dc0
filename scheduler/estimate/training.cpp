#include <algorithm>
#include <cmath>
#include <utility>

#include "scheduler/estimate/terms.hpp"

namespace gf {
namespace {}  // namespace

StateBytes state_bytes(const EstimateRequest& r) {
    const auto traits = traits_of(r.stack);
    StateBytes b;
    double moments = 8;  // two, in 32 bits
    if (r.deepspeed) {
        // 16-bit weights; gradients gathered in 32 bits; a 32-bit master copy.
        b = {.weights = 2, .gradients = 4, .optimizer = 4};
    } else if (traits.pure_low_precision || r.pure_low_precision) {
        b = {.weights = 2, .gradients = 2, .optimizer = 0};
        moments = 4;
    } else if (r.weight_bytes >= 4 && !r.mixed_precision) {
        b = {.weights = 4, .gradients = 4, .optimizer = 0};
    } else {
        // autocast: 32-bit weights and the 16-bit copies that it keeps
        b = {.weights = 6, .gradients = 4, .optimizer = 0};
    }
    switch (r.optimizer) {
        case OptimizerKind::adamw:
            break;
        case OptimizerKind::adamw_8bit:
            moments = 2;
            break;
        case OptimizerKind::adamw_4bit:
            moments = 1;
            break;
        case OptimizerKind::adafactor:
            moments = 0.1;
            break;
        case OptimizerKind::sgd:
        case OptimizerKind::lion:
            moments /= 2;
            break;
        case OptimizerKind::lomo:
            moments = 0;
            break;
        case OptimizerKind::muon:
            moments = b.optimizer > 0 ? 4 : 8;
            break;
    }
    b.optimizer += moments;
    if (r.fused_backward) b.gradients = 0;
    return b;
}

void shard_states(const EstimateRequest& r, Terms& t) {
    const auto gpus = static_cast<double>(r.gpus);
    switch (r.gpus > 1 ? r.sharding : Sharding::none) {
        case Sharding::none:
        case Sharding::data:
        case Sharding::sequence:
            break;
        case Sharding::zero2:
            t.gradients /= gpus;
            [[fallthrough]];
        case Sharding::zero1:
            t.optimizer /= gpus;
            break;
        case Sharding::zero3:
        case Sharding::tensor:
        case Sharding::pipeline:
        case Sharding::layer_split:
            t.weights /= gpus;
            t.gradients /= gpus;
            t.optimizer /= gpus;
            break;
    }
    if (r.offload_params) t.weights = 0;
    if (r.offload_optimizer) t.optimizer = 0;
    if (r.offload_params && r.offload_optimizer) t.gradients = 0;
}

namespace {

double adapter_params(const EstimateRequest& r, const ModelShape& s) {
    const auto h = static_cast<double>(s.hidden);
    const auto q = static_cast<double>(s.heads * s.head_dim);
    const auto kv = static_cast<double>(s.kv_heads * s.head_dim);
    const bool query_value = r.lora_targets == LoraTargets::query_value ||
                             (r.lora_targets == LoraTargets::unknown && traits_of(r.stack).query_value);
    double sides = (h + q) + (h + kv);
    if (!query_value) {
        sides += (h + kv) + (q + h);
        // Experts are left alone: an adapter on each would be as many times larger.
        if (!s.expert_mixture()) sides += (s.gated ? 3 : 2) * (h + static_cast<double>(s.intermediate));
    }
    return static_cast<double>(s.layers) * static_cast<double>(r.lora_rank) * sides;
}

/// Bytes that the layers keep for the backward pass, and those of one layer.
struct Activations {
    double kept{0};
    double one_layer{0};
    double boundary{0};  // input and output of a layer
};

Activations activations(const EstimateRequest& r, const ModelShape& s, const Constants& constants,
                        double tokens) {
    const auto h = static_cast<double>(s.hidden);
    const auto layers = static_cast<double>(s.layers);
    const double width = s.active_width();
    double per_token = s.gated ? 24 * h + 8 * width : 14 * h + 4 * width;
    const bool adapter = r.method == EstimateMethod::lora || r.method == EstimateMethod::adapter;
    if (adapter && r.quantization.kernel == QuantKernel::bitsandbytes)
        per_token += constants.quantised_inputs * (h + width);
    if (r.weight_bytes >= 4 && !r.mixed_precision) per_token *= 2;
    if (r.eager_attention)
        per_token += (r.weight_bytes >= 4 ? 10 : 5) * static_cast<double>(s.heads) *
                     static_cast<double>(std::max<std::int64_t>(1, r.seq));
    if (s.task == "seq2seq") per_token *= 1.5;  // the decoder attends to the encoder as well
    Activations a;
    a.one_layer = tokens * per_token;
    a.boundary = tokens * 2 * h;
    if (r.offload_activations)
        a.kept = a.one_layer;
    else if (r.checkpointing)
        a.kept = tokens * 2 * h * layers + a.one_layer;
    else
        a.kept = a.one_layer * layers * constants.train(r.stack).activations;
    if (s.task == "seq2seq") a.kept *= 2;
    return a;
}

bool sharded(const EstimateRequest& r) {
    return r.gpus > 1 && r.sharding == Sharding::zero3;
}

/// What a sharded run gathers: the current layer and the next, a bucket of gradients, and what the allocator
/// loses by it.
double gathered(const EstimateRequest& r, const ModelShape& s, const Constants& constants,
                double weight_bytes, double per_weight) {
    const double layer = s.body() / static_cast<double>(std::max<std::int64_t>(1, s.layers));
    double gather = 3 * per_weight * layer;
    if (s.expert_mixture()) gather *= constants.mixture_gather;
    return gather + 0.1 * weight_bytes / static_cast<double>(r.gpus) + constants.sharded_fixed_gib * kGiBd;
}

Terms adapter_terms(const EstimateRequest& r, const ModelShape& s, const Constants& constants,
                    const Activations& a, double logits) {
    const auto& c = constants.train(r.stack);
    const WeightBytes w = weight_bytes(r, s, constants);
    const auto gpus = static_cast<double>(r.gpus);
    const double per_weight = w.body / s.body();
    Terms t;
    t.weights = w.all();
    if (r.method == EstimateMethod::lora) {
        double bytes = c.adapter_bytes;
        if (r.optimizer == OptimizerKind::adamw_8bit || r.optimizer == OptimizerKind::adamw_4bit) bytes -= 6;
        t.adapter = bytes * adapter_params(r, s);
    }
    double gather = 0;  // while layers pass
    if (sharded(r)) {
        gather = gathered(r, s, constants, t.weights, per_weight);
        // Embedding and head are gathered whole; DeepSpeed's flat copy of them stays for the length of the
        // pass as well.
        t.buffers += (r.deepspeed ? 2 : 1) * (w.embedding + w.head);
        t.weights /= gpus;
        t.adapter /= gpus;
    } else if (r.gpus > 1 && (r.sharding == Sharding::tensor || r.sharding == Sharding::pipeline ||
                              r.sharding == Sharding::layer_split)) {
        t.weights /= gpus;
        t.adapter /= gpus;
    }
    if (r.offload_params) {
        t.weights = w.embedding + w.head;
        if (!sharded(r)) gather = gathered(r, s, constants, w.all(), per_weight);
    }
    // One matrix at a time is dequantised, once for each direction.
    if (r.quantization.quantised() && r.quantization.kernel != QuantKernel::fp8) {
        const double matrix =
            static_cast<double>(s.hidden) *
            static_cast<double>(std::max(s.expert_mixture() ? s.moe_intermediate : s.intermediate, s.hidden));
        t.buffers += 2 * std::max(w.largest, 2 * matrix);
    }
    t.activations = a.kept;
    Terms head = t;  // the loss is made: no layer is gathered
    head.logits = logits;
    Terms layers = t;
    layers.buffers += gather;
    return peak_of(head, layers);
}

Terms full_terms(const EstimateRequest& r, const ModelShape& s, const Constants& constants,
                 const Activations& a, double logits) {
    const StateBytes b = state_bytes(r);
    const auto gpus = static_cast<double>(r.gpus);
    Terms forward;  // at the end of the forward pass
    forward.weights = b.weights * s.params;
    forward.gradients = b.gradients * s.params;
    forward.optimizer = b.optimizer * s.params;
    shard_states(r, forward);
    if (r.offload_params) forward.weights = 2 * s.embeddings() / (sharded(r) ? gpus : 1);
    const double gradients = std::exchange(forward.gradients, 0);
    if (r.sharding == Sharding::zero3 && (r.gpus > 1 || r.deepspeed))
        forward.buffers += gathered(r, s, constants, 2 * s.params, 2);
    forward.activations = a.kept;
    forward.logits = logits;
    Terms backward = forward;  // at its end: every gradient is there, one layer's activations are left
    backward.gradients = gradients;
    backward.activations = a.one_layer + a.boundary;
    backward.logits = 0;
    if (r.fused_backward) {
        // The embedding's gradient is the last and the largest.
        forward.gradients = 2 * s.embedding();
        backward.gradients = 2 * s.embedding();
    }
    if (!r.deepspeed) return peak_of(forward, backward);
    // The buckets, twice (gather and reduce), as many times as overlapping takes; gradients are kept between
    // micro-steps.
    forward.gradients = gradients;
    backward.buffers += std::min(s.params, 5e8) * 2 * 2 * constants.bucket_factor;
    backward.activations = 0;
    forward.overhead += constants.bucket_fixed_gib * kGiBd;
    backward.overhead += constants.bucket_fixed_gib * kGiBd;
    return peak_of(forward, backward);
}

}  // namespace

Terms training_terms(const EstimateRequest& r, const ModelShape& s, const Constants& constants) {
    const auto& c = constants.train(r.stack);
    const double sequences = static_cast<double>(std::max<std::int64_t>(1, r.batch)) * (r.pairs ? 2 : 1);
    double tokens = sequences * static_cast<double>(std::max<std::int64_t>(1, r.seq));
    if (r.sharding == Sharding::sequence) tokens /= static_cast<double>(r.gpus);
    Activations a = activations(r, s, constants, tokens);
    double logits = s.task == "encoder" ? 0 : c.logits * tokens * static_cast<double>(s.vocab);
    // A 16-bit base that was quantised in groups has its logits in 16 bits until the loss.
    if (r.quantization.kernel == QuantKernel::gptq && c.logits > 8) logits *= 8.0 / c.logits;
    if (r.gpus > 1 && r.sharding == Sharding::tensor) {
        a.kept /= static_cast<double>(r.gpus);
        logits /= static_cast<double>(r.gpus);
    }
    const auto terms = [&](const Activations& held, double made) {
        return r.method == EstimateMethod::full ? full_terms(r, s, constants, held, made)
                                                : adapter_terms(r, s, constants, held, made);
    };
    Terms t;
    if (r.gpus > 1 && (r.sharding == Sharding::pipeline || r.sharding == Sharding::layer_split)) {
        // The last GPU has its share of the layers, and makes the logits. The first one of a pipeline has as
        // many micro-batches in flight as there are stages: together all that one GPU would hold.
        Activations stage = a;
        stage.kept = a.one_layer + std::max(0.0, a.kept - a.one_layer) / static_cast<double>(r.gpus);
        t = terms(stage, logits);
        if (r.sharding == Sharding::pipeline) t = peak_of(t, terms(a, 0));
    } else {
        t = terms(a, logits);
    }
    const bool torch = r.scope == MemoryScope::allocated || r.scope == MemoryScope::reserved;
    t.overhead += (torch ? c.fixed_torch_gib : c.fixed_gib) * kGiBd;
    if (r.scope == MemoryScope::device) t.overhead += 0.4 * kGiBd;
    return t;
}

}  // namespace gf
