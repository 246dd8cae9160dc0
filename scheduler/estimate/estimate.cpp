#include "scheduler/estimate/estimate.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <tuple>
#include <utility>

#include "scheduler/estimate/terms.hpp"

namespace gf {
namespace {

constexpr double kMarginUnknown = 1.30;  // the batch, the length or the model is not known

std::string fixed(double value, int digits) {
    char out[64];
    std::snprintf(out, sizeof out, "%.*f", digits, value);
    return out;
}

std::string known_names(const ModelCatalog& catalog, std::string_view typed) {
    const auto near = catalog.suggestions(typed);
    if (near.empty()) return "; give params_b, or the shape (layers, hidden, heads, vocab)";
    std::string out = "; did you mean ";
    for (std::size_t i = 0; i < near.size(); ++i)
        out += (i == 0 ? "" : i + 1 == near.size() ? " or " : ", ") + near[i];
    return out + "? Else give params_b, or the shape (layers, hidden, heads, vocab)";
}

bool is_media(const EstimateRequest& r, const ModelShape& s) {
    if (!r.domain.empty() && r.domain != "llm") return true;
    return s.task == "image" || s.task == "video" || s.task == "asr" || s.task == "tts";
}

std::string method_name(const EstimateRequest& r) {
    const std::string domain = r.domain.empty() || r.domain == "llm" ? "" : r.domain + "_";
    switch (r.method) {
        case EstimateMethod::inference:
            return domain + "inference";
        case EstimateMethod::load_only:
            return domain + "load_only";
        case EstimateMethod::full:
            return domain + "full";
        case EstimateMethod::adapter:
            return domain + "adapter";
        case EstimateMethod::lora:
            break;
    }
    return domain + (r.quantization.quantised() && domain.empty() ? "qlora" : "lora");
}

/// The tables' margins: DESIGN's sources measured how far runs of one kind lie apart.
void set_margin(const EstimateRequest& r, const ModelShape& s, bool media, Estimate& out) {
    if (r.margin) {
        out.margin = *r.margin;
        out.margin_reason = "as asked for";
        return;
    }
    const bool trains = r.method != EstimateMethod::inference && r.method != EstimateMethod::load_only;
    const bool needs_length = !media && s.task != "encoder" && r.method != EstimateMethod::load_only;
    if (s.inferred) {
        out.margin = kMarginUnknown;
        out.margin_reason = "the shape of the model is inferred from its size";
    } else if (!s.not_counted.empty() && !media) {
        out.margin = kMarginUnknown;
        out.margin_reason = "not all of the model is counted";
    } else if (needs_length && !r.seq_given) {
        out.margin = kMarginUnknown;
        out.margin_reason = "the length is not known";
    } else if (trains && !r.batch_given) {
        out.margin = kMarginUnknown;
        out.margin_reason = "the batch is not known";
    } else if (media) {
        out.margin = 1.20;
        out.margin_reason = "images, video and speech";
    } else if (!trains) {
        out.margin = 1.10;
        out.margin_reason = "inference";
    } else if (r.method == EstimateMethod::full) {
        out.margin = 1.20;
        out.margin_reason = "full training";
    } else {
        out.margin = 1.15;
        out.margin_reason = "adapters";
    }
}

void add_parts(const Terms& t, std::vector<EstimatePart>& parts) {
    const auto add = [&](const char* name, double bytes) {
        if (bytes > 0) parts.push_back({.name = name, .gib = bytes / kGiBd});
    };
    add("weights", t.weights);
    add("kv_cache", t.cache);
    add("activations", t.activations);
    add("logits", t.logits);
    add("gradients", t.gradients);
    add("optimizer", t.optimizer);
    add("adapter", t.adapter);
    add("buffers", t.buffers);
    add("overhead", t.overhead);
    std::ranges::sort(parts, [](const EstimatePart& a, const EstimatePart& b) {
        return std::tie(b.gib, a.name) < std::tie(a.gib, b.name);
    });
}

Result<void> check_kind(const EstimateRequest& r, const ModelShape& s, bool media) {
    if (media) return {};
    if (s.has_layers()) return {};
    if (r.method == EstimateMethod::load_only) return {};
    return fail(Error{.kind = ErrorKind::invalid,
                      .message = "model " + s.name + " has no layers in the table (task " + s.task +
                                 "): there is no estimate for it yet",
                      .field = "model"});
}

/// What several GPUs mean where nobody says how they share the work.
void settle_parallel(EstimateRequest& r, bool media, bool trains) {
    if (r.gpus == 1 || r.sharding_given) return;
    if (trains) {
        r.notes.emplace_back("several GPUs and no parallelism: each holds the whole training state");
    } else if (media) {
        r.sharding = Sharding::data;
        r.notes.emplace_back("several GPUs and no parallelism: each holds the whole model");
    } else {
        r.notes.emplace_back("several GPUs and no parallelism: layers split over them");
    }
}

/// What full training does with the type that was asked for.
void settle_full(EstimateRequest& r, bool media) {
    if (r.quantization.quantised()) {
        r.notes.push_back(
            "full training holds its weights in 16 or 32 bits: " + r.quantization.scheme.substr(0, 60) +
            " is not counted; qlora trains on a quantised base");
        r.quantization = {};
        r.quantization_text.clear();
    }
    if (media || r.deepspeed || r.pure_low_precision || traits_of(r.stack).pure_low_precision) return;
    if (r.weight_bytes < 4 && !r.mixed_precision)
        r.notes.emplace_back(
            "counted as mixed precision: 32-bit weights with 16-bit copies; precision: pure bf16 holds "
            "everything in 16 bits");
}

}  // namespace

Bytes Estimate::demand() const {
    return Bytes{static_cast<std::int64_t>(std::ceil(with_margin_gib() * kGiBd))};
}

std::string Estimate::text() const {
    return fixed(peak_gib, 1) + " GiB x " + fixed(margin, 2) + " = " + fixed(with_margin_gib(), 1) + " GiB";
}

Result<ModelShape> resolve_model(const EstimateRequest& r, const ModelCatalog& catalog,
                                 std::vector<std::string>& notes) {
    if (r.shape) {
        const auto* found = r.model.empty() ? nullptr : catalog.find(r.model);
        if (found != nullptr && (std::abs(found->params - r.shape->params) > 0.02 * found->params ||
                                 found->layers != r.shape->layers))
            notes.push_back("the given shape counts (" + fixed(r.shape->params / 1e9, 3) +
                            " billion parameters), not that of " + found->name + " (" +
                            fixed(found->params / 1e9, 3) + ")");
        return *r.shape;
    }
    if (!r.model.empty()) {
        if (const auto* found = catalog.find(r.model)) {
            if (found->name != r.model) notes.push_back(r.model + " is taken as " + found->name);
            ModelShape shape = *found;
            if (r.params && shape.params > 0 &&
                (*r.params > 1.15 * shape.params || *r.params < 0.85 * shape.params)) {
                notes.push_back("params_b says " + fixed(*r.params / 1e9, 3) + ", the table " +
                                fixed(shape.params / 1e9, 3) + ": the larger is taken");
                shape.params = std::max(shape.params, *r.params);
            }
            return shape;
        }
    } else if (!r.alias.empty()) {
        if (const auto* found = catalog.find(r.alias)) return *found;
    }
    const std::string typed = r.model.empty() ? r.alias : r.model;
    if (r.params) {
        if (!typed.empty())
            if (const auto* copy = catalog.find_copy(typed, *r.params)) {
                notes.push_back(typed + " is taken as a copy of " + copy->name);
                return *copy;
            }
        const double active = r.active_params.value_or(active_params_in_name(typed));
        if (active == 0)
            if (const auto* same = catalog.of_size(*r.params);
                same != nullptr && (r.domain.empty() || r.domain == "llm")) {
                ModelShape shape = *same;
                notes.push_back(typed + " is not in the table: the shape is that of " + shape.name +
                                ", which has as many parameters");
                shape.name = typed.empty() ? shape.name : typed;
                shape.inferred = true;
                shape.native_dtype.clear();
                return shape;
            }
        notes.push_back((typed.empty() ? "the model" : typed) +
                        " is not in the table: a shape was inferred from its " + fixed(*r.params / 1e9, 3) +
                        " billion parameters");
        return inferred_shape(typed.empty() ? "inferred" : typed, *r.params,
                              active > 0 ? std::min(active, *r.params) : *r.params);
    }
    return fail(Error{.kind = ErrorKind::not_found,
                      .message = "model \"" + typed.substr(0, 200) + "\" is not in the table of models" +
                                 known_names(catalog, typed),
                      .field = "model"});
}

Result<Estimate> estimate_vram(const EstimateRequest& request, const ModelCatalog& catalog,
                               const Constants& constants) {
    Estimate out;
    out.notes = request.notes;
    auto shape = resolve_model(request, catalog, out.notes);
    if (!shape) return fail(std::move(shape).error());
    if (auto good = check_shape(*shape); !good) return fail(std::move(good).error());
    EstimateRequest r = request;
    const bool media = is_media(r, *shape);
    if (media && r.domain.empty()) r.domain = shape->task == "image" ? "diffusion" : shape->task;
    if (auto good = check_kind(r, *shape, media); !good) return fail(std::move(good).error());
    const bool trains = r.method != EstimateMethod::inference && r.method != EstimateMethod::load_only;
    if (!media) {
        take_native_type(r, shape->native_dtype);
        if (!shape->not_counted.empty()) r.notes.push_back("not counted: " + shape->not_counted);
        if (!r.framework.empty() && !r.framework_known)
            r.notes.push_back("the program \"" + r.framework.substr(0, 60) +
                              "\" is not known here: nothing that it does by itself is counted");
    }
    settle_parallel(r, media, trains);
    if (r.method == EstimateMethod::full) settle_full(r, media);
    out.notes.insert(out.notes.end(), r.notes.begin() + std::ssize(request.notes), r.notes.end());
    if (!media && !r.seq_given && r.method != EstimateMethod::load_only) {
        r.seq = 2048;
        out.notes.emplace_back("no length given: 2048 tokens");
    }
    const Terms terms = media    ? media_terms(r, *shape, out.notes)
                        : trains ? training_terms(r, *shape, constants)
                                 : inference_terms(r, *shape, constants);
    if (!media && !trains && r.stack == Stack::vllm)
        out.notes.emplace_back(
            "this engine takes the configured share of the card (0.90 by default) whatever the model needs");
    out.model = shape->name;
    out.method = method_name(r);
    out.gpus = r.gpus;
    out.peak_gib = terms.total() / kGiBd;
    if (!std::isfinite(out.peak_gib) || out.peak_gib <= 0 || out.peak_gib > 1e9)
        return fail(Error{.kind = ErrorKind::invalid,
                          .message = "seq_len, batch_per_gpu and the model together ask for more than "
                                     "1,000,000,000 GiB on one GPU",
                          .field = "seq_len"});
    add_parts(terms, out.parts);
    set_margin(r, *shape, media, out);
    return out;
}

}  // namespace gf
