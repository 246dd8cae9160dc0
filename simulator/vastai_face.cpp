#include "simulator/vastai_face.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>

namespace gf::sim {

namespace {

using nlohmann::json;

struct Limit {
    const char* method;
    const char* endpoint;  // the path after /api, ids as {id}
    double interval_s;
    double penalty_s;
};

/// The table of section 1.2; calls that are not in it have no limit.
constexpr std::array<Limit, 22> kLimits{{
    {"PUT", "/v0/asks/{id}", 4.5, 12},
    {"DELETE", "/v0/instances/{id}", 3, 3},
    {"DELETE", "/v0/instances", 3, 3},
    {"PUT", "/v0/instances/{id}", 1, 1},
    {"PUT", "/v0/instances", 1, 1},
    {"PUT", "/v0/instances/reboot/{id}", 1, 1},
    {"PUT", "/v0/instances/recycle/{id}", 1, 1},
    {"GET", "/v0/instances/{id}", 2, 2},
    {"GET", "/v1/instances", 1, 1},
    {"PUT", "/v0/instances/bid_price/{id}", 5.5, 5.5},
    {"POST", "/v0/volumes/search", 5.5, 5.5},
    {"GET", "/v0/volumes", 5.5, 5.5},
    {"PUT", "/v0/volumes", 5.5, 5.5},
    {"DELETE", "/v0/volumes", 5.5, 5.5},
    {"GET", "/v1/invoices", 3, 3},
    {"GET", "/v0/instances/balance/{id}", 3, 3},
    {"GET", "/v0/charges", 1, 1},
    {"POST", "/v0/ssh", 1, 1},
    {"POST", "/v0/instances/{id}/ssh", 1, 1},
    {"DELETE", "/v0/instances/{id}/ssh/{id}", 2, 2},
    {"PUT", "/v0/instances/command/{id}", 1.5, 1.5},
    {"PUT", "/v0/launch_instance", 5, 5},
}};

bool is_search(const HttpRequest& request, const std::string& endpoint) {
    return endpoint == "/v0/bundles" || (endpoint == "/v0/search/asks" && request.method == "PUT");
}

bool is_number(const std::string& text) {
    return !text.empty() && std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c) != 0; });
}

HttpResponse page_not_found() {
    return {.status = 404,
            .type = "text/html",
            .body =
                "<!doctype html>\n<html lang=en>\n<title>404 Not Found</title>\n<h1>Not Found</h1>\n<p>The "
                "requested URL was "
                "not found on the server.</p>\n",
            .headers = {},
            .cut = false};
}

}  // namespace

HttpResponse vast_error(int status, const std::string& error, const std::string& text) {
    return json_response(status, {{"success", false}, {"error", error}, {"msg", text}});
}

double unix_seconds(Instant at) {
    return static_cast<double>(unix_millis(at)) / 1000.0;
}

std::optional<HttpResponse> VastaiFace::refuse_caller(const HttpRequest& request, Caller& caller) {
    auto key = request.bearer();
    if (!key) key = request.query_value("api_key");
    if (!key || key->empty()) return vast_error(403, "auth_error", "This action requires login.");
    caller.identity = *key + "@" + request.peer;
    for (const auto& rental : world_.rentals()) {
        if (rental->provider == Provider::vastai && rental->exists() && rental->container_key == *key) {
            caller.own = rental.get();
            return std::nullopt;
        }
    }
    const auto& account = world_.settings().vastai_key;
    if (account.empty() || *key == account) return std::nullopt;
    // What a wrong key really returns is 404; the documents say 401.
    return vast_error(world_.settings().vastai_wrong_key_401 ? 401 : 404, "auth_error", "Invalid user key");
}

HttpResponse VastaiFace::too_often(double threshold) {
    HttpResponse response;
    response.status = 429;
    switch (refusals_++ % 4) {
        case 0:
            response.type = "text/plain";
            response.body = "API requests too frequent";
            break;
        case 1:
            response.type = "text/plain";
            response.body = fmt::format("API requests too frequent: endpoint threshold={:.1f}", threshold);
            break;
        case 2:
            return json_response(
                429,
                {{"detail", fmt::format("API requests too frequent endpoint threshold={:.1f}", threshold)}});
        default:
            return json_response(
                429,
                {{"success", false},
                 {"error", "rate_limit_exceeded"},
                 {"msg", fmt::format("API requests too frequent endpoint threshold={:.1f}", threshold)}});
    }
    return response;
}

std::optional<HttpResponse> VastaiFace::too_frequent(const HttpRequest& request, const Caller& caller,
                                                     const std::string& endpoint) {
    if (!world_.settings().vastai_intervals) return std::nullopt;
    if (is_search(request, endpoint)) {
        // About ten searches per minute were observed.
        if (intervals_.over_per_minute(caller.identity, "search", 10, world_.now())) return too_often(6.0);
        return std::nullopt;
    }
    for (const auto& limit : kLimits) {
        if (request.method != limit.method || endpoint != limit.endpoint) continue;
        const auto broken = intervals_.refuse(caller.identity, request.method + std::string{limit.endpoint},
                                              limit.interval_s, limit.penalty_s, world_.now());
        if (broken) return too_often(*broken);
    }
    return std::nullopt;
}

HttpResponse VastaiFace::handle(const HttpRequest& request) {
    const auto& segments = request.segments;
    if (segments.size() == 2 && segments[0] == "_result") return result_file(segments[1]);
    if (segments.size() < 3 || segments[0] != "api") return page_not_found();
    // Every path ends with a slash; without it there is no such page. The vendor's own client leaves it out
    // in one call, so that one is served.
    const bool bare_user = request.path == "/api/v0/users/current";
    if (!segments.back().empty() && !bare_user) return page_not_found();
    Path path(segments.begin() + 1, segments.end());
    if (!bare_user) path.pop_back();
    std::string endpoint;
    for (const auto& part : path) endpoint += "/" + (is_number(part) ? std::string{"{id}"} : part);

    Caller caller;
    if (is_search(request, endpoint) && !request.bearer() && !request.query_value("api_key")) {
        caller.identity = "nobody@" + request.peer;  // search works without a key
    } else if (auto refused = refuse_caller(request, caller)) {
        return *refused;
    }
    if (auto refused = too_frequent(request, caller, endpoint)) return *refused;
    if (caller.own != nullptr) {
        const bool own_instance = path.size() == 3 && path[1] == "instances" && path[2] == caller.own->id;
        if (!own_instance) return vast_error(403, "auth_error", "This action is not permitted for this key.");
    }
    return route(request, caller, path);
}

HttpResponse VastaiFace::route(const HttpRequest& request, const Caller& caller, const Path& path) {
    const auto& version = path[0];
    const auto& method = request.method;
    const auto area = path.size() > 1 ? path[1] : std::string{};
    if (version == "v1") {
        if (area == "instances" && path.size() == 2 && method == "GET") return list(request);
        if (area == "invoices" && path.size() == 2 && method == "GET") return invoices(request);
        return page_not_found();
    }
    if (version != "v0") return page_not_found();
    if (area == "bundles" && path.size() == 2) {
        const auto text = method == "GET" ? request.query_value("q").value_or("{}") : request.body;
        return search(request, json::parse(text, nullptr, false));
    }
    if (area == "search" && path.size() == 3 && path[2] == "asks" && method == "PUT") {
        const auto body = json::parse(request.body, nullptr, false);
        return search(request, body.is_object() ? body.value("q", json::object()) : json(nullptr));
    }
    if (area == "asks" && path.size() == 3 && method == "PUT" && is_number(path[2])) {
        std::int64_t id = 0;
        std::from_chars(path[2].data(), path[2].data() + path[2].size(), id);
        return create(request, id);
    }
    if (area == "instances") return route_instances(request, caller, path);
    if (area == "users" && path.size() == 3 && path[2] == "current" && method == "GET") return current_user();
    if (area == "ssh") return account_ssh(request, path);
    if (area == "charges" && path.size() == 2 && method == "GET") return charges(request);
    if (area == "metrics" && path.size() == 4 && path[2] == "gpu" && path[3] == "current" && method == "GET")
        return gpu_metrics();
    // Volumes are local to a machine and of no use here: none are offered and none exist.
    if (area == "volumes" && path.size() == 3 && path[2] == "search" && method == "POST")
        return json_response(200, {{"offers", json::array()}});
    if (area == "volumes" && path.size() == 2 && method == "GET")
        return json_response(200, {{"volumes", json::array()}});
    return page_not_found();
}

HttpResponse VastaiFace::route_instances(const HttpRequest& request, const Caller&, const Path& path) {
    const auto& method = request.method;
    if (path.size() == 2) {
        if (method == "GET") {
            const json body{{"success", false},
                            {"error", "deprecated_endpoint"},
                            {"msg", "/api/v0/instances/ is deprecated. Use /api/v1/instances/ instead."}};
            return json_response(world_.settings().vastai_v0_list_200 ? 200 : 410, body);
        }
        return bulk(request);
    }
    if (path.size() == 3 && (path[2] == "pending-price-increases" || path[2].ends_with("-price-increase"))) {
        return price_increases(request, path);
    }
    if (path.size() == 3 && is_number(path[2])) {
        if (method == "GET") return show(path[2]);
        if (method == "DELETE") return destroy(path[2]);
        if (method != "PUT") return page_not_found();
        const auto body = json::parse(request.body, nullptr, false);
        if (!body.is_object()) return vast_error(400, "invalid_request", "Invalid json body");
        auto* rental = live(path[2]);
        if (rental == nullptr)
            return vast_error(404, "no_such_instance", fmt::format("Instance {} not found.", path[2]));
        return change(*rental, body);
    }
    if (path.size() >= 4 && path[3] == "ssh" && is_number(path[2])) return instance_ssh(request, path);
    if (path.size() != 4 || !is_number(path[3])) return page_not_found();
    const auto& what = path[2];
    if (what == "bid_price" && method == "PUT") return set_bid(request, path[3]);
    if (what == "reboot" && method == "PUT") return restart(path[3], false);
    if (what == "recycle" && method == "PUT") return restart(path[3], true);
    if (what == "request_logs" && method == "PUT") return request_logs(request, path[3]);
    if (what == "balance" && method == "GET") {
        if (live(path[3]) == nullptr)
            return vast_error(404, "no_such_instance", "Instance with that ID does not exist.");
        return json_response(
            200,
            {{"success", true}, {"refundable_deposit", 0}, {"total_discount", 0}, {"discount_months", 0}});
    }
    return page_not_found();
}

}  // namespace gf::sim
