#include "config/model_config.hpp"

#include <doctest/doctest.h>

#include <map>

using namespace gf;

namespace {

std::map<std::string, std::string> shape(std::string_view json) {
    const auto node = read_json(json);
    REQUIRE(node);
    const auto fields = shape_of_model_config(*node);
    if (!fields) FAIL(fields.error().message);
    return {fields->begin(), fields->end()};
}

using Map = std::map<std::string, std::string>;

}  // namespace

TEST_CASE("a config.json gives the counts of its shape, whatever its family calls them") {
    struct Case {
        const char* json;
        Map fields;
    };
    const Case cases[]{
        {R"({"model_type":"llama","num_hidden_layers":32,"hidden_size":4096,"num_attention_heads":32,"num_key_value_heads":8,
             "vocab_size":128256,"intermediate_size":14336,"tie_word_embeddings":false,"rope_scaling":{"factor":8.0}})",
         {{"layers", "32"},
          {"hidden", "4096"},
          {"heads", "32"},
          {"kv_heads", "8"},
          {"vocab", "128256"},
          {"intermediate", "14336"},
          {"tied_embeddings", "no"}}},
        {R"({"model_type":"gpt2","n_layer":48,"n_embd":1600,"n_head":25,"vocab_size":50257})",
         {{"layers", "48"},
          {"hidden", "1600"},
          {"heads", "25"},
          {"vocab", "50257"},
          {"gated_mlp", "no"},
          {"tied_embeddings", "yes"}}},
        {R"({"model_type":"qwen3_moe","num_hidden_layers":48,"hidden_size":2048,"num_attention_heads":32,"num_key_value_heads":4,"head_dim":128,
             "vocab_size":151936,"intermediate_size":6144,"num_experts":128,"num_experts_per_tok":8,"moe_intermediate_size":768,
             "sliding_window":null,"use_sliding_window":false,"tie_word_embeddings":false})",
         {{"layers", "48"},
          {"hidden", "2048"},
          {"heads", "32"},
          {"kv_heads", "4"},
          {"head_dim", "128"},
          {"vocab", "151936"},
          {"intermediate", "6144"},
          {"experts", "128"},
          {"active_experts", "8"},
          {"moe_intermediate", "768"},
          {"tied_embeddings", "no"}}},
        {R"({"model_type":"deepseek_v3","num_hidden_layers":61,"hidden_size":7168,"num_attention_heads":128,"vocab_size":129280,
             "kv_lora_rank":512,"qk_rope_head_dim":64})",
         {{"layers", "61"}, {"hidden", "7168"}, {"heads", "128"}, {"vocab", "129280"}, {"kv_latent", "576"}}},
        {R"({"model_type":"llava","vision_config":{"num_hidden_layers":24},"text_config":{"model_type":"gemma3_text","num_hidden_layers":26,
             "hidden_size":1152,"num_attention_heads":4,"vocab_size":262144,"sliding_window":512}})",
         {{"layers", "26"},
          {"hidden", "1152"},
          {"heads", "4"},
          {"kv_heads", "4"},
          {"head_dim", "256"},
          {"vocab", "262144"},
          {"tied_embeddings", "yes"},
          {"window", "512"},
          {"full_attention_every", "6"}}},
        {R"({"model_type":"falcon","num_hidden_layers":32,"hidden_size":4544,"num_attention_heads":71,"multi_query":true,"vocab_size":65024})",
         {{"layers", "32"},
          {"hidden", "4544"},
          {"heads", "71"},
          {"vocab", "65024"},
          {"kv_heads", "1"},
          {"gated_mlp", "no"},
          {"tied_embeddings", "no"}}},
        {R"({"model_type":"falcon","num_hidden_layers":32,"hidden_size":4544,"num_attention_heads":71,"num_kv_heads":71,
             "multi_query":true,"vocab_size":65024})",
         {{"kv_heads", "1"}}},
        {R"({"model_type":"dbrx","attn_config":{"kv_n_heads":8},"d_model":6144,"n_heads":48,"n_layers":40,"vocab_size":100352,
             "ffn_config":{"ffn_hidden_size":10752,"moe_num_experts":16,"moe_top_k":4}})",
         {{"kv_heads", "8"}, {"experts", "16"}, {"active_experts", "4"}, {"moe_intermediate", "10752"}}},
        {R"({"model_type":"qwen2_moe","hidden_size":2048,"intermediate_size":5632,"moe_intermediate_size":1408,
             "shared_expert_intermediate_size":5632,"num_attention_heads":16,"num_hidden_layers":24,"num_experts":60,
             "num_experts_per_tok":4,"vocab_size":151936})",
         {{"shared_intermediate", "5632"}, {"moe_intermediate", "1408"}}},
        {R"({"model_type":"jamba","attn_layer_offset":4,"attn_layer_period":8,"expert_layer_offset":1,"expert_layer_period":2,
             "hidden_size":4096,"intermediate_size":14336,"num_attention_heads":32,"num_experts":16,"num_experts_per_tok":2,
             "num_hidden_layers":32,"num_key_value_heads":8,"vocab_size":65536})",
         {{"attention_layers", "4"}, {"kv_heads", "8"}}},
        {R"({"model_type":"t5","d_ff":4096,"d_kv":64,"d_model":1024,"is_encoder_decoder":true,"num_decoder_layers":24,
             "num_heads":16,"num_layers":24,"vocab_size":32128})",
         {{"kind", "seq2seq"}, {"layers", "24"}, {"head_dim", "64"}, {"tied_embeddings", "yes"}}},
        {R"({"model_type":"bert","hidden_size":768,"intermediate_size":3072,"num_attention_heads":12,"num_hidden_layers":12,
             "vocab_size":30522})",
         {{"kind", "encoder"}, {"gated_mlp", "no"}}},
        {R"({"model_type":"llava","text_config":{"model_type":"llama","vocab_size":32064}})",
         {{"layers", "32"}, {"hidden", "4096"}, {"vocab", "32064"}, {"intermediate", "11008"}}},
    };
    for (const auto& c : cases) {
        INFO(c.json);
        const auto got = shape(c.json);
        for (const auto& [name, text] : c.fields) {
            CAPTURE(name);
            CHECK(got.contains(name));
            if (got.contains(name)) CHECK(got.at(name) == text);
        }
    }
}

TEST_CASE("what is no model's config is refused with the name that is missing") {
    for (
        const auto& [json, field] :
        {std::pair{"[1]", "config"},
         {"{}", "config.num_hidden_layers"},
         {R"({"num_hidden_layers":2})", "config.hidden_size"},
         {R"({"n_layer":2,"n_embd":8})", "config.num_attention_heads"},
         {R"({"n_layer":2,"n_embd":8,"n_head":{"a":1}})", "config.num_attention_heads"},
         {R"({"n_layer":2,"n_embd":8,"n_head":1})", "config.vocab_size"},
         {R"({"model_type":"mamba","num_hidden_layers":64,"hidden_size":2560,"vocab_size":50280})",
          "config.num_attention_heads"},
         {R"({"model_type":"whisper","d_model":1280,"encoder_layers":32,"decoder_layers":32,"vocab_size":51865})",
          "config.model_type"}}) {
        const auto node = read_json(json);
        REQUIRE(node);
        const auto bad = shape_of_model_config(*node);
        REQUIRE_FALSE(bad);
        CHECK(bad.error().field == field);
        CHECK(bad.error().kind == ErrorKind::invalid);
    }
}

TEST_CASE("the type in which a model is shipped is read from its quantization_config or torch_dtype") {
    struct Case {
        const char* members;
        const char* type;  // "" = none
    };
    const Case cases[]{
        {R"("torch_dtype":"float32")", "float32"},
        {R"("torch_dtype":"bfloat16","quantization_config":{"quant_method":"awq","bits":4,"group_size":128})",
         "awq-int4 g128"},
        {R"("quantization_config":{"quant_method":"gptq","bits":3,"group_size":-1})", "gptq-int3 no group"},
        {R"("quantization_config":{"quant_method":"bitsandbytes","load_in_4bit":true,"bnb_4bit_use_double_quant":true})",
         "nf4-dq"},
        {R"("quantization_config":{"quant_method":"bitsandbytes","load_in_8bit":true})", "bnb-int8"},
        {R"("quantization_config":{"quant_method":"fp8","fmt":"e4m3"})", "fp8"},
        {R"("quantization_config":{"quant_method":"mxfp4"})", "mxfp4"},
        {R"("quantization_config":{"quant_method":"compressed-tensors","config_groups":{"group_0":{"weights":{"num_bits":8,"type":"float"}}}})",
         "fp8"},
        {R"("quantization_config":{"quant_method":"novel"})", ""},
        {R"("quantization_config":null)", ""},
    };
    for (const auto& c : cases) {
        INFO(c.members);
        const auto got = shape(
            R"({"model_type":"llama","num_hidden_layers":2,"hidden_size":64,"num_attention_heads":4,"vocab_size":1000,)" +
            std::string(c.members) + "}");
        const auto at = got.find("native_dtype");
        CHECK((at == got.end() ? "" : at->second) == c.type);
        CHECK(got.contains("not_counted") == (std::string(c.members).find("novel") != std::string::npos));
    }
}
