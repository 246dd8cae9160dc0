#include "simulator/runpod_face.hpp"

#include <nlohmann/json.hpp>

#include "simulator/runpod_schema.hpp"

namespace gf::sim {

namespace {

using nlohmann::json;

HttpResponse edge_refusal() {
    // The edge in front of the API refuses library user agents; its body is not a problem document.
    return {.status = 403,
            .type = "text/html; charset=UTF-8",
            .body =
                "<!DOCTYPE html><html><head><title>Access denied</title></head><body><h1>Error 1010</h1>"
                "<p>Access denied: browser signature</p></body></html>",
            .headers = {{"Server", "cloudflare"}},
            .cut = false};
}

HttpResponse wrong_method(const char* allowed) {
    auto response = problem(405, "The requested method is not allowed for this path.");
    response.headers.emplace_back("Allow", allowed);
    return response;
}

}  // namespace

HttpResponse problem(int status, const std::string& detail, const std::vector<std::string>& errors) {
    json body{{"title", reason_phrase(status)}, {"status", status}, {"detail", detail}};
    if (!errors.empty()) body["errors"] = errors;
    auto response = json_response(status, body);
    response.type = "application/problem+json";
    return response;
}

std::variant<json, HttpResponse> valid_body(const HttpRequest& request, const json& schema) {
    auto body = json::parse(request.body, nullptr, false);
    if (body.is_discarded()) return problem(422, "Request validation failed.", {"$: invalid JSON"});
    const auto errors = schema_errors(schema, body);
    if (!errors.empty()) return problem(422, "Request validation failed.", errors);
    return body;
}

std::string whole_seconds(Instant at) {
    return rfc3339(at).substr(0, 19) + "Z";
}

std::optional<RunpodFace::Caller> RunpodFace::caller(const std::string& key) {
    if (key.empty()) return std::nullopt;
    if (world_.settings().runpod_container_key) {
        for (const auto& rental : world_.rentals()) {
            if (rental->provider == Provider::runpod && rental->exists() && rental->container_key == key) {
                return Caller{key, rental.get()};
            }
        }
    }
    const auto& account = world_.settings().runpod_key;
    if (!account.empty() && key != account) return std::nullopt;
    return Caller{key, nullptr};
}

HttpResponse RunpodFace::handle(const HttpRequest& request) {
    const auto agent = request.header("user-agent");
    if (agent.empty() || agent.starts_with("Python-urllib")) return edge_refusal();
    if (request.segments.empty()) return problem(404, "resource not found");
    const auto& first = request.segments.front();
    if (first == "v1") {
        return json_response(
            410, {{"error", "REST API v1 has been retired. Use https://api.runpod.io/v2."}, {"status", 410}});
    }
    if (first == "graphql") return graphql(request);
    if (first == "v2") return rest(request);
    return problem(404, "resource not found");
}

HttpResponse RunpodFace::rest(const HttpRequest& request) {
    const auto key = request.bearer();
    if (!key) return problem(401, "missing bearer token");
    const auto who = caller(*key);
    if (!who) return problem(401, "invalid bearer token");
    // Limits are per user, not per key: a pod's own key counts with the account.
    const auto quota = quotas_.count("account", world_.settings(), world_.now());
    HttpResponse response;
    if (quota.retry_after_s) {
        response = problem(429, "rate limit exceeded for the " + quota.window + " window");
        response.headers.emplace_back("Retry-After", std::to_string(*quota.retry_after_s));
    } else if (request.too_large || request.body.size() > kBodyMax) {
        response = problem(413, "Request body exceeds 102400 bytes.");
    } else {
        response = route(request, *who);
    }
    response.headers.emplace_back("RateLimit-Policy", quota.policy);
    response.headers.emplace_back("RateLimit", quota.state);
    return response;
}

HttpResponse RunpodFace::route(const HttpRequest& request, const Caller& caller) {
    std::vector<std::string> path(request.segments.begin() + 1, request.segments.end());
    if (!path.empty() && path.back().empty()) path.pop_back();
    if (path.empty()) return problem(404, "resource not found");
    const auto& area = path.front();
    if (area == "pods") return route_pods(request, caller, path);
    if (caller.own != nullptr) return problem(403, "access denied");
    if (area == "catalog") return route_catalog(request, path);
    if (area == "network-volumes") return network_volumes(request, path);
    if (area == "registries") return registries(request, path);
    if (area == "account" && path.size() == 2 && path[1] == "ssh-keys") return ssh_keys(request);
    if (area == "billing") {
        if (request.method != "GET") return wrong_method("GET");
        return billing(request, path.size() > 1 ? path[1] : "");
    }
    if (area == "templates" && path.size() == 1) {
        if (request.method != "GET") return wrong_method("GET");
        return json_response(200, {{"templates", json::array()}});
    }
    return problem(404, "resource not found");
}

HttpResponse RunpodFace::route_pods(const HttpRequest& request, const Caller& caller,
                                    const std::vector<std::string>& path) {
    if (path.size() == 1) {
        if (caller.own != nullptr) return problem(403, "access denied");
        if (request.method == "GET") return list_pods(request);
        if (request.method == "POST") return create_pod(request);
        return wrong_method("GET, POST");
    }
    if (caller.own != nullptr && caller.own->id != path[1]) return problem(403, "access denied");
    auto* pod = visible_pod(path[1]);
    if (path.size() == 2) {
        if (request.method != "GET" && request.method != "DELETE" && request.method != "PATCH") {
            return wrong_method("GET, PATCH, DELETE");
        }
        if (pod == nullptr) return problem(404, "pod not found");
        if (request.method == "GET") return json_response(200, pod_json(*pod));
        if (request.method == "PATCH") return patch_pod(*pod, request);
        return pod_action(*pod, "terminate");
    }
    if (path.size() == 3 && path[2] == "action") {
        if (request.method != "POST") return wrong_method("POST");
        const auto body = valid_body(request, pod_action_schema());
        if (const auto* refused = std::get_if<HttpResponse>(&body)) return *refused;
        if (pod == nullptr) return problem(404, "pod not found");
        return pod_action(*pod, std::get<json>(body)["action"].get<std::string>());
    }
    if (path.size() == 3 && path[2] == "logs") {
        if (request.method != "GET") return wrong_method("GET");
        if (pod == nullptr) return problem(404, "pod not found");
        return pod_logs(*pod, request);
    }
    return problem(404, "resource not found");
}

HttpResponse RunpodFace::route_catalog(const HttpRequest& request, const std::vector<std::string>& path) {
    if (path.size() < 2 || path.size() > 3) return problem(404, "resource not found");
    const auto one = path.size() == 3 ? path[2] : std::string{};
    if (request.method != "GET") return wrong_method("GET");
    if (path[1] == "gpus") return list_gpus(request, one);
    if (path[1] == "datacenters") return list_data_centers(request, one);
    if (path[1] == "cpus" && one.empty()) {
        return json_response(200, {{"cpus",
                                    {{{"id", "cpu3c"},
                                      {"name", "Compute-Optimized"},
                                      {"group", "Compute-Optimized"},
                                      {"vcpu", {{"min", 2}, {"max", 32}}},
                                      {"ramGbPerVcpu", 2},
                                      {"price", {{"securePerVcpu", 0.03}, {"serverlessPerVcpu", 0.03}}}}}}});
    }
    if (path[1] == "templates" && one.empty()) return json_response(200, {{"templates", json::array()}});
    return problem(404, "resource not found");
}

}  // namespace gf::sim
