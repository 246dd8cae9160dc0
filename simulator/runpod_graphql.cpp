// GraphQL: balance, prices and the legacy pod calls (page sections 9 and 10). Execution errors are HTTP 200.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <nlohmann/json.hpp>
#include <set>

#include "simulator/runpod_face.hpp"

namespace gf::sim {

namespace {

using nlohmann::json;

/// An execution error: its text and extensions.code.
struct GraphError {
    std::string message;
    std::string code;
};

constexpr const char* kNoSpot =
    "There are no instances available with the request specifications. Please try again later.";

const char* stock(int free, int of) {
    if (free <= 0) return "None";
    if (free * 4 <= of) return "Low";
    return free * 3 <= of * 2 ? "Medium" : "High";
}

/// "Rented by User: Mon Nov 30 2026 09:12:44 GMT+0000 (Coordinated Universal Time)".
std::string status_change(const Rental& pod) {
    using namespace std::chrono;
    constexpr std::array kDays{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    constexpr std::array kMonths{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                 "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    const auto at = pod.halted_at.value_or(pod.created_at);
    const auto day = floor<days>(at);
    const year_month_day date(day);
    const hh_mm_ss time(floor<seconds>(at) - day);
    const auto text =
        fmt::format("{} {} {:02} {} {:02}:{:02}:{:02} GMT+0000 (Coordinated Universal Time)",
                    kDays[weekday(day).c_encoding()], kMonths[static_cast<unsigned>(date.month()) - 1],
                    static_cast<unsigned>(date.day()), static_cast<int>(date.year()), time.hours().count(),
                    time.minutes().count(), time.seconds().count());
    if (pod.phase != Phase::stopped) return "Rented by User: " + text;
    return (pod.halt == Halt::asked ? "Exited by user: " : "Exited by Runpod: ") + text;
}

HttpResponse graph_failure(int status, const std::string& message, const std::string& code) {
    return json_response(status, {{"errors", {{{"message", message}, {"extensions", {{"code", code}}}}}}});
}

std::string input_text(const json& input, const char* key) {
    const auto it = input.find(key);
    return it != input.end() && it->is_string() ? it->get<std::string>() : std::string{};
}

std::int64_t input_int(const json& input, const char* key, std::int64_t otherwise) {
    const auto it = input.find(key);
    return it != input.end() && it->is_number() ? it->get<std::int64_t>() : otherwise;
}

}  // namespace

HttpResponse RunpodFace::graphql(const HttpRequest& request) {
    if (world_.settings().graphql_retired)
        return json_response(410, {{"errors", {{{"message", "The GraphQL API has been retired."}}}}});
    if (request.method != "POST")
        return graph_failure(405, "GraphQL only supports POST requests.", "BAD_REQUEST");
    const auto body = json::parse(request.body, nullptr, false);
    if (!body.is_object() || !body.contains("query") || !body["query"].is_string()) {
        return graph_failure(400, "POST body missing, invalid Content-Type, or JSON object has no keys.",
                             "BAD_REQUEST");
    }
    const auto variables =
        body.contains("variables") && body["variables"].is_object() ? body["variables"] : json::object();
    const auto document = parse_graphql(body["query"].get<std::string>(), variables);
    if (!document) return graph_failure(400, document.error().message, "GRAPHQL_PARSE_FAILED");

    auto key = request.bearer();
    if (!key) key = request.query_value("api_key");
    const auto who = key ? caller(*key) : std::nullopt;
    const std::set<std::string> open{"gpuTypes", "dataCenters", "countryCodes", "cpuFlavors"};
    const std::set<std::string> queries{"myself", "pod"};
    const std::set<std::string> mutations{"podFindAndDeployOnDemand",
                                          "podRentInterruptable",
                                          "podResume",
                                          "podBidResume",
                                          "podStop",
                                          "podTerminate",
                                          "updateUserSettings",
                                          "saveRegistryAuth",
                                          "updateRegistryAuth",
                                          "deleteRegistryAuth"};
    for (const auto& field : document->fields) {
        const bool known = document->mutation ? mutations.contains(field.name)
                                              : open.contains(field.name) || queries.contains(field.name);
        if (!known) {
            return graph_failure(400,
                                 fmt::format("Cannot query field \"{}\" on type \"{}\".", field.name,
                                             document->mutation ? "Mutation" : "Query"),
                                 "GRAPHQL_VALIDATION_FAILED");
        }
        if (!who && !open.contains(field.name))
            return graph_failure(401, "Unauthorized request, please check your API key.", "UNAUTHENTICATED");
        if (who && who->own != nullptr && field.name == "myself")
            return graph_failure(403, "Forbidden", "FORBIDDEN");
    }
    json data = json::object();
    json errors = json::array();
    for (const auto& field : document->fields) {
        try {
            data[field.alias] = selected(resolve(field, who ? &*who : nullptr), field.fields);
        } catch (const GraphError& e) {
            data[field.alias] = nullptr;
            errors.push_back({{"message", e.message},
                              {"path", {field.alias}},
                              {"extensions", {{"code", e.code}, {"userId", "user_2xEXAMPLE"}}}});
        }
    }
    json answer{{"data", data}};
    if (!errors.empty()) answer["errors"] = errors;
    return json_response(200, answer);
}

json RunpodFace::resolve(const GraphField& field, const Caller* caller) {
    const auto input = field.arguments.value("input", json::object());
    const auto& name = field.name;
    if (name == "myself") {
        json pods = json::array();
        for (const auto& rental : world_.rentals()) {
            if (rental->provider == Provider::runpod && rental->exists()) pods.push_back(graph_pod(*rental));
        }
        const auto balance = world_.balance(Provider::runpod).micros;
        return {{"id", "user_2xEXAMPLE"},
                {"email", "ops@example.org"},
                {"clientBalance", dollars_float(balance)},
                {"currentSpendPerHr", dollars_float(world_.burn_per_hour(Provider::runpod))},
                {"spendLimit", 80},
                {"underBalance", balance < 0},
                {"networkVolumes", json::array()},
                {"pubKey", graph_keys()},
                {"pods", pods}};
    }
    if (name == "gpuTypes") {
        const auto wanted = input_text(input, "id");
        json rows = json::array();
        for (const auto& model : world_.market().models()) {
            if (model.runpod_id.empty() || !world_.market().type_prices().contains(model.canonical)) continue;
            if (!wanted.empty() && model.runpod_id != wanted) continue;
            rows.push_back(graph_gpu_type(model, field));
        }
        return rows;
    }
    if (name == "dataCenters" || name == "countryCodes" || name == "cpuFlavors") {
        std::set<std::string> ids;
        for (const auto& host : world_.market().hosts()) {
            if (host.provider == Provider::runpod) ids.insert(host.data_center);
        }
        json rows = json::array();
        if (name == "dataCenters") {
            for (const auto& id : ids)
                rows.push_back(
                    {{"id", id}, {"name", id}, {"location", id}, {"listed", true}, {"storageSupport", true}});
        }
        return rows;
    }
    if (name == "pod") {
        auto* pod = visible_pod(input_text(input, "podId"));
        if (pod == nullptr || (caller != nullptr && caller->own != nullptr && caller->own != pod))
            return nullptr;
        return graph_pod(*pod);
    }
    if (name == "updateUserSettings" || name.ends_with("RegistryAuth")) return graph_account(field, caller);
    if (name == "podFindAndDeployOnDemand") return graph_deploy(input, false);
    if (name == "podRentInterruptable") return graph_deploy(input, true);
    if (name == "podStop") {
        auto& pod = graph_find(input, caller, "stop");
        world_.stop(pod, Halt::asked, world_.settings().runpod_grace);
        return graph_pod(pod);
    }
    if (name == "podTerminate") {
        world_.destroy(graph_find(input, caller, "terminate"), Millis{0});
        return nullptr;
    }
    auto& pod = graph_find(input, caller, "resume");
    if (name == "podResume" && pod.is_bid)
        throw GraphError{"Cannot resume a spot pod as an on demand pod.", "BAD_USER_INPUT"};
    if (world_.start(pod) == StartOutcome::host_full) {
        throw GraphError{"There are not enough free GPUs on the host machine to start this pod.",
                         "INTERNAL_SERVER_ERROR"};
    }
    return graph_pod(pod);
}

/// The account's keys as GraphQL has them: one text, a line each.
std::string RunpodFace::graph_keys() const {
    std::string lines;
    for (const auto& key : account_keys_) lines += (lines.empty() ? "" : "\n") + key;
    return lines;
}

/// Keys and registry logins, as the vendor's Python package 1.12.0 changes them. Both are the ones of REST
/// v2.
json RunpodFace::graph_account(const GraphField& field, const Caller* caller) {
    if (caller != nullptr && caller->own != nullptr) throw GraphError{"Forbidden", "FORBIDDEN"};
    const auto input = field.arguments.value("input", json::object());
    if (field.name == "updateUserSettings") {
        account_keys_.clear();  // the text replaces all of them
        auto lines = input_text(input, "pubKey");
        while (!lines.empty()) {
            const auto end = std::min(lines.find('\n'), lines.size());
            if (end > 0) account_keys_.push_back(lines.substr(0, end));
            lines.erase(0, std::min(end + 1, lines.size()));
        }
        return {{"id", "user_2xEXAMPLE"}, {"pubKey", graph_keys()}};
    }
    if (field.name == "saveRegistryAuth") {
        registries_.push_back({.id = world_.random_text(14, "abcdefghijklmnopqrstuvwxyz0123456789"),
                               .name = input_text(input, "name")});
        return {{"id", registries_.back().id}, {"name", registries_.back().name}};
    }
    const auto id = field.name == "deleteRegistryAuth" ? input_text(field.arguments, "registryAuthId")
                                                       : input_text(input, "id");
    const auto registry = std::ranges::find(registries_, id, &Registry::id);
    if (registry == registries_.end()) throw GraphError{"Registry auth not found", "INTERNAL_SERVER_ERROR"};
    if (field.name == "updateRegistryAuth") return {{"id", registry->id}, {"name", registry->name}};
    registries_.erase(registry);
    return true;
}

Rental& RunpodFace::graph_find(const json& input, const Caller* caller, const char* doing) {
    auto* pod = visible_pod(input_text(input, "podId"));
    if (pod == nullptr || (caller != nullptr && caller->own != nullptr && caller->own != pod)) {
        throw GraphError{fmt::format("pod not found to {}", doing), "INTERNAL_SERVER_ERROR"};
    }
    return *pod;
}

json RunpodFace::graph_deploy(const json& input, bool spot) {
    Wish wish;
    wish.gpu_id = input_text(input, "gpuTypeId");
    wish.count = static_cast<int>(std::clamp<std::int64_t>(input_int(input, "gpuCount", 1), 1, 64));
    const auto cloud = input_text(input, "cloudType");
    if (cloud == "SECURE" || cloud == "COMMUNITY") wish.secure = cloud == "SECURE";
    if (const auto dc = input_text(input, "dataCenterId"); !dc.empty()) wish.data_centers = {dc};
    if (const auto list = input.find("allowedCudaVersions"); list != input.end() && list->is_array()) {
        wish.cuda_allowed = list->get<std::vector<std::string>>();
    }
    wish.cuda_min = input_text(input, "minCudaVersion");
    Rental pod;
    pod.provider = Provider::runpod;
    pod.name = input_text(input, "name");
    pod.image = input_text(input, "imageName");
    if (pod.image.empty()) throw GraphError{"imageName is required", "BAD_USER_INPUT"};
    pod.args = input_text(input, "dockerArgs");
    if (const auto env = input.find("env"); env != input.end() && env->is_array()) {
        for (const auto& entry : *env)
            pod.env.emplace_back(input_text(entry, "key"), input_text(entry, "value"));
    }
    auto ports = input_text(input, "ports");
    while (!ports.empty()) {
        const auto end = std::min(ports.find(','), ports.size());
        pod.ports.push_back(ports.substr(0, end));
        ports.erase(0, std::min(end + 1, ports.size()));
    }
    pod.disk_gb_milli = input_int(input, "containerDiskInGb", 50) * 1000;
    pod.volume_gb = input_int(input, "volumeInGb", 0);
    if (pod.volume_gb > 0)
        pod.volume_path = input_text(input, "volumeMountPath").empty() ? "/workspace"
                                                                       : input_text(input, "volumeMountPath");
    wish.disk_gb = pod.disk_gb_milli / 1000 + pod.volume_gb;
    if (spot) {
        const auto bid = input.contains("bidPerGpu") ? micros_of(input["bidPerGpu"]) : std::nullopt;
        if (!bid) throw GraphError{"bidPerGpu is required", "BAD_USER_INPUT"};
        if (!world_.settings().runpod_spot) throw GraphError{kNoSpot, "SUPPLY_CONSTRAINT"};
        wish.bid_per_gpu = bid;
        pod.is_bid = true;
    }
    const auto placed = place(wish);
    if (const auto* refused = std::get_if<Refusal>(&placed)) throw GraphError{refused->detail, refused->code};
    const auto& where = std::get<Place>(placed);
    if (spot && *wish.bid_per_gpu < price(where.host->gpu, where.host->secure, true))
        throw GraphError{kNoSpot, "SUPPLY_CONSTRAINT"};
    pod.host = where.host->id;
    pod.gpu = where.host->gpu;
    pod.gpus = wish.count;
    pod.gpu_per_hour = where.per_gpu * wish.count;
    if (spot) pod.bid_per_hour = pod.gpu_per_hour;
    set_disk_prices(pod);
    return graph_pod(world_.rent(std::move(pod)));
}

json RunpodFace::graph_pod(Rental& pod) {
    const auto* host = world_.market().host(pod.host);
    const auto* model = world_.market().model(pod.gpu);
    json env = json::array();
    for (const auto& [name, value] : pod.env) env.push_back(name + "=" + value);
    json runtime = nullptr;
    if (pod.phase == Phase::running && !pod.never_runs && !pod.offline) {
        json ports = json::array();
        for (const auto& [port, number] : pod.public_ports) {
            const bool tcp = port.ends_with("/tcp");
            ports.push_back({{"ip", tcp && host != nullptr ? host->public_ip : "100.65.14.9"},
                             {"isIpPublic", tcp},
                             {"privatePort", std::atoi(port.c_str())},
                             {"publicPort", number},
                             {"type", tcp ? "tcp" : "http"}});
        }
        json gpus = json::array();
        for (const auto& uuid : pod.uuids)
            gpus.push_back({{"id", uuid},
                            {"gpuUtilPercent", pod.gpu_fault.utilization.value_or(0)},
                            {"memoryUtilPercent", 0}});
        runtime = {{"uptimeInSeconds", (world_.now() - pod.started_at.value_or(world_.now())).count() / 1000},
                   {"ports", ports},
                   {"gpus", gpus},
                   {"container", {{"cpuPercent", 5}, {"memoryPercent", 8}}}};
    }
    const bool halted =
        pod.phase == Phase::stopped || pod.phase == Phase::stopping || pod.phase == Phase::failed;
    std::string ports;
    for (const auto& port : pod.ports) ports += (ports.empty() ? "" : ",") + port;
    return {{"id", pod.id},
            {"name", pod.name},
            {"desiredStatus", halted ? "EXITED" : "RUNNING"},
            {"podType", pod.is_bid ? "INTERRUPTABLE" : "ON_DEMAND"},
            {"costPerHr", dollars_float(pod.gpu_per_hour)},
            {"gpuCount", pod.gpus},
            {"imageName", pod.image},
            {"dockerArgs", pod.args},
            {"ports", ports},
            {"containerDiskInGb", pod.disk_gb_milli / 1000},
            {"volumeInGb", pod.volume_gb},
            {"volumeMountPath", pod.volume_path},
            {"memoryInGb", 32},
            {"vcpuCount", 8},
            {"containerRegistryAuthId", pod.registry},
            {"env", env},
            {"lastStatusChange", status_change(pod)},
            {"lastStartedAt", pod.started_at ? json(whole_seconds(*pod.started_at)) : json(nullptr)},
            {"uptimeSeconds", 0},
            {"runtime", runtime},
            {"machineId", std::to_string(pod.host)},
            {"machine",
             {{"podHostId", pod.id + "-64411eb2"},
              {"gpuDisplayName", model == nullptr ? "" : model->runpod_name},
              {"dataCenterId", host == nullptr ? "" : host->data_center},
              {"location", host == nullptr ? "" : host->data_center.substr(0, 2)}}}};
}

json RunpodFace::graph_gpu_type(const GpuModel& model, const GraphField& field) {
    const auto& price = world_.market().type_prices().at(model.canonical);
    // `lowestPrice` depends on its own input, so it is worked out for the selection that asked.
    json input = json::object();
    for (const auto& inner : field.fields) {
        if (inner.name == "lowestPrice") input = inner.arguments.value("input", json::object());
    }
    const auto count = static_cast<int>(input_int(input, "gpuCount", 1));
    std::optional<bool> secure;
    if (input.contains("secureCloud") && input["secureCloud"].is_boolean())
        secure = input["secureCloud"].get<bool>();
    int fitting = 0;
    int hosts = 0;
    int max_secure = 0;
    int max_community = 0;
    std::set<int> counts;
    for (const auto& host : world_.market().hosts()) {
        if (host.provider != Provider::runpod || host.gpu != model.canonical) continue;
        (host.secure ? max_secure : max_community) =
            std::max(host.secure ? max_secure : max_community, host.gpus);
        if (secure && host.secure != *secure) continue;
        ++hosts;
        const int free = host.online ? world_.free_gpus(host) : 0;
        if (free >= count) ++fitting;
        for (int n = 1; n <= free; n *= 2) counts.insert(n);
    }
    json lowest{{"minimumBidPrice", nullptr}, {"uninterruptablePrice", nullptr},
                {"minVcpu", nullptr},         {"minMemory", nullptr},
                {"stockStatus", nullptr},     {"availableGpuCounts", nullptr}};
    if (hosts > 0) {
        const bool in_secure = secure.value_or(price.secure > 0);
        lowest = {{"minimumBidPrice", dollars_float(in_secure ? price.secure_spot : price.community_spot)},
                  {"uninterruptablePrice", dollars_float(in_secure ? price.secure : price.community)},
                  {"minVcpu", 6},
                  {"minMemory", 41},
                  {"stockStatus", stock(fitting, hosts)},
                  {"availableGpuCounts", counts}};
    }
    return {{"id", model.runpod_id},
            {"displayName", model.runpod_name},
            {"manufacturer", "NVIDIA"},
            {"memoryInGb", model.runpod_gb},
            {"cudaCores", 0},
            {"maxGpuCount", std::max(max_secure, max_community)},
            {"maxGpuCountSecureCloud", max_secure},
            {"maxGpuCountCommunityCloud", max_community},
            {"secureCloud", max_secure > 0},
            {"communityCloud", max_community > 0},
            {"securePrice", dollars_float(price.secure)},
            {"communityPrice", dollars_float(price.community)},
            {"secureSpotPrice", dollars_float(price.secure_spot)},
            {"communitySpotPrice", dollars_float(price.community_spot)},
            {"lowestPrice", lowest}};
}

}  // namespace gf::sim
