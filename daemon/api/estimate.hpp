// The memory estimate as the daemon answers it, for POST /v1/estimate and for `resources.estimate` of a spec.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/job_spec.hpp"
#include "scheduler/estimate/model_catalog.hpp"
#include "scheduler/gpu_names.hpp"

namespace gf::api {

/// The table of models that travels inside the daemon, parsed once. Any thread.
[[nodiscard]] const ModelCatalog& shipped_models();

/// Works out the named texts of a spec's `estimate:`. Pure. Errors: `invalid` with the field's own name
/// ("seq"); an unknown model is one too.
Result<MemoryEstimate> resolve_estimate(const std::vector<std::pair<std::string, std::string>>& fields);

/// That of a stored spec; nothing where it has none.
[[nodiscard]] std::optional<MemoryEstimate> estimate_of_spec(const GpuNames& gpus, std::string_view spec,
                                                             bool yaml);

}  // namespace gf::api
