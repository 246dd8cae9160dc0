#include "scheduler/estimate/request.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "model/spelling.hpp"

namespace gf {
namespace {

constexpr std::size_t kTextMax = 400;

std::string folded(std::string_view text) {
    std::string out;
    for (const char c : text) out.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c);
    return out;
}
bool has(std::string_view text, std::string_view part) {
    return text.find(part) != std::string_view::npos;
}

std::unexpected<Error> refused(std::string_view field, std::string message) {
    return fail(Error{.kind = ErrorKind::invalid,
                      .message = std::string(field) + " " + std::move(message),
                      .field = std::string(field)});
}

/// Digits with at most one point and an exponent; never "nan", "inf" or hexadecimal.
std::optional<double> number(std::string_view text) {
    while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
    while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
    if (text.empty() || text.find_first_not_of("+-.0123456789eE") != std::string_view::npos)
        return std::nullopt;
    if (text.front() == '+') text.remove_prefix(1);
    double value = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (code != std::errc{} || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
    return value;
}

struct Reading {
    EstimateRequest request;
    ModelShape shape;  // filled by the keys of a shape
    bool shape_given{false};
    std::string resolution;
    std::string kv_dtype;
    std::string task;
    std::string sharding;
    std::optional<double> counted;  // parameters as whoever gives the shape counted them
};

Result<double> decimal(std::string_view field, std::string_view text, double least, double most,
                       std::string_view range) {
    const auto value = number(text);
    if (!value || *value < least || *value > most)
        return refused(field,
                       "must be " + std::string(range) + ", not \"" + std::string(text.substr(0, 80)) + "\"");
    return *value;
}

Result<std::int64_t> whole(std::string_view field, std::string_view text, std::int64_t least,
                           std::int64_t most) {
    const std::string range = "a whole number from " + std::to_string(least) + " to " + std::to_string(most);
    const auto value = decimal(field, text, static_cast<double>(least), static_cast<double>(most), range);
    if (!value) return fail(value.error());
    if (std::floor(*value) != *value)
        return refused(field, "must be " + range + ", not \"" + std::string(text.substr(0, 80)) + "\"");
    return static_cast<std::int64_t>(*value);
}

Result<bool> boolean(std::string_view field, std::string_view text) {
    const std::string s = folded(text);
    if (s == "yes" || s == "true" || s == "1" || s == "on") return true;
    if (s == "no" || s == "false" || s == "0" || s == "off") return false;
    return refused(field, "must be yes, no or unknown, not \"" + std::string(text.substr(0, 80)) + "\"");
}

using Reader = Result<void> (*)(std::string_view field, std::string_view text, Reading& into);

template <std::int64_t EstimateRequest::* Member, std::int64_t Least, std::int64_t Most>
Result<void> read_whole(std::string_view field, std::string_view text, Reading& into) {
    const auto value = whole(field, text, Least, Most);
    if (!value) return fail(value.error());
    into.request.*Member = *value;
    return {};
}
template <std::int64_t ModelShape::* Member, std::int64_t Least, std::int64_t Most>
Result<void> read_shape(std::string_view field, std::string_view text, Reading& into) {
    const auto value = whole(field, text, Least, Most);
    if (!value) return fail(value.error());
    into.shape.*Member = *value;
    into.shape_given = true;
    return {};
}
template <bool ModelShape::* Member>
Result<void> read_shape_flag(std::string_view field, std::string_view text, Reading& into) {
    const auto value = boolean(field, text);
    if (!value) return fail(value.error());
    into.shape.*Member = *value;
    into.shape_given = true;
    return {};
}

/// "qlora", "infer", "full_ft", "diffusion_lora", "dpo_lora", …
Result<void> read_task(std::string_view field, std::string_view text, Reading& into) {
    std::string s = folded(text);
    std::ranges::replace(s, '-', '_');
    auto& r = into.request;
    for (const std::string_view domain : {"diffusion", "video", "asr", "tts", "vocoder"})
        if (s.starts_with(std::string(domain) + "_")) {
            r.domain = domain;
            s.erase(0, domain.size() + 1);
        }
    for (const std::string_view pair : {"dpo_", "orpo_", "kto_", "reward_"})
        if (s.starts_with(pair)) {
            r.pairs = true;
            s.erase(0, pair.size());
        }
    if (s == "infer" || s == "inference" || s == "generate" || s == "serve")
        r.method = EstimateMethod::inference;
    else if (s == "load_only")
        r.method = EstimateMethod::load_only;
    else if (s == "full" || s == "full_ft" || s == "train" || s == "full_finetune" || s == "pretrain")
        r.method = EstimateMethod::full;
    else if (s == "lora" || s == "dora" || s == "qlora" || s == "qdora")
        r.method = EstimateMethod::lora;
    else if (s == "adapter" || s == "ia3" || s == "prefix" || s == "prompt")
        r.method = EstimateMethod::adapter;
    else
        return refused(field,
                       "must be inference, full, lora, qlora or adapter (for tables also infer, full_ft, "
                       "load_only, dpo_lora, and diffusion_, "
                       "video_, asr_, tts_ or vocoder_ before infer, full, lora or train), not \"" +
                           std::string(text.substr(0, 80)) + "\"");
    into.task = s;
    return {};
}

Result<void> read_framework(std::string_view, std::string_view text, Reading& into) {
    const std::string s = folded(text);
    auto& r = into.request;
    r.framework = std::string(text);
    r.deepspeed = has(s, "deepspeed");
    constexpr auto kStacks =
        std::to_array<std::pair<std::string_view, Stack>>({{"gptq-for-llama", Stack::gptq_for_llama},
                                                           {"exllama", Stack::exllama},
                                                           {"autoawq", Stack::autoawq},
                                                           {"litgpt", Stack::litgpt},
                                                           {"lit-gpt", Stack::litgpt},
                                                           {"torchtune", Stack::torchtune},
                                                           {"axolotl", Stack::axolotl},
                                                           {"unsloth", Stack::unsloth},
                                                           {"llama-factory", Stack::llama_factory},
                                                           {"llamafactory", Stack::llama_factory},
                                                           {"llama.cpp", Stack::llama_cpp},
                                                           {"llama-cpp", Stack::llama_cpp},
                                                           {"ollama", Stack::llama_cpp},
                                                           {"vllm", Stack::vllm},
                                                           {"sglang", Stack::vllm},
                                                           {"tgi", Stack::vllm},
                                                           {"text-generation-inference", Stack::vllm},
                                                           {"lmdeploy", Stack::vllm},
                                                           {"tensorrt", Stack::vllm},
                                                           {"trl", Stack::trl},
                                                           {"peft", Stack::peft},
                                                           {"deepspeed", Stack::deepspeed},
                                                           {"fsdp", Stack::fsdp},
                                                           {"transformers", Stack::transformers},
                                                           {"accelerate", Stack::transformers},
                                                           {"swift", Stack::peft}});
    for (const auto& [name, stack] : kStacks)
        if (has(s, name)) {
            r.stack = stack;
            r.framework_known = true;
            break;
        }
    return {};
}

Result<void> read_weights(std::string_view field, std::string_view text, Reading& into) {
    auto& r = into.request;
    const std::string s = folded(text);
    if (s == "auto") return {};
    r.weights_given = true;
    // "precision: nf4", "dtype: int4": said of the weights, meant as their scheme.
    const auto bytes = parse_dtype(text, field);
    if (!bytes || s == "int8" || s.starts_with("fp8") || s.starts_with("float8") || has(s, "mxfp4") ||
        has(s, "nvfp4")) {
        auto scheme = parse_quantization(text);
        if (!scheme) return bytes ? Result<void>(fail(scheme.error())) : Result<void>(fail(bytes.error()));
        if (!r.quantization.quantised()) {
            r.quantization = *std::move(scheme);
            r.quantization_text = text;
        }
        return {};
    }
    r.weight_bytes = *bytes;
    r.half_precision = s.starts_with("float16") || s.starts_with("fp16") || s.starts_with("half");
    r.mixed_precision = has(s, "amp") || has(s, "mixed");
    r.pure_low_precision = has(s, "pure");
    if (has(s, "not stated"))
        r.notes.push_back("the type of the weights is not sure: taken as the first that is named");
    return {};
}

bool is_diffusers_parts(std::string_view s) {
    return has(s, "transformer") || has(s, "encoder") || has(s, "t5") || has(s, "unet") || has(s, "vae");
}

Result<void> read_quantization(std::string_view field, std::string_view text, Reading& into) {
    auto& r = into.request;
    r.quantization_text = std::string(text);
    r.weights_given = true;
    std::string_view scheme = text;
    // "fp8 transformer + text encoder", "bnb-int8 (T5)": a scheme and the parts that it is for.
    if (is_diffusers_parts(folded(text))) scheme = text.substr(0, text.find(' '));
    auto parsed = parse_quantization(scheme);
    if (!parsed) {
        auto error = std::move(parsed).error();
        error.field = field;
        return fail(std::move(error));
    }
    if (parsed->quantised() || !r.quantization.quantised()) r.quantization = *std::move(parsed);
    return {};
}

Result<void> read_kv(std::string_view field, std::string_view text, Reading& into) {
    const std::string s = folded(text);
    // Scales add six hundredths to an integer cache.
    if (has(s, "int8") || s == "q8_0")
        into.request.kv_bytes = 1.06;
    else if (has(s, "int4") || s == "q4_0" || has(s, "fp4"))
        into.request.kv_bytes = 0.5625;
    else if (s == "auto")
        into.request.kv_bytes.reset();
    else {
        const auto bytes = parse_dtype(text, field);
        if (!bytes) return fail(bytes.error());
        into.request.kv_bytes = *bytes;
    }
    return {};
}

Result<void> read_resolution(std::string_view field, std::string_view text, Reading& into) {
    const std::string s = folded(text);
    const auto cut = s.find('x');
    const auto wrong = [&] {
        return refused(field, "must be WIDTHxHEIGHT in pixels, each from 16 to 16384, not \"" +
                                  std::string(text.substr(0, 80)) + "\"");
    };
    const auto side = [&](std::string_view part) { return whole(field, part, 16, 16'384); };
    const auto width = side(s.substr(0, cut));
    const auto height = cut == std::string::npos ? width : side(std::string_view(s).substr(cut + 1));
    if (!width || !height) return wrong();
    into.request.width = *width;
    into.request.height = *height;
    return {};
}

Result<void> read_optimizer(std::string_view, std::string_view text, Reading& into) {
    const std::string s = folded(text);
    auto& r = into.request;
    // LOMO is plain descent in the backward pass; AdaLomo keeps factored moments.
    const bool lomo = has(s, "lomo");
    r.fused_backward = has(s, "in backward") || has(s, "in_backward") || lomo;
    const bool eight = has(s, "8-bit") || has(s, "8bit");
    const bool four = has(s, "4-bit") || has(s, "4bit");
    if (four)
        r.optimizer = OptimizerKind::adamw_4bit;
    else if (eight)
        r.optimizer = OptimizerKind::adamw_8bit;
    else if (lomo && !has(s, "adalomo"))
        r.optimizer = OptimizerKind::lomo;
    else if (has(s, "adafactor") || has(s, "adalomo") || s == "came" || s.starts_with("came_"))
        r.optimizer = OptimizerKind::adafactor;
    else if (has(s, "muon"))
        r.optimizer = OptimizerKind::muon;
    else if (has(s, "lion"))
        r.optimizer = OptimizerKind::lion;
    else if (has(s, "sgd"))
        r.optimizer = OptimizerKind::sgd;
    else {
        r.optimizer = OptimizerKind::adamw;
        if (!has(s, "adam"))
            r.notes.push_back("the optimiser \"" + std::string(text.substr(0, 60)) +
                              "\" is not known here: counted as AdamW");
    }
    return {};
}

Result<void> read_checkpointing(std::string_view field, std::string_view text, Reading& into) {
    auto& r = into.request;
    const std::string s = folded(text);
    r.checkpointing_given = true;
    if (s == "unknown") {
        r.checkpointing = true;
        r.notes.push_back("whether activations are checkpointed is not known: taken as yes");
        return {};
    }
    if (s == "unsloth" || has(s, "offload")) {
        r.checkpointing = r.offload_activations = true;
        return {};
    }
    const auto value = boolean(field, text);
    if (!value) return fail(value.error());
    r.checkpointing = *value;
    return {};
}

Result<void> read_attention(std::string_view field, std::string_view text, Reading& into) {
    const std::string s = folded(text);
    if (has(s, "eager") || s == "naive")
        into.request.eager_attention = true;
    else if (!has(s, "flash") && !has(s, "sdpa") && !has(s, "xformers") && !has(s, "flex") &&
             !has(s, "paged") && s != "fa2" && s != "fa3" && s != "unknown" && s != "auto")
        return refused(field,
                       "must be flash, sdpa or eager, not \"" + std::string(text.substr(0, 80)) + "\"");
    return {};
}

Result<void> read_sharding(std::string_view field, std::string_view text, Reading& into) {
    const std::string s = folded(text);
    auto& r = into.request;
    if (has(s, "tensor") || s == "tp")
        r.sharding = Sharding::tensor;
    else if (has(s, "pipeline") || s == "pp")
        r.sharding = Sharding::pipeline;
    else if (has(s, "layer") || has(s, "device_map") || has(s, "device map"))
        r.sharding = Sharding::layer_split;
    else if (has(s, "zero3") || has(s, "zero-3") || has(s, "fsdp") || has(s, "hsdp") || has(s, "full_shard"))
        r.sharding = Sharding::zero3;
    else if (has(s, "zero2") || has(s, "zero-2") || has(s, "shard_grad_op"))
        r.sharding = Sharding::zero2;
    else if (has(s, "zero1") || has(s, "zero-1"))
        r.sharding = Sharding::zero1;
    else if (has(s, "ddp") || has(s, "data") || s == "none" || s == "dp")
        r.sharding = Sharding::data;
    else if (has(s, "context") || has(s, "sequence") || s == "cp" || s == "sp")
        r.sharding = Sharding::sequence;
    else
        return refused(field,
                       "must be none, ddp, zero1, zero2, zero3, fsdp, tensor, pipeline, layer split or "
                       "sequence, not \"" +
                           std::string(text.substr(0, 80)) + "\"");
    r.sharding_given = true;
    return {};
}

Result<void> read_offload(std::string_view field, std::string_view text, Reading& into) {
    const std::string s = folded(text);
    auto& r = into.request;
    if (s == "none" || s == "no") return {};
    r.offload_activations = r.offload_activations || has(s, "activation");
    r.offload_params = has(s, "param") || has(s, "zero3 cpu") || has(s, "weights");
    r.offload_optimizer = has(s, "optim") || has(s, "zero3 cpu") || has(s, "zero2 cpu");
    r.offload_model = has(s, "model offload") || has(s, "model to cpu") || s == "model" || has(s, "stages");
    r.offload_sequential = has(s, "sequential");
    r.offload_encoders = has(s, "text encoder") || has(s, "t5 on cpu");
    r.tiling = has(s, "tiling") || has(s, "slicing");
    if (!r.offload_activations && !r.offload_params && !r.offload_optimizer && !r.offload_model &&
        !r.offload_sequential && !r.offload_encoders && !r.tiling)
        return refused(field,
                       "must name what waits in host memory: activations, params, optimizer, model, "
                       "sequential, text encoders (or "
                       "tiling), not \"" +
                           std::string(text.substr(0, 80)) + "\"");
    return {};
}

Result<void> read_scope(std::string_view, std::string_view text, Reading& into) {
    const std::string s = folded(text);
    auto& scope = into.request.scope;
    if (has(s, "allocated") || has(s, "active"))
        scope = MemoryScope::allocated;
    else if (has(s, "reserved"))
        scope = MemoryScope::reserved;
    else if (has(s, "nvidia") || has(s, "device"))
        scope = MemoryScope::device;
    else if (s != "reported" && s != "requirement" && s != "unknown")
        into.request.notes.push_back(
            "measure_kind \"" + std::string(text.substr(0, 60)) +
            "\" is not known here and was not used: torch_allocated, torch_reserved or "
            "nvidia_smi");
    return {};
}

Result<void> read_targets(std::string_view field, std::string_view text, Reading& into) {
    const std::string s = folded(text);
    if (has(s, "all") || has(s, "gate") || has(s, "up") || has(s, "linear"))
        into.request.lora_targets = LoraTargets::all_linear;
    else if (has(s, "q") && has(s, "v"))
        into.request.lora_targets = LoraTargets::query_value;
    else
        return refused(field,
                       "must be \"q,v\" or all-linear, not \"" + std::string(text.substr(0, 80)) + "\"");
    return {};
}

Result<void> read_kind(std::string_view field, std::string_view text, Reading& into) {
    if (text != "llm" && text != "seq2seq" && text != "encoder" && text != "vlm")
        return refused(
            field, "must be llm, seq2seq, encoder or vlm, not \"" + std::string(text.substr(0, 80)) + "\"");
    into.shape.task = std::string(text);
    return {};
}

Result<void> read_params(std::string_view field, std::string_view text, std::optional<double>& into) {
    const auto v = decimal(field, text, 0.0001, 100'000, "billions of parameters, from 0.0001 to 100000");
    if (!v) return fail(v.error());
    into = *v * 1e9;
    return {};
}

Result<void> ignore(std::string_view, std::string_view, Reading&) {
    return {};
}

struct Key {
    std::string_view name;
    Reader read;
};

constexpr auto kKeys = std::to_array<Key>({
    {"model",
     [](std::string_view, std::string_view text, Reading& into) -> Result<void> {
         into.request.alias = std::string(text);
         return {};
     }},
    {"hf_id",
     [](std::string_view, std::string_view text, Reading& into) -> Result<void> {
         into.request.model = std::string(text);
         return {};
     }},
    {"params_b",
     [](std::string_view field, std::string_view text, Reading& into) {
         return read_params(field, text, into.request.params);
     }},
    {"active_params_b",
     [](std::string_view field, std::string_view text, Reading& into) {
         return read_params(field, text, into.request.active_params);
     }},
    {"task", read_task},
    {"method", read_task},
    {"framework", read_framework},
    {"engine", read_framework},
    {"weights_dtype", read_weights},
    {"precision", read_weights},
    {"quantization", read_quantization},
    {"kv_dtype", read_kv},
    {"batch_per_gpu", read_whole<&EstimateRequest::batch, 0, 65'536>},
    {"batch", read_whole<&EstimateRequest::batch, 1, 65'536>},
    {"seq_len", read_whole<&EstimateRequest::seq, 1, 100'000'000>},
    {"seq", read_whole<&EstimateRequest::seq, 1, 100'000'000>},
    {"gen_len", read_whole<&EstimateRequest::generated, 0, 100'000'000>},
    {"gen", read_whole<&EstimateRequest::generated, 0, 100'000'000>},
    {"resolution", read_resolution},
    {"frames", read_whole<&EstimateRequest::frames, 1, 1'000'000>},
    {"optimizer", read_optimizer},
    {"grad_checkpointing", read_checkpointing},
    {"checkpointing", read_checkpointing},
    {"attention", read_attention},
    {"lora_rank", read_whole<&EstimateRequest::lora_rank, 1, 65'536>},
    {"lora_targets", read_targets},
    {"parallelism", read_sharding},
    {"offload", read_offload},
    {"gpu_count", read_whole<&EstimateRequest::gpus, 1, 65'536>},
    {"gpus", read_whole<&EstimateRequest::gpus, 1, 65'536>},
    {"measure_kind", read_scope},
    {"margin",
     [](std::string_view field, std::string_view text, Reading& into) -> Result<void> {
         const auto v = decimal(field, text, 1, 5, "a factor from 1 to 5");
         if (!v) return fail(v.error());
         into.request.margin = *v;
         return {};
     }},
    {"layers", read_shape<&ModelShape::layers, 1, 10'000>},
    {"hidden", read_shape<&ModelShape::hidden, 1, 1'000'000>},
    {"heads", read_shape<&ModelShape::heads, 1, 100'000>},
    {"kv_heads", read_shape<&ModelShape::kv_heads, 1, 100'000>},
    {"head_dim", read_shape<&ModelShape::head_dim, 1, 100'000>},
    {"vocab", read_shape<&ModelShape::vocab, 1, 100'000'000>},
    {"intermediate", read_shape<&ModelShape::intermediate, 1, 10'000'000>},
    {"experts", read_shape<&ModelShape::experts, 0, 100'000>},
    {"active_experts", read_shape<&ModelShape::active_experts, 0, 100'000>},
    {"moe_intermediate", read_shape<&ModelShape::moe_intermediate, 0, 10'000'000>},
    {"kv_latent", read_shape<&ModelShape::kv_latent, 0, 1'000'000>},
    {"attention_layers", read_shape<&ModelShape::attention_layers, 0, 10'000>},
    {"shared_intermediate", read_shape<&ModelShape::shared_intermediate, 0, 10'000'000>},
    {"kind", read_kind},
    {"counted_b",
     [](std::string_view field, std::string_view text, Reading& into) {
         return read_params(field, text, into.counted);
     }},
    {"native_dtype",
     [](std::string_view, std::string_view text, Reading& into) -> Result<void> {
         into.shape.native_dtype = std::string(text);
         return {};
     }},
    {"not_counted",
     [](std::string_view, std::string_view text, Reading& into) -> Result<void> {
         into.shape.not_counted += (into.shape.not_counted.empty() ? "" : "; ") + std::string(text);
         return {};
     }},
    {"assumed",
     [](std::string_view, std::string_view text, Reading& into) -> Result<void> {
         into.request.notes.emplace_back(text);
         return {};
     }},
    {"window", read_shape<&ModelShape::window, 0, 100'000'000>},
    {"full_attention_every", read_shape<&ModelShape::full_every, 0, 10'000>},
    {"gated_mlp", read_shape_flag<&ModelShape::gated>},
    {"tied_embeddings", read_shape_flag<&ModelShape::tied>},
    // Where a measured row came from; the measured figures themselves never go in.
    {"id", ignore},
    {"gpu", ignore},
    {"printed_value", ignore},
    {"printed_unit", ignore},
    {"printed_scope", ignore},
    {"unit_basis", ignore},
    {"peak_gib_per_gpu", ignore},
    {"strictness", ignore},
    {"source", ignore},
    {"notes", ignore},
});

bool blank(std::string_view text) {
    return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

std::string billions(double params) {
    std::string out = std::to_string(params / 1e9);
    out.resize(std::min(out.size(), out.find('.') + 4));
    return out;
}

/// A shape of which some counts were given: those that are missing follow from the others where they can.
Result<void> complete_shape(Reading& reading) {
    ModelShape& s = reading.shape;
    for (const auto& [field, value] :
         {std::pair{"layers", s.layers}, {"hidden", s.hidden}, {"heads", s.heads}, {"vocab", s.vocab}})
        if (value == 0)
            return refused(field, "is missing: a shape needs layers, hidden, heads and vocab at least");
    if (s.kv_heads == 0) s.kv_heads = s.heads;
    if (s.kv_heads > s.heads)
        return refused("kv_heads", "must be from 1 to " + std::to_string(s.heads) + " (heads)");
    if (s.head_dim == 0) s.head_dim = std::max<std::int64_t>(1, s.hidden / s.heads);
    if (s.intermediate == 0 && !s.expert_mixture()) s.intermediate = s.hidden * (s.gated ? 3 : 4);
    if (s.expert_mixture()) {
        if (s.active_experts < 1 || s.active_experts > s.experts)
            return refused("active_experts", "must be from 1 to " + std::to_string(s.experts) + " (experts)");
        if (s.moe_intermediate == 0) s.moe_intermediate = std::max<std::int64_t>(1, s.intermediate);
        if (s.intermediate == 0) s.intermediate = s.moe_intermediate;
    }
    s.name = !reading.request.model.empty()   ? reading.request.model
             : !reading.request.alias.empty() ? reading.request.alias
                                              : "given shape";
    const double counted = reading.counted.value_or(counted_params(s));
    s.params = reading.request.params.value_or(counted);
    if (s.params > 1.15 * counted || s.params < 0.85 * counted) {
        const std::string both =
            "params_b says " + billions(s.params) + ", the shape counts " + billions(counted);
        // What is not counted may be most of a model.
        if (s.not_counted.empty() && (s.params > 3 * counted || s.params < counted / 3))
            return refused("params_b", "and the shape are not of one model: " + both);
        reading.request.notes.push_back(both + ": params_b is taken");
    }
    s.active_params = std::min(reading.request.active_params.value_or(s.params), s.params);
    if (auto good = check_shape(s); !good) return good;
    reading.request.shape = s;
    return {};
}

constexpr auto kSynonyms =
    std::to_array<std::pair<std::string_view, std::string_view>>({{"seq", "seq_len"},
                                                                  {"gen", "gen_len"},
                                                                  {"batch", "batch_per_gpu"},
                                                                  {"gpus", "gpu_count"},
                                                                  {"framework", "engine"},
                                                                  {"precision", "weights_dtype"},
                                                                  {"checkpointing", "grad_checkpointing"},
                                                                  {"method", "task"}});

/// That no other field says something else of the same thing; a note where a later one replaces this one.
Result<void> check_same(const std::vector<EstimateField>& fields, const std::string& name,
                        const std::string& text, Reading& into) {
    const auto known = std::ranges::find(kKeys, std::string_view(name), &Key::name);
    if (known == kKeys.end() || known->read == ignore || name == "not_counted" || name == "assumed")
        return {};
    std::string_view other;
    for (const auto& [a, b] : kSynonyms) other = name == a ? b : name == b ? a : other;
    bool after = false;
    for (const auto& [key, value] : fields) {
        if (&value == &text) {
            after = true;
            continue;
        }
        if (key != other && !(after && key == name)) continue;
        if (blank(value) || folded(value) == folded(text)) continue;
        if (key == other)
            return refused(name, "says \"" + text.substr(0, 80) + "\" and " + key + " \"" +
                                     value.substr(0, 80) + "\": both mean the same, give one");
        into.request.notes.push_back(name + " is given twice: " + value.substr(0, 80) + " is taken, not " +
                                     text.substr(0, 80));
        // What was counted with the other value no longer holds.
        if (std::exchange(into.counted, std::nullopt))
            into.shape.not_counted += std::string(into.shape.not_counted.empty() ? "" : "; ") +
                                      "what the config has beside its plain counts, one of which is replaced";
    }
    return {};
}

/// What several keys say together.
void settle(Reading& reading, const std::vector<EstimateField>& fields) {
    auto& r = reading.request;
    for (const auto& [name, text] : fields) {
        if (blank(text)) continue;
        if (name == "batch" || name == "batch_per_gpu") r.batch_given = true;
        if (name == "seq" || name == "seq_len") r.seq_given = true;
    }
    if (r.model.empty()) std::swap(r.model, r.alias);
    if (reading.shape_given && r.domain.empty()) take_native_type(r, reading.shape.native_dtype);
    if (reading.task.starts_with('q') && !r.quantization.quantised()) {
        if (r.quantization_text.empty()) {
            r.quantization = {.kernel = QuantKernel::bitsandbytes, .bits = 4.5, .scheme = "nf4"};
            r.weights_given = true;
            r.notes.emplace_back("qlora without a quantization: NF4");
        } else {
            r.notes.emplace_back("qlora with quantization: none is lora on a base that is not quantised");
        }
    }
    const bool trains = r.method != EstimateMethod::inference && r.method != EstimateMethod::load_only;
    if (trains && !r.checkpointing_given && r.domain.empty()) {
        // The adapter library turns it on for a quantised base; nothing else does by itself.
        r.checkpointing = r.method == EstimateMethod::lora && r.quantization.quantised();
        r.notes.push_back(r.checkpointing
                              ? "checkpointing not said: taken as yes, as is usual on a quantised base"
                              : "checkpointing not said: taken as no; checkpointing: yes needs far less");
    }
    if (r.gpus > 1 && r.sharding == Sharding::none)
        r.sharding = trains ? Sharding::data : Sharding::layer_split;
    if (r.gpus == 1 && r.sharding != Sharding::none && !r.deepspeed) r.sharding = Sharding::none;
}

}  // namespace

const std::vector<std::string_view>& estimate_keys() {
    static const std::vector<std::string_view> names = [] {
        std::vector<std::string_view> out;
        for (const auto& key : kKeys) out.push_back(key.name);
        return out;
    }();
    return names;
}

Result<EstimateRequest> read_estimate_request(const std::vector<EstimateField>& fields, bool strict) {
    Reading reading;
    for (const auto& [name, text] : fields) {
        const auto key = std::ranges::find(kKeys, std::string_view(name), &Key::name);
        if (key == kKeys.end()) {
            if (!strict) continue;
            std::string message = "is not known here";
            if (const auto near = nearest_spelling(name, estimate_keys()))
                message += "; did you mean " + *near + "?";
            return refused(name.substr(0, 80), message);
        }
        if (key->read == ignore || blank(text)) continue;
        if (text.size() > kTextMax)
            return refused(name, "is longer than " + std::to_string(kTextMax) + " bytes");
        if (auto read = key->read(name, text, reading); !read) return fail(std::move(read).error());
    }
    if (reading.request.batch == 0 && reading.request.method != EstimateMethod::load_only)
        return refused("batch_per_gpu", "must be a whole number from 1 to 65536, not \"0\"");
    for (const auto& [name, text] : fields)
        if (!blank(text))
            if (auto agree = check_same(fields, name, text, reading); !agree)
                return fail(std::move(agree).error());
    settle(reading, fields);
    if (reading.shape_given)
        if (auto complete = complete_shape(reading); !complete) return fail(std::move(complete).error());
    if (reading.request.model.empty() && !reading.request.shape && !reading.request.params)
        return refused("model",
                       "is missing: a hub id, a name of the model table, params_b, or a shape (layers, "
                       "hidden, heads, vocab)");
    // Each of the two is in its range; together they may still be more tokens than any memory holds.
    if (const double tokens = static_cast<double>(reading.request.batch) *
                              static_cast<double>(reading.request.seq + reading.request.generated);
        tokens > 1e11)
        return refused("seq_len", "times batch_per_gpu must be at most 100,000,000,000 tokens");
    return std::move(reading.request);
}

}  // namespace gf
