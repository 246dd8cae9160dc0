#include "config/model_config_count.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <set>
#include <utility>

namespace gf {
namespace {

constexpr double kNumberMax = 1e15;
constexpr double kLayersMax = 10'000;  // as the shape's own range

bool one_of(std::string_view word, std::initializer_list<std::string_view> words) {
    return std::ranges::find(words, word) != words.end();
}

std::optional<double> number_of(const Node& node) {
    if (node.kind != Node::Kind::scalar || node.text.empty()) return std::nullopt;
    double value = 0;
    const char* end = node.text.data() + node.text.size();
    const auto [stop, code] = std::from_chars(node.text.data(), end, value);
    if (code != std::errc{} || stop != end || !(value >= 0 && value <= kNumberMax)) return std::nullopt;
    return value;
}

/// Values that a class has where its nested config leaves them out (the hubs' classes of these names).
struct ClassDefaults {
    std::string_view kind;
    double layers, hidden, heads, kv_heads, head_dim, intermediate, vocab;
};
constexpr auto kDefaults = std::to_array<ClassDefaults>({{"llama", 32, 4096, 32, 0, 0, 11008, 32000},
                                                         {"mistral", 32, 4096, 32, 8, 0, 14336, 32000},
                                                         {"qwen2", 32, 4096, 32, 32, 0, 22016, 151936},
                                                         {"gemma", 28, 3072, 16, 16, 256, 24576, 256000},
                                                         {"gemma2", 26, 2304, 8, 4, 256, 9216, 256000},
                                                         {"gemma3", 26, 2304, 8, 4, 256, 9216, 262208}});

bool plain_kind(std::string_view kind) {
    return one_of(kind, {"llama",           "mistral",    "ministral", "qwen",        "qwen2",
                         "qwen3",           "gemma",      "gemma2",    "gemma3",      "phi",
                         "phi-msft",        "phi3",       "cohere",    "cohere2",     "olmo",
                         "olmo2",           "olmo3",      "stablelm",  "internlm",    "internlm2",
                         "baichuan",        "granite",    "smollm3",   "glm",         "glm4",
                         "chatglm",         "exaone4",    "seed_oss",  "helium",      "nemotron",
                         "persimmon",       "apertus",    "arcee",     "minicpm",     "gpt2",
                         "gpt_neo",         "gptj",       "gpt_neox",  "gpt_bigcode", "opt",
                         "bloom",           "mpt",        "falcon",    "codegen",     "RefinedWeb",
                         "RefinedWebModel", "starcoder2", "xverse",    "orion",       "qwen2_vl",
                         "qwen2_5_vl",      "qwen3_vl",   "mllama",    "bert",        "roberta",
                         "xlm-roberta",     "camembert",  "electra",   "mpnet",       "distilbert"});
}
bool known_mixture(std::string_view kind) {
    return one_of(kind,
                  {"mixtral", "qwen2_moe", "qwen3_moe", "deepseek_v2", "deepseek_v3", "kimi_k2", "gpt_oss",
                   "dbrx", "phimoe", "olmoe", "granitemoe", "llama4", "glm4_moe", "qwen3_vl_moe"});
}
/// Hybrids whose layers are counted one by one.
bool known_hybrid(std::string_view kind) {
    return one_of(kind, {"jamba", "nemotron_h", "qwen3_next", "nemotron-nas"});
}
bool encoder_kind(std::string_view kind) {
    return one_of(kind, {"bert", "roberta", "xlm-roberta", "camembert", "electra", "mpnet", "distilbert"});
}
bool ungated_kind(std::string_view kind) {
    return encoder_kind(kind) ||
           one_of(kind, {"gpt_neox", "gpt2",       "gptj",       "gpt_neo",     "opt",
                         "bloom",    "mpt",        "falcon",     "RefinedWeb",  "RefinedWebModel",
                         "phi",      "phi-msft",   "starcoder2", "gpt_bigcode", "codegen",
                         "nemotron", "nemotron_h", "persimmon",  "apertus",     "arcee"});
}
/// Falcon is not among them: its files have the head apart, and the published counts as well.
bool tied_kind(std::string_view kind) {
    return encoder_kind(kind) ||
           one_of(kind, {"gemma", "gemma2", "gemma3", "gemma3n", "gpt2", "gpt_neo", "bloom", "opt", "mpt",
                         "gpt_bigcode", "starcoder2", "cohere", "cohere2"});
}

/// An encoder of pictures: width, depth and MLP. 0 when the file does not tell them.
double vision_params(const Node& vision) {
    const ConfigReader v(vision, true);
    // The width of Qwen2-VL's tower is embed_dim; its hidden_size is that of the language model.
    const double h = v.number({"embed_dim", "hidden_size", "width"}).value_or(0);
    const double layers = v.number({"num_hidden_layers", "depth", "num_layers", "layers"}).value_or(0) +
                          v.number({"num_global_layers"}).value_or(0);
    const double wide = v.number({"intermediate_size"}).value_or(h * v.number({"mlp_ratio"}).value_or(4));
    const double matrices = one_of(v.kind(), {"qwen2_5_vl", "pixtral"}) ? 3 : 2;
    return layers * (4 * h * h + matrices * h * wide);
}

enum class Mixer { attention, state, linear, none };

/// The layers of a decoder one after the other: what mixes the tokens in each, and what comes after.
class Decoder {
 public:
    Decoder(const ConfigReader& c, Architecture& a) : c_(c), a_(a) {}

    void count() {
        read_attention();
        read_mlp();
        const auto layers = static_cast<std::int64_t>(std::min(a_.layers, kLayersMax));
        double kept = 0;  // key heads of all layers
        bool states = false;
        double widest_kv = 0;
        const double attention = attention_base();
        const double keys_and_values = a_.kv_latent > 0 ? 0 : 2 * a_.hidden * a_.head_dim;
        const double state = state_space();
        const double linear = linear_attention();
        for (std::int64_t i = 0; i < layers; ++i) {
            const Mixer mixer = mixer_at(i);
            const double kv = kv_heads_at(i);
            if (mixer == Mixer::attention) {
                a_.params += attention + keys_and_values * kv;
                kept += kv;
                widest_kv = std::max(widest_kv, kv);
            } else if (mixer == Mixer::state) {
                a_.params += state;
                states = true;
            } else if (mixer == Mixer::linear) {
                a_.params += linear;
                states = true;
            }
            a_.params += mlp_at(i);
        }
        if (widest_kv > 0) {
            a_.kv_heads = widest_kv;
            const double whole = std::ceil(kept / widest_kv);
            if (whole < static_cast<double>(layers)) a_.attention_layers = whole;
        }
        if (states) a_.not_counted.emplace_back("the states of its layers without attention");
        a_.params += a_.vocab * a_.hidden * (a_.tied ? 1 : 2);
        // Embeddings that each layer has of its own.
        a_.params += c_.number({"vocab_size_per_layer_input"}).value_or(0) *
                     c_.number({"hidden_size_per_layer_input"}).value_or(0) * a_.layers;
    }

 private:
    static const Node* part_of(const Node* blocks, std::int64_t i, const char* name) {
        if (blocks == nullptr || i >= std::ssize(blocks->items)) return nullptr;
        const Node* part = blocks->items[static_cast<std::size_t>(i)].find(name);
        return part != nullptr && part->kind == Node::Kind::mapping ? part : nullptr;
    }

    void read_attention() {
        const Node* attention = c_.node().find("attn_config");
        const bool one_group = c_.is_true("multi_query") && !c_.is_true("new_decoder_architecture");
        if (one_group)
            a_.kv_heads = 1;
        else if (const auto kv = c_.number({"num_key_value_heads", "num_kv_heads", "multi_query_group_num"}))
            a_.kv_heads = *kv;
        else if (attention != nullptr && attention->kind == Node::Kind::mapping)
            a_.kv_heads = ConfigReader(*attention, false).number({"kv_n_heads"}).value_or(0);
        if (a_.kv_heads == 0) a_.kv_heads = a_.heads;
        a_.head_dim = c_.number({"head_dim", "kv_channels", "attention_head_dim"}).value_or(0);
        if (a_.head_dim == 0) a_.head_dim = std::max(1.0, std::floor(a_.hidden / std::max(1.0, a_.heads)));
        if (const auto latent = c_.number({"kv_lora_rank"}); latent && *latent > 0) {
            // The cache holds the latent and one rotary key.
            a_.kv_latent = *latent + c_.number({"qk_rope_head_dim"}).value_or(64);
            a_.head_dim =
                c_.number({"qk_nope_head_dim"}).value_or(128) + c_.number({"qk_rope_head_dim"}).value_or(64);
            a_.kv_heads = a_.heads;
        }
        blocks_ = c_.node().find("block_configs");
        if (blocks_ != nullptr && blocks_->kind != Node::Kind::sequence) blocks_ = nullptr;
        attention_period_ = c_.number({"attn_layer_period"}).value_or(0);
        attention_offset_ = c_.number({"attn_layer_offset"}).value_or(0);
        full_interval_ = c_.number({"full_attention_interval"}).value_or(0);
        type_list_ = c_.node().find("layer_types");
        if (type_list_ != nullptr && type_list_->kind != Node::Kind::sequence) type_list_ = nullptr;
        if (const Node* pattern = c_.scalar({"hybrid_override_pattern"})) pattern_ = pattern->text;
        kv_list_ = nullptr;
        for (const char* name : {"num_key_value_heads", "num_key_value_heads_per_layer"})
            if (const Node* list = c_.node().find(name);
                list != nullptr && list->kind == Node::Kind::sequence)
                kv_list_ = list;
    }

    void read_mlp() {
        a_.intermediate =
            c_.number({"intermediate_size", "n_inner", "ffn_hidden_size", "ffn_dim", "hidden_dim"})
                .value_or(0);
        dense_ =
            c_.mean({"intermediate_size", "n_inner", "ffn_hidden_size", "ffn_dim", "hidden_dim"}).value_or(0);
        // The first Qwen prints the width of both branches together.
        if (c_.kind() == "qwen") dense_ = a_.intermediate = std::floor(a_.intermediate / 2);
        if (a_.intermediate == 0) {
            const double ratio = c_.number({"expansion_ratio"}).value_or(a_.gated ? 3 : 4);
            dense_ = a_.intermediate = a_.hidden * ratio;
        }
        a_.experts = c_.number({"num_local_experts", "num_experts", "n_routed_experts"}).value_or(0);
        a_.active_experts =
            c_.number({"num_experts_per_tok", "num_experts_per_token", "experts_per_token", "moe_topk"})
                .value_or(0);
        a_.moe_intermediate = c_.mean({"moe_intermediate_size"}).value_or(0);
        if (const Node* ffn = c_.node().find("ffn_config");
            ffn != nullptr && ffn->kind == Node::Kind::mapping) {
            const ConfigReader f(*ffn, false);
            if (const auto wide = f.number({"ffn_hidden_size"})) dense_ = a_.intermediate = *wide;
            if (const auto count = f.number({"moe_num_experts"})) a_.experts = *count;
            if (const auto active = f.number({"moe_top_k"})) a_.active_experts = *active;
        }
        if (a_.experts <= 1) a_.experts = a_.active_experts = a_.moe_intermediate = 0;
        if (a_.experts == 0) return;
        if (a_.active_experts == 0) a_.active_experts = 1;
        if (a_.moe_intermediate == 0) a_.moe_intermediate = dense_;
        const double shared = c_.number({"n_shared_experts", "num_shared_experts"}).value_or(0);
        a_.shared_intermediate = c_.number({"shared_expert_intermediate_size", "shared_intermediate_size"})
                                     .value_or(c_.kind() == "llama4" ? dense_ : shared * a_.moe_intermediate);
        if (const auto wide = c_.number({"intermediate_size_mlp"})) dense_ = *wide;
        if (const Node* list = c_.node().find("mlp_only_layers");
            list != nullptr && list->kind == Node::Kind::sequence)
            for (const auto& item : list->items)
                if (const auto at = number_of(item)) only_dense_.insert(static_cast<std::int64_t>(*at));
        first_dense_ = c_.number({"first_k_dense_replace"}).value_or(0);
        expert_period_ = c_.number({"expert_layer_period"}).value_or(0);
        expert_offset_ = c_.number({"expert_layer_offset"}).value_or(0);
        sparse_step_ = c_.number({"decoder_sparse_step", "interleave_moe_layer_step"}).value_or(1);
        mixture_frequency_ = c_.number({"moe_layer_freq"}).value_or(1);
    }

    Mixer mixer_at(std::int64_t i) const {
        if (const Node* part = part_of(blocks_, i, "attention")) {
            const ConfigReader p(*part, false);
            return p.is_true("no_op") || p.is_true("replace_with_linear") ? Mixer::none : Mixer::attention;
        }
        if (!pattern_.empty())
            return i >= std::ssize(pattern_)                      ? Mixer::none
                   : pattern_[static_cast<std::size_t>(i)] == '*' ? Mixer::attention
                   : pattern_[static_cast<std::size_t>(i)] == 'M' ? Mixer::state
                                                                  : Mixer::none;
        if (type_list_ != nullptr && i < std::ssize(type_list_->items)) {
            const std::string& type = type_list_->items[static_cast<std::size_t>(i)].text;
            if (type == "mamba") return Mixer::state;
            if (type == "linear_attention") return Mixer::linear;
            return Mixer::attention;
        }
        const auto at = static_cast<double>(i);
        if (attention_period_ >= 1)
            return std::fmod(at, attention_period_) == attention_offset_ ? Mixer::attention : Mixer::state;
        if (full_interval_ >= 1)
            return std::fmod(at + 1, full_interval_) == 0 ? Mixer::attention : Mixer::linear;
        return Mixer::attention;
    }

    double kv_heads_at(std::int64_t i) const {
        if (const Node* part = part_of(blocks_, i, "attention"))
            if (const auto group = ConfigReader(*part, false).number({"n_heads_in_group"});
                group && *group >= 1)
                return std::max(1.0, std::floor(a_.heads / *group));
        if (kv_list_ != nullptr && i < std::ssize(kv_list_->items))
            return number_of(kv_list_->items[static_cast<std::size_t>(i)]).value_or(a_.kv_heads);
        return a_.kv_heads;
    }

    /// All of it where the cache is a latent; else what does not depend on the key heads.
    double attention_base() const {
        const double h = a_.hidden;
        if (a_.kv_latent > 0) {
            const double rope = c_.number({"qk_rope_head_dim"}).value_or(64);
            const double nope = c_.number({"qk_nope_head_dim"}).value_or(128);
            const double value = c_.number({"v_head_dim"}).value_or(128);
            const double latent = a_.kv_latent - rope;
            const double rank = c_.number({"q_lora_rank"}).value_or(0);
            const double query =
                rank > 0 ? h * rank + rank * a_.heads * (nope + rope) : h * a_.heads * (nope + rope);
            return query + h * a_.kv_latent + latent * a_.heads * (nope + value) + a_.heads * value * h;
        }
        const double q = a_.heads * a_.head_dim;
        // The gate of its output is as wide as the query.
        const double queries = c_.kind() == "qwen3_next" ? 2 : 1;
        return queries * h * q + q * h;
    }

    double state_space() const {
        const double h = a_.hidden;
        const double state = c_.number({"ssm_state_size", "mamba_d_state", "state_size"}).value_or(16);
        if (const auto heads = c_.number({"mamba_num_heads", "mamba_n_heads"})) {
            const double inner = *heads * c_.number({"mamba_head_dim", "mamba_d_head"}).value_or(64);
            const double groups = c_.number({"n_groups", "mamba_n_groups"}).value_or(1);
            return h * (2 * inner + 2 * groups * state + *heads) + inner * h;
        }
        const double inner = h * c_.number({"mamba_expand", "expand"}).value_or(2);
        const double rank = c_.number({"mamba_dt_rank"}).value_or(std::ceil(h / 16));
        return 3 * h * inner + inner * (rank + 2 * state) + rank * inner + inner * state;
    }

    double linear_attention() const {
        const double keys = c_.number({"linear_num_key_heads"}).value_or(16) *
                            c_.number({"linear_key_head_dim"}).value_or(128);
        const double value_heads = c_.number({"linear_num_value_heads"}).value_or(32);
        const double values = value_heads * c_.number({"linear_value_head_dim"}).value_or(128);
        return a_.hidden * (2 * keys + 2 * values + 2 * value_heads) + values * a_.hidden;
    }

    bool mixture_at(std::int64_t i) const {
        const auto at = static_cast<double>(i);
        if (at < first_dense_ || only_dense_.contains(i)) return false;
        if (expert_period_ >= 1) return std::fmod(at, expert_period_) == expert_offset_;
        if (sparse_step_ > 1) return std::fmod(at + 1, sparse_step_) == 0;
        if (mixture_frequency_ > 1) return std::fmod(at, mixture_frequency_) == 0;
        return true;
    }

    double mlp_at(std::int64_t i) {
        const double h = a_.hidden;
        const double matrices = a_.gated ? 3 : 2;
        if (const Node* part = part_of(blocks_, i, "ffn")) {
            const ConfigReader p(*part, false);
            if (p.is_true("no_op")) return 0;
            if (p.is_true("replace_with_linear")) return h * h;
            // Two thirds of so many times the width, up to a multiple of 256.
            if (const auto times = p.number({"ffn_mult"})) {
                const double wide = std::ceil(std::floor(2 * *times * h / 3) / 256) * 256;
                widest_block_ = std::max(widest_block_, wide);
                a_.intermediate = widest_block_;
                return 3 * h * wide;
            }
        }
        if (!pattern_.empty() &&
            (i >= std::ssize(pattern_) ||
             (pattern_[static_cast<std::size_t>(i)] != '-' && pattern_[static_cast<std::size_t>(i)] != 'E')))
            return 0;
        const bool mixture = a_.experts > 0 &&
                             (pattern_.empty() || pattern_[static_cast<std::size_t>(i)] == 'E') &&
                             mixture_at(i);
        if (!mixture) return matrices * h * dense_;
        return matrices * h * (a_.experts * a_.moe_intermediate + a_.shared_intermediate) + h * a_.experts;
    }

    const ConfigReader& c_;
    Architecture& a_;
    std::string pattern_;
    const Node* type_list_{nullptr};
    const Node* kv_list_{nullptr};
    const Node* blocks_{nullptr};
    std::set<std::int64_t> only_dense_;
    double first_dense_{0};
    double expert_period_{0};
    double expert_offset_{0};
    double sparse_step_{1};
    double mixture_frequency_{1};
    double attention_period_{0};
    double attention_offset_{0};
    double full_interval_{0};
    double dense_{0};
    double widest_block_{0};
};

/// T5 and BART: two stacks, of which the second attends to the first as well.
bool count_two_stacks(const ConfigReader& c, Architecture& a) {
    const auto hidden = c.number({"d_model"});
    const bool t5 = hidden && c.number({"d_ff"}) && c.number({"num_heads"}) && c.number({"num_layers"});
    const bool bart = hidden && c.number({"encoder_layers"}) && c.number({"decoder_layers"}) &&
                      c.number({"encoder_attention_heads"});
    if (!t5 && !bart) return false;
    const double encoder = c.number({"encoder_layers", "num_layers"}).value_or(0);
    const double decoder = c.number({"decoder_layers", "num_decoder_layers"}).value_or(encoder);
    a.kind = "seq2seq";
    a.hidden = *hidden;
    a.layers = std::max(encoder, decoder);
    a.heads = a.kv_heads = c.number({"num_heads", "decoder_attention_heads"}).value_or(1);
    a.head_dim = c.number({"d_kv"}).value_or(std::max(1.0, std::floor(a.hidden / std::max(1.0, a.heads))));
    a.intermediate = c.number({"d_ff", "decoder_ffn_dim"}).value_or(4 * a.hidden);
    const Node* projection = c.scalar({"feed_forward_proj"});
    a.gated = projection != nullptr && projection->text.starts_with("gated");
    a.tied = !c.is_false("tie_word_embeddings");
    a.vocab = c.number({"vocab_size"}).value_or(0);
    const double attention = 4 * a.hidden * a.heads * a.head_dim;
    const double mlp = (a.gated ? 3 : 2) * a.hidden * a.intermediate;
    a.params =
        encoder * (attention + mlp) + decoder * (2 * attention + mlp) + a.vocab * a.hidden * (a.tied ? 1 : 2);
    return true;
}

}  // namespace

ConfigReader::ConfigReader(const Node& config, bool nested) : config_(&config), nested_(nested) {
    if (const Node* type = scalar({"model_type"})) kind_ = type->text.substr(0, 80);
    for (const std::string_view end : {"_text_model", "_text"})
        if (kind_.size() > end.size() && kind_.ends_with(end)) kind_.resize(kind_.size() - end.size());
}

const Node* ConfigReader::scalar(std::initializer_list<std::string_view> names) const {
    for (const auto name : names)
        if (const Node* found = config_->find(name);
            found != nullptr && found->kind == Node::Kind::scalar && !found->text.empty())
            return found;
    return nullptr;
}

std::vector<double> ConfigReader::numbers(std::initializer_list<std::string_view> names) const {
    for (const auto name : names) {
        const Node* found = config_->find(name);
        if (found == nullptr) continue;
        if (const auto value = number_of(*found)) return {*value};
        if (found->kind != Node::Kind::sequence) continue;
        std::vector<double> values;
        for (const auto& item : found->items)
            if (const auto value = number_of(item)) values.push_back(*value);
        if (!values.empty()) return values;
    }
    return {};
}

std::optional<double> ConfigReader::number(std::initializer_list<std::string_view> names) const {
    const auto values = numbers(names);
    return values.empty() ? class_default(names) : std::optional(std::ranges::max(values));
}

std::optional<double> ConfigReader::mean(std::initializer_list<std::string_view> names) const {
    const auto values = numbers(names);
    if (values.empty()) return class_default(names);
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

std::optional<double> ConfigReader::class_default(std::initializer_list<std::string_view> names) const {
    const auto row = std::ranges::find(kDefaults, std::string_view(kind_), &ClassDefaults::kind);
    if (row == kDefaults.end()) return std::nullopt;
    // A head's width is left out by whole files of these classes as well.
    constexpr auto kFields = std::to_array<std::pair<std::string_view, double ClassDefaults::*>>(
        {{"num_hidden_layers", &ClassDefaults::layers},
         {"hidden_size", &ClassDefaults::hidden},
         {"num_attention_heads", &ClassDefaults::heads},
         {"num_key_value_heads", &ClassDefaults::kv_heads},
         {"head_dim", &ClassDefaults::head_dim},
         {"intermediate_size", &ClassDefaults::intermediate},
         {"vocab_size", &ClassDefaults::vocab}});
    for (const auto& [name, member] : kFields)
        if (std::ranges::find(names, name) != names.end() && (*row).*member > 0 &&
            (nested_ || name == "head_dim")) {
            if (std::ranges::find(filled_in_, name) == filled_in_.end()) filled_in_.emplace_back(name);
            return (*row).*member;
        }
    return std::nullopt;
}

bool ConfigReader::is_true(std::string_view name) const {
    const Node* found = scalar({name});
    return found != nullptr && one_of(found->text, {"true", "True", "1"});
}
bool ConfigReader::is_false(std::string_view name) const {
    const Node* found = scalar({name});
    return found != nullptr && one_of(found->text, {"false", "False", "0"});
}

Architecture count_architecture(const Node& whole, const ConfigReader& c) {
    Architecture a;
    if (!count_two_stacks(c, a)) {
        const auto layers = c.number({"num_hidden_layers", "n_layer", "n_layers", "num_layers"});
        const auto hidden = c.number({"hidden_size", "n_embd", "d_model", "dim"});
        const auto heads = c.number({"num_attention_heads", "n_head", "n_heads", "num_heads"});
        const auto vocab = c.number({"vocab_size", "padded_vocab_size"});
        a.missing = !layers   ? "num_hidden_layers"
                    : !hidden ? "hidden_size"
                    : !heads  ? "num_attention_heads"
                    : !vocab  ? "vocab_size"
                              : "";
        if (!a.missing.empty()) return a;
        a.layers = *layers;
        a.hidden = *hidden;
        a.heads = *heads;
        a.vocab = *vocab;
        if (encoder_kind(c.kind())) a.kind = "encoder";
        a.gated = !ungated_kind(c.kind());
        a.tied = tied_kind(c.kind()) ? !c.is_false("tie_word_embeddings") : c.is_true("tie_word_embeddings");
        Decoder(c, a).count();
        const bool known =
            plain_kind(c.kind()) || known_hybrid(c.kind()) || (known_mixture(c.kind()) && a.experts > 0);
        if (!known)
            a.not_counted.push_back("what " +
                                    (c.kind().empty() ? "an architecture without a model_type" : c.kind()) +
                                    " has beside attention and MLP");
        else if (plain_kind(c.kind()) && a.experts > 0)
            a.not_counted.push_back("how " + c.kind() + " places its experts");
    } else if (a.vocab == 0) {
        a.missing = "vocab_size";
        return a;
    }
    for (const char* name : {"vision_config", "visual", "vit_config", "vision_tower_config"})
        if (const Node* vision = whole.find(name); vision != nullptr && vision->kind == Node::Kind::mapping) {
            const double tower = vision_params(*vision);
            a.params += tower;
            a.not_counted.emplace_back(tower > 0 ? "what a pass of the vision tower takes"
                                                 : "the vision tower");
        }
    for (const char* name : {"audio_config", "audio_encoder", "talker_config", "token2wav_config"})
        if (const Node* audio = whole.find(name); audio != nullptr && audio->kind == Node::Kind::mapping) {
            a.not_counted.emplace_back("the parts for audio");
            break;
        }
    return a;
}

}  // namespace gf
