// Prices and stock (page section 3).
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "simulator/runpod_face.hpp"

namespace gf::sim {

namespace {

using nlohmann::json;

std::vector<std::string> comma_list(const std::string& text) {
    std::vector<std::string> parts;
    for (std::size_t at = 0; at <= text.size();) {
        const auto end = std::min(text.find(',', at), text.size());
        parts.push_back(text.substr(at, end - at));
        at = end + 1;
    }
    return parts;
}

const char* level(int fitting, int of) {
    if (fitting <= 0) return "NONE";
    if (fitting * 4 <= of) return "LOW";
    return fitting * 3 <= of * 2 ? "MEDIUM" : "HIGH";
}

/// What `include=AVAILABILITY` asks for.
struct StockQuery {
    int count{1};
    bool secure{true};
    std::vector<std::string> countries;
    std::vector<std::string> cuda;
    std::string cuda_min;
};

int cuda_number(const std::string& text) {
    const auto dot = text.find('.');
    return std::atoi(text.c_str()) * 100 + (dot == std::string::npos ? 0 : std::atoi(text.c_str() + dot + 1));
}

std::string country_of(const std::string& data_center) {
    // The simulator's own data centers are named so; clients must not parse this.
    if (data_center.starts_with("US-")) return "US";
    if (data_center.starts_with("EU-") || data_center.starts_with("EUR-")) {
        const auto at = data_center.find('-') + 1;
        return data_center.substr(at, 2);
    }
    return data_center.substr(0, 2);
}

std::string place_name(const std::string& data_center) {
    if (data_center.starts_with("US-KS")) return "US Kansas " + data_center.substr(6);
    if (data_center.starts_with("EU-RO")) return "EU Romania " + data_center.substr(6);
    return data_center;
}

const char* region_of(const std::string& data_center) {
    if (data_center.starts_with("US-") || data_center.starts_with("CA-")) return "NORTH_AMERICA";
    if (data_center.starts_with("EU")) return "EUROPE";
    if (data_center.starts_with("AP-")) return "ASIA";
    return data_center.starts_with("OC-") ? "OCEANIA" : "UNKNOWN";
}

}  // namespace

json RunpodFace::gpu_json(const GpuModel& model, const json* availability) const {
    const auto prices = world_.market().type_prices().find(model.canonical);
    const TypePrice none;
    const auto& price = prices == world_.market().type_prices().end() ? none : prices->second;
    int max_secure = 0;
    int max_community = 0;
    for (const auto& host : world_.market().hosts()) {
        if (host.provider != Provider::runpod || host.gpu != model.canonical) continue;
        auto& largest = host.secure ? max_secure : max_community;
        largest = std::max(largest, host.gpus);
    }
    json row{{"id", model.runpod_id},
             {"name", model.runpod_name},
             {"pool", model.pool.empty() ? json(nullptr) : json(model.pool)},
             {"manufacturer", "NVIDIA"},
             {"memory", model.runpod_gb},
             {"secure", max_secure > 0 && price.secure > 0},
             {"community", max_community > 0 && price.community > 0},
             {"price", json::object()},
             {"maxCount", {{"secure", max_secure}, {"community", max_community}}}};
    // A type not sold in a cloud may still show a placeholder price there: gate on the booleans.
    row["price"]["secure"] = dollars_float(price.secure > 0 ? price.secure : 500'000);
    row["price"]["community"] = dollars_float(price.community > 0 ? price.community : 500'000);
    if (availability != nullptr) row.update(*availability);
    if (!price.overrides.empty()) row.update(json::parse(price.overrides));
    return row;
}

HttpResponse RunpodFace::list_gpus(const HttpRequest& request, const std::string& one) {
    const auto include = request.query_value("include");
    const bool stock = include == "AVAILABILITY";
    if (include && !stock)
        return problem(422, "Request validation failed.", {"$.include: value must be one of 'AVAILABILITY'"});
    const auto product = request.query_value("product");
    if (stock && !product) return problem(400, "'product' is required with include=AVAILABILITY");
    for (const auto* name : {"product", "count", "cloud", "countryCodes", "cudaVersions", "minCudaVersion"}) {
        if (!stock && request.query_value(name))
            return problem(400, fmt::format("'{}' requires include=AVAILABILITY", name));
    }
    StockQuery query;
    if (stock) {
        for (const auto& name : comma_list(*product)) {
            if (name != "POD" && name != "CLUSTER" && name != "SERVERLESS") {
                return problem(422, "Request validation failed.",
                               {"$.product: value must be one of 'POD', 'CLUSTER', 'SERVERLESS'"});
            }
        }
        if (const auto text = request.query_value("count")) {
            const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), query.count);
            if (error != std::errc{} || end != text->data() + text->size() || query.count < 1) {
                return problem(422, "Request validation failed.", {"$.count: minimum: want 1"});
            }
        }
        const auto cloud = request.query_value("cloud").value_or("SECURE");
        if (cloud != "SECURE" && cloud != "COMMUNITY") {
            return problem(422, "Request validation failed.",
                           {"$.cloud: value must be one of 'SECURE', 'COMMUNITY'"});
        }
        query.secure = cloud == "SECURE";
        if (const auto text = request.query_value("countryCodes")) query.countries = comma_list(*text);
        for (const auto& code : query.countries) {
            if (!std::regex_match(code, std::regex("[A-Z]{2}"))) {
                return problem(422, "Request validation failed.", {"$.countryCodes: not ISO 3166-1 alpha-2"});
            }
        }
        if (const auto text = request.query_value("cudaVersions")) query.cuda = comma_list(*text);
        for (const auto& v : query.cuda) {
            if (!std::regex_match(v, std::regex("\\d+\\.\\d+")))
                return problem(422, "Request validation failed.", {"$.cudaVersions: want major.minor"});
        }
        query.cuda_min = request.query_value("minCudaVersion").value_or("");
        if (!query.cuda.empty() && !query.cuda_min.empty()) {
            return problem(400, "'cudaVersions' and 'minCudaVersion' are mutually exclusive");
        }
    }

    json gpus = json::array();
    for (const auto& model : world_.market().models()) {
        if (model.runpod_id.empty() || (!one.empty() && model.runpod_id != one)) continue;
        if (!world_.market().type_prices().contains(model.canonical)) continue;
        if (!stock) {
            gpus.push_back(gpu_json(model, nullptr));
            continue;
        }
        std::map<std::string, std::pair<int, int>> by_data_center;  // fitting hosts, hosts
        std::map<std::string, bool> by_cuda;
        int fitting = 0;
        int hosts = 0;
        bool in_country = query.countries.empty();
        for (const auto& host : world_.market().hosts()) {
            if (host.provider != Provider::runpod || host.gpu != model.canonical ||
                host.secure != query.secure)
                continue;
            if (!query.countries.empty() &&
                std::ranges::find(query.countries, country_of(host.data_center)) == query.countries.end())
                continue;
            in_country = true;
            const auto cuda = fmt::format("{:.1f}", host.cuda);
            const bool fits = host.online && world_.free_gpus(host) >= query.count;
            by_cuda[cuda] = by_cuda[cuda] || fits;
            if (!query.cuda.empty() && std::ranges::find(query.cuda, cuda) == query.cuda.end()) continue;
            if (!query.cuda_min.empty() && cuda_number(cuda) < cuda_number(query.cuda_min)) continue;
            auto& place = by_data_center[host.data_center];
            ++place.second;
            ++hosts;
            if (fits) {
                ++place.first;
                ++fitting;
            }
        }
        // Types without a data center in the asked countries vanish from the list.
        if (!in_country) continue;
        json extra{{"availability", level(fitting, hosts)}};
        if (fitting > 0) {
            extra["dataCenters"] = json::array();
            for (const auto& [id, counts] : by_data_center) {
                if (counts.first == 0) continue;
                extra["dataCenters"].push_back({{"id", id},
                                                {"name", place_name(id)},
                                                {"availability", level(counts.first, counts.second)}});
            }
            extra["cudaVersions"] = json::array();
            for (const auto& [v, available] : by_cuda)
                extra["cudaVersions"].push_back({{"version", v}, {"available", available}});
        }
        gpus.push_back(gpu_json(model, &extra));
    }
    if (one.empty()) {
        // The real catalog carries an entry that clients must skip.
        gpus.push_back({{"id", "unknown"},
                        {"name", "unknown"},
                        {"pool", nullptr},
                        {"manufacturer", ""},
                        {"memory", 0},
                        {"secure", false},
                        {"community", false},
                        {"price", json::object()},
                        {"maxCount", {{"secure", 0}, {"community", 0}}}});
        if (stock) gpus.back()["availability"] = "NONE";
        return json_response(200, {{"gpus", gpus}});
    }
    if (gpus.empty()) return problem(404, "resource not found");
    return json_response(200, gpus[0]);
}

HttpResponse RunpodFace::list_data_centers(const HttpRequest& request, const std::string& one) {
    const auto include = request.query_value("include").value_or("");
    const bool stock = include.contains("GPU_AVAILABILITY");
    const auto regions = request.query_value("regions");
    std::set<std::string> ids;
    for (const auto& host : world_.market().hosts()) {
        if (host.provider == Provider::runpod && (one.empty() || host.data_center == one))
            ids.insert(host.data_center);
    }
    json rows = json::array();
    for (const auto& id : ids) {
        if (regions) {
            const auto wanted = comma_list(*regions);
            if (std::ranges::find(wanted, region_of(id)) == wanted.end()) continue;
        }
        json row{{"id", id},
                 {"name", place_name(id)},
                 {"region", region_of(id)},
                 {"globalNetwork", true},
                 {"networkVolumeTypes", {"STANDARD"}},
                 {"compliance", {"SOC_2_TYPE_2"}}};
        if (stock) {
            row["gpuAvailability"] = json::array();
            for (const auto& model : world_.market().models()) {
                int free = 0;
                int all = 0;
                for (const auto& host : world_.market().hosts()) {
                    if (host.provider != Provider::runpod || host.data_center != id ||
                        host.gpu != model.canonical)
                        continue;
                    all += host.gpus;
                    if (host.online) free += world_.free_gpus(host);
                }
                if (all == 0) continue;
                row["gpuAvailability"].push_back({{"id", model.runpod_id},
                                                  {"name", model.runpod_name},
                                                  {"availability", level(free, all)}});
            }
        }
        rows.push_back(row);
    }
    if (one.empty()) return json_response(200, {{"dataCenters", rows}});
    if (rows.empty()) return problem(404, "resource not found");
    return json_response(200, rows[0]);
}

}  // namespace gf::sim
