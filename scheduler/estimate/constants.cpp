#include "scheduler/estimate/constants.hpp"

namespace gf {
namespace {

InferenceConstants& inference_of(Constants& c, Stack stack) {
    return c.inference[static_cast<std::size_t>(stack)];
}
TrainingConstants& training_of(Constants& c, Stack stack) {
    return c.training[static_cast<std::size_t>(stack)];
}

}  // namespace

StackTraits traits_of(Stack stack) {
    StackTraits t;
    switch (stack) {
        case Stack::autoawq:
            t.fuses_qkv = true;
            t.windowed_cache = false;
            break;
        case Stack::exllama:
            t.windowed_cache = false;
            break;
        case Stack::gptq_for_llama:
            t.token_by_token = true;
            t.windowed_cache = false;
            break;
        case Stack::litgpt:
            t.head_quantised = true;
            t.pure_low_precision = true;
            t.query_value = true;
            t.windowed_cache = false;
            break;
        case Stack::torchtune:
            t.pure_low_precision = true;
            break;
        case Stack::axolotl:
        case Stack::unsloth:
            t.pure_low_precision = true;
            t.double_quant = true;
            break;
        case Stack::neutral:
        case Stack::transformers:
        case Stack::vllm:
        case Stack::llama_cpp:
        case Stack::peft:
        case Stack::deepspeed:
        case Stack::fsdp:
        case Stack::trl:
        case Stack::llama_factory:
            break;
    }
    return t;
}

Constants Constants::neutral() {
    Constants c;
    // vLLM and its like pass a prompt in pieces, and keep graphs and workspaces.
    inference_of(c, Stack::vllm).fixed_gib = 0.5;
    inference_of(c, Stack::vllm).split_gib = 1.0;
    inference_of(c, Stack::vllm).chunk = 8192;
    inference_of(c, Stack::llama_cpp).fixed_gib = 0.3;
    inference_of(c, Stack::llama_cpp).chunk = 512;
    // Programs of which it is known that they cut the loss into pieces.
    for (const Stack stack : {Stack::torchtune, Stack::axolotl, Stack::unsloth})
        training_of(c, stack).logits = 1.25;
    for (const Stack stack : {Stack::litgpt, Stack::torchtune, Stack::axolotl})
        training_of(c, stack).fixed_gib = 0.3;
    // The scores of grouped heads: 16-bit, 32-bit in the softmax, 16-bit again.
    inference_of(c, Stack::autoawq).score_bytes = 8;
    inference_of(c, Stack::autoawq).prompt_logits = 2;
    return c;
}

const Constants& Constants::shipped() {
    static const Constants constants = [] {
        Constants c = neutral();
        inference_of(c, Stack::transformers).fixed_gib = 0.05;
        inference_of(c, Stack::gptq_for_llama).fixed_gib = 0.06;
        inference_of(c, Stack::exllama).fixed_gib = 0.33;
        inference_of(c, Stack::autoawq).fixed_gib = 0.15;
        inference_of(c, Stack::litgpt).fixed_gib = 0.04;
        inference_of(c, Stack::litgpt).split_gib = 0.7;
        // Programs of which nothing is known are most often built on the same libraries as these.
        for (const Stack stack : {Stack::neutral, Stack::transformers, Stack::peft, Stack::trl,
                                  Stack::llama_factory, Stack::deepspeed}) {
            training_of(c, stack).adapter_bytes = 22;
            training_of(c, stack).fixed_gib = 1.7;
            training_of(c, stack).logits = 12;
        }
        training_of(c, Stack::llama_factory).fixed_gib = 0.5;
        training_of(c, Stack::litgpt).activations = 0.94;
        training_of(c, Stack::torchtune).logits = 3;
        training_of(c, Stack::torchtune).fixed_gib = 1.0;
        training_of(c, Stack::torchtune).fixed_torch_gib = 1.0;
        training_of(c, Stack::torchtune).activations = 0.95;
        training_of(c, Stack::axolotl).logits = 2.5;
        training_of(c, Stack::axolotl).fixed_torch_gib = 0.5;
        training_of(c, Stack::axolotl).adapter_bytes = 18;
        c.concatenated_cache = 2.05;
        c.concatenated_gib = 0.4;
        c.bucket_fixed_gib = 3.0;
        c.mixture_gather = 3.3;
        return c;
    }();
    return constants;
}

std::vector<Tunable> tunables(Constants& c) {
    std::vector<Tunable> out;
    const auto add = [&](std::string name, double& value, double least, double most) {
        out.push_back({.name = std::move(name), .value = &value, .least = least, .most = most});
    };
    struct Named {
        Stack stack;
        std::string_view name;
    };
    for (const auto& [stack, name] :
         {Named{Stack::transformers, "transformers"}, Named{Stack::gptq_for_llama, "gptq_for_llama"},
          Named{Stack::exllama, "exllama"}, Named{Stack::autoawq, "autoawq"},
          Named{Stack::litgpt, "litgpt"}}) {
        const std::string prefix = "inference." + std::string(name) + ".";
        add(prefix + "fixed_gib", inference_of(c, stack).fixed_gib, 0, 1);
        add(prefix + "share", inference_of(c, stack).share, 0, 0.06);
        add(prefix + "split_gib", inference_of(c, stack).split_gib, 0, 1.5);
    }
    add("inference.litgpt.scratch", inference_of(c, Stack::litgpt).scratch, 0, 3);
    add("inference.transformers.scratch", inference_of(c, Stack::transformers).scratch, 0, 3);
    add("inference.autoawq.score_bytes", inference_of(c, Stack::autoawq).score_bytes, 0, 12);
    for (const auto& [stack, name] :
         {Named{Stack::peft, "peft"}, Named{Stack::trl, "trl"}, Named{Stack::llama_factory, "llama_factory"},
          Named{Stack::litgpt, "litgpt"}, Named{Stack::torchtune, "torchtune"},
          Named{Stack::axolotl, "axolotl"}}) {
        const std::string prefix = "training." + std::string(name) + ".";
        add(prefix + "fixed_gib", training_of(c, stack).fixed_gib, 0, 3);
        add(prefix + "fixed_torch_gib", training_of(c, stack).fixed_torch_gib, 0, 3);
        add(prefix + "adapter_bytes", training_of(c, stack).adapter_bytes, 10, 32);
        add(prefix + "logits", training_of(c, stack).logits, 1, 14);
        add(prefix + "activations", training_of(c, stack).activations, 0.7, 1.2);
    }
    add("concatenated_cache", c.concatenated_cache, 1.5, 2.5);
    add("concatenated_gib", c.concatenated_gib, 0, 1);
    add("quantised_inputs", c.quantised_inputs, 0, 4);
    add("bucket_fixed_gib", c.bucket_fixed_gib, 0, 5);
    add("mixture_gather", c.mixture_gather, 1, 6);
    add("sharded_fixed_gib", c.sharded_fixed_gib, 0, 4);
    return out;
}

}  // namespace gf
