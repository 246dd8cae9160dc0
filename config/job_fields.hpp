// The schema of a job spec: one table of keys per section. Used by job_spec_parser.cpp only.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/job_spec_parser.hpp"
#include "config/walk.hpp"

namespace gf {

/// What the walk fills.
struct JobDraft {
    JobSpec spec;
    const SpecContext* context{nullptr};
    const Node* gpus{nullptr};  // keys that exclude each other, for the checks across keys
    const Node* cpu_only{nullptr};
    const Node* image_auth{nullptr};
    const Node* vram{nullptr};
    const Node* estimate{nullptr};
    std::vector<std::pair<Place, std::string>>
        secret_places;  // of spec.secrets, in its order, with the field's path
    bool has_run{false};
};
using JobField = Field<JobDraft>;

[[nodiscard]] std::span<const JobField> job_fields();
[[nodiscard]] std::span<const JobField> resource_fields();
[[nodiscard]] std::span<const JobField> checkpoint_fields();
[[nodiscard]] std::span<const JobField> success_fields();
[[nodiscard]] std::span<const JobField> progress_fields();
[[nodiscard]] std::span<const JobField> limit_fields();
[[nodiscard]] std::span<const JobField> retry_fields();

/// For keys that are reserved: said, never ignored.
void refuse_not_yet(Walk& walk, const Node& node, std::string_view what);
template <const char* Why>
void reserved(Walk& walk, const Node& node, JobDraft&) {
    refuse_not_yet(walk, node, Why);
}

/// A path inside the job's working folder: relative, without "..", control characters or an empty text.
std::optional<std::string> folder_path(Walk& walk, const Node& node);
/// A text on one line: names, images, patterns. No control characters and none that turn the direction of
/// writing.
std::optional<std::string> line_text(Walk& walk, const Node& node, std::size_t characters_max);

}  // namespace gf
