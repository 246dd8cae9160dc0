#include "scheduler/estimate/quantization.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "model/spelling.hpp"

namespace gf {
namespace {

std::string folded(std::string_view text) {
    std::string out;
    for (const char c : text.substr(0, 200))
        out.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c == '_' ? '-' : c);
    while (!out.empty() && out.back() == ' ') out.pop_back();
    while (!out.empty() && out.front() == ' ') out.erase(out.begin());
    return out;
}

bool has(std::string_view text, std::string_view part) {
    return text.find(part) != std::string_view::npos;
}

// Bits per weight of llama.cpp's types, as its quantize tool prints them for Llama-3.1-8B; Q4_0, Q4_1, Q5_0
// and Q5_1 by construction (18, 20, 22, 24 bytes per 32 weights and a Q6_K head).
constexpr auto kGguf = std::to_array<std::pair<std::string_view, double>>({
    {"iq1-s", 2.00},  {"iq1-m", 2.15},   {"iq2-xxs", 2.38}, {"iq2-xs", 2.59}, {"iq2-s", 2.74},
    {"iq2-m", 2.93},  {"iq3-xxs", 3.25}, {"iq3-xs", 3.50},  {"iq3-s", 3.66},  {"iq3-m", 3.76},
    {"iq4-xs", 4.46}, {"iq4-nl", 4.68},  {"q2-k", 3.16},    {"q2-k-s", 2.97}, {"q3-k-s", 3.64},
    {"q3-k-m", 4.00}, {"q3-k-l", 4.30},  {"q4-0", 4.55},    {"q4-1", 5.03},   {"q4-k-s", 4.67},
    {"q4-k-m", 4.89}, {"q5-0", 5.54},    {"q5-1", 6.01},    {"q5-k-s", 5.57}, {"q5-k-m", 5.70},
    {"q6-k", 6.56},   {"q8-0", 8.50},    {"f16", 16.0},     {"bf16", 16.0},   {"f32", 32.0},
    {"q3-k", 4.00},   {"q4-k", 4.89},    {"q5-k", 5.70},
});

/// The number before "bpw", "bit" or after "int"; 0 when there is none.
double bits_in(std::string_view text) {
    const auto number_at = [&](std::size_t at) {
        double value = 0;
        double scale = 1;
        bool point = false;
        for (; at < text.size(); ++at) {
            if (text[at] >= '0' && text[at] <= '9') {
                if (point) scale /= 10;
                value = point ? value + (text[at] - '0') * scale : value * 10 + (text[at] - '0');
            } else if (text[at] == '.' && !point) {
                point = true;
            } else {
                break;
            }
        }
        return value;
    };
    for (const std::string_view word : {"int", "w"})
        if (const auto at = text.find(word); at != std::string_view::npos)
            if (const double v = number_at(at + word.size()); v > 0) return v;
    for (const std::string_view word : {"bpw", "bit", "-bit", " bit"}) {
        const auto end = text.find(word);
        if (end == std::string_view::npos || end == 0) continue;
        std::size_t begin = end;
        if (text[begin - 1] == '-' || text[begin - 1] == ' ') --begin;
        const std::size_t last = begin;
        while (begin > 0 && ((text[begin - 1] >= '0' && text[begin - 1] <= '9') || text[begin - 1] == '.'))
            --begin;
        if (begin < last)
            if (const double v = number_at(begin); v > 0) return v;
    }
    return 0;
}

/// Scales and zero points per weight: groups of 128 cost 0.2 bits (4.15 to 4.25 are printed), of 32 0.63, of
/// 64 0.35, none nothing.
double group_overhead(std::string_view text) {
    if (has(text, "no group") || has(text, "g-1") || has(text, "gnone")) return 0.0;
    if (has(text, "g32")) return 0.63;
    if (has(text, "g64")) return 0.35;
    if (has(text, "g1024") || has(text, "g256")) return 0.08;
    return 0.2;
}

}  // namespace

Result<Quantization> parse_quantization(std::string_view text) {
    const std::string s = folded(text);
    Quantization out;
    if (s.empty() || s == "none" || s == "no" || s == "false" || s == "bf16" || s == "fp16" ||
        s == "bfloat16" || s == "float16")
        return out;
    out.scheme = std::string(text);
    const auto made = [&](QuantKernel kernel, double bits) {
        out.kernel = kernel;
        out.bits = bits;
        return out;
    };
    std::string_view gguf = s;
    if (gguf.starts_with("gguf")) gguf.remove_prefix(std::min<std::size_t>(gguf.size(), 5));
    for (const auto& [name, bits] : kGguf)
        if (gguf == name) return made(QuantKernel::gguf, bits);
    // A scale of 8 bits for 32 values, and for 16.
    if (has(s, "mxfp4")) return made(QuantKernel::mxfp4, 4.25);
    if (has(s, "nvfp4")) return made(QuantKernel::mxfp4, 4.5);
    if (has(s, "nf4") || has(s, "fp4"))
        return made(QuantKernel::bitsandbytes, has(s, "dq") || has(s, "double") ? 4.127 : 4.5);
    double bits = bits_in(s);
    if (has(s, "fp8") || has(s, "float8") || has(s, "e4m3")) return made(QuantKernel::fp8, 8.03);
    if (bits == 0 && has(s, "exl2")) bits = 4;
    if (bits == 0 && (has(s, "gptq") || has(s, "awq"))) bits = 4;
    if (bits < 1 || bits > 16)
        return fail(Error{
            .kind = ErrorKind::invalid,
            .message =
                "quantization \"" + std::string(text.substr(0, 80)) +
                "\" is not a scheme that is known here: none, fp8, int8, int4, bnb-int8, nf4, nf4-dq, mxfp4, "
                "gptq-int4 (g32, "
                "g64, g128, no group; int2 to int8), awq-int4, exl2 with bpw, or a GGUF type such as Q4_K_M",
            .field = "quantization"});
    if (has(s, "exl2")) return made(QuantKernel::exl2, bits);
    if (has(s, "awq")) return made(QuantKernel::awq, bits + group_overhead(s));
    if (has(s, "gptq") || has(s, "w4a16") || has(s, "w8a16") || has(s, "autoround") || has(s, "hqq"))
        return made(QuantKernel::gptq, bits + group_overhead(s));
    if (has(s, "bnb") || has(s, "bitsandbytes") || has(s, "llm.int8"))
        return made(QuantKernel::bitsandbytes, bits >= 8 ? 8.05 : 4.5);
    return made(QuantKernel::on_load, bits + 0.05);
}

Result<double> parse_dtype(std::string_view text, std::string_view field) {
    const std::string s = folded(text);
    if (s.empty() || s == "auto") return 2.0;
    struct Name {
        std::string_view text;
        double bytes;
    };
    // Several in one text ("float32, fp16 AMP"): the first is how the weights lie in memory.
    constexpr auto kNames = std::to_array<Name>({{"float32 checkpoint run in fp16", 2},
                                                 {"float32 decode", 2},
                                                 {"bfloat16", 2},
                                                 {"bf16", 2},
                                                 {"float16", 2},
                                                 {"fp16", 2},
                                                 {"half", 2},
                                                 {"float32", 4},
                                                 {"fp32", 4},
                                                 {"tf32", 4},
                                                 {"fp8", 1},
                                                 {"float8", 1},
                                                 {"int8", 1}});
    const Name* found = nullptr;
    std::size_t at = std::string::npos;
    for (const auto& name : kNames)
        if (const auto here = s.find(name.text); here < at) {
            at = here;
            found = &name;
        }
    if (found != nullptr) return found->bytes;
    return fail(Error{.kind = ErrorKind::invalid,
                      .message = std::string(field) +
                                 " must be float32, bfloat16, float16, fp8 or int8, not \"" +
                                 std::string(text.substr(0, 80)) + "\"",
                      .field = std::string(field)});
}

}  // namespace gf
