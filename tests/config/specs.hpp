// Parsing a spec in a test: the shipped GPU table, and the error as one line to compare with.
#pragma once
#include <string>

#include "config/job_spec_parser.hpp"
#include "config/shipped.hpp"
#include "scheduler/gpu_names.hpp"

namespace gf::test {

inline SpecContext context() {
    static const GpuNames names = [] {
        auto parsed = GpuNames::parse(shipped_gpus_csv(), shipped_aliases_csv());
        GF_ASSERT(parsed.has_value());
        return *std::move(parsed);
    }();
    return SpecContext{.resolve_gpu =
                           [](std::string_view typed) {
                               auto found = names.typed(typed);
                               return GpuResolution{std::move(found.canonical), std::move(found.suggestions)};
                           },
                       .code_may_be_path = false};
}

inline Result<JobSpec> yaml(std::string_view text) {
    return parse_job_spec(text, SpecFormat::yaml, context());
}
inline Result<JobSpec> json(std::string_view text) {
    return parse_job_spec(text, SpecFormat::json, context());
}

/// "invalid resources.gpus 3:9", or "" for a good spec.
inline std::string where(const Result<JobSpec>& r) {
    if (r) return {};
    const Error& e = r.error();
    return std::string(text(e.kind)) + " " + e.field + " " + std::to_string(e.line) + ":" +
           std::to_string(e.column);
}

}  // namespace gf::test
