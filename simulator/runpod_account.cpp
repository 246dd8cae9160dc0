// Network volumes, registries, SSH keys and the billing history (page sections 8 and 12).
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <nlohmann/json.hpp>
#include <set>

#include "simulator/runpod_face.hpp"
#include "simulator/runpod_schema.hpp"

namespace gf::sim {

namespace {

using nlohmann::json;

HttpResponse no_content() {
    return {.status = 204, .type = {}, .body = {}, .headers = {}, .cut = false};
}

HttpResponse not_allowed(const char* allowed) {
    auto response = problem(405, "The requested method is not allowed for this path.");
    response.headers.emplace_back("Allow", allowed);
    return response;
}

/// The start of the bucket that `at` is in, and of the next one.
std::pair<Instant, Instant> bucket_of(Instant at, const std::string& size) {
    using namespace std::chrono;
    if (size == "hour") {
        const Instant begin = floor<hours>(at);
        return {begin, begin + hours(1)};
    }
    const auto day = floor<days>(at);
    if (size == "day") return {Instant{day}, Instant{day + days(1)}};
    if (size == "week") {
        const auto monday = day - (weekday(day) - Monday);
        return {Instant{monday}, Instant{monday + days(7)}};
    }
    const year_month_day date(day);
    if (size == "month") {
        const auto first = date.year() / date.month() / 1;
        return {Instant{sys_days(first)}, Instant{sys_days(first + months(1))}};
    }
    return {Instant{sys_days(date.year() / 1 / 1)}, Instant{sys_days((date.year() + years(1)) / 1 / 1)}};
}

}  // namespace

HttpResponse RunpodFace::network_volumes(const HttpRequest& request, const std::vector<std::string>& path) {
    const auto show = [](const NetworkVolume& v) {
        return json{{"id", v.id},
                    {"name", v.name},
                    {"size", v.size},
                    {"dataCenter", v.data_center},
                    {"type", v.type}};
    };
    if (path.size() == 1) {
        if (request.method == "GET") {
            json rows = json::array();
            for (const auto& volume : volumes_) rows.push_back(show(volume));
            return json_response(200, {{"networkVolumes", rows}});
        }
        if (request.method != "POST") return not_allowed("GET, POST");
        const auto parsed = valid_body(request, network_volume_create_schema());
        if (const auto* refused = std::get_if<HttpResponse>(&parsed)) return *refused;
        const auto& body = std::get<json>(parsed);
        NetworkVolume volume{.id = world_.random_text(8, "abcdefghijklmnopqrstuvwxyz0123456789"),
                             .name = body["name"].get<std::string>(),
                             .size = body["size"].get<int>(),
                             .data_center = body["dataCenter"].get<std::string>(),
                             .type = body.value("type", "STANDARD")};
        volumes_.push_back(volume);
        return json_response(201, show(volume));
    }
    const auto volume = std::ranges::find(volumes_, path[1], &NetworkVolume::id);
    if (path.size() != 2 || volume == volumes_.end()) return problem(404, "resource not found");
    if (request.method == "GET") return json_response(200, show(*volume));
    if (request.method == "PATCH") {
        const auto parsed = valid_body(request, network_volume_patch_schema());
        if (const auto* refused = std::get_if<HttpResponse>(&parsed)) return *refused;
        const auto& body = std::get<json>(parsed);
        if (body.value("size", volume->size) < volume->size)
            return problem(400, "a network volume cannot shrink");
        volume->size = body.value("size", volume->size);
        volume->name = body.value("name", volume->name);
        return json_response(200, show(*volume));
    }
    if (request.method != "DELETE") return not_allowed("GET, PATCH, DELETE");
    volumes_.erase(volume);
    return no_content();
}

HttpResponse RunpodFace::registries(const HttpRequest& request, const std::vector<std::string>& path) {
    const auto show = [](const Registry& r) { return json{{"id", r.id}, {"name", r.name}}; };
    if (path.size() == 1) {
        if (request.method == "GET") {
            json rows = json::array();
            for (const auto& registry : registries_) rows.push_back(show(registry));
            return json_response(200, {{"registries", rows}});
        }
        if (request.method != "POST") return not_allowed("GET, POST");
        const auto parsed = valid_body(request, registry_create_schema());
        if (const auto* refused = std::get_if<HttpResponse>(&parsed)) return *refused;
        // The credential itself is write-only; nobody here needs it.
        registries_.push_back({.id = world_.random_text(14, "abcdefghijklmnopqrstuvwxyz0123456789"),
                               .name = std::get<json>(parsed)["name"].get<std::string>()});
        return json_response(201, show(registries_.back()));
    }
    const auto registry = std::ranges::find(registries_, path[1], &Registry::id);
    if (path.size() != 2 || registry == registries_.end()) return problem(404, "resource not found");
    if (request.method == "GET") return json_response(200, show(*registry));
    if (request.method != "DELETE") return not_allowed("GET, DELETE");
    for (const auto& pod : world_.rentals()) {
        if (pod->exists() && pod->registry == registry->id)
            return problem(400, "the registry is in use by a pod");
    }
    registries_.erase(registry);
    return no_content();
}

HttpResponse RunpodFace::ssh_keys(const HttpRequest& request) {
    if (request.method == "PUT") {
        const auto parsed = valid_body(request, ssh_keys_schema());
        if (const auto* refused = std::get_if<HttpResponse>(&parsed)) return *refused;
        account_keys_ = std::get<json>(parsed)["keys"].get<std::vector<std::string>>();
    } else if (request.method != "GET") {
        return not_allowed("GET, PUT");
    }
    return json_response(200, {{"keys", account_keys_}});
}

HttpResponse RunpodFace::billing(const HttpRequest& request, const std::string& product) {
    if (!product.empty() && product != "pods") return problem(404, "resource not found");
    const auto size = request.query_value("bucketSize").value_or("day");
    const std::set<std::string> sizes{"hour", "day", "week", "month", "year"};
    if (!sizes.contains(size)) {
        return problem(422, "Request validation failed.",
                       {"$.bucketSize: value must be one of 'hour', 'day', 'week', 'month', 'year'"});
    }
    const auto last = request.query_value("lastN");
    const auto begin_text = request.query_value("startTime");
    const auto end_text = request.query_value("endTime");
    if (last && (begin_text || end_text)) return problem(400, "'lastN' excludes 'startTime' and 'endTime'");
    Instant end = world_.now();
    Instant begin = end - std::chrono::hours(24 * 30);
    if (begin_text) {
        const auto at = parse_rfc3339(*begin_text);
        if (!at) return problem(422, "Request validation failed.", {"$.startTime: not a date-time"});
        begin = *at;
    }
    if (end_text) {
        const auto at = parse_rfc3339(*end_text);
        if (!at) return problem(422, "Request validation failed.", {"$.endTime: not a date-time"});
        end = *at;
    }
    if (last) {
        int n = 0;
        std::from_chars(last->data(), last->data() + last->size(), n);
        if (n < 1 || n > 1000) return problem(422, "Request validation failed.", {"$.lastN: want 1 to 1000"});
        begin = bucket_of(end, size).first;
        for (int i = 1; i < n; ++i) begin = bucket_of(begin - Millis{1}, size).first;
    }
    begin = bucket_of(begin, size).first;  // the window snaps to buckets

    const auto only = request.query_value("podId");
    json records = json::array();
    std::set<std::string> pods;
    std::int64_t gpu_total = 0;
    std::int64_t disk_total = 0;
    for (const auto& pod : world_.rentals()) {
        if (pod->provider != Provider::runpod || (only && pod->id != *only)) continue;
        world_.accrue(*pod);
        const auto from = std::max(begin, pod->created_at);
        const auto to = std::min(end, pod->bill.billed_to());
        // Bounded: at most one record per hour between two given times.
        for (Instant at = bucket_of(from, size).first; at < to;) {
            const auto next = bucket_of(at, size).second;
            const auto part = pod->bill.within(at, next);
            at = next;
            if (part.gpu.micros + part.disk.micros == 0) continue;
            pods.insert(pod->id);
            gpu_total += part.gpu.micros;
            disk_total += part.disk.micros;
            const auto bucket = bucket_of(at - Millis{1}, size);
            records.push_back({{"startTime", whole_seconds(bucket.first)},
                               {"endTime", whole_seconds(bucket.second)},
                               {"podId", pod->id},
                               {"totalAmount", dollars_float(part.gpu.micros + part.disk.micros)},
                               {"gpuAmount", dollars_float(pod->gpus > 0 ? part.gpu.micros : 0)},
                               {"cpuAmount", dollars_float(pod->gpus > 0 ? 0 : part.gpu.micros)},
                               {"diskAmount", dollars_float(part.disk.micros)}});
        }
    }
    json query{{"startTime", whole_seconds(begin)}, {"endTime", whole_seconds(end)}, {"bucketSize", size}};
    if (only) query["podId"] = *only;
    return json_response(200, {{"records", records},
                               {"metadata",
                                {{"query", query},
                                 {"recordCount", records.size()},
                                 {"uniquePodCount", pods.size()},
                                 {"totals",
                                  {{"totalAmount", dollars_float(gpu_total + disk_total)},
                                   {"gpuAmount", dollars_float(gpu_total)},
                                   {"cpuAmount", 0},
                                   {"diskAmount", dollars_float(disk_total)}}}}}});
}

}  // namespace gf::sim
