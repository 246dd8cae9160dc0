#include "config/job_spec_parser.hpp"

#include <algorithm>
#include <tuple>

#include "config/job_fields.hpp"
#include "config/node.hpp"

namespace gf {
namespace {

Result<Node> read_spec(std::string_view text, SpecFormat format) {
    if (text.size() > kSpecBytesMax)
        return fail(ErrorKind::malformed,
                    "the spec is larger than 1 MiB (" + std::to_string(kSpecBytesMax) + " bytes)");
    return format == SpecFormat::json ? read_json(text) : read_yaml(text);
}

/// `resources.estimate`: its values go to whoever knows the formulas, and come back as a demand for memory.
void settle_estimate(Walk& walk, JobDraft& draft) {
    const Node* node = draft.estimate;
    if (node == nullptr) return;
    const std::string path = "resources.estimate";
    if (draft.vram != nullptr)
        return walk.error_at(node->place, ErrorKind::invalid, path, path + " excludes resources.vram: one of the two says what the job needs");
    if (!draft.context->resolve_estimate)
        return walk.error_at(node->place, ErrorKind::not_yet, path, path + " is not worked out here: state vram");
    if (draft.spec.resources.cpu_only) return;  // said already
    std::vector<std::pair<std::string, std::string>> fields;
    bool counted = false;
    for (std::size_t i = 0; i < node->keys.size(); ++i) {
        const Node& value = node->items[i];
        const std::string& key = node->keys[i].text;
        if (value.kind == Node::Kind::sequence || value.kind == Node::Kind::mapping)
            return walk.error_at(value.place, ErrorKind::invalid, path + "." + key, path + "." + key + " must be a text or a number");
        if (key == "gpus" || key == "gpu_count") counted = true;
        fields.emplace_back(key, value.text);
    }
    const int gpus = draft.spec.resources.gpus;
    if (!counted && gpus > 1) fields.emplace_back("gpus", std::to_string(gpus));
    auto made = draft.context->resolve_estimate(fields);
    if (!made) {
        const std::string field = made.error().field;
        const Node* at = node->find(field);
        return walk.error_at(at != nullptr ? at->place : node->place, ErrorKind::invalid, field.empty() ? path : path + "." + field,
                             path + ": " + made.error().message);
    }
    for (const auto* name : {"gpus", "gpu_count"})
        if (const Node* own = node->find(name); own != nullptr && own->text != std::to_string(gpus))
            return walk.error_at(own->place, ErrorKind::invalid, path + "." + name,
                                 path + "." + name + " is " + own->text + " and resources.gpus " + std::to_string(gpus) + ": write resources.gpus alone");
    draft.spec.resources.vram = VramDemand{.class_gb = {}, .exact = made->demand};
    draft.spec.estimate = *std::move(made);
}

/// What a single key cannot know.
void check_across(Walk& walk, const Node& root, JobDraft& draft) {
    const auto& r = draft.spec.resources;
    if (!draft.has_run && root.kind == Node::Kind::mapping)
        walk.error_at(root.place, ErrorKind::invalid, "run", "run is missing: the command of the job");
    for (std::size_t i = 0; i < draft.spec.secrets.size(); ++i)
        if (const auto& name = draft.spec.secrets[i]; draft.spec.env.contains(name))
            walk.error_at(draft.secret_places[i].first, ErrorKind::invalid, draft.secret_places[i].second,
                          "secrets: " + name + " is in env too; a variable has one value");
    if (draft.image_auth != nullptr && draft.spec.image.empty() && root.kind == Node::Kind::mapping)
        walk.error_at(draft.image_auth->place, ErrorKind::invalid, "image_auth",
                      "image_auth is for pulling image, and there is none");
    if (draft.cpu_only != nullptr && r.cpu_only) {
        const auto excluded = [&](std::string_view key, bool there) {
            if (there)
                walk.error_at(draft.cpu_only->place, ErrorKind::invalid, "resources.cpu_only",
                              "resources.cpu_only: true excludes resources." + std::string(key));
        };
        excluded("gpus", draft.gpus != nullptr);
        excluded("gpu", !r.gpu.empty());
        excluded("vram", draft.vram != nullptr);
        excluded("estimate", draft.estimate != nullptr);
        excluded("precision", !r.precision.empty());
        excluded("nvlink", r.nvlink);
        excluded("memory_bandwidth", r.memory_bandwidth.has_value());
        excluded("cuda", !r.cuda.empty());
        excluded("driver", !r.driver.empty());
    }
    settle_estimate(walk, draft);
}

/// Where what bears on the choice of a machine was written.
std::map<std::string, int, std::less<>> lines_of(const Node& root) {
    std::map<std::string, int, std::less<>> lines;
    for (std::size_t i = 0; i < root.keys.size(); ++i) {
        const std::string& top = root.keys[i].text;
        lines[top] = root.keys[i].place.line;
        if (top != "resources" && top != "limits") continue;
        const Node& section = root.items[i];
        for (const auto& key : section.keys) lines[top + "." + key.text] = key.place.line;
    }
    return lines;
}

}  // namespace

SpecOutcome check_job_spec(std::string_view text, SpecFormat format, const SpecContext& context) {
    SpecOutcome outcome;
    auto root = read_spec(text, format);
    if (!root) {
        outcome.errors.push_back(std::move(root).error());
        return outcome;
    }
    Walk walk(kSpecErrorsMax);
    JobDraft draft;
    draft.context = &context;
    draft.spec.name = "job";
    read_section(walk, *root, job_fields(), draft);
    check_across(walk, *root, draft);
    outcome.errors = walk.errors();
    std::ranges::sort(outcome.errors, {},
                      [](const Error& e) { return std::tuple(e.line, e.column, e.message); });
    if (!outcome.errors.empty()) return outcome;
    if (draft.spec.resources.cpu_only) draft.spec.resources.gpus = 0;
    draft.spec.lines = lines_of(*root);
    outcome.spec = std::move(draft.spec);
    return outcome;
}

Result<JobSpec> parse_job_spec(std::string_view text, SpecFormat format, const SpecContext& context) {
    auto outcome = check_job_spec(text, format, context);
    if (!outcome.spec) return fail(std::move(outcome.errors.front()));
    return *std::move(outcome.spec);
}

}  // namespace gf
