#include "config/model_config.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "config/model_config_count.hpp"

namespace gf {
namespace {

using Fields = std::vector<std::pair<std::string, std::string>>;

std::string whole_text(double value) {
    return std::to_string(static_cast<long long>(std::min(value, 1e15)));
}

/// The level that describes the language model.
const Node* language_part(const Node& whole) {
    for (const char* name : {"text_config", "llm_config", "language_config"})
        if (const Node* part = whole.find(name);
            part != nullptr && part->kind == Node::Kind::mapping && !part->keys.empty())
            return part;
    return nullptr;
}

/// A quantization_config in the words that `quantization` takes; empty when it names no scheme that is known.
std::string scheme_of(const Node& quantization) {
    const ConfigReader q(quantization, false);
    const Node* named = q.scalar({"quant_method"});
    const std::string method = named != nullptr ? named->text.substr(0, 40) : "";
    const double bits = q.number({"bits", "w_bit"}).value_or(4);
    if (method == "awq" || method == "gptq") {
        const Node* group = q.scalar({"group_size", "q_group_size"});
        return method + "-int" + whole_text(bits) +
               (group == nullptr      ? " g128"
                : group->text == "-1" ? " no group"
                                      : " g" + group->text.substr(0, 8));
    }
    if (method == "bitsandbytes" || method == "bnb" || method.empty()) {
        if (q.is_true("load_in_4bit")) return q.is_true("bnb_4bit_use_double_quant") ? "nf4-dq" : "nf4";
        if (q.is_true("load_in_8bit")) return "bnb-int8";
        return "";
    }
    if (method == "fp8" || method == "fbgemm_fp8" || method == "finegrained_fp8") return "fp8";
    if (method == "mxfp4") return "mxfp4";
    if (method == "compressed-tensors") {
        const Node* groups = quantization.find("config_groups");
        if (groups == nullptr || groups->kind != Node::Kind::mapping || groups->items.empty()) return "";
        const Node* weights = groups->items.front().find("weights");
        if (weights == nullptr || weights->kind != Node::Kind::mapping) return "";
        const ConfigReader w(*weights, false);
        const Node* type = w.scalar({"type"});
        const double width = w.number({"num_bits"}).value_or(0);
        if (type == nullptr || width < 2) return "";
        if (type->text == "float") return width >= 8 ? "fp8" : "nvfp4";
        return "gptq-int" + whole_text(width) + " g128";
    }
    return "";
}

void add_native_type(const Node& whole, const Node& text, Architecture& a, Fields& out) {
    for (const Node* level : {&whole, &text}) {
        const Node* quantization = level->find("quantization_config");
        if (quantization == nullptr || quantization->kind != Node::Kind::mapping) continue;
        if (auto scheme = scheme_of(*quantization); !scheme.empty())
            out.emplace_back("native_dtype", std::move(scheme));
        else
            a.not_counted.emplace_back("the quantization_config, whose scheme is not known");
        return;
    }
    for (const Node* level : {&whole, &text})
        for (const char* name : {"torch_dtype", "dtype"})
            if (const Node* type = level->find(name);
                type != nullptr && type->kind == Node::Kind::scalar && !type->text.empty()) {
                out.emplace_back("native_dtype", type->text.substr(0, 40));
                return;
            }
}

/// Tokens that a layer with a window sees, where the program would use it, and how many layers see all.
void add_window(const ConfigReader& c, const Architecture& a, Fields& out) {
    const auto window = c.number({"sliding_window"});
    if (!window || *window < 1 || c.is_false("use_sliding_window")) return;
    const auto add = [&](double every) {
        out.emplace_back("window", whole_text(*window));
        if (every > 0) out.emplace_back("full_attention_every", whole_text(every));
    };
    if (const Node* types = c.node().find("layer_types");
        types != nullptr && types->kind == Node::Kind::sequence && !types->items.empty()) {
        const auto count = [&](std::string_view type) {
            return static_cast<double>(std::ranges::count(types->items, type, &Node::text));
        };
        // Other kinds of layers than these two: all are counted as seeing everything.
        const double sliding = count("sliding_attention");
        const double full = count("full_attention");
        if (sliding > 0 && sliding + full == a.layers) add(full > 0 ? std::floor(a.layers / full) : 0);
        return;
    }
    if (c.kind() == "gemma2" || c.kind() == "gpt_oss")
        add(2);
    else if (c.kind() == "gemma3")
        add(c.number({"sliding_window_pattern"}).value_or(6));
    else if (c.kind() == "mistral")
        add(0);
}

}  // namespace

Result<Fields> shape_of_model_config(const Node& whole) {
    const auto refused = [](std::string message, std::string field) {
        return fail(
            Error{.kind = ErrorKind::invalid, .message = std::move(message), .field = std::move(field)});
    };
    if (whole.kind != Node::Kind::mapping)
        return refused("config must be the contents of a model's config.json", "config");
    const Node* part = language_part(whole);
    const ConfigReader config(part != nullptr ? *part : whole, part != nullptr);
    const std::string kind = !config.kind().empty() ? config.kind() : ConfigReader(whole, false).kind();
    if (kind == "whisper")
        return refused(
            "config is of whisper, whose memory follows from anchors and not from its shape: give model "
            "(openai/whisper-large-v3 or another of its sizes) in its place",
            "config.model_type");
    Architecture a = count_architecture(whole, config);
    if (!a.missing.empty())
        return refused(
            "config" + (kind.empty() ? "" : " (" + kind + ")") + " has no " + a.missing +
                " that is a number: give params_b, or the shape (layers, hidden, heads, vocab), in its "
                "place",
            "config." + a.missing);
    Fields out;
    const auto always = [&](const char* name, double value) { out.emplace_back(name, whole_text(value)); };
    const auto add = [&](const char* name, double value) {
        if (value > 0) always(name, value);
    };
    if (a.kind != "llm") out.emplace_back("kind", a.kind);
    always("layers", a.layers);
    always("hidden", a.hidden);
    always("heads", a.heads);
    always("vocab", a.vocab);
    add("kv_heads", a.kv_heads);
    add("head_dim", a.head_dim);
    add("intermediate", a.intermediate);
    add("attention_layers", a.attention_layers);
    add("experts", a.experts);
    add("active_experts", a.active_experts);
    add("moe_intermediate", a.moe_intermediate);
    add("shared_intermediate", a.shared_intermediate);
    add("kv_latent", a.kv_latent);
    out.emplace_back("gated_mlp", a.gated ? "yes" : "no");
    out.emplace_back("tied_embeddings", a.tied ? "yes" : "no");
    add_window(config, a, out);
    add_native_type(whole, config.node(), a, out);
    if (a.params >= 1e5) out.emplace_back("counted_b", std::to_string(a.params / 1e9));
    for (const auto& what : a.not_counted) out.emplace_back("not_counted", what.substr(0, 200));
    if (part != nullptr && !config.filled_in().empty()) {
        std::string names;
        for (const auto& name : config.filled_in()) names += (names.empty() ? "" : ", ") + name;
        out.emplace_back("assumed", "left out by the config, so that of its class (" + kind + "): " + names);
    }
    return out;
}

}  // namespace gf
