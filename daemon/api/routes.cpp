#include "daemon/api/routes.hpp"

#include <algorithm>
#include <array>

#include "daemon/api/handlers.hpp"

namespace gf::api {
namespace {

using enum http::Method;
using enum Role;

// openapi.json describes the same rows; a test holds the two together.
constexpr auto kRoutes = std::to_array<Route>({
    {post, "/v1/jobs", submitter, false, Body::document, "", submit_job, true},
    {get, "/v1/jobs", viewer, false, Body::none, "state kind project limit cursor", list_jobs},
    {get, "/v1/jobs/{id}", viewer, false, Body::none, "", show_job},
    {post, "/v1/jobs/{id}/cancel", submitter, false, Body::document, "", cancel_job},
    {post, "/v1/jobs/{id}/retry", submitter, false, Body::document, "", retry_job},
    {post, "/v1/jobs/{id}/hold", submitter, false, Body::document, "", hold_job},
    {post, "/v1/jobs/{id}/release", submitter, false, Body::document, "", release_job},
    {get, "/v1/jobs/{id}/logs", viewer, false, Body::none, "attempt offset follow format limit", read_log},
    {get, "/v1/jobs/{id}/explain", viewer, false, Body::none, "", explain_job},
    {get, "/v1/jobs/{id}/attempts", viewer, false, Body::none, "limit cursor", list_attempts},
    {get, "/v1/jobs/{id}/checkpoints", viewer, false, Body::none, "verify limit cursor", list_checkpoints},
    {get, "/v1/jobs/{id}/events", viewer, false, Body::none, "limit cursor", list_job_events},
    {get, "/v1/jobs/{id}/cost", viewer, false, Body::none, "", job_cost},
    {get, "/v1/jobs/{id}/outputs", viewer, false, Body::none, "limit cursor", list_outputs},
    {get, "/v1/jobs/{id}/outputs/files/{path...}", viewer, false, Body::none, "task", read_output},
    {get, "/v1/jobs/{id}/metrics", viewer, false, Body::none, "", not_yet},
    {post, "/v1/plan", viewer, false, Body::document, "", plan_job},
    {post, "/v1/estimate", viewer, false, Body::document, "", estimate_memory},
    {get, "/v1/offers", viewer, false, Body::none, "gpu provider limit cursor", list_offers},
    {get, "/v1/offers/history", viewer, false, Body::none, "gpu gpus provider spot from to tick", offer_history},
    {get, "/v1/gpus", viewer, false, Body::none, "limit cursor", list_gpus},
    {get, "/v1/providers", viewer, false, Body::none, "limit cursor", list_providers},
    {post, "/v1/providers/check", operator_, false, Body::document, "", check_providers},
    {get, "/v1/machines", viewer, false, Body::none, "all limit cursor", list_machines},
    {get, "/v1/machines/{id}", viewer, false, Body::none, "", show_machine},
    {delete_, "/v1/machines/{id}", operator_, false, Body::none, "", destroy_machine},
    {post, "/v1/machines/{id}/adopt", operator_, false, Body::document, "", adopt_machine},
    {get, "/v1/alerts", viewer, false, Body::none, "all limit cursor", list_alerts},
    {get, "/v1/cost", viewer, false, Body::none, "from to group_by", total_cost},
    {get, "/v1/events", viewer, false, Body::none, "after", follow_events},
    {get, "/v1/tokens", admin, false, Body::none, "limit cursor", list_tokens},
    {post, "/v1/tokens", admin, false, Body::document, "", make_token},
    {delete_, "/v1/tokens/{id}", admin, false, Body::none, "", revoke_token},
    {get, "/v1/secrets", submitter, false, Body::none, "limit cursor", list_secrets},
    {get, "/v1/secrets/{name}", submitter, false, Body::none, "", show_secret},
    {put, "/v1/secrets/{name}", operator_, false, Body::document, "", put_secret},
    {delete_, "/v1/secrets/{name}", operator_, false, Body::none, "", drop_secret},
    {put, "/v1/blobs/{sha256}", submitter, false, Body::blob, "", put_blob},
    {head, "/v1/blobs/{sha256}", submitter, false, Body::none, "", head_blob},
    {get, "/v1/openapi.json", viewer, false, Body::none, "", openapi},
    {get, "/healthz", viewer, true, Body::none, "", healthz},
    {get, "/readyz", viewer, true, Body::none, "", readyz},
    {get, "/metrics", viewer, false, Body::none, "", metrics},
    // Of later issues: the paths are fixed already, so that a client learns "not yet" and not "no such thing".
    {get, "/v1/stores", viewer, false, Body::none, "limit cursor", not_yet},
    {get, "/v1/budgets", viewer, false, Body::none, "limit cursor", not_yet},
    {post, "/v1/budgets", operator_, false, Body::document, "", not_yet},
    {delete_, "/v1/budgets/{name}", operator_, false, Body::none, "", not_yet},
    {post, "/v1/channels/{name}/test", operator_, false, Body::document, "", not_yet},
    {post, "/v1/session", viewer, false, Body::document, "", not_yet},
});

/// Splits a pattern at its slashes; the table is small and split once.
std::vector<std::string_view> parts_of(std::string_view pattern) {
    std::vector<std::string_view> parts;
    pattern.remove_prefix(1);
    while (true) {
        const auto slash = pattern.find('/');
        parts.push_back(pattern.substr(0, slash));
        if (slash == std::string_view::npos) return parts;
        pattern.remove_prefix(slash + 1);
    }
}

const std::vector<std::vector<std::string_view>>& split_routes() {
    static const auto all = [] {
        std::vector<std::vector<std::string_view>> made;
        for (const auto& route : kRoutes) made.push_back(parts_of(route.pattern));
        return made;
    }();
    return all;
}

bool fits(const std::vector<std::string_view>& parts, const std::vector<std::string>& segments, std::vector<std::string>& path) {
    const bool rest = parts.back().ends_with("...}");
    if (rest ? segments.size() < parts.size() : segments.size() != parts.size()) return false;
    path.clear();
    for (std::size_t i = 0; i < parts.size(); ++i) {
        if (rest && i + 1 == parts.size()) {
            std::string joined;
            for (std::size_t k = i; k < segments.size(); ++k) joined += (k == i ? "" : "/") + segments[k];
            path.push_back(std::move(joined));
            return true;
        }
        if (parts[i].front() == '{') {
            if (segments[i].empty()) return false;
            path.push_back(segments[i]);
        } else if (parts[i] != segments[i]) {
            return false;
        }
    }
    return true;
}

}  // namespace

std::span<const Route> routes() { return kRoutes; }

Match find_route(const http::Request& request) {
    Match match;
    const auto& split = split_routes();
    const Route* instead = nullptr;  // GET's row for a HEAD
    std::vector<std::string> path;
    for (std::size_t i = 0; i < kRoutes.size(); ++i) {
        if (!fits(split[i], request.segments, path)) continue;
        const Route& route = kRoutes[i];
        if (route.method == request.method) {
            match.route = &route;
            match.path = std::move(path);
            return match;
        }
        if (route.method == get && request.method == head) {
            instead = &route;
            match.path = path;
        }
        match.allowed += (match.allowed.empty() ? "" : ", ") + std::string(http::text(route.method));
        if (route.method == get) match.allowed += ", HEAD";
    }
    match.route = instead;
    return match;
}

Result<void> check_query(const Route& route, const http::Request& request) {
    for (const auto& [key, value] : request.query) {
        bool known = false;
        for (auto rest = route.query; !known && !rest.empty();) {
            const auto space = rest.find(' ');
            known = rest.substr(0, space) == key;
            rest = space == std::string_view::npos ? std::string_view{} : rest.substr(space + 1);
        }
        if (!known)
            return fail(Error{.kind = ErrorKind::malformed,
                              .message = "unknown query key " + key + "; known here: " +
                                         (route.query.empty() ? std::string("none") : std::string(route.query)),
                              .field = key});
        const auto same = [&wanted = key](const auto& other) { return other.first == wanted; };
        if (std::ranges::count_if(request.query, same) > 1)
            return fail(Error{.kind = ErrorKind::malformed, .message = "query key " + key + " is given twice", .field = key});
    }
    return {};
}

}  // namespace gf::api
