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
          {"tied_embeddings", "false"}}},
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
          {"tied_embeddings", "false"}}},
        {R"({"model_type":"deepseek_v3","num_hidden_layers":61,"hidden_size":7168,"num_attention_heads":128,"vocab_size":129280,
             "kv_lora_rank":512,"qk_rope_head_dim":64})",
         {{"layers", "61"}, {"hidden", "7168"}, {"heads", "128"}, {"vocab", "129280"}, {"kv_latent", "576"}}},
        {R"({"model_type":"llava","vision_config":{"num_hidden_layers":24},"text_config":{"model_type":"gemma3_text","num_hidden_layers":26,
             "hidden_size":1152,"num_attention_heads":4,"vocab_size":262144,"sliding_window":512}})",
         {{"layers", "26"},
          {"hidden", "1152"},
          {"heads", "4"},
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
          {"tied_embeddings", "yes"}}},
    };
    for (const auto& c : cases) {
        INFO(c.json);
        CHECK(shape(c.json) == c.fields);
    }
}

TEST_CASE("what is no model's config is refused with the name that is missing") {
    for (const auto& [json, field] :
         {std::pair{"[1]", "config"},
          {"{}", "config.num_hidden_layers"},
          {R"({"num_hidden_layers":2})", "config.hidden_size"},
          {R"({"n_layer":2,"n_embd":8})", "config.num_attention_heads"},
          {R"({"n_layer":2,"n_embd":8,"n_head":{"a":1}})", "config.num_attention_heads"},
          {R"({"n_layer":2,"n_embd":8,"n_head":1})", "config.vocab_size"}}) {
        const auto node = read_json(json);
        REQUIRE(node);
        const auto bad = shape_of_model_config(*node);
        REQUIRE_FALSE(bad);
        CHECK(bad.error().field == field);
        CHECK(bad.error().kind == ErrorKind::invalid);
    }
}
