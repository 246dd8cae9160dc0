#include "config/model_config.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace gf {
namespace {

/// The first of these keys that has a plain value.
const Node* first_of(const Node& config, std::initializer_list<std::string_view> names) {
    for (const auto name : names)
        if (const Node* found = config.find(name);
            found != nullptr && found->kind == Node::Kind::scalar && !found->text.empty())
            return found;
    return nullptr;
}

bool one_of(std::string_view word, std::initializer_list<std::string_view> words) {
    return std::ranges::find(words, word) != words.end();
}

}  // namespace

Result<std::vector<std::pair<std::string, std::string>>> shape_of_model_config(const Node& whole) {
    if (whole.kind != Node::Kind::mapping)
        return fail(Error{.kind = ErrorKind::invalid,
                          .message = "config must be the contents of a model's config.json",
                          .field = "config"});
    const Node* text = whole.find("text_config");
    const Node& config = text != nullptr && text->kind == Node::Kind::mapping &&
                                 first_of(*text, {"num_hidden_layers", "hidden_size"}) != nullptr
                             ? *text
                             : whole;
    std::vector<std::pair<std::string, std::string>> out;
    const auto take = [&](const char* field, std::initializer_list<std::string_view> names) {
        const Node* found = first_of(config, names);
        if (found != nullptr) out.emplace_back(field, found->text);
        return found != nullptr;
    };
    const auto missing = [](const char* name) {
        return fail(Error{.kind = ErrorKind::invalid,
                          .message = std::string("config has no ") + name,
                          .field = std::string("config.") + name});
    };
    if (!take("layers", {"num_hidden_layers", "n_layer", "n_layers", "num_layers"}))
        return missing("num_hidden_layers");
    if (!take("hidden", {"hidden_size", "n_embd", "d_model"})) return missing("hidden_size");
    if (!take("heads", {"num_attention_heads", "n_head", "n_heads"})) return missing("num_attention_heads");
    if (!take("vocab", {"vocab_size", "padded_vocab_size"})) return missing("vocab_size");
    take("kv_heads", {"num_key_value_heads", "num_kv_heads", "multi_query_group_num"});
    take("head_dim", {"head_dim", "kv_channels"});
    take("intermediate", {"intermediate_size", "n_inner", "ffn_hidden_size", "ffn_dim"});
    if (take("experts", {"num_local_experts", "num_experts", "n_routed_experts"})) {
        take("active_experts", {"num_experts_per_tok", "num_experts_per_token", "experts_per_token"});
        take("moe_intermediate", {"moe_intermediate_size"});
    }
    if (const Node* latent = first_of(config, {"kv_lora_rank"})) {
        // The cache holds the latent and one rotary key.
        const Node* rope = first_of(config, {"qk_rope_head_dim"});
        const auto number = [](const Node* n) {
            long long value = 0;
            for (const char c : n->text)
                if (c >= '0' && c <= '9' && value < 10'000'000) value = value * 10 + (c - '0');
            return value;
        };
        out.emplace_back("kv_latent", std::to_string(number(latent) + (rope != nullptr ? number(rope) : 64)));
    }
    const Node* type = first_of(config, {"model_type"});
    const std::string_view kind = type != nullptr ? std::string_view(type->text) : std::string_view{};
    const Node* many = config.find("multi_query");
    if (many != nullptr && many->text == "true" &&
        first_of(config, {"num_key_value_heads", "num_kv_heads"}) == nullptr)
        out.emplace_back("kv_heads", "1");
    if (one_of(kind, {"gpt_neox", "gpt2", "gptj", "opt", "bloom", "mpt", "falcon", "RefinedWeb", "phi",
                      "phi-msft", "starcoder2", "gpt_bigcode"}))
        out.emplace_back("gated_mlp", "no");
    if (const Node* tied = first_of(config, {"tie_word_embeddings"}))
        out.emplace_back("tied_embeddings", tied->text);
    else if (one_of(kind, {"gemma", "gemma2", "gemma3", "gemma3_text", "gpt2", "bloom", "falcon", "opt",
                           "mpt", "gpt_bigcode", "starcoder2"}))
        out.emplace_back("tied_embeddings", "yes");
    // A window in the file counts only where it is used.
    const Node* use = config.find("use_sliding_window");
    if (const Node* window = first_of(config, {"sliding_window"});
        window != nullptr && (use == nullptr || use->text != "false")) {
        if (kind == "gemma2" || kind == "gpt_oss") {
            out.emplace_back("window", window->text);
            out.emplace_back("full_attention_every", "2");
        } else if (kind.starts_with("gemma3")) {
            out.emplace_back("window", window->text);
            out.emplace_back("full_attention_every", "6");
        } else if (kind == "mistral") {
            out.emplace_back("window", window->text);
        }
    }
    return out;
}

}  // namespace gf
