// Jobs as rows: lists, one, its parts, and the commands on it.
#include <nlohmann/json.hpp>

#include "checkpoints/store.hpp"
#include "daemon/api/access.hpp"
#include "daemon/api/estimate.hpp"
#include "daemon/api/handlers.hpp"
#include "daemon/api/json_views.hpp"
#include "daemon/api/list_page.hpp"
#include "daemon/core.hpp"

namespace gf::api {
namespace {

/// A query value as an enumerator; the error lists what there is.
template <class E>
Result<std::optional<E>> enum_in_query(const http::Request& request, std::string_view key) {
    const auto* value = request.query_value(key);
    if (value == nullptr) return std::optional<E>{};
    if (const auto known = enum_from<E>(*value)) return std::optional<E>{known};
    std::string all;
    for (const auto& [e, name] : EnumNames<E>::table) all += (all.empty() ? "" : ", ") + std::string(name);
    return fail(Error{.kind = ErrorKind::malformed, .message = std::string(key) + " must be one of " + all, .field = std::string(key)});
}

void command(Call call, JobVerb verb) {
    const auto job = find_job(call);
    if (!job) return;
    // A submitter answers for its own jobs; those of others take an operator.
    if (!role_covers(call.caller.role, Role::operator_) && job->principal != call.caller.principal)
        return call.answer(http::problem(403, "this job was submitted by another; that needs the role operator"));
    auto principal = call.caller.principal;
    ask_core(std::move(call), CommandJob{.job = job->id, .verb = verb, .principal = std::move(principal)});
}

/// A checkpoint with what reading it back showed: "whole", "broken", or "unknown" where the disk did not say.
Json verified_view(checkpoints::CheckpointStore& store, const CheckpointRecord& row) {
    auto out = checkpoint_view(row);
    if (row.state == CheckpointState::pruned) return out;
    const auto digest = checkpoints::Digest::from_hex(row.manifest_sha256);
    const auto read = digest ? checkpoints::verify_generation(store, row.job, *digest)
                             : Result<checkpoints::Manifest>(fail(ErrorKind::malformed, "the row names no manifest"));
    out["verified"] = read ? "whole" : read.error().kind == ErrorKind::malformed ? "broken" : "unknown";
    if (!read) out["detail"] = read.error().message;
    return out;
}

/// A list of the parts of the job in the path.
template <class Read, class View>
void list_of_job(const Call& call, Read read, View view) {
    const auto job = find_job(call);
    if (!job) return;
    const auto rows = read(call.reader(), job->id);
    if (!rows) return fail_with(call, rows.error());
    answer_page(call, *rows, view);
}

}  // namespace

void list_jobs(Call call) {
    const auto page = page_of(call.request);
    if (!page) return fail_with(call, page.error());
    if (const auto good = check_id_cursor(*page, "job_"); !good) return fail_with(call, good.error());
    const auto state = enum_in_query<JobState>(call.request, "state");
    if (!state) return fail_with(call, state.error());
    const auto kind = enum_in_query<JobKind>(call.request, "kind");
    if (!kind) return fail_with(call, kind.error());
    JobFilter filter{.state = *state, .kind = *kind, .project = {}, .cursor = page->cursor, .limit = page->limit};
    if (const auto* project = call.request.query_value("project")) filter.project = *project;
    const auto rows = call.reader().jobs(filter);
    if (!rows) return fail_with(call, rows.error());
    std::vector<Json> items;
    for (const auto& row : *rows) items.push_back(job_view(row));
    const bool full = static_cast<int>(rows->size()) == page->limit;
    answer_json(call, 200, dump(list_view(std::move(items), full ? rows->back().id.get() : "")));
}

void show_job(Call call) {
    if (const auto job = find_job(call)) answer_json(call, 200, dump(job_view(*job)));
}

void cancel_job(Call call) { command(std::move(call), JobVerb::cancel); }
void retry_job(Call call) { command(std::move(call), JobVerb::retry); }
void hold_job(Call call) { command(std::move(call), JobVerb::hold); }
void release_job(Call call) { command(std::move(call), JobVerb::release); }

void explain_job(Call call) {
    const auto job = find_job(call);
    if (!job) return;
    const auto decision = call.reader().decision(job->id);
    if (!decision) return fail_with(call, decision.error());
    const auto tasks = call.reader().tasks(job->id);
    if (!tasks) return fail_with(call, tasks.error());
    std::optional<Instant> waiting_since;  // of the task that waits for longest
    for (const auto& task : *tasks)
        if (task.state == TaskState::waiting && (!waiting_since || task.waiting_since < *waiting_since)) waiting_since = task.waiting_since;
    Json out;
    out["job"] = job->id.get();
    out["state"] = text(job->state);
    out["reason"] = job->reason;
    out["detail"] = job->detail;
    out["attempts"] = job->attempts;
    out["waiting_since"] = waiting_since ? Json(rfc3339(*waiting_since)) : Json(nullptr);
    out["decided_at"] = *decision ? Json(rfc3339((*decision)->at)) : Json(nullptr);
    auto parsed = *decision ? Json::parse((*decision)->json, nullptr, false) : Json(nullptr);
    if (parsed.is_object() && parsed.contains("estimate")) {
        // As it was resolved for that decision, by what was known of its family then.
        out["estimate"] = parsed["estimate"];
        parsed.erase("estimate");
    } else if (const auto estimate = estimate_of_spec(*call.context().options.gpus, job->spec, job->spec_is_yaml)) {
        out["estimate"] = Json::parse(estimate_json(*estimate));
    }
    out["decision"] = parsed.is_discarded() ? Json(nullptr) : std::move(parsed);
    answer_json(call, 200, dump(out));
}

void list_attempts(Call call) {
    list_of_job(call, [](Reader& reader, const JobId& id) { return reader.attempts(id); }, attempt_view);
}

void list_checkpoints(Call call) {
    const auto verify = flag_in_query(call.request, "verify");
    if (!verify) return fail_with(call, verify.error());
    if (!*verify)
        return list_of_job(call, [](Reader& reader, const JobId& id) { return reader.checkpoints(id); }, checkpoint_view);
    const auto job = find_job(call);
    if (!job) return;
    if (call.context().options.store == nullptr) return call.answer(http::problem(503, "the daemon has no store for checkpoints"));
    const auto rows = call.reader().checkpoints(job->id);
    if (!rows) return fail_with(call, rows.error());
    // Reads every byte of each generation of the page: for a large checkpoint ask for one at a time.
    in_background(std::move(call), [rows = *rows](const Call& c, Reader&) {
        const auto body = page_body(c.request, rows, [&c](const CheckpointRecord& row) {
            return verified_view(*c.context().options.store, row);
        });
        return body ? http::json(200, *body) : http::problem(body.error());
    });
}

void list_job_events(Call call) {
    const auto page = page_of(call.request);
    if (!page) return fail_with(call, page.error());
    const auto job = find_job(call);
    if (!job) return;
    // Here the cursor is the number of the last event of the page before: the history only grows.
    const auto after = number_of_cursor(*page);
    if (!after) return fail_with(call, after.error());
    const auto rows = call.reader().events(job->id, *after, page->limit);
    if (!rows) return fail_with(call, rows.error());
    std::vector<Json> items;
    for (const auto& row : *rows) items.push_back(event_view(row));
    const bool full = static_cast<int>(rows->size()) == page->limit;
    answer_json(call, 200, dump(list_view(std::move(items), full ? std::to_string(rows->back().seq) : "")));
}

}  // namespace gf::api
