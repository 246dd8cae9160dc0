// Inside of the estimate: the bytes of one moment, by what they are for. Used by inference.cpp, training.cpp,
// media.cpp and estimate.cpp.
#pragma once
#include <string>
#include <vector>

#include "scheduler/estimate/constants.hpp"
#include "scheduler/estimate/request.hpp"
#include "scheduler/estimate/shape.hpp"

namespace gf {

inline constexpr double kGiBd = 1073741824.0;

struct Terms {
    double weights{0};
    double cache{0};
    double activations{0};
    double logits{0};
    double gradients{0};
    double optimizer{0};
    double adapter{0};
    double buffers{0};
    double overhead{0};
    [[nodiscard]] double total() const {
        return weights + cache + activations + logits + gradients + optimizer + adapter + buffers + overhead;
    }
};

/// The greater of two moments.
[[nodiscard]] inline const Terms& peak_of(const Terms& a, const Terms& b) {
    return b.total() > a.total() ? b : a;
}

/// What the weights take: all of them, what is neither embedding nor head, and the largest matrix that is
/// dequantised at once.
struct WeightBytes {
    double embedding{0};  // in 16 bits, or as quantised
    double head{0};       // 0 where it is the embedding
    double body{0};
    double largest{0};
    [[nodiscard]] double all() const { return embedding + head + body; }
};
[[nodiscard]] WeightBytes weight_bytes(const EstimateRequest& request, const ModelShape& shape,
                                       const Constants& constants);

/// Bytes per trained parameter.
struct StateBytes {
    double weights{2};
    double gradients{2};
    double optimizer{4};
};
[[nodiscard]] StateBytes state_bytes(const EstimateRequest& request);

/// What is left on one GPU of weights, gradients and optimiser states, by sharding and offloading.
void shard_states(const EstimateRequest& request, Terms& states);

[[nodiscard]] Terms inference_terms(const EstimateRequest& request, const ModelShape& shape,
                                    const Constants& constants);
[[nodiscard]] Terms training_terms(const EstimateRequest& request, const ModelShape& shape,
                                   const Constants& constants);

/// Models that are not one decoder: images, video, speech. `notes` tells what anchors were used.
[[nodiscard]] Terms media_terms(const EstimateRequest& request, const ModelShape& shape,
                                std::vector<std::string>& notes);

}  // namespace gf
