// From the text of a job spec (YAML or JSON, one schema) to a JobSpec. Pure: no file, no clock, no
// environment. What is accepted, with ranges and the list of what is refused with "not yet", is
// docs/job-spec.md.
//
// Errors, and the HTTP status that they stand for:
//   malformed   the text cannot be read: not UTF-8, a syntax error, a duplicate key, deeper than 32, too
//   large   400 invalid     readable, but a key is unknown or a value is out of its range 422 not_yet     a
//   key that is reserved for later; never silently ignored                                        422
// Each carries the field's path ("resources.gpus", "outputs[0].from") and, 1-based, line and column (in
// characters).
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/job_spec.hpp"
#include "model/result.hpp"

namespace gf {

enum class SpecFormat : std::uint8_t { yaml, json };

inline constexpr std::size_t kSpecBytesMax =
    1 << 20;  // the HTTP handler answers 413 above it; the parser refuses too
inline constexpr int kSpecDepthMax = 32;
inline constexpr int kSpecErrorsMax = 20;

/// What a typed GPU name stands for. The table lives in the scheduler (GpuNames::typed), which this room may
/// not include, so that the caller hands it in.
struct GpuResolution {
    std::vector<std::string> canonical;    // empty = not a known name
    std::vector<std::string> suggestions;  // for "did you mean"
};
using ResolveGpu = std::function<GpuResolution(std::string_view typed)>;

/// Works out the named values of `resources.estimate`: the scheduler's formulas, which this room may not include either. Errors: `invalid` with
/// the name of the value in `field` ("seq").
using ResolveEstimate = std::function<Result<MemoryEstimate>(const std::vector<std::pair<std::string, std::string>>& fields)>;

struct SpecContext {
    ResolveGpu resolve_gpu;        // must be set
    bool code_may_be_path{false};  // the command line checks a spec before the folder is packed; the daemon
                                   // takes only sha256:<64 hex>, and `code_sha256` stays empty for a path
    ResolveEstimate resolve_estimate{};  // where there is none, `resources.estimate` is refused with "not yet"
};

/// Every error of a spec, at most kSpecErrorsMax, in the order of the text. `spec` is set exactly when
/// `errors` is empty.
struct SpecOutcome {
    std::optional<JobSpec> spec;
    std::vector<Error> errors;
};
[[nodiscard]] SpecOutcome check_job_spec(std::string_view text, SpecFormat format,
                                         const SpecContext& context);

/// The same with the first error only.
Result<JobSpec> parse_job_spec(std::string_view text, SpecFormat format, const SpecContext& context);

/// The value of `code:` as typed; empty when the key is absent. Errors: `malformed`, or `invalid` if it is
/// not a text.
Result<std::string> code_of_spec(std::string_view text, SpecFormat format);

/// The same spec text with the value of `code:` replaced by "sha256:<hex>"; every other byte stays. Errors:
/// as above, and `invalid` if `code` is absent or written in a form that cannot be replaced in place (a block
/// scalar).
Result<std::string> spec_with_code(std::string_view text, SpecFormat format, std::string_view sha256_hex);

}  // namespace gf
