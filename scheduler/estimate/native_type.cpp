// The type in which the files of a model have its weights, where the request says none.
#include <string>
#include <utility>

#include "scheduler/estimate/request.hpp"

namespace gf {

void take_native_type(EstimateRequest& r, std::string_view native) {
    if (r.weights_given || native.empty()) return;
    const std::string name(native.substr(0, 60));
    const bool trains = r.method != EstimateMethod::inference && r.method != EstimateMethod::load_only;
    if (auto scheme = parse_quantization(native); scheme && scheme->quantised()) {
        r.weights_given = true;
        if (trains && (r.method == EstimateMethod::full || scheme->kernel == QuantKernel::fp8 ||
                       scheme->kernel == QuantKernel::mxfp4)) {
            r.notes.push_back("the weights are shipped as " + name + ", and expanded for training");
            return;
        }
        r.quantization = *std::move(scheme);
        r.quantization_text = name;
        r.notes.push_back("weights as they are shipped: " + name +
                          "; precision or quantization say otherwise");
        return;
    }
    const auto bytes = parse_dtype(native, "native_dtype");
    if (!bytes)
        r.notes.push_back("the weights are shipped as " + name +
                          ", which is not known here: counted in 16 bits");
    else if (*bytes >= 4 && r.method != EstimateMethod::full) {
        r.weight_bytes = *bytes;
        r.notes.push_back("weights as they are shipped: " + name + "; precision: bfloat16 halves them");
    }
    r.weights_given = r.weights_given || bytes.has_value();
}

}  // namespace gf
