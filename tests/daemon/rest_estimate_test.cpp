#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "daemon/api/estimate.hpp"
#include "support/rest_bench.hpp"

using namespace gf;
using namespace gf::test;

namespace {

constexpr const char* kJson = "Content-Type: application/json";
constexpr const char* kYaml = "Content-Type: application/yaml";

// A row of bench/vram_measured.csv as a script would make it: every value a text, absent ones empty.
constexpr const char* kRow =
    R"({"id":"m048","task":"lora","model":"Qwen-7B","hf_id":"Qwen/Qwen-7B","params_b":"7.721",
  "framework":"transformers + peft","weights_dtype":"bfloat16","quantization":"none","kv_dtype":"","batch_per_gpu":"1","seq_len":"1024",
  "gen_len":"","resolution":"","frames":"","optimizer":"adamw","grad_checkpointing":"yes","attention":"flash","lora_rank":"64",
  "parallelism":"","offload":"","gpu":"A100-SXM-80GB","gpu_count":"1","printed_value":"21.5","printed_unit":"GB","printed_scope":"per_gpu",
  "unit_basis":"ambiguous","peak_gib_per_gpu":"21.5","measure_kind":"reported","strictness":"strict","source":"s","notes":"n"})";

}  // namespace

TEST_CASE("an estimate answers the peak, its parts, the margin and the cards") {
    RestBench b;
    const auto got = b.call("POST", "/v1/estimate", kRow, {kJson});
    REQUIRE(got.status == 200);
    const auto e = parsed(got);
    CHECK(e.at("model") == "Qwen/Qwen-7B");
    CHECK(e.at("method") == "lora");
    const double peak = e.at("peak_gib_per_gpu");
    CHECK(peak == doctest::Approx(21.5).epsilon(0.1));
    CHECK(e.at("with_margin_gib_per_gpu").get<double>() ==
          doctest::Approx(peak * e.at("margin").get<double>()).epsilon(0.001));
    double sum = 0;
    for (const auto& [name, gib] : e.at("parts").items()) sum += gib.get<double>();
    CHECK(sum == doctest::Approx(peak).epsilon(0.001));
    REQUIRE_FALSE(e.at("fits").empty());
    double before = 0;
    for (const auto& fit : e.at("fits")) {
        CHECK(fit.at("gpu").is_string());
        CHECK(fit.at("usable_gib").get<double>() >= before);
        CHECK(fit.at("room_gib").get<double>() >= 0);
        before = fit.at("usable_gib");
    }
    // The measured figure of the row is no part of the question.
    auto other = nlohmann::json::parse(kRow);
    other["peak_gib_per_gpu"] = "999";
    other["printed_value"] = 1;
    CHECK(parsed(b.call("POST", "/v1/estimate", other.dump(), {kJson})) == e);
}

TEST_CASE("names that mean nothing are told, a local config says the shape") {
    RestBench b;
    const auto told = parsed(b.call(
        "POST", "/v1/estimate", R"({"model":"Qwen-7B","bacth":2,"seq":512,"method":"inference"})", {kJson}));
    CHECK(told.at("notes").dump().find("did you mean batch") != std::string::npos);
    const char* config =
        R"({"config":{"model_type":"llama","num_hidden_layers":32,"hidden_size":4096,"num_attention_heads":32,
      "num_key_value_heads":8,"vocab_size":128256,"intermediate_size":14336,"tie_word_embeddings":false},"seq":1,"method":"inference"})";
    const auto own = parsed(b.call("POST", "/v1/estimate", config, {kJson}));
    const auto known =
        parsed(b.call("POST", "/v1/estimate",
                      R"({"model":"meta-llama/Meta-Llama-3-8B","seq":1,"method":"inference"})", {kJson}));
    CHECK(own.at("peak_gib_per_gpu").get<double>() ==
          doctest::Approx(known.at("peak_gib_per_gpu").get<double>()).epsilon(0.01));
}

TEST_CASE("a bad question is refused with the field and the range") {
    RestBench b;
    struct Row {
        const char* body;
        int status;
        const char* field;
        const char* says;
    };
    for (const auto& row :
         {Row{"", 400, nullptr, ""}, Row{"{", 400, nullptr, ""}, Row{R"({"batch":NaN})", 400, nullptr, ""},
          Row{R"({"batch":1,"batch":2})", 400, nullptr, ""}, Row{"[]", 422, "", "object"},
          Row{"{}", 422, "model", "missing"},
          Row{R"({"model":"Qwen/Qwen-8B"})", 422, "model", "did you mean Qwen/Qwen"},
          Row{R"({"model":["Qwen/Qwen-7B"]})", 422, "model", "must be a text"},
          Row{R"({"model":"Qwen/Qwen-7B","batch":0})", 422, "batch", "1 to 65536"},
          Row{R"({"model":"Qwen/Qwen-7B","batch":"NaN"})", 422, "batch", "1 to 65536"},
          Row{R"({"model":"Qwen/Qwen-7B","batch":true})", 422, "batch", "1 to 65536"},
          Row{R"({"model":"Qwen/Qwen-7B","seq_len":-4})", 422, "seq_len", "1 to 100000000"},
          Row{R"({"model":"Qwen/Qwen-7B","seq_len":1e400})", 422, "seq_len", "1 to 100000000"},
          Row{R"({"model":"Qwen/Qwen-7B","batch":65536,"seq":100000000})", 422, "seq_len", "tokens"},
          Row{R"({"config":{"hidden_size":1}})", 422, "config.num_hidden_layers", "no num_hidden_layers"},
          Row{R"({"model":"timm/resnet50"})", 422, "model", "no estimate"}}) {
        const std::string body = row.body;
        CAPTURE(body);
        const auto got = b.call("POST", "/v1/estimate", body, {kJson});
        CHECK(got.status == row.status);
        CHECK(got.headers.at("content-type") == "application/problem+json");
        if (row.field == nullptr) continue;
        CHECK(parsed(got).at("errors").at(0).at("field") == row.field);
        CHECK(parsed(got).at("detail").get<std::string>().find(row.says) != std::string::npos);
    }
}

TEST_CASE("a spec with an estimate asks for that memory, and plan and explain show where it comes from") {
    RestBench b;
    PublicView view;
    for (const auto& [id, card, gib] :
         {std::tuple("small", "RTX-3060", 12), std::tuple("large", "RTX-4090", 24)}) {
        Offer offer;
        offer.provider = ProviderName{"runpod"};
        offer.id = id;
        offer.gpu = {.canonical = card, .provider_name = card, .memory = Bytes{gib * kGiB}};
        offer.gpu_count = 1;
        offer.gpu_rate = UsdPerHour{gib * 10'000};
        view.offers.push_back(offer);
    }
    b.core->set_view(view);
    const std::string spec =
        "name: p\nrun: x\nimage: a/b:1\nresources:\n  estimate: {model: mistralai/Mistral-7B-v0.3, method: "
        "inference, seq: 2048, gen: 512}\n";
    const auto plan = b.call("POST", "/v1/plan", spec, {kYaml});
    REQUIRE(plan.status == 200);
    CHECK(parsed(plan).at("chosen").at("offer") == "large");
    CHECK(parsed(plan).at("refused").at("vram") == 1);
    const auto shown = parsed(plan).at("estimate");
    CHECK(shown.at("text").get<std::string>().find(" GiB x 1.10 = ") != std::string::npos);
    CHECK(shown.at("parts").at("weights").get<double>() == doctest::Approx(13.5).epsilon(0.01));
    const auto id = b.submit(spec);
    const auto submitted = b.core->seen_of<SubmitJob>();
    REQUIRE(submitted.size() == 1);
    REQUIRE(submitted[0].spec->estimate);
    CHECK(submitted[0].spec->resources.vram->exact == submitted[0].spec->estimate->demand);
    CHECK(submitted[0].spec->estimate->demand.count == shown.at("vram_bytes"));
    const auto explained = b.get("/v1/jobs/" + id + "/explain");
    if (explained.status == 200) CHECK(parsed(explained).at("estimate") == shown);

    struct Bad {
        const char* estimate;
        const char* field;
    };
    for (const auto& bad :
         {Bad{"{model: mistralai/Mistral-7B-v0.9}", "resources.estimate.model"},
          Bad{"{model: mistralai/Mistral-7B-v0.3, seq: 0}", "resources.estimate.seq"},
          Bad{"{model: mistralai/Mistral-7B-v0.3, bacth: 1}", "resources.estimate.bacth"},
          Bad{"{model: mistralai/Mistral-7B-v0.3, gpus: 2}", "resources.estimate.gpus"},
          Bad{"{model: [a]}", "resources.estimate.model"}, Bad{"much", "resources.estimate"}}) {
        CAPTURE(bad.estimate);
        const auto got =
            b.call("POST", "/v1/plan",
                   "name: p\nrun: x\nresources:\n  estimate: " + std::string(bad.estimate) + "\n", {kYaml});
        CHECK(got.status == 422);
        CHECK(parsed(got).at("errors").at(0).at("field") == bad.field);
        CHECK(parsed(got).at("errors").at(0).at("line") == 4);
    }
    for (const std::string both : {"vram: 24GB", "cpu_only: true"}) {
        CAPTURE(both);
        const auto got = b.call(
            "POST", "/v1/plan",
            "name: p\nrun: x\nresources:\n  estimate: {model: Qwen/Qwen-7B}\n  " + both + "\n", {kYaml});
        CHECK(got.status == 422);
    }
}

TEST_CASE("the shipped table of models parses") {
    CHECK(api::shipped_models().models().size() > 130);
}
