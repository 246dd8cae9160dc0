// The parameters of published models, counted from what their config.json says.
#include <doctest/doctest.h>

#include <cstdlib>
#include <string>

#include "config/model_config.hpp"

using namespace gf;

namespace {

struct Counted {
    double billions{0};
    std::string not_counted;
    std::string attention_layers;
    std::string kv_heads;
};

Counted counted(const std::string& json) {
    const auto node = read_json(json);
    REQUIRE(node);
    const auto fields = shape_of_model_config(*node);
    if (!fields) FAIL(fields.error().message);
    Counted out;
    for (const auto& [name, text] : *fields) {
        if (name == "counted_b") out.billions = std::strtod(text.c_str(), nullptr);
        if (name == "not_counted") out.not_counted += text + ";";
        if (name == "attention_layers") out.attention_layers = text;
        if (name == "kv_heads") out.kv_heads = text;
    }
    return out;
}

/// 80 blocks as a search over architectures leaves them: some without attention, some with fewer key heads.
std::string searched() {
    std::string blocks;
    for (int i = 0; i < 80; ++i) {
        const char* attention = i % 4 == 3   ? R"({"no_op":true,"n_heads_in_group":null})"
                                : i % 4 == 2 ? R"({"n_heads_in_group":16})"
                                             : R"({"n_heads_in_group":8})";
        blocks += std::string(i == 0 ? "" : ",") + R"({"attention":)" + attention +
                  R"(,"ffn":{"ffn_mult":1.3125,"no_op":false}})";
    }
    return R"({"model_type":"nemotron-nas","num_key_value_heads":null,"intermediate_size":null,"hidden_size":8192,
               "num_attention_heads":64,"num_hidden_layers":80,"vocab_size":128256,"tie_word_embeddings":false,"block_configs":[)" +
           blocks + "]}";
}

}  // namespace

TEST_CASE("the parameters of published models follow from their config.json") {
    struct Case {
        const char* name;
        double billions;
        const char* not_counted;  // "" = everything is
        const char* json;
    };
    const Case
        cases
            []{
                {"llama3-8b", 8.03, "",
                 R"({"hidden_size": 4096, "intermediate_size": 14336, "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "tie_word_embeddings": false, "torch_dtype": "bfloat16", "vocab_size": 128256})"},
                {"Mistral-7B-v0.3", 7.25, "",
                 R"({"hidden_size": 4096, "intermediate_size": 14336, "model_type": "mistral", "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "sliding_window": null, "tie_word_embeddings": false, "torch_dtype": "bfloat16", "vocab_size": 32768, "head_dim": null})"},
                {"mixtral", 46.7, "",
                 R"({"hidden_size": 4096, "intermediate_size": 14336, "model_type": "mixtral", "num_attention_heads": 32, "num_experts_per_tok": 2, "num_hidden_layers": 32, "num_key_value_heads": 8, "num_local_experts": 8, "sliding_window": null, "tie_word_embeddings": false, "torch_dtype": "bfloat16", "vocab_size": 32000})"},
                {"qwen2moe", 14.3, "",
                 R"({"decoder_sparse_step": 1, "hidden_size": 2048, "intermediate_size": 5632, "moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632, "model_type": "qwen2_moe", "num_attention_heads": 16, "num_key_value_heads": 16, "num_hidden_layers": 24, "num_experts": 60, "num_experts_per_tok": 4, "sliding_window": 32768, "use_sliding_window": false, "tie_word_embeddings": false, "vocab_size": 151936})"},
                {"qwen3-30b-a3b", 30.53, "",
                 R"({"head_dim": 128, "hidden_size": 2048, "intermediate_size": 6144, "moe_intermediate_size": 768, "mlp_only_layers": [], "model_type": "qwen3_moe", "num_attention_heads": 32, "num_experts": 128, "num_experts_per_tok": 8, "num_hidden_layers": 48, "num_key_value_heads": 4, "sliding_window": null, "tie_word_embeddings": false, "use_sliding_window": false, "vocab_size": 151936})"},
                {"gemma2-9b", 9.24, "",
                 R"({"model_type": "gemma2", "head_dim": 256, "hidden_size": 3584, "intermediate_size": 14336, "num_attention_heads": 16, "num_hidden_layers": 42, "num_key_value_heads": 8, "sliding_window": 4096, "vocab_size": 256000})"},
                {"Gemma-3-4B", 4.3, "vision tower",
                 R"({"model_type": "gemma3", "text_config": {"hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text", "num_hidden_layers": 34, "sliding_window": 1024}, "vision_config": {"hidden_size": 1152, "intermediate_size": 4304, "model_type": "siglip_vision_model", "num_attention_heads": 16, "num_hidden_layers": 27}})"},
                {"deepseek-v3", 671, "",
                 R"({"first_k_dense_replace": 3, "hidden_size": 7168, "intermediate_size": 18432, "kv_lora_rank": 512, "model_type": "deepseek_v3", "moe_intermediate_size": 2048, "moe_layer_freq": 1, "n_routed_experts": 256, "n_shared_experts": 1, "num_attention_heads": 128, "num_experts_per_tok": 8, "num_hidden_layers": 61, "num_key_value_heads": 128, "num_nextn_predict_layers": 1, "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "quantization_config": {"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8", "weight_block_size": [128, 128]}, "tie_word_embeddings": false, "torch_dtype": "bfloat16", "vocab_size": 129280})"},
                {"deepseek-v2-lite", 15.7, "",
                 R"({"first_k_dense_replace": 1, "hidden_size": 2048, "intermediate_size": 10944, "kv_lora_rank": 512, "model_type": "deepseek_v2", "moe_intermediate_size": 1408, "n_routed_experts": 64, "n_shared_experts": 2, "num_attention_heads": 16, "num_experts_per_tok": 6, "num_hidden_layers": 27, "num_key_value_heads": 16, "q_lora_rank": null, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "tie_word_embeddings": false, "vocab_size": 102400})"},
                {"falcon-7b-instruct", 7.22, "",
                 R"({"model_type": "falcon", "hidden_size": 4544, "multi_query": true, "new_decoder_architecture": false, "num_attention_heads": 71, "num_hidden_layers": 32, "vocab_size": 65024, "parallel_attn": true, "num_kv_heads": 71})"},
                {"falcon-40b", 41.84, "",
                 R"({"model_type": "falcon", "hidden_size": 8192, "multi_query": true, "new_decoder_architecture": true, "num_attention_heads": 128, "num_hidden_layers": 60, "num_kv_heads": 8, "vocab_size": 65024})"},
                {"gpt2", 0.124, "",
                 R"({"model_type": "gpt2", "n_embd": 768, "n_head": 12, "n_layer": 12, "vocab_size": 50257})"},
                {"gpt-j", 6.05, "",
                 R"({"model_type": "gptj", "n_embd": 4096, "n_head": 16, "n_inner": null, "n_layer": 28, "tie_word_embeddings": false, "vocab_size": 50400})"},
                {"t5-large", 0.738, "",
                 R"({"d_ff": 4096, "d_kv": 64, "d_model": 1024, "is_encoder_decoder": true, "model_type": "t5", "num_decoder_layers": 24, "num_heads": 16, "num_layers": 24, "vocab_size": 32128})"},
                {"bart-large", 0.406, "",
                 R"({"model_type": "bart", "d_model": 1024, "decoder_attention_heads": 16, "decoder_ffn_dim": 4096, "decoder_layers": 12, "encoder_attention_heads": 16, "encoder_ffn_dim": 4096, "encoder_layers": 12, "is_encoder_decoder": true, "num_hidden_layers": 12, "vocab_size": 50265})"},
                {"bert-base", 0.11, "",
                 R"({"model_type": "bert", "hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12, "num_hidden_layers": 12, "vocab_size": 30522})"},
                {"llava-1.5-7b", 7.06, "vision tower",
                 R"({"model_type": "llava", "text_config": {"model_type": "llama", "torch_dtype": "float16", "vocab_size": 32064}, "vision_config": {"hidden_size": 1024, "intermediate_size": 4096, "model_type": "clip_vision_model", "num_attention_heads": 16, "num_hidden_layers": 24, "vocab_size": 32000}})"},
                {"internvl", 8.08, "vision tower",
                 R"({"model_type": "internvl_chat", "llm_config": {"hidden_size": 4096, "intermediate_size": 14336, "model_type": "internlm2", "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "vocab_size": 92553}, "vision_config": {"hidden_size": 1024, "num_hidden_layers": 24}})"},
                {"qwen2.5-vl-7b", 8.29, "vision tower",
                 R"({"hidden_size": 3584, "intermediate_size": 18944, "model_type": "qwen2_5_vl", "num_attention_heads": 28, "num_hidden_layers": 28, "num_key_value_heads": 4, "sliding_window": 32768, "tie_word_embeddings": false, "use_sliding_window": false, "vision_config": {"depth": 32, "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16, "out_hidden_size": 3584}, "vocab_size": 152064})"},
                {"llama3.2-11b-vision", 10.67, "vision tower",
                 R"({"model_type": "mllama", "text_config": {"hidden_size": 4096, "intermediate_size": 14336, "model_type": "mllama_text_model", "num_attention_heads": 32, "num_hidden_layers": 40, "num_key_value_heads": 8, "tie_word_embeddings": false, "vocab_size": 128256}, "vision_config": {"hidden_size": 1280, "num_hidden_layers": 32, "num_global_layers": 8, "intermediate_size": 5120}})"},
                {"nemotron-h-8b", 8.1, "states",
                 R"({"model_type": "nemotron_h", "attention_head_dim": 128, "hidden_size": 4096, "hybrid_override_pattern": "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-", "intermediate_size": 21504, "mamba_head_dim": 64, "mamba_num_heads": 128, "n_groups": 8, "num_attention_heads": 32, "num_hidden_layers": 52, "num_key_value_heads": 8, "ssm_state_size": 128, "tie_word_embeddings": false, "vocab_size": 131072})"},
                {"dbrx", 131.6, "",
                 R"({"model_type": "dbrx", "attn_config": {"kv_n_heads": 8}, "d_model": 6144, "ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4}, "n_heads": 48, "n_layers": 40, "vocab_size": 100352})"},
                {"jamba-mini", 51.6, "states",
                 R"({"model_type": "jamba", "attn_layer_offset": 4, "attn_layer_period": 8, "expert_layer_offset": 1, "expert_layer_period": 2, "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32, "num_experts": 16, "num_experts_per_tok": 2, "num_hidden_layers": 32, "num_key_value_heads": 8, "mamba_d_state": 16, "tie_word_embeddings": false, "vocab_size": 65536})"},
                {"llama4-scout", 108.6, "vision tower",
                 R"({"model_type": "llama4", "text_config": {"head_dim": 128, "hidden_size": 5120, "interleave_moe_layer_step": 1, "intermediate_size": 8192, "intermediate_size_mlp": 16384, "model_type": "llama4_text", "num_attention_heads": 40, "num_experts_per_tok": 1, "num_hidden_layers": 48, "num_key_value_heads": 8, "num_local_experts": 16, "vocab_size": 202048}, "vision_config": {"hidden_size": 1408, "num_hidden_layers": 34}})"},
                {"llama4-maverick", 400.7, "",
                 R"({"model_type": "llama4", "text_config": {"head_dim": 128, "hidden_size": 5120, "interleave_moe_layer_step": 2, "intermediate_size": 8192, "intermediate_size_mlp": 16384, "model_type": "llama4_text", "num_attention_heads": 40, "num_experts_per_tok": 1, "num_hidden_layers": 48, "num_key_value_heads": 8, "num_local_experts": 128, "vocab_size": 202048}})"},
                {"gpt-oss-20b", 20.9, "",
                 R"({"model_type": "gpt_oss", "head_dim": 64, "hidden_size": 2880, "intermediate_size": 2880, "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention", "sliding_attention", "full_attention", "sliding_attention", "full_attention", "sliding_attention", "full_attention", "sliding_attention", "full_attention", "sliding_attention", "full_attention", "sliding_attention", "full_attention", "sliding_attention", "full_attention", "sliding_attention", "full_attention", "sliding_attention", "full_attention", "sliding_attention", "full_attention"], "num_attention_heads": 64, "num_experts_per_tok": 4, "num_hidden_layers": 24, "num_key_value_heads": 8, "num_local_experts": 32, "sliding_window": 128, "tie_word_embeddings": false, "vocab_size": 201088, "quantization_config": {"quant_method": "mxfp4"}})"},
                {"command-r", 34.98, "",
                 R"({"model_type": "cohere", "hidden_size": 8192, "intermediate_size": 22528, "num_attention_heads": 64, "num_hidden_layers": 40, "num_key_value_heads": 64, "vocab_size": 256000})"},
                {"opt-6.7b", 6.66, "",
                 R"({"model_type": "opt", "hidden_size": 4096, "ffn_dim": 16384, "num_attention_heads": 32, "num_hidden_layers": 32, "vocab_size": 50272, "word_embed_proj_dim": 4096})"},
                {"gpt-neo-2.7", 2.65, "",
                 R"({"model_type": "gpt_neo", "hidden_size": 2560, "intermediate_size": null, "num_heads": 20, "num_layers": 32, "vocab_size": 50257})"},
                {"chatglm3", 6.24, "",
                 R"({"model_type": "chatglm", "ffn_hidden_size": 13696, "hidden_size": 4096, "kv_channels": 128, "multi_query_attention": true, "multi_query_group_num": 2, "num_attention_heads": 32, "num_layers": 28, "padded_vocab_size": 65024})"},
                {"qwen3-next", 79.7, "states",
                 R"({"model_type": "qwen3_next", "full_attention_interval": 4, "head_dim": 256, "hidden_size": 2048, "intermediate_size": 5120, "moe_intermediate_size": 512, "num_attention_heads": 16, "num_experts": 512, "num_experts_per_tok": 10, "num_hidden_layers": 48, "num_key_value_heads": 2, "shared_expert_intermediate_size": 512, "tie_word_embeddings": false, "vocab_size": 151936})"},
                {"olmo2", 13.7, "",
                 R"({"model_type": "olmo2", "hidden_size": 5120, "intermediate_size": 13824, "num_attention_heads": 40, "num_hidden_layers": 40, "num_key_value_heads": 40, "tie_word_embeddings": false, "vocab_size": 100352})"},
                {"pixtral/mistral3", 24.0, "vision tower",
                 R"({"model_type": "mistral3", "text_config": {"model_type": "mistral", "head_dim": 128, "hidden_size": 5120, "intermediate_size": 32768, "num_attention_heads": 32, "num_hidden_layers": 40, "num_key_value_heads": 8, "sliding_window": null, "vocab_size": 131072}, "vision_config": {"hidden_size": 1024, "num_hidden_layers": 24}})"},
            };
    for (const auto& c : cases) {
        INFO(c.name);
        const auto got = counted(c.json);
        CHECK(got.billions == doctest::Approx(c.billions).epsilon(0.02));
        CAPTURE(got.not_counted);
        if (*c.not_counted == '\0')
            CHECK(got.not_counted.empty());
        else
            CHECK(got.not_counted.find(c.not_counted) != std::string::npos);
    }
}

TEST_CASE("blocks that differ are counted one by one") {
    const auto got = counted(searched());
    // 60 layers with attention: 40 of 8 key heads, 20 of 4; the cache of 50 layers of 8.
    const double attention = 2.0 * 8192 * 8192;
    const double keys = 2.0 * 8192 * 128;
    const double whole =
        60 * attention + 40 * 8 * keys + 20 * 4 * keys + 80 * 3.0 * 8192 * 7168 + 2.0 * 128256 * 8192;
    CHECK(got.billions == doctest::Approx(whole / 1e9).epsilon(1e-4));
    CHECK(got.kv_heads == "8");
    CHECK(got.attention_layers == "50");
}

TEST_CASE("an architecture that is not known says so, and lists of values are counted by their mean") {
    const auto odd = counted(
        R"({"model_type":"novel","num_hidden_layers":4,"hidden_size":64,"num_attention_heads":4,"vocab_size":1000})");
    CHECK(odd.not_counted.find("novel") != std::string::npos);
    const auto listed = counted(
        R"({"model_type":"llama","num_hidden_layers":2,"hidden_size":512,"num_attention_heads":4,"vocab_size":1000,
            "intermediate_size":[1024,3072]})");
    const double whole = 2 * (4.0 * 512 * 512 + 3.0 * 512 * 2048) + 2.0 * 1000 * 512;
    CHECK(listed.billions == doctest::Approx(whole / 1e9).epsilon(1e-3));
    CHECK(listed.not_counted.empty());
}
