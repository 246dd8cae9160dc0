// Images, video and speech. There is no formula as good as for decoders: what is resident follows from the
// parts of a pipeline, and what a pass adds on top is scaled from measured anchors (docs/estimate.md names
// them) by pixels, frames, width and batch.
#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "scheduler/estimate/terms.hpp"

namespace gf {
namespace {

/// The parts of a pipeline beside the model that its hub id names, in billions of parameters.
struct Pipeline {
    std::string_view family;
    double encoders;       // text encoders together
    double large_encoder;  // the largest of them
    double vae;
};
constexpr auto kPipelines = std::to_array<Pipeline>({{"SD1", 0.12, 0.12, 0.08},
                                                     {"SD2", 0.34, 0.34, 0.08},
                                                     {"SDXL", 0.82, 0.69, 0.08},
                                                     {"SD3", 5.58, 4.76, 0.08},
                                                     {"Flux", 4.88, 4.76, 0.08},
                                                     {"PixArt", 4.76, 4.76, 0.08},
                                                     {"AuraFlow", 1.2, 1.2, 0.08},
                                                     {"Kandinsky", 3.7, 2.5, 0.07},
                                                     {"aMUSEd", 0.12, 0.12, 0.15},
                                                     {"CogVideoX", 4.76, 4.76, 0.22},
                                                     {"HunyuanVideo", 8.0, 7.5, 0.25},
                                                     {"Wan", 5.7, 5.7, 0.13},
                                                     {"LTX", 4.76, 4.76, 0.42},
                                                     {"Mochi", 4.76, 4.76, 0.36}});
constexpr Pipeline kOtherPipeline{"", 4.76, 4.76, 0.1};

/// Inference of speech models at 16 bits and one clip: gibibytes per billion parameters of what is loaded,
/// and what is there without any (audio, vocoder, workspaces). From the anchors of the same family at 32, 16
/// and 8 bits.
struct Speech {
    std::string_view family;
    double stacks;  // times the parameters that the table tells: several models are loaded together
    double fixed_gib;
    double item_gib;   // for each further clip of a batch
    double train_gib;  // per clip of training, over the states
};
constexpr auto kSpeech = std::to_array<Speech>({{"Whisper", 1.0, 1.6, 0.22, 1.2},
                                                {"XTTS", 1.0, 1.15, 0.3, 3.5},
                                                {"Bark", 3.1, 0.9, 0.5, 4.0},
                                                {"Tortoise", 1.0, 2.9, 0.4, 4.0},
                                                {"VITS", 1.0, 0.6, 0.1, 0.75},
                                                {"GPT-SoVITS", 2.0, 2.0, 0.5, 2.0},
                                                {"F5-TTS", 1.0, 3.8, 0.4, 2.0},
                                                {"Kokoro", 1.0, 2.4, 0.2, 2.0},
                                                {"CSM", 1.0, 2.0, 0.3, 6.0}});
constexpr Speech kOtherSpeech{"", 1.0, 1.5, 0.3, 3.0};

// Bytes per latent token and unit of width of the live block: 40 GiB for 73,000 tokens of 5,120 (Wan2.1 14B
// at 720p) and 5.5 for 32,000 of 1,536 (1.3B at 480p).
constexpr double kVideoBytes = 118;
// A decoded megapixel with its convolutions, 16 bits: Stable Diffusion 3 and PixArt at 1024 x 1024 lie 0.1 to
// 1 GiB over what is loaded, Flux 3.3. The older decoders with four channels are run in 32 bits.
constexpr double kDecodeGibPerMegapixel = 0.9;
constexpr double kDecodeGibPerMegapixelOld = 2.5;
// T5-XXL in fp16 keeps one matrix of each of its 24 layers (4,096 x 10,240) in 32 bits, unless it is
// quantised: those pipelines lie 1.9 GiB over the sum of their parts.
constexpr double kT5KeptWide = 24.0 * 4096 * 10240 * 2;
constexpr double kT5Params = 4.76;
constexpr double kDecodeVideoGibPerMegapixel =
    0.5;  // of all frames together, where nothing is tiled (CogVideoX)

template <class Row, std::size_t N>
const Row& row_of(const std::array<Row, N>& rows, std::string_view family, const Row& other) {
    for (const auto& row : rows)
        if (row.family == family) return row;
    return other;
}

bool has(std::string_view text, std::string_view part) {
    return text.find(part) != std::string_view::npos;
}

/// What ZeRO-3 holds of the layers that pass: the current one and the next, a bucket of gradients, and what
/// is lost in between.
double gathered(const EstimateRequest& r, const ModelShape& s, double weights) {
    if (!(r.gpus > 1 && r.sharding == Sharding::zero3) && !r.offload_params) return 0;
    const auto layers = static_cast<double>(std::max<std::int64_t>(8, s.layers));
    return 6 * s.params / layers + 0.1 * weights / static_cast<double>(r.gpus);
}

Terms image_terms(const EstimateRequest& r, const ModelShape& s, std::vector<std::string>& notes) {
    const bool video = r.domain == "video" || s.task == "video";
    const Pipeline& parts = row_of(kPipelines, s.family, kOtherPipeline);
    if (parts.family.empty())
        notes.emplace_back("the other parts of this pipeline are not known: counted as with a T5 encoder");
    const double quantised = r.quantization.quantised() ? r.quantization.bits / 8 : r.weight_bytes;
    // "fp8 transformer + text encoder" and "bnb-int8 (T5)" name the parts; a scheme alone is for the model.
    std::string text;
    for (const char c : r.quantization_text)
        text.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c);
    const bool encoders_only = has(text, "(t5)") || has(text, "(text");
    const bool encoders_too = encoders_only || has(text, "encoder") ||
                              (!has(text, "transformer") && r.quantization.quantised() && video);
    const bool first_encoder = has(text, "encoder 1") || has(text, "encoder 2");  // the small ones
    const double width_bytes = encoders_only ? r.weight_bytes : quantised;
    const double denoiser = s.params * width_bytes;
    const double encoder_bytes = encoders_too && !first_encoder ? quantised : r.weight_bytes;
    const bool wide_t5 =
        r.half_precision && parts.large_encoder == kT5Params && (!encoders_too || first_encoder);
    const double encoders = parts.encoders * 1e9 * encoder_bytes + (wide_t5 ? kT5KeptWide : 0);
    const double vae = parts.vae * 1e9 * r.weight_bytes;

    const auto batch = static_cast<double>(std::max<std::int64_t>(1, r.batch));
    const auto gpus = static_cast<double>(r.gpus);
    const double side = video ? 720.0 * 480 : 1024.0 * 1024;
    const double pixels = r.width > 0 ? static_cast<double>(r.width * r.height) : side;
    const double frames = video ? static_cast<double>(r.frames > 0 ? r.frames : 49) : 1;
    if (r.width == 0)
        notes.emplace_back(video ? "no resolution given: 720x480" : "no resolution given: 1024x1024");
    const double hidden = s.hidden > 0 ? static_cast<double>(s.hidden) : 1536;

    // Latents are an eighth of the picture, patches two latents wide; video four frames to one.
    const double latent_tokens = pixels / 256 * (video ? (frames + 3) / 4 : 1);
    double denoise = batch * latent_tokens * hidden * (video ? kVideoBytes : 48);
    const double megapixels = pixels * frames / 1e6;
    const bool old_decoder =
        s.family == "SD1" || s.family == "SD2" || s.family == "SDXL" || s.family == "Kandinsky";
    const double per_megapixel = video         ? kDecodeVideoGibPerMegapixel
                                 : old_decoder ? kDecodeGibPerMegapixelOld
                                               : kDecodeGibPerMegapixel;
    double decode = batch * per_megapixel * megapixels * kGiBd * (old_decoder ? 1 : r.weight_bytes / 2);
    if (r.tiling) decode = std::min(decode, 1.5 * kGiBd);
    // Wan and Hunyuan decode frame by frame.
    if (video && s.family != "CogVideoX" && s.family != "Mochi") decode = std::min(decode, 4 * kGiBd);

    Terms t;
    if (r.method == EstimateMethod::inference || r.method == EstimateMethod::load_only) {
        if (r.sharding == Sharding::zero3 || r.sharding == Sharding::sequence ||
            r.sharding == Sharding::tensor) {
            denoise /= gpus;
            t.weights = r.sharding == Sharding::sequence ? denoiser + encoders + vae
                                                         : denoiser / gpus + encoders + vae;
            t.buffers += 0.25 * std::max(0.0, denoise * gpus - denoise / 1) *
                         (r.sharding == Sharding::zero3 && r.gpus > 1 ? 1 : 0);
        } else if (r.offload_sequential) {
            t.weights = 0.05 * denoiser;
        } else if (r.offload_model) {
            // One part at a time; the pass of the denoiser may still be more than the largest part.
            Terms encode;
            encode.weights = r.offload_encoders ? 0 : encoders;
            encode.overhead = 0.5 * kGiBd;
            Terms pass;
            // What bitsandbytes has quantised cannot be moved, and stays.
            pass.weights =
                denoiser +
                (encoders_only && r.quantization.kernel == QuantKernel::bitsandbytes ? encoders : 0);
            pass.activations = std::max(denoise, decode);
            pass.overhead = 0.5 * kGiBd;
            return peak_of(pass, encode);
        } else {
            t.weights = denoiser + (r.offload_encoders ? 0 : encoders) + vae;
        }
        t.activations = r.method == EstimateMethod::load_only ? 0 : std::max(denoise, decode);
        if (r.gpus > 1 && (r.sharding == Sharding::layer_split || r.sharding == Sharding::pipeline))
            notes.emplace_back(
                "layers of images and video are not split here: each GPU is counted with all of them");
        t.overhead = 0.25 * kGiBd;
        return t;
    }
    // Training. Anchors: FLUX.2 klein 4B at 512 x 512 (full 37.1 GiB, adapter 10.0), Stable Diffusion 1.4 in
    // 32 bits (27.5, 15.5, 8.1 with checkpoints), CogVideoX (2B adapter 47, full 62; 5B full 75), HiDream-I1
    // adapter (59.9; 36.9 in NF4).
    EstimateRequest types = r;
    types.deepspeed = false;
    types.pure_low_precision = r.weight_bytes < 4 && !r.mixed_precision;
    const double moments = state_bytes(types).optimizer;
    t.weights = denoiser;
    if (r.method == EstimateMethod::full) {
        t.gradients = r.fused_backward ? 0 : s.params * std::max(2.0, r.weight_bytes);
        t.optimizer = s.params * moments;
    }
    shard_states(r, t);
    t.buffers += gathered(r, s, denoiser);
    if (r.method == EstimateMethod::full) {
        // ZeRO-2 keeps the gradients of a micro-step whole, in 32 bits.
        if (r.gpus > 1 && r.sharding == Sharding::zero2) t.gradients = 4 * s.params;
    } else {
        t.adapter = 16 * static_cast<double>(r.lora_rank) * std::max(8.0, static_cast<double>(s.layers)) *
                    12 * hidden;
    }
    // Large text encoders are most often used ahead and let go; small ones stay.
    if (parts.encoders < 1 || video) t.weights += encoders + vae;
    if (video) t.buffers += decode;  // the clips are encoded on the same card
    const double per_pass = video ? batch * latent_tokens * hidden * kVideoBytes * 4
                                  : batch * (latent_tokens * hidden * 450 + 0.3 * kGiBd);
    const double blocks = std::max(8.0, static_cast<double>(s.layers));
    t.activations =
        r.checkpointing ? per_pass + batch * latent_tokens * hidden * 2 * blocks : per_pass * blocks / 6;
    if (r.weight_bytes >= 4 && !r.mixed_precision) t.activations *= 2;
    t.overhead = 1.0 * kGiBd;
    return t;
}

Terms speech_terms(const EstimateRequest& r, const ModelShape& s, std::vector<std::string>& notes) {
    const Speech& kind = row_of(kSpeech, s.family, kOtherSpeech);
    if (kind.family.empty())
        notes.emplace_back("no anchor for this family of speech models: counted as an average one");
    const auto batch = static_cast<double>(std::max<std::int64_t>(1, r.batch));
    const double bytes = r.quantization.quantised() ? r.quantization.bits / 8 : r.weight_bytes;
    Terms t;
    if (r.domain == "vocoder") {
        // BigVGAN: 1.2 GiB and 0.23 per 1,000 mel frames in 32 bits.
        const double frames = static_cast<double>(r.frames > 0 ? r.frames : 1024);
        t.weights = s.params * bytes;
        t.activations = batch * frames / 1000 * 0.06 * r.weight_bytes * kGiBd;
        t.overhead = 0.8 * kGiBd;
        return t;
    }
    t.weights = s.params * kind.stacks * bytes;
    if (r.offload_model) t.weights = s.params * bytes;
    if (r.method == EstimateMethod::inference || r.method == EstimateMethod::load_only) {
        // What is not weights halves with the type as well, above a floor.
        t.activations = kind.item_gib * (batch - 1) * kGiBd;
        t.overhead = kind.fixed_gib * std::min(1.4, 0.6 + 0.2 * r.weight_bytes) * kGiBd;
        if (r.gpus > 1 && r.sharding != Sharding::data)
            notes.emplace_back(
                "programs for speech do not split a model: each GPU is counted with all of it");
        if (r.offload_params || r.offload_sequential || r.offload_encoders)
            notes.emplace_back(
                "of what may wait in host memory only the models of other stages are counted for speech");
        return t;
    }
    if (r.method == EstimateMethod::full) {
        const StateBytes states = state_bytes(r);
        t.weights = states.weights * s.params;
        t.gradients = states.gradients * s.params;
        t.optimizer = states.optimizer * s.params;
    } else if (s.layers > 0 && s.hidden > 0) {
        // 18 widths of input and output a layer: four matrices of attention, two of the MLP. A recogniser has
        // two stacks.
        t.adapter = 16 * static_cast<double>(r.lora_rank) *
                    static_cast<double>(s.layers * (s.task == "asr" ? 2 : 1)) * 18 *
                    static_cast<double>(s.hidden);
    } else {
        t.adapter = 0.3 * kGiBd;
        notes.emplace_back("the layers of this model are not known: lora_rank is not counted");
    }
    t.buffers += gathered(r, s, t.weights);
    shard_states(r, t);
    double item = kind.train_gib * kGiBd;
    if (kind.family == "F5-TTS") {
        // The stock recipe puts 38,400 mel frames on 80 GB: under 1.9 GB for a thousand.
        constexpr double kFramesOfTenSeconds = 938;
        item = 1.9e6 * (r.frames > 0 ? static_cast<double>(r.frames) : kFramesOfTenSeconds);
        if (r.frames == 0)
            notes.emplace_back(
                "no frames given: clips of ten seconds, 938 mel frames each; batch counts clips");
    } else if (r.frames > 0) {
        notes.emplace_back("frames are not counted for this family: clips of the usual length are");
    }
    t.activations = item * batch * (r.checkpointing ? 0.6 : 1);
    t.overhead = 1.0 * kGiBd;
    return t;
}

}  // namespace

Terms media_terms(const EstimateRequest& r, const ModelShape& s, std::vector<std::string>& notes) {
    const bool speech =
        r.domain == "asr" || r.domain == "tts" || r.domain == "vocoder" || s.task == "asr" || s.task == "tts";
    notes.emplace_back("scaled from measured anchors: a rougher figure than for language models");
    return speech ? speech_terms(r, s, notes) : image_terms(r, s, notes);
}

}  // namespace gf
