// What of a training is divided over several GPUs, by stages and for images, video and speech.
#include <algorithm>
#include <string>

#include "estimates.hpp"

using namespace gf;
using gf::test::estimate;
using gf::test::Fields;
using gf::test::part;
using gf::test::with;

namespace {

constexpr double kGi = 1073741824.0;

bool says(const Estimate& e, std::string_view text) {
    return std::ranges::any_of(e.notes, [&](const auto& n) { return n.find(text) != std::string::npos; });
}

double states(const Estimate& e) {
    return part(e, "weights") + part(e, "gradients") + part(e, "optimizer");
}

}  // namespace

TEST_CASE("stages divide the layers of an adapter's training, and a pipeline keeps its micro-batches") {
    const Fields one{{"model", "meta-llama/Meta-Llama-3-8B"},
                     {"method", "lora"},
                     {"seq", "4096"},
                     {"batch", "4"},
                     {"checkpointing", "no"}};
    const auto alone = estimate(one);
    const auto eight = with(one, "gpus", "8");
    const auto layers = estimate(with(eight, "parallelism", "layer split"));
    const auto pipeline = estimate(with(eight, "parallelism", "pipeline"));
    // One batch passes the GPUs one after the other: each keeps its eighth (of 32 layers, rounded up by one).
    CHECK(part(layers, "activations") == doctest::Approx(part(alone, "activations") * (1 + 31.0 / 8) / 32));
    CHECK(part(layers, "logits") == doctest::Approx(part(alone, "logits")));
    // The first stage has eight micro-batches of its eighth in flight and makes no logits.
    CHECK(part(pipeline, "activations") == doctest::Approx(part(alone, "activations")));
    CHECK(part(pipeline, "logits") == 0);
    CHECK(pipeline.peak_gib < alone.peak_gib);
    for (const auto* e : {&layers, &pipeline})
        CHECK(part(*e, "weights") == doctest::Approx(part(alone, "weights") / 8));
    const auto full = estimate(with(with(eight, "parallelism", "layer split"), "method", "full"));
    CHECK(full.peak_gib < estimate(with(one, "method", "full")).peak_gib / 4);
}

TEST_CASE("speech: states follow type, optimiser, sharding, offloading and rank") {
    const Fields one{
        {"model", "openai/whisper-large-v3"}, {"method", "full"}, {"batch", "16"}, {"checkpointing", "no"}};
    struct Case {
        Fields fields;
        double bytes;  // per parameter: weights, gradients and moments on one GPU
    };
    const auto eight = with(one, "gpus", "8");
    const Case cases[]{
        {one, 18},
        {with(one, "precision", "float32"), 16},
        {with(one, "precision", "pure bf16"), 8},
        {with(one, "optimizer", "adamw 8-bit"), 12},
        {with(one, "optimizer", "adafactor"), 10.1},
        {with(one, "offload", "optimizer"), 10},
        {with(eight, "parallelism", "ddp"), 18},
        {with(eight, "parallelism", "zero1"), 6 + 4 + 8.0 / 8},
        {with(eight, "parallelism", "zero2"), 6 + 12.0 / 8},
        {with(eight, "parallelism", "zero3"), 18.0 / 8},
    };
    for (const auto& c : cases) {
        CAPTURE(c.bytes);
        const auto e = estimate(c.fields);
        CHECK(states(e) == doctest::Approx(1.55e9 * c.bytes / kGi));
        CHECK_FALSE(says(e, "layers split"));
    }
    CHECK(says(estimate(eight), "each holds the whole training state"));
    const auto lora = with(one, "method", "lora");
    CHECK(part(estimate(with(lora, "lora_rank", "64")), "adapter") ==
          doctest::Approx(4 * part(estimate(with(lora, "lora_rank", "16")), "adapter")));
    const Fields serve{{"model", "openai/whisper-large-v3"}, {"method", "inference"}};
    CHECK(says(estimate(with(serve, "gpus", "4")), "each holds the whole model"));
    const auto split = estimate(with(with(serve, "gpus", "4"), "parallelism", "tensor"));
    CHECK(says(split, "do not split"));
    CHECK(part(split, "weights") == doctest::Approx(part(estimate(serve), "weights")));
}

TEST_CASE("F5-TTS trains on mel frames") {
    const Fields one{{"model", "SWivid/F5-TTS"}, {"method", "full"}, {"batch", "1"}, {"checkpointing", "no"}};
    const auto clip = estimate(one);
    CHECK(says(clip, "938 mel frames"));
    // The stock recipe: 38,400 frames on a card of 80 GB.
    const auto stock = estimate(with(one, "frames", "38400"));
    CHECK_FALSE(says(stock, "938"));
    CHECK(part(stock, "activations") == doctest::Approx(38.4 * 1.9e9 / kGi));
    CHECK(stock.peak_gib > 70);
    CHECK(stock.peak_gib < 80);
    const Fields whisper{
        {"model", "openai/whisper-large-v3"}, {"method", "full"}, {"batch", "1"}, {"frames", "500"}};
    CHECK(says(estimate(whisper), "frames are not counted"));
}

TEST_CASE("images: states follow optimiser, sharding and offloading") {
    const Fields one{{"model", "black-forest-labs/FLUX.1-dev"},
                     {"method", "full"},
                     {"batch", "1"},
                     {"resolution", "512x512"},
                     {"checkpointing", "yes"}};
    const auto eight = with(one, "gpus", "8");
    const double alone = states(estimate(one));
    CHECK(states(estimate(with(eight, "parallelism", "ddp"))) == doctest::Approx(alone));
    CHECK(states(estimate(with(eight, "parallelism", "zero3"))) == doctest::Approx(alone / 8));
    CHECK(estimate(with(eight, "parallelism", "zero3")).peak_gib <
          estimate(with(eight, "parallelism", "zero2")).peak_gib);
    const auto zero1 = estimate(with(eight, "parallelism", "zero1"));
    CHECK(part(zero1, "optimizer") == doctest::Approx(part(estimate(one), "optimizer") / 8));
    CHECK(part(zero1, "weights") == doctest::Approx(part(estimate(one), "weights")));
    CHECK(part(estimate(with(one, "offload", "optimizer")), "optimizer") == 0);
    CHECK(part(estimate(with(one, "optimizer", "lomo")), "gradients") == 0);
    CHECK(part(estimate(with(one, "optimizer", "sgd")), "optimizer") ==
          doctest::Approx(part(estimate(one), "optimizer") / 2));
    const auto lora = with(eight, "method", "lora");
    CHECK(part(estimate(with(lora, "parallelism", "zero3")), "weights") ==
          doctest::Approx(part(estimate(with(lora, "parallelism", "ddp")), "weights") / 8));
    const Fields video{{"model", "Wan-AI/Wan2.1-T2V-14B"},
                       {"method", "inference"},
                       {"resolution", "1280x720"},
                       {"frames", "81"},
                       {"gpus", "8"}};
    CHECK(says(estimate(video), "each holds the whole model"));
    CHECK(says(estimate(with(video, "parallelism", "layer split")), "not split"));
}
