// In what types weights, cache and states lie, and what is said when the question leaves that open or
// contradicts itself.
#include <string>

#include "estimates.hpp"

using namespace gf;
using gf::test::estimate;
using gf::test::Fields;
using gf::test::part;
using gf::test::try_estimate;
using gf::test::with;

namespace {

constexpr double kGi = 1073741824.0;
const Fields kServe{
    {"model", "meta-llama/Llama-2-7b-hf"}, {"method", "inference"}, {"seq", "4096"}, {"batch", "8"}};
const Fields kShape{{"layers", "32"},          {"hidden", "4096"},      {"heads", "32"}, {"vocab", "32000"},
                    {"intermediate", "11008"}, {"method", "inference"}, {"seq", "1024"}};

bool says(const Estimate& e, std::string_view text) {
    for (const auto& note : e.notes)
        if (note.find(text) != std::string::npos) return true;
    return false;
}

}  // namespace

TEST_CASE(
    "a latent cache is whole on each GPU of a tensor-parallel run, few key heads are there several times") {
    struct Case {
        const char* model;
        double shares;  // into how many parts eight GPUs cut the cache
    };
    for (const auto& c : {Case{"deepseek-ai/DeepSeek-V3", 1}, Case{"meta-llama/Meta-Llama-3-70B", 8},
                          Case{"Qwen/Qwen2.5-7B", 4}, Case{"tiiuae/falcon-7b", 1}}) {
        INFO(c.model);
        const Fields one{{"model", c.model}, {"method", "inference"}, {"seq", "32768"}, {"batch", "4"}};
        const auto split = estimate(with(with(one, "gpus", "8"), "parallelism", "tensor"));
        CHECK(part(estimate(one), "kv_cache") == doctest::Approx(c.shares * part(split, "kv_cache")));
    }
}

TEST_CASE("32-bit inference keeps its cache and its activations in 32 bits") {
    const auto half = estimate(kServe);
    const auto wide = estimate(with(kServe, "precision", "float32"));
    for (const char* name : {"weights", "kv_cache", "activations"}) {
        INFO(name);
        CHECK(part(wide, name) == doctest::Approx(2 * part(half, name)));
    }
    // The cache's own type counts more, and kernels for 4-bit integers have theirs in 16 bits.
    CHECK(part(estimate(with(with(kServe, "precision", "float32"), "kv_dtype", "bf16")), "kv_cache") ==
          doctest::Approx(part(half, "kv_cache")));
    CHECK(part(estimate(with(with(kServe, "precision", "float32"), "kv_dtype", "auto")), "kv_cache") ==
          doctest::Approx(part(wide, "kv_cache")));
    CHECK(part(estimate(with(with(kServe, "precision", "float32"), "quantization", "awq-int4")),
               "kv_cache") == doctest::Approx(part(half, "kv_cache")));
}

TEST_CASE("a model is counted as it is shipped, unless the question says otherwise") {
    struct Case {
        const char* model;
        const char* method;
        double weights_gib;  // of the published checkpoint
        const char* note;
    };
    for (const auto& c :
         {Case{"openai/gpt-oss-120b", "inference", 60.8, "shipped: mxfp4"},
          Case{"openai/gpt-oss-20b", "inference", 12.8, "shipped: mxfp4"},
          Case{"deepseek-ai/DeepSeek-V3", "inference", 671e9 * 1.004 / kGi, "shipped: float8"},
          Case{"openai/gpt-oss-20b", "lora", 20.9e9 * 2 / kGi, "expanded for training"},
          Case{"google-t5/t5-large", "inference", 0.738e9 * 4 / kGi, "shipped: float32"},
          Case{"Qwen/Qwen3-8B", "inference", 8.191e9 * 2 / kGi, ""}}) {
        INFO(c.model);
        const Fields asked{{"model", c.model}, {"method", c.method}, {"seq", "512"}, {"batch", "1"}};
        const auto e = estimate(asked);
        CHECK(part(e, "weights") == doctest::Approx(c.weights_gib).epsilon(0.01));
        CHECK((*c.note == '\0' || says(e, c.note)));
        CHECK(says(e, "shipped") == (*c.note != '\0'));
        const auto said = estimate(with(asked, "precision", "bfloat16"));
        CHECK_FALSE(says(said, "shipped"));
        CHECK(part(said, "weights") >=
              part(e, "weights") * (std::string(c.model).starts_with("google") ? 0.49 : 1));
    }
    const auto awq = estimate(with(kShape, "native_dtype", "awq-int4 g128"));
    CHECK(part(awq, "weights") < 0.35 * part(estimate(kShape), "weights"));
    CHECK(says(awq, "awq-int4 g128"));
    CHECK(estimate(with(with(with(kShape, "native_dtype", "nf4"), "method", "lora"), "batch", "1")).method ==
          "qlora");
    CHECK(says(estimate(with(kShape, "native_dtype", "tetra")), "tetra, which is not known"));
}

TEST_CASE("4-bit floats are a type of weights, of a dense model all but its embeddings") {
    const double embeddings = 2.0 * 32000 * 4096;
    for (const auto& [type, bits] : {std::pair{"mxfp4", 4.25}, {"nvfp4", 4.5}}) {
        INFO(type);
        const double expected = ((6.738e9 - embeddings) * bits / 8 + 2 * embeddings) / kGi;
        CHECK(part(estimate(with(kServe, "precision", type)), "weights") == doctest::Approx(expected));
        CHECK(part(estimate(with(kServe, "quantization", type)), "weights") == doctest::Approx(expected));
    }
}

TEST_CASE("what is not counted is named, and widens the margin") {
    const auto whole = estimate(kShape);
    CHECK(whole.margin == doctest::Approx(1.10));
    const auto part_of = estimate(with(kShape, "not_counted", "the vision tower"));
    CHECK(part_of.margin == doctest::Approx(1.30));
    CHECK(says(part_of, "not counted: the vision tower"));
    // Parameters that are known count more than those that a shape comes to.
    CHECK(part(estimate(with(kShape, "counted_b", "7.0")), "weights") == doctest::Approx(7e9 * 2 / kGi));
    CHECK(part(estimate(with(with(kShape, "counted_b", "7.0"), "params_b", "6.9")), "weights") ==
          doctest::Approx(6.9e9 * 2 / kGi));
    // A count beside the config takes the place of its own, and what was counted with that does not hold.
    auto replaced = with(kShape, "counted_b", "7.0");
    replaced.emplace_back("layers", "16");
    const auto half = estimate(replaced);
    CHECK(part(half, "weights") < 0.6 * part(whole, "weights"));
    CHECK(half.margin == doctest::Approx(1.30));
    CHECK(says(half, "layers is given twice: 16 is taken, not 32"));
    // A cache of a quarter of the layers.
    CHECK(part(estimate(with(kShape, "attention_layers", "8")), "kv_cache") ==
          doctest::Approx(part(whole, "kv_cache") / 4));
    CHECK(part(estimate(with(kShape, "kind", "encoder")), "kv_cache") == 0);
}

TEST_CASE("what is dropped or taken otherwise than it was said is told") {
    const Fields train{
        {"model", "meta-llama/Llama-2-7b-hf"}, {"method", "full"}, {"seq", "512"}, {"batch", "1"}};
    struct Case {
        Fields fields;
        const char* note;
    };
    const Case cases[]{
        {with(train, "quantization", "nf4"), "nf4 is not counted"},
        {with(train, "precision", "fp8"), "fp8 is not counted"},
        {with(train, "precision", "bfloat16"), "mixed precision"},
        {with(with(train, "method", "qlora"), "quantization", "none"), "not quantised"},
        {with(kServe, "framework", "nonsense"), "\"nonsense\" is not known"},
        {with(kServe, "measure_kind", "by eye"), "\"by eye\" is not known"},
        {with(train, "optimizer", "sophia"), "\"sophia\" is not known"},
        {with(kShape, "params_b", "10"), "params_b says 10.000, the shape counts 6.738"},
        {with(kShape, "hf_id", "Qwen/Qwen3-8B"), "not that of Qwen/Qwen3-8B"},
        {[] {
             auto twice = kShape;
             twice.emplace_back("layers", "40");
             return twice;
         }(),
         "layers is given twice: 40 is taken, not 32"},
    };
    for (const auto& c : cases) {
        INFO(c.note);
        CHECK(says(estimate(c.fields), c.note));
    }
    for (const auto& fields :
         {with(train, "precision", "pure bf16"), with(kServe, "framework", "vllm"),
          with(kServe, "measure_kind", "torch_reserved_max"), with(kShape, "params_b", "6.74")})
        for (const char* note : {"not known", "mixed precision", "params_b says", "twice"})
            CHECK_FALSE(says(estimate(fields), note));
    CHECK(estimate(with(train, "quantization", "nf4")).peak_gib == doctest::Approx(estimate(train).peak_gib));
    // Descent in the backward pass keeps neither moments nor gradients.
    const auto lomo = estimate(with(with(train, "optimizer", "lomo"), "precision", "pure bf16"));
    CHECK(part(lomo, "optimizer") == 0);
    CHECK(lomo.peak_gib < 0.4 * estimate(with(train, "precision", "pure bf16")).peak_gib);
}

TEST_CASE("two answers to one question are refused") {
    struct Case {
        const char* one;
        const char* other;
        const char* value;
        const char* different;
    };
    for (const auto& c : {Case{"batch", "batch_per_gpu", "4", "8"}, Case{"seq", "seq_len", "512", "1024"},
                          Case{"gpus", "gpu_count", "2", "4"}, Case{"method", "task", "lora", "full_ft"},
                          Case{"precision", "weights_dtype", "bfloat16", "float32"}}) {
        INFO(c.one);
        const Fields asked = with(Fields{{"model", "Qwen/Qwen3-8B"}}, c.one, c.value);
        CHECK(try_estimate(with(asked, c.other, c.value)));
        const auto refused = try_estimate(with(asked, c.other, c.different));
        REQUIRE_FALSE(refused);
        CHECK(refused.error().field == c.one);
        CHECK(refused.error().message.find(c.other) != std::string::npos);
    }
    const auto far = try_estimate(with(kShape, "params_b", "70"));
    REQUIRE_FALSE(far);
    CHECK(far.error().field == "params_b");
    CHECK(try_estimate(with(with(kShape, "params_b", "70"), "not_counted", "most of it")));
}
