// How much memory of one GPU a piece of work needs: a table of parts, their sum at the moment of the peak,
// and the margin that goes on top. The formulas and where they come from: docs/estimate.md. Pure: no IO, no
// clock; the same question has the same answer.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/bytes.hpp"
#include "model/result.hpp"
#include "scheduler/estimate/constants.hpp"
#include "scheduler/estimate/model_catalog.hpp"
#include "scheduler/estimate/request.hpp"

namespace gf {

struct EstimatePart {
    std::string name;  // "weights", "kv_cache", "activations", "logits", "gradients", "optimizer", "adapter",
                       // "buffers", "overhead"
    double gib{0};     // per GPU, at the moment of the peak; above 0
};

struct Estimate {
    std::string model;   // hub id of the table, or as given
    std::string method;  // "inference", "full", "lora", "qlora", "adapter", "load_only", with "diffusion_"
                         // and the like before it
    double peak_gib{0};  // per GPU: the sum of the parts
    double margin{1};    // 1 to 5
    std::string margin_reason;
    std::vector<EstimatePart> parts;  // biggest first
    std::vector<std::string> notes;   // what was assumed, in sentences
    std::int64_t gpus{1};

    [[nodiscard]] double with_margin_gib() const { return peak_gib * margin; }
    /// With the margin, rounded up to a byte: held against usable memory.
    [[nodiscard]] Bytes demand() const;
    /// "17.3 GiB x 1.15 = 19.9 GiB"
    [[nodiscard]] std::string text() const;
};

/// The shape that a request means. In this order: the shape that it gives; the hub id or alias in the
/// catalogue; a copy of a known model under another owner's name; a shape inferred from `params_b`. Errors:
/// `not_found` with the field "model" and what may have been meant; never a neighbour. `notes` tells what was
/// taken.
Result<ModelShape> resolve_model(const EstimateRequest& request, const ModelCatalog& catalog,
                                 std::vector<std::string>& notes);

/// Errors: those of `resolve_model`, and `invalid` where the model's kind does not go with the method, or the
/// answer is beyond 1e9 GiB.
Result<Estimate> estimate_vram(const EstimateRequest& request, const ModelCatalog& catalog,
                               const Constants& constants);

}  // namespace gf
