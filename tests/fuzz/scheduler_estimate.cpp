// The questions to the memory estimate: lines of NAME=VALUE, or a model's config.json. Whatever is asked, the
// answer is an error that names a field, or a finite figure that is the sum of its parts.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "config/model_config.hpp"
#include "config/shipped.hpp"
#include "scheduler/estimate/estimate.hpp"

using namespace gf;

namespace {

std::vector<EstimateField> fields_of(std::string_view text) {
    std::vector<EstimateField> fields;
    if (text.starts_with('{')) {
        const auto node = read_json(text);
        if (!node) return fields;
        auto shape = shape_of_model_config(*node);
        if (!shape) {
            GF_ASSERT(!shape.error().field.empty());
            return fields;
        }
        return *std::move(shape);
    }
    while (!text.empty()) {
        const auto end = text.find('\n');
        const auto line = text.substr(0, end);
        if (const auto cut = line.find('='); cut != std::string_view::npos)
            fields.emplace_back(line.substr(0, cut), line.substr(cut + 1));
        if (end == std::string_view::npos) break;
        text.remove_prefix(end + 1);
    }
    return fields;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const ModelCatalog catalog = ModelCatalog::parse(shipped_models_csv()).value();
    const auto fields = fields_of({reinterpret_cast<const char*>(data), size});
    const auto request = read_estimate_request(fields, false);
    if (!request) {
        GF_ASSERT(!request.error().field.empty());
        return 0;
    }
    const auto e = estimate_vram(*request, catalog, Constants::shipped());
    if (!e) {
        GF_ASSERT(!e.error().field.empty());
        return 0;
    }
    double sum = 0;
    for (const auto& part : e->parts) {
        GF_ASSERT(std::isfinite(part.gib) && part.gib > 0);
        sum += part.gib;
    }
    GF_ASSERT(std::isfinite(e->peak_gib) && e->peak_gib > 0);
    GF_ASSERT(std::abs(sum - e->peak_gib) <= 1e-6 * e->peak_gib);
    GF_ASSERT(e->margin >= 1 && e->margin <= 5);
    GF_ASSERT(e->demand().count > 0);
    return 0;
}
