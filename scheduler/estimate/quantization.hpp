// How the weights lie in memory: a data type or a scheme of quantisation, from what people and tables call
// it.
#pragma once
#include <string>
#include <string_view>

#include "model/result.hpp"

namespace gf {

enum class QuantKernel {
    none,          // as in `weights`: 32, 16 or 8 bits a weight
    fp8,           // 8-bit floats; the head becomes a matrix of its own
    gptq,          // integers in groups; embedding and head stay in 16 bits
    awq,           // the same, by another kernel
    bitsandbytes,  // NF4, FP4, LLM.int8: dequantised matrix by matrix
    gguf,          // llama.cpp: the embeddings are quantised as well
    exl2,          // ExLlama v2, any number of bits
    on_load,       // the model's own code quantises while it loads
    mxfp4,         // 4-bit floats in blocks: of a mixture the experts only
};

struct Quantization {
    QuantKernel kernel{QuantKernel::none};
    double bits{0};  // per quantised weight, with scales; 0 with `none`
    std::string scheme{"none"};
    [[nodiscard]] bool quantised() const { return kernel != QuantKernel::none; }
};

/// Reads "none", "", "fp8", "gptq-int4 g128", "awq-int4", "nf4", "nf4-dq", "bnb-int8", "int8", "mxfp4",
/// "Q4_K_M", "exl2 4.0bpw", …; any case. Errors: `invalid` with the field "quantization".
Result<Quantization> parse_quantization(std::string_view text);

/// Bytes of one unquantised weight: 4, 2 or 1. "bfloat16", "bf16", "fp16", "float16", "float32", "fp32",
/// "fp8", "int8"; of a text that names several ("float32, fp16 AMP") the first. Empty = 2. Errors: `invalid`
/// with `field`.
Result<double> parse_dtype(std::string_view text, std::string_view field);

}  // namespace gf
