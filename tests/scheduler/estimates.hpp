// Questions to the estimate, as a user would type them.
#pragma once
#include <doctest/doctest.h>

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "config/shipped.hpp"
#include "scheduler/estimate/estimate.hpp"

namespace gf::test {

inline const ModelCatalog& model_catalog() {
    static const ModelCatalog catalog = ModelCatalog::parse(shipped_models_csv()).value();
    return catalog;
}

using Fields = std::vector<EstimateField>;

inline Result<Estimate> try_estimate(const Fields& fields) {
    auto request = read_estimate_request(fields, true);
    if (!request) return fail(std::move(request).error());
    return estimate_vram(*request, model_catalog(), Constants::shipped());
}

inline Estimate estimate(const Fields& fields) {
    auto answer = try_estimate(fields);
    if (!answer) FAIL(answer.error().field << ": " << answer.error().message);
    return *std::move(answer);
}

inline double part(const Estimate& e, std::string_view name) {
    for (const auto& p : e.parts)
        if (p.name == name) return p.gib;
    return 0;
}

/// `fields` with one more, or another value for one that is there.
inline Fields with(Fields fields, const std::string& name, const std::string& text) {
    for (auto& [key, value] : fields)
        if (key == name) {
            value = text;
            return fields;
        }
    fields.emplace_back(name, text);
    return fields;
}

}  // namespace gf::test
