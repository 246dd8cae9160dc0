// How much GPU memory a model needs: the body as named texts, the answer of the formula, the cards on which
// it fits.
#include "daemon/api/estimate.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "config/job_spec_parser.hpp"
#include "config/model_config.hpp"
#include "config/node.hpp"
#include "config/shipped.hpp"
#include "daemon/api/handlers.hpp"
#include "daemon/api/json_views.hpp"
#include "model/spelling.hpp"
#include "scheduler/estimate/cards.hpp"
#include "scheduler/estimate/estimate.hpp"

namespace gf::api {
namespace {

/// Thousandths: what more there is, is noise.
double rounded(double value) {
    return std::round(value * 1000) / 1000;
}

http::Response refused(const Error& error) {
    // A name that is not in the table is a value of the body that does not do, not a path that is not there.
    const int status = error.kind == ErrorKind::malformed ? 400 : 422;
    return http::problem(status, error.message,
                         {{.field = error.field,
                           .line = error.line,
                           .column = error.column,
                           .message = error.message,
                           .range = {}}});
}

/// The members of the body as texts. A mapping is read under "config" only (a model's config.json), and under
/// "shape".
Result<std::vector<EstimateField>> fields_of(const Node& body) {
    if (body.kind != Node::Kind::mapping)
        return fail(Error{.kind = ErrorKind::invalid,
                          .message = "the body must be an object of names and values",
                          .field = ""});
    std::vector<EstimateField> fields;
    for (std::size_t i = 0; i < body.keys.size(); ++i) {
        const std::string& name = body.keys[i].text;
        const Node& value = body.items[i];
        if (name == "config" && value.kind != Node::Kind::null) {
            auto shape = shape_of_model_config(value);
            if (!shape) return fail(std::move(shape).error());
            // What is said beside the file counts more: it comes after.
            fields.insert(fields.begin(), std::make_move_iterator(shape->begin()),
                          std::make_move_iterator(shape->end()));
        } else if (name == "shape" && value.kind == Node::Kind::mapping) {
            auto inner = fields_of(value);
            if (!inner) return fail(std::move(inner).error());
            for (auto& field : *inner) fields.push_back(std::move(field));
        } else if (value.kind == Node::Kind::scalar || value.kind == Node::Kind::null) {
            fields.emplace_back(name, value.text);
        } else {
            return fail(
                Error{.kind = ErrorKind::invalid,
                      .message = name.substr(0, 80) + " must be a text or a number, not a list or an object",
                      .field = name.substr(0, 80),
                      .line = value.place.line,
                      .column = value.place.column});
        }
    }
    return fields;
}

Json parts_view(const std::vector<std::pair<std::string, double>>& parts) {
    Json out = Json::object();
    for (const auto& [name, gib] : parts) out[name] = rounded(gib);
    return out;
}

/// Names that mean nothing here: said, so that a slip does not pass for a value.
std::vector<std::string> unknown_names(const std::vector<EstimateField>& fields) {
    std::vector<std::string> notes;
    for (const auto& [name, text] : fields) {
        const auto& known = estimate_keys();
        if (std::ranges::find(known, std::string_view(name)) != known.end()) continue;
        if (notes.size() == 8) break;
        std::string note = name.substr(0, 80) + " is not known here and was not used";
        if (const auto near = nearest_spelling(name, known)) note += "; did you mean " + *near + "?";
        notes.push_back(std::move(note));
    }
    return notes;
}

MemoryEstimate kept(const Estimate& e) {
    MemoryEstimate out{.model = e.model,
                       .method = e.method,
                       .peak_gib = e.peak_gib,
                       .margin = e.margin,
                       .margin_reason = e.margin_reason,
                       .demand = e.demand(),
                       .text = e.text(),
                       .notes = e.notes};
    for (const auto& part : e.parts) out.parts_gib.emplace_back(part.name, part.gib);
    return out;
}

}  // namespace

const ModelCatalog& shipped_models() {
    static const ModelCatalog catalog = [] {
        auto parsed = ModelCatalog::parse(shipped_models_csv());
        GF_ASSERT(parsed.has_value());  // a test parses the same bytes
        return *std::move(parsed);
    }();
    return catalog;
}

Result<MemoryEstimate> resolve_estimate(const std::vector<std::pair<std::string, std::string>>& fields) {
    const auto request = read_estimate_request(fields, true);
    if (!request) return fail(request.error());
    const auto e = estimate_vram(*request, shipped_models(), Constants::shipped());
    if (!e) return fail(e.error());
    return kept(*e);
}

std::optional<MemoryEstimate> estimate_of_spec(const GpuNames& gpus, std::string_view spec, bool yaml) {
    // Most have none: those are not parsed.
    if (spec.find("estimate") == std::string_view::npos) return std::nullopt;
    const SpecContext how{.resolve_gpu =
                              [&gpus](std::string_view typed) {
                                  auto found = gpus.typed(typed);
                                  return GpuResolution{.canonical = std::move(found.canonical),
                                                       .suggestions = std::move(found.suggestions)};
                              },
                          .resolve_estimate = resolve_estimate};
    auto parsed = parse_job_spec(spec, yaml ? SpecFormat::yaml : SpecFormat::json, how);
    return parsed ? std::move(parsed->estimate) : std::nullopt;
}

void estimate_memory(Call call) {
    const auto body = read_json(call.request.body);
    if (!body) return call.answer(refused(body.error()));
    const auto fields = fields_of(*body);
    if (!fields) return call.answer(refused(fields.error()));
    const auto request = read_estimate_request(*fields, false);
    if (!request) return call.answer(refused(request.error()));
    const auto e = estimate_vram(*request, shipped_models(), Constants::shipped());
    if (!e) return call.answer(refused(e.error()));
    const auto numbers = kept(*e);
    Json out;
    out["model"] = e->model;
    out["method"] = e->method;
    out["gpus"] = e->gpus;
    out["peak_gib_per_gpu"] = rounded(e->peak_gib);
    out["margin"] = e->margin;
    out["margin_reason"] = e->margin_reason;
    out["with_margin_gib_per_gpu"] = rounded(e->with_margin_gib());
    out["low_gib_per_gpu"] = rounded(e->peak_gib * 0.9);
    out["vram_bytes"] = e->demand().count;
    out["parts"] = parts_view(numbers.parts_gib);
    out["biggest"] = e->parts.empty() ? "" : e->parts.front().name;
    auto notes = e->notes;
    for (auto& note : unknown_names(*fields)) notes.push_back(std::move(note));
    out["notes"] = notes;
    out["fits"] = Json::array();
    for (const auto& fit : cards_that_fit(*call.context().options.gpus, e->demand()))
        out["fits"].push_back({{"gpu", fit.canonical},
                               {"usable_gib", rounded(fit.usable_gib)},
                               {"room_gib", rounded(fit.room_gib)}});
    answer_json(call, 200, dump(out));
}

}  // namespace gf::api
