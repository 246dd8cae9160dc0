#include "scheduler/estimate/request.hpp"

#include "estimates.hpp"

using namespace gf;
using gf::test::estimate;
using gf::test::Fields;
using gf::test::try_estimate;
using gf::test::with;

namespace {

const Fields kGood{
    {"model", "Qwen/Qwen-7B"}, {"task", "lora"}, {"batch", "2"}, {"seq", "1024"}, {"lora_rank", "8"}};

}  // namespace

TEST_CASE("a value out of its range is refused with the field and the range") {
    struct Case {
        const char* field;
        const char* value;
        const char* says;
    };
    const Case cases[]{
        {"batch", "0", "1 to 65536"},
        {"batch", "-1", "1 to 65536"},
        {"batch", "1.5", "1 to 65536"},
        {"batch", "nan", "1 to 65536"},
        {"batch", "inf", "1 to 65536"},
        {"batch", "1e300", "1 to 65536"},
        {"batch", "0x10", "1 to 65536"},
        {"batch", "[1]", "1 to 65536"},
        {"batch_per_gpu", "0", "1 to 65536"},
        {"seq_len", "0", "1 to 100000000"},
        {"seq_len", "99999999999999999999", "1 to 100000000"},
        {"seq", "many", "1 to 100000000"},
        {"gen_len", "-5", "0 to 100000000"},
        {"lora_rank", "0", "1 to 65536"},
        {"gpu_count", "0", "1 to 65536"},
        {"gpus", "NaN", "1 to 65536"},
        {"params_b", "0", "0.0001 to 100000"},
        {"params_b", "NaN", "0.0001 to 100000"},
        {"params_b", "-7", "0.0001 to 100000"},
        {"params_b", "1e9", "0.0001 to 100000"},
        {"margin", "0.5", "1 to 5"},
        {"frames", "0", "1 to 1000000"},
        {"resolution", "1024x", "16 to 16384"},
        {"resolution", "0x0", "16 to 16384"},
        {"task", "knitting", "inference"},
        {"method", "", nullptr},  // empty means absent
        {"quantization", "q9_z", "nf4"},
        {"weights_dtype", "decimal", "bfloat16"},
        {"kv_dtype", "strings", "bfloat16"},
        {"grad_checkpointing", "perhaps", "yes"},
        {"attention", "paying", "flash"},
        {"parallelism", "sideways", "zero3"},
        {"offload", "my problems", "activations"},
        {"lora_targets", "elsewhere", "all-linear"},
        {"bacth", "2", "did you mean batch"},
    };
    for (const auto& c : cases) {
        const std::string field = c.field;
        const std::string value = c.value;
        CAPTURE(field);
        CAPTURE(value);
        const auto answer = try_estimate(with(kGood, c.field, c.value));
        if (c.says == nullptr) {
            CHECK(answer);
            continue;
        }
        REQUIRE_FALSE(answer);
        CHECK(answer.error().kind == ErrorKind::invalid);
        CHECK(answer.error().field == c.field);
        CHECK(answer.error().message.find(c.says) != std::string::npos);
    }
}

TEST_CASE("numbers that are each in range and together absurd are refused, not overflown") {
    const auto answer = try_estimate(with(with(kGood, "seq", "100000000"), "batch", "65536"));
    REQUIRE_FALSE(answer);
    CHECK(answer.error().field == "seq_len");
    const auto huge = try_estimate({{"layers", "10000"},
                                    {"hidden", "1000000"},
                                    {"heads", "100000"},
                                    {"vocab", "100000000"},
                                    {"intermediate", "10000000"},
                                    {"method", "full"},
                                    {"seq", "100000"},
                                    {"batch", "100"}});
    REQUIRE_FALSE(huge);
    CHECK(huge.error().kind == ErrorKind::invalid);
}

TEST_CASE("a measured row can be asked as it stands, and its measured figures have no part in the answer") {
    const Fields row{{"id", "m048"},
                     {"task", "lora"},
                     {"model", "Qwen-7B"},
                     {"hf_id", "Qwen/Qwen-7B"},
                     {"params_b", "7.721"},
                     {"framework", "transformers + peft"},
                     {"weights_dtype", "bfloat16"},
                     {"quantization", "none"},
                     {"kv_dtype", ""},
                     {"batch_per_gpu", "1"},
                     {"seq_len", "1024"},
                     {"gen_len", ""},
                     {"resolution", ""},
                     {"frames", ""},
                     {"optimizer", "adamw"},
                     {"grad_checkpointing", "yes"},
                     {"attention", "flash"},
                     {"lora_rank", "64"},
                     {"parallelism", ""},
                     {"offload", ""},
                     {"gpu", "A100-SXM-80GB"},
                     {"gpu_count", "1"},
                     {"printed_value", "21.5"},
                     {"printed_unit", "GB"},
                     {"printed_scope", "per_gpu"},
                     {"unit_basis", "ambiguous"},
                     {"peak_gib_per_gpu", "21.5"},
                     {"measure_kind", "reported"},
                     {"strictness", "strict"},
                     {"source", "somewhere"},
                     {"notes", "gradient accumulation 8"}};
    const auto plain = estimate(row);
    CHECK(plain.model == "Qwen/Qwen-7B");
    CHECK(plain.method == "lora");
    CHECK(plain.margin == doctest::Approx(1.15));
    for (const std::string field :
         {"peak_gib_per_gpu", "printed_value", "notes", "source", "strictness", "id", "unit_basis"}) {
        CAPTURE(field);
        CHECK(estimate(with(row, field, "not even a number")).peak_gib == plain.peak_gib);
    }
}

TEST_CASE("the short names of a spec and the columns of a table mean the same") {
    const auto shorts = estimate({{"model", "Qwen/Qwen2.5-7B"},
                                  {"method", "qlora"},
                                  {"seq", "2048"},
                                  {"batch", "4"},
                                  {"quantization", "nf4"},
                                  {"checkpointing", "yes"},
                                  {"gpus", "1"},
                                  {"precision", "bf16"}});
    const auto columns = estimate({{"hf_id", "Qwen/Qwen2.5-7B"},
                                   {"task", "qlora"},
                                   {"seq_len", "2048"},
                                   {"batch_per_gpu", "4"},
                                   {"quantization", "nf4"},
                                   {"grad_checkpointing", "yes"},
                                   {"gpu_count", "1"},
                                   {"weights_dtype", "bfloat16"}});
    CHECK(shorts.peak_gib == columns.peak_gib);
    CHECK(shorts.method == "qlora");
}

TEST_CASE("schemes of quantisation are read from what tables call them") {
    struct Case {
        const char* text;
        QuantKernel kernel;
        double bits;
    };
    const Case cases[]{{"none", QuantKernel::none, 0},
                       {"gptq-int4 g128", QuantKernel::gptq, 4.2},
                       {"gptq-int4 g32", QuantKernel::gptq, 4.63},
                       {"gptq-int3 no group", QuantKernel::gptq, 3},
                       {"GPTQ", QuantKernel::gptq, 4.2},
                       {"awq-int4", QuantKernel::awq, 4.2},
                       {"nf4", QuantKernel::bitsandbytes, 4.5},
                       {"nf4-dq", QuantKernel::bitsandbytes, 4.127},
                       {"bnb-int8", QuantKernel::bitsandbytes, 8.05},
                       {"int8", QuantKernel::on_load, 8.05},
                       {"fp8", QuantKernel::fp8, 8.03},
                       {"Q4_K_M", QuantKernel::gguf, 4.89},
                       {"gguf q8_0", QuantKernel::gguf, 8.5},
                       {"mxfp4", QuantKernel::mxfp4, 4.25},
                       {"exl2 4.65bpw", QuantKernel::exl2, 4.65},
                       {"4-bit", QuantKernel::on_load, 4.05}};
    for (const auto& c : cases) {
        const std::string text = c.text;
        CAPTURE(text);
        const auto q = parse_quantization(c.text);
        REQUIRE(q);
        CHECK(q->kernel == c.kernel);
        CHECK(q->bits == doctest::Approx(c.bits));
    }
    for (const char* text : {"magic", "int99", "0bit", "Q4_K_XXL"}) CHECK_FALSE(parse_quantization(text));
}
