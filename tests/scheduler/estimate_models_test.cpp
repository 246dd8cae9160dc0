#include "scheduler/estimate/model_catalog.hpp"

#include "estimates.hpp"

using namespace gf;
using gf::test::estimate;
using gf::test::model_catalog;
using gf::test::try_estimate;

TEST_CASE("a model is found by its hub id or an unambiguous alias, and by no other name") {
    struct Case {
        const char* typed;
        const char* found;  // "" = refused
    };
    const Case cases[]{
        {"Qwen/Qwen-7B", "Qwen/Qwen-7B"},
        {"qwen/qwen-7b", "Qwen/Qwen-7B"},
        {"Qwen-7B", "Qwen/Qwen-7B"},
        {"Qwen-7B-Chat", "Qwen/Qwen-7B"},
        {"meta-llama/Llama-3.1-8B", "meta-llama/Meta-Llama-3.1-8B"},
        {"meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Meta-Llama-3.1-8B"},
        {"Llama-2-7b", "meta-llama/Llama-2-7b-hf"},
        {"google/gemma-2-9b-it", "google/gemma-2-9b"},
        {"swiss-ai/Apertus-8B-Instruct-2509", "swiss-ai/Apertus-8B-2509"},
        {"somebody/Qwen-7B", ""},  // another owner's
        {"Qwen/Qwen-8B", ""},      // a neighbour
        {"meta-llama/Llama-3.1-9B", ""},
        {"Qwen", ""},        // a family
        {"Mistral-7B", ""},  // two of different shape
        {"", ""},
        {"Qwen/Qwen-7B-Distilled-3B", ""},
    };
    for (const auto& c : cases) {
        INFO(c.typed);
        const auto* found = model_catalog().find(c.typed);
        CHECK((found == nullptr ? std::string() : found->name) == c.found);
    }
}

TEST_CASE("an unknown model is refused with what may have been meant") {
    const auto answer = try_estimate({{"model", "Qwen/Qwen2.5-8B"}, {"method", "lora"}});
    REQUIRE_FALSE(answer);
    CHECK(answer.error().kind == ErrorKind::not_found);
    CHECK(answer.error().field == "model");
    CHECK(answer.error().message.find("did you mean Qwen/Qwen2.5-") != std::string::npos);
}

TEST_CASE("an unknown model with its size gets an inferred shape, a note and the wide margin") {
    const auto e = estimate(
        {{"model", "acme/Secret-9B"}, {"params_b", "9.1"}, {"method", "inference"}, {"seq", "1024"}});
    CHECK(e.margin == doctest::Approx(1.30));
    CHECK(e.peak_gib > 9.1e9 * 2 / 1073741824.0);
    CHECK(e.peak_gib < 1.15 * 9.1e9 * 2 / 1073741824.0);
    REQUIRE_FALSE(e.notes.empty());
    CHECK(e.notes[0].find("inferred") != std::string::npos);
    // The same id in the table keeps its shape, whatever its size is said to be.
    const auto known = estimate(
        {{"model", "Qwen/Qwen-7B"}, {"params_b", "7.721"}, {"method", "inference"}, {"seq", "1024"}});
    CHECK(known.margin == doctest::Approx(1.10));
}

TEST_CASE("a mixture's name tells what one token passes") {
    CHECK(active_params_in_name("Qwen/Qwen3-30B-A3B") == doctest::Approx(3e9));
    CHECK(active_params_in_name("Qwen3-235B-A22B-Instruct") == doctest::Approx(22e9));
    CHECK(active_params_in_name("LFM2-8B-A1.5B") == doctest::Approx(1.5e9));
    CHECK(active_params_in_name("Llama-3-8B") == 0);
    CHECK(active_params_in_name("model-A100B-x") == doctest::Approx(100e9));
    CHECK(active_params_in_name("-AB") == 0);
}

TEST_CASE("an inferred shape has a size near the one it was made for") {
    for (const double billions : {0.2, 0.5, 1.5, 3.0, 7.0, 9.0, 13.0, 22.0, 34.0, 72.0, 180.0, 405.0}) {
        CAPTURE(billions);
        const auto s = inferred_shape("x", billions * 1e9, billions * 1e9);
        CHECK(s.inferred);
        CHECK(s.params == billions * 1e9);
        CHECK(counted_params(s) / (billions * 1e9) > 0.6);
        CHECK(counted_params(s) / (billions * 1e9) < 1.6);
        CHECK(check_shape(s));
    }
}

TEST_CASE("every shape of the shipped table counts up to about the published size") {
    int counted = 0;
    for (const auto& model : model_catalog().models()) {
        if (model.task != "llm" || !model.has_layers() || model.kv_latent > 0) continue;
        CAPTURE(model.name);
        // Dense layers among experts and vision towers make the rest.
        CHECK(counted_params(model) / model.params > 0.88);
        CHECK(counted_params(model) / model.params < 1.12);
        ++counted;
    }
    CHECK(counted > 80);
}

TEST_CASE("a shape can be given, and is checked") {
    const test::Fields shape{{"layers", "32"},        {"hidden", "4096"},  {"heads", "32"},
                             {"kv_heads", "8"},       {"vocab", "128256"}, {"intermediate", "14336"},
                             {"method", "inference"}, {"seq", "1"}};
    const auto given = estimate(shape);
    const auto known =
        estimate({{"model", "meta-llama/Meta-Llama-3-8B"}, {"method", "inference"}, {"seq", "1"}});
    CHECK(given.peak_gib == doctest::Approx(known.peak_gib).epsilon(0.01));
    const auto refused = try_estimate(test::with(shape, "kv_heads", "64"));
    REQUIRE_FALSE(refused);
    CHECK(refused.error().field == "kv_heads");
    const auto missing = try_estimate({{"layers", "32"}, {"hidden", "4096"}, {"heads", "32"}});
    REQUIRE_FALSE(missing);
    CHECK(missing.error().field == "vocab");
}

TEST_CASE("a table of models that does not hold together is refused with its line") {
    const std::string head = "hf_id,family,task,params_b,active_params_b,layers,gated_mlp,tied_embeddings\n";
    CHECK(ModelCatalog::parse(head + "a/b,x,llm,7,7,32,1,no\n"));
    for (const auto& [row, says] : {std::pair{"a/b,x,llm,7,7,32,1,no\na/B,x,llm,7,7,32,1,no\n", "twice"},
                                    {"a/b,x,llm,,7,32,1,no\n", "params_b"},
                                    {"a/b,x,llm,7,7,many,1,no\n", "layers"},
                                    {"a/b,x,llm,7,7,99999999,1,no\n", "layers"},
                                    {"", "no models"}}) {
        const auto bad = ModelCatalog::parse(head + row);
        REQUIRE_FALSE(bad);
        CHECK(bad.error().message.find(says) != std::string::npos);
    }
    CHECK_FALSE(ModelCatalog::parse("hf_id,family\na/b,x\n"));
}
