// From the bytes of a spec to an event: the parse, its errors as a problem, and the plan that rents nothing.
#include <sys/stat.h>

#include <algorithm>

#include "checkpoints/digest.hpp"
#include "config/job_spec_parser.hpp"
#include "daemon/api/blobs.hpp"
#include "daemon/api/estimate.hpp"
#include "daemon/api/handlers.hpp"
#include "daemon/api/json_views.hpp"
#include "daemon/api/lease_size.hpp"
#include "daemon/core.hpp"
#include "daemon/secrets/sealing.hpp"
#include "model/ascii.hpp"
#include "model/secret_name.hpp"

namespace gf::api {
namespace {

constexpr std::size_t kKeyBytesMax = 200;

std::string media_type(std::string_view header) {
    auto type = ascii_lower(header.substr(0, header.find(';')));
    while (!type.empty() && type.back() == ' ') type.pop_back();
    return type;
}

/// Nothing for a type that is neither. A missing type is judged by the first byte: a spec in JSON begins with a brace.
std::optional<SpecFormat> format_of(const http::Request& request) {
    const auto type = media_type(request.header("content-type"));
    if (type == "application/json") return SpecFormat::json;
    if (type == "application/yaml" || type == "application/x-yaml" || type == "text/yaml" || type == "text/x-yaml")
        return SpecFormat::yaml;
    if (!type.empty()) return std::nullopt;
    const auto first = request.body.find_first_not_of(" \t\r\n");
    return first != std::string::npos && request.body[first] == '{' ? SpecFormat::json : SpecFormat::yaml;
}

http::Response refusal(const std::vector<Error>& errors) {
    const bool unreadable = std::ranges::any_of(errors, [](const Error& e) { return e.kind == ErrorKind::malformed; });
    std::vector<http::FieldError> fields;
    for (const auto& e : errors)
        fields.push_back({.field = e.field, .line = e.line, .column = e.column, .message = e.message, .range = {}});
    const auto& first = errors.front();
    auto detail = first.message;
    if (!first.field.empty() && detail.find(first.field) == std::string::npos) detail = first.field + ": " + detail;
    if (first.line > 0) detail = "line " + std::to_string(first.line) + ": " + detail;
    if (errors.size() > 1) detail += " (and " + std::to_string(errors.size() - 1) + " more)";
    return http::problem(unreadable ? 400 : 422, detail, fields);
}

struct Parsed {
    SpecFormat format{};
    JobSpec spec;
};

/// Answers and returns nothing when the body is not a good spec.
std::optional<Parsed> parse_body(const Call& call) {
    const auto& request = call.request;
    if (!request.header("content-encoding").empty() && request.header("content-encoding") != "identity") {
        call.answer(http::problem(415, "Content-Encoding is not understood: send the spec as it is"));
        return std::nullopt;
    }
    const auto format = format_of(request);
    if (!format) {
        call.answer(http::problem(415, "a job spec is application/json or application/yaml, not " +
                                           media_type(request.header("content-type"))));
        return std::nullopt;
    }
    if (request.body.find_first_not_of(" \t\r\n") == std::string::npos) {
        call.answer(http::problem(400, "the body is empty: a job spec is needed"));
        return std::nullopt;
    }
    const auto* gpus = call.context().options.gpus;
    GF_ASSERT(gpus != nullptr);
    const SpecContext how{.resolve_gpu = [gpus](std::string_view typed) {
        auto found = gpus->typed(typed);
        return GpuResolution{.canonical = std::move(found.canonical), .suggestions = std::move(found.suggestions)};
    }, .resolve_estimate = resolve_estimate};
    auto outcome = check_job_spec(request.body, *format, how);
    if (!outcome.spec) {
        call.answer(refusal(outcome.errors));
        return std::nullopt;
    }
    return Parsed{.format = *format, .spec = *std::move(outcome.spec)};
}

/// Why the secrets that the spec names cannot be had, and the field that names them; nothing if they can. Whether they open
/// is the core's to find: what cannot be opened now may be put back while the job waits.
Result<std::optional<http::FieldError>> secrets_refusal(Reader& reader, const JobSpec& spec) {
    const auto missing = [&](const std::string& name) {
        return "there is no secret " + name + ": gpuferry secret set " + name + ", or PUT /v1/secrets/" + name + " first";
    };
    std::int64_t bytes = 0;
    for (std::size_t i = 0; i < spec.secrets.size(); ++i) {
        const auto row = reader.secret(spec.secrets[i]);
        if (!row) return fail(row.error());
        const auto field = "secrets[" + std::to_string(i) + "]";
        if (!*row) return std::optional(http::FieldError{.field = field, .message = missing(spec.secrets[i]), .range = {}});
        bytes += sealed_value_bytes((*row)->sealed).value_or(0);
        if (bytes > kJobSecretBytesMax)
            return std::optional(http::FieldError{.field = field, .message = "the values of a job's secrets together are too large",
                                                  .range = "at most " + std::to_string(kJobSecretBytesMax) + " bytes"});
    }
    if (!spec.image_auth) return std::nullopt;
    const auto row = reader.secret(spec.image_auth->password_secret);
    if (!row) return fail(row.error());
    if (*row) return std::nullopt;
    return std::optional(http::FieldError{.field = "image_auth.password", .message = missing(spec.image_auth->password_secret), .range = {}});
}

/// The error of a key that cannot be one; nothing for a good or absent key.
std::optional<std::string> bad_key(std::string_view key) {
    const bool printable = std::ranges::all_of(key, [](char c) { return c >= 0x20 && c < 0x7f; });
    if (key.size() <= kKeyBytesMax && printable) return std::nullopt;
    return "an Idempotency-Key is at most " + std::to_string(kKeyBytesMax) + " printable ASCII characters";
}

}  // namespace

void submit_job(Call call) {
    const std::string key(call.request.header("idempotency-key"));
    if (const auto bad = bad_key(key)) return call.answer(http::problem(400, *bad, {{.field = "Idempotency-Key", .message = *bad, .range = {}}}));
    auto parsed = parse_body(call);
    if (!parsed) return;
    if (const auto& code = parsed->spec.code_sha256; !code.empty() && !blob_is_there(call.context(), code)) {
        const auto message = "there is no blob " + code + ": PUT it to /v1/blobs/" + code + " first";
        return call.answer(http::problem(422, message, {{.field = "code", .message = message, .range = {}}}));
    }
    const auto secrets = secrets_refusal(call.reader(), parsed->spec);
    if (!secrets) return fail_with(call, secrets.error());
    if (*secrets) return call.answer(http::problem(422, (*secrets)->field + ": " + (*secrets)->message, {**secrets}));
    const auto large = lease_too_large(call.reader(), call.context().options.seal, parsed->spec);
    if (!large) return fail_with(call, large.error());
    if (*large) return call.answer(http::problem(422, (*large)->field + ": " + (*large)->message + "; " + (*large)->range, {**large}));
    SubmitJob event;
    event.spec_is_yaml = parsed->format == SpecFormat::yaml;
    event.spec = std::make_shared<const JobSpec>(std::move(parsed->spec));
    event.principal = call.caller.principal;
    event.local_allowed = call.caller.local;
    if (!key.empty()) {
        event.idempotency_key = key;
        event.body_sha256 = checkpoints::sha256((event.spec_is_yaml ? "yaml\n" : "json\n") + call.request.body).hex();
    }
    event.spec_text = std::move(call.request.body);
    ask_core(std::move(call), std::move(event));
}

void plan_job(Call call) {
    auto parsed = parse_body(call);
    if (!parsed) return;
    const auto view = call.context().core.view();
    auto known = call.context().core.choice_world();
    const auto now = call.context().core.now();
    const bool local = call.caller.local;
    in_background(std::move(call), [spec = std::move(parsed->spec), view, known, now, local](const Call&, Reader&) {
        ChoiceWorld world = known ? *known : ChoiceWorld{};
        world.now = now;
        world.local_allowed = local;
        world.expect.work.family = family_of(spec);
        JobSpec asked = spec;
        if (world.expect.history) take_peaks(asked, *world.expect.history);
        TaskRecord task;
        task.created_at = now;
        task.waiting_since = now;
        return http::json(200, decision_json(choose(asked, task, view->offers, world)));
    });
}

}  // namespace gf::api
