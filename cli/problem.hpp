// A Failure as people read it: the daemon's problem+json taken apart, and for a job spec the line it
// complains about.
#pragma once
#include <string>
#include <string_view>

#include "cli/failure.hpp"
#include "cli/table.hpp"

namespace gf::cli {

/// The spec that was sent, so that the offending line can be shown. Empty name = there was none.
struct SpecShown {
    std::string name;  // "job.yaml", "-"
    std::string text;
};

/// Several lines, each ended by a line break. Field, line:column, message and the allowed range where they
/// are told.
[[nodiscard]] std::string failure_text(const Failure& failure, const Style& style,
                                       const SpecShown& spec = {});

/// The problem's `detail`, else its `title`, else an empty text.
[[nodiscard]] std::string problem_detail(std::string_view problem_json);

}  // namespace gf::cli
