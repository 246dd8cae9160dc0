#include "simulator/lambda_face.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

namespace gf::sim {

namespace {

using nlohmann::json;

struct Region {
    const char* name;
    const char* description;
};
constexpr std::array<Region, 17> kRegions{{{"us-west-1", "California, USA"},
                                           {"us-west-2", "Arizona, USA"},
                                           {"us-west-3", "Utah, USA"},
                                           {"us-south-1", "Texas, USA"},
                                           {"us-south-2", "North Texas, USA"},
                                           {"us-south-3", "Central Texas, USA"},
                                           {"us-east-1", "Virginia, USA"},
                                           {"us-east-2", "Washington D.C., USA"},
                                           {"us-east-3", "Washington D.C., USA"},
                                           {"us-midwest-1", "Illinois, USA"},
                                           {"us-midwest-2", "Illinois, USA"},
                                           {"europe-central-1", "Germany"},
                                           {"asia-south-1", "India"},
                                           {"me-west-1", "Israel"},
                                           {"asia-northeast-1", "Osaka, Japan"},
                                           {"asia-northeast-2", "Tokyo, Japan"},
                                           {"australia-east-1", "Sydney, Australia"}}};

struct Family {
    const char* name;
    const char* description;
    const char* version;
};
constexpr std::array<Family, 4> kFamilies{{{"lambda-stack-22-04", "Lambda Stack, Ubuntu 22.04", "22.04.5"},
                                           {"lambda-stack-24-04", "Lambda Stack, Ubuntu 24.04", "24.04.3"},
                                           {"gpu-base-24-04", "GPU Base, Ubuntu 24.04", "24.04.3"},
                                           {"ubuntu-24-04", "Ubuntu 24.04", "24.04.3"}}};

/// The key of "Authorization: Bearer KEY" or of Basic "KEY:"; nothing without either.
std::optional<std::string> key_of(const HttpRequest& request) {
    if (auto bearer = request.bearer()) return bearer;
    const auto value = request.header("authorization");
    constexpr std::string_view kScheme = "Basic ";
    if (!value.starts_with(kScheme)) return std::nullopt;
    const auto decoded = base64_decoded(std::string_view{value}.substr(kScheme.size()));
    if (!decoded) return std::string{};
    const auto colon = decoded->find(':');
    // The key is the user name and the password is empty.
    if (colon == std::string::npos || colon + 1 != decoded->size()) return std::string{};
    return decoded->substr(0, colon);
}

}  // namespace

HttpResponse lambda_error(int status, const std::string& code, const std::string& message,
                          const std::string& suggestion) {
    json error{{"code", code}, {"message", message}};
    if (!suggestion.empty()) error["suggestion"] = suggestion;
    return json_response(status, {{"error", error}});
}

HttpResponse lambda_data(const json& data) {
    return json_response(200, {{"data", data}});
}

json lambda_region(const std::string& name) {
    const auto* known =
        std::ranges::find(kRegions, name, [](const Region& r) { return std::string{r.name}; });
    return {{"name", name},
            {"description", known == kRegions.end() ? name : std::string{known->description}}};
}

json lambda_type_json(const VmType& type, std::int64_t price) {
    json row{{"name", type.name},
             {"description", type.description},
             {"gpu_description", type.gpu_description},
             {"price_cents_per_hour", (price + 5'000) / 10'000},
             {"specs",
              {{"vcpus", type.vcpus},
               {"memory_gib", type.memory_gib},
               {"storage_gib", type.storage_gb},
               {"gpus", type.gpus}}}};
    if (!type.overrides.empty()) row.update(json::parse(type.overrides));
    return row;
}

std::string lambda_image_id(const std::string& family, const std::string& region, const std::string& arch) {
    // FNV-1a over the three: stable, and that is all that is wanted.
    std::uint64_t hash = 0xcbf29ce484222325U;
    for (const char c : family + "|" + region + "|" + arch)
        hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
    const auto hex = fmt::format("{:016x}{:016x}", hash, hash * 0x9e3779b97f4a7c15U);
    return fmt::format("{}-{}-4{}-a{}-{}", hex.substr(0, 8), hex.substr(8, 4), hex.substr(13, 3),
                       hex.substr(17, 3), hex.substr(20, 12));
}

bool lambda_image_family(const std::string& family) {
    return std::ranges::find(kFamilies, family, [](const Family& f) { return std::string{f.name}; }) !=
           kFamilies.end();
}

std::optional<HttpResponse> LambdaFace::refuse_caller(const HttpRequest& request) const {
    const auto key = key_of(request);
    if (!key || key->empty()) return lambda_error(401, "global/invalid-api-key", "No API key was provided.");
    const auto& account = world_.settings().lambda_key;
    if (account.empty() || *key == account) return std::nullopt;
    return lambda_error(401, "global/invalid-api-key", "API key was invalid, expired, or deleted.",
                        "Check your API key or create a new one, then try again.");
}

std::optional<HttpResponse> LambdaFace::too_frequent(bool launch) {
    const auto& settings = world_.settings();
    if (!settings.lambda_limits) return std::nullopt;
    const auto now = world_.now();
    // A launch needs a token of both; one that lacks the second must not use up the first.
    auto wait = launch ? buckets_.look("launch", 1.0 / 12.0, 1.0, now) : std::nullopt;
    if (!wait) wait = buckets_.refuse("all", 1.0, 1.0, now);
    if (!wait && launch) wait = buckets_.refuse("launch", 1.0 / 12.0, 1.0, now);
    if (!wait) return std::nullopt;
    const auto form =
        settings.lambda_429_form == 3 ? static_cast<int>(refusals_++ % 3) : settings.lambda_429_form;
    auto response =
        lambda_error(429, "global/too-many-requests", "Too many requests.", "Slow down, then try again.");
    if (form == 1) {
        response.type = "text/html";
        response.body =
            "<html>\r\n<head><title>429 Too Many Requests</title></head>\r\n<body>\r\n<center><h1>429 Too "
            "Many Requests</h1></center>\r\n</body>\r\n</html>\r\n";
    } else if (form == 2) {
        response.body.clear();
    }
    if (settings.lambda_429_retry_after)
        response.headers.emplace_back("Retry-After", std::to_string((wait->count() + 999) / 1000));
    return response;
}

HttpResponse LambdaFace::handle(const HttpRequest& request) {
    const auto& segments = request.segments;
    if (segments.size() < 3 || segments[0] != "api" || segments[1] != "v1") {
        return {.status = 404,
                .type = "text/html",
                .body = "<html><h1>404 Not Found</h1></html>",
                .headers = {},
                .cut = false};
    }
    const Path path(segments.begin() + 2, segments.end());
    if (path.size() == 1 && path[0] == "openapi.json" && request.method == "GET") {
        return json_response(200, {{"openapi", "3.1.0"},
                                   {"info", {{"title", "Lambda Cloud API"}, {"version", "1.10.0"}}},
                                   {"paths", json::object()}});
    }
    if (auto refused = refuse_caller(request)) return *refused;
    const bool launch = path.size() == 2 && path[0] == "instance-operations" && path[1] == "launch";
    if (auto refused = too_frequent(launch && request.method == "POST")) return *refused;
    return route(request, path);
}

HttpResponse LambdaFace::route(const HttpRequest& request, const Path& path) {
    const auto& area = path[0];
    const bool get = request.method == "GET";
    const bool post = request.method == "POST";
    if (path.size() == 1 && get) {
        if (area == "instance-types") return instance_types();
        if (area == "regions") return regions();
        if (area == "images") return images();
        if (area == "instances") return list_instances();
        if (area == "audit-events") return audit_events(request);
    }
    if (area == "instances" && path.size() == 2 && (get || post)) return one_instance(request, path[1]);
    if (area == "instance-operations" && path.size() == 2 && post) {
        if (path[1] == "launch") return launch(request);
        if (path[1] == "restart") return operate(request, false);
        if (path[1] == "terminate") return operate(request, true);
    }
    if (area == "ssh-keys") return ssh_keys(request, path);
    // Listed with a hyphen, made and deleted without.
    if (area == "file-systems" && path.size() == 1 && get) return file_systems(request, path);
    if (area == "filesystems" && !get) return file_systems(request, path);
    if (area == "firewall-rules" && path.size() == 1) return firewall_rules(request);
    if (area == "firewall-rulesets") return firewall_rulesets(request, path);
    return lambda_error(404, "global/not-found", "The requested resource was not found.");
}

HttpResponse LambdaFace::instance_types() const {
    json map = json::object();
    for (const auto& type : world_.market().vm_types(Provider::lambda)) {
        json regions = json::array();
        for (const auto& [region, count] : type.stock) {
            if (world_.free_vms(Provider::lambda, type, region) > 0) regions.push_back(lambda_region(region));
        }
        map[type.name] = {{"instance_type", lambda_type_json(type, type.price)},
                          {"regions_with_capacity_available", regions}};
    }
    return lambda_data(map);
}

HttpResponse LambdaFace::regions() const {
    json rows = json::array();
    std::set<std::string> seen;
    for (const auto& region : kRegions) {
        seen.insert(region.name);
        rows.push_back(lambda_region(region.name));
    }
    for (const auto& type : world_.market().vm_types(Provider::lambda)) {
        for (const auto& [region, count] : type.stock) {
            if (seen.insert(region).second) rows.push_back(lambda_region(region));
        }
    }
    return lambda_data(rows);
}

HttpResponse LambdaFace::images() const {
    // One row per image and region; arm64 only where such machines stand.
    std::set<std::pair<std::string, std::string>> places;
    for (const auto& type : world_.market().vm_types(Provider::lambda)) {
        for (const auto& [region, count] : type.stock) places.emplace(region, type.arch);
    }
    json rows = json::array();
    for (const auto& [region, arch] : places) {
        for (const auto& family : kFamilies) {
            rows.push_back({{"id", lambda_image_id(family.name, region, arch)},
                            {"created_time", "2026-03-02T10:11:12+00:00"},
                            {"updated_time", "2026-03-02T10:11:12+00:00"},
                            {"name", family.name},
                            {"description", family.description},
                            {"family", family.name},
                            {"version", family.version},
                            {"architecture", arch},
                            {"region", lambda_region(region)}});
        }
    }
    return lambda_data(rows);
}

}  // namespace gf::sim
