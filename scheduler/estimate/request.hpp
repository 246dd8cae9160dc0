// What an estimate is asked for, read from named texts. One reader serves a job spec's `estimate:`, `POST
// /v1/estimate` and the rows of measured tables, so that the names of the columns and the short names of a
// spec mean the same. Pure.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/result.hpp"
#include "scheduler/estimate/quantization.hpp"
#include "scheduler/estimate/shape.hpp"

namespace gf {

enum class EstimateMethod : std::uint8_t {
    inference,
    load_only,
    full,
    lora,     // on a base as it is or quantised
    adapter,  // few trained weights of another kind: prefix, IA3, VeRA
};

/// Whose habits of memory the constants of an estimate describe.
enum class Stack : std::uint8_t {
    neutral,  // nothing is known of the program
    transformers,
    vllm,  // and others that set a cache aside for the configured length: SGLang, TGI
    llama_cpp,
    exllama,
    autoawq,
    gptq_for_llama,
    litgpt,
    peft,       // transformers with an adapter library
    deepspeed,  // in the same process
    fsdp,
    trl,
    llama_factory,
    unsloth,
    torchtune,
    axolotl,
};

enum class OptimizerKind : std::uint8_t { adamw, adamw_8bit, adamw_4bit, adafactor, sgd, muon, lion, lomo };
enum class Sharding : std::uint8_t {
    none,
    layer_split,
    tensor,
    pipeline,
    data,
    zero1,
    zero2,
    zero3,
    sequence
};
/// What a figure counts: PyTorch's allocated bytes, its reserved ones, or all that the driver shows of the
/// process.
enum class MemoryScope : std::uint8_t { unknown, allocated, reserved, device };
enum class LoraTargets : std::uint8_t { unknown, query_value, all_linear };

struct EstimateRequest {
    std::string model;                    // hub id or name, as typed; empty with a given shape
    std::string alias;                    // a second, looser name (the column `model` beside `hf_id`)
    std::optional<double> params;         // of the whole model
    std::optional<double> active_params;  // that one token passes
    std::optional<ModelShape> shape;      // given by the caller
    EstimateMethod method{EstimateMethod::inference};
    std::string domain;  // "" or "llm"; "diffusion", "video", "asr", "tts", "vocoder": said by the task
    bool pairs{false};   // two sequences per sample (preference training)
    Stack stack{Stack::neutral};
    std::string framework;           // as typed
    bool framework_known{false};     // its habits are in constants.hpp
    bool deepspeed{false};           // whatever the stack is
    bool weights_given{false};       // precision or quantization was said: the type of the files has no part
    double weight_bytes{2};          // of an unquantised weight
    bool half_precision{false};             // fp16, not bf16
    bool mixed_precision{false};     // fp32 weights with 16-bit copies
    bool pure_low_precision{false};  // 16-bit optimiser states, no fp32 master copy
    Quantization quantization;
    std::string quantization_text;  // as typed: for models of several parts
    std::optional<double> kv_bytes;  // of one element of the cache; else as wide as the activations
    std::int64_t batch{1};          // per GPU and micro-step
    std::int64_t seq{0};            // prompt or training tokens
    std::int64_t generated{0};
    bool batch_given{false};
    bool seq_given{false};
    std::int64_t width{0};
    std::int64_t height{0};
    std::int64_t frames{0};
    OptimizerKind optimizer{OptimizerKind::adamw};
    bool fused_backward{
        false};  // the optimiser's step runs inside the backward pass: no gradient outlives its layer
    bool checkpointing{false};
    bool checkpointing_given{false};
    bool eager_attention{false};  // scores are written out
    std::int64_t lora_rank{16};
    LoraTargets lora_targets{LoraTargets::unknown};
    Sharding sharding{Sharding::none};
    bool sharding_given{false};
    std::int64_t gpus{1};
    bool offload_activations{false};
    bool offload_params{false};
    bool offload_optimizer{false};
    bool offload_model{false};       // whole components wait in host memory
    bool offload_sequential{false};  // one layer at a time
    bool offload_encoders{false};    // text encoders
    bool tiling{false};              // decode in tiles or slices
    MemoryScope scope{MemoryScope::unknown};
    std::optional<double> margin;    // asked for in place of the method's
    std::vector<std::string> notes;  // what was understood with a doubt
};

using EstimateField = std::pair<std::string, std::string>;

/// Every name that the reader knows, those accepted and not used included; for "did you mean".
[[nodiscard]] const std::vector<std::string_view>& estimate_keys();

/// Reads named texts; an empty text means absent. Columns of measured tables that say where a row came from
/// (`id`, `source`, `notes`, `printed_value`, `peak_gib_per_gpu` among them) are accepted and not used; so is
/// any other unknown name when `strict` is false. Errors: `invalid` with the field, the value and the range.
/// A name that is there twice counts as it is given last, with a note; two names of one thing must agree.
Result<EstimateRequest> read_estimate_request(const std::vector<EstimateField>& fields, bool strict);

/// Takes the type in which a model is shipped ("bfloat16", "mxfp4 experts + bfloat16", "awq-int4 g128") for
/// its weights, where the request says none, with a note. Training expands fp8 and mxfp4.
void take_native_type(EstimateRequest& request, std::string_view native);

}  // namespace gf
