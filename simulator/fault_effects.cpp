// What a fault does to an answer: lists that lie, units that drift, fields that go, and the providers' own
// words for "too often" and "no longer".
#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "simulator/faults.hpp"

namespace gf::sim {

namespace {

using nlohmann::json;
using Action = FaultRule::Action;

/// The keys under which the providers put their lists.
constexpr std::array kLists{
    "pods",        "instances",       "offers",      "gpus",        "results",         "records",
    "dataCenters", "plans",           "plans_metal", "bare_metals", "available_plans", "ssh_keys",
    "ssh-keys",    "pending_charges", "data"};

std::string id_text(const json& entry) {
    const auto it = entry.find("id");
    if (it == entry.end()) return {};
    return it->is_string() ? it->get<std::string>() : it->dump();
}

/// Whether an entry of a list leaves: the `index`-th of `size`.
bool leaves(const FaultRule& rule, std::size_t index, const std::string& id) {
    if (rule.action == Action::empty_list) return true;
    if (rule.keep) return index >= static_cast<std::size_t>(std::max(0, *rule.keep));
    if (!rule.ids.empty()) return std::ranges::find(rule.ids, id) != rule.ids.end();
    return index < static_cast<std::size_t>(std::max(0, rule.drop));
}

int shorten_list(json& list, const FaultRule& rule) {
    json kept = json::array();
    std::size_t index = 0;
    for (const auto& entry : list) {
        const auto id =
            entry.is_object() ? id_text(entry) : (entry.is_string() ? entry.get<std::string>() : "");
        if (!leaves(rule, index++, id)) kept.push_back(entry);
    }
    const auto dropped = static_cast<int>(list.size() - kept.size());
    list = std::move(kept);
    return dropped;
}

/// Lambda's types: an object by name whose every value is one entry.
int shorten_map(json& map, const FaultRule& rule) {
    json kept = json::object();
    std::size_t index = 0;
    for (const auto& [name, entry] : map.items()) {
        if (!leaves(rule, index++, name)) kept[name] = entry;
    }
    const auto dropped = static_cast<int>(map.size() - kept.size());
    map = std::move(kept);
    return dropped;
}

bool is_map(const json& value) {
    return value.is_object() && !value.empty() && std::ranges::all_of(value, [](const json& v) {
               return v.is_object() && v.contains("instance_type");
           });
}

void shorten(json& body, const FaultRule& rule) {
    for (const auto* key : kLists) {
        const auto it = body.find(key);
        if (it == body.end()) continue;
        int dropped = 0;
        if (it->is_array()) {
            dropped = shorten_list(*it, rule);
        } else if (is_map(*it)) {
            dropped = shorten_map(*it, rule);
        } else if (std::string_view{key} == "data" && it->is_object()) {
            // GraphQL's answer: each of its lists.
            for (auto& list : *it) {
                if (list.is_array()) dropped += shorten_list(list, rule);
            }
        }
        // A listing that lies lies about its counts too.
        const auto lower = [&](json& object, const char* count) {
            const auto number = object.find(count);
            if (number != object.end() && number->is_number_integer()) *number = number->get<int>() - dropped;
        };
        for (const auto* count : {"instances_found", "total_instances", "count", "total"}) lower(body, count);
        const auto meta = body.find("meta");
        if (meta != body.end() && meta->is_object()) lower(*meta, "total");
        if (rule.action != Action::empty_list) continue;
        if (body.contains("next_token")) body["next_token"] = nullptr;
        if (meta != body.end() && meta->is_object() && meta->contains("links")) (*meta)["links"]["next"] = "";
        if (body.contains("pagination"))
            body["pagination"] = {{"nextCursor", nullptr}, {"hasNextPage", false}};
    }
}

void change_field(json& value, const FaultRule& rule, const std::string& name) {
    const auto it = value.find(name);
    if (it == value.end()) return;
    if (rule.action == Action::drop_field) {
        value.erase(it);
    } else if (rule.action == Action::set_field) {
        *it = json::parse(rule.value);
    } else if (it->is_number_integer() && rule.by == std::floor(rule.by)) {
        *it = it->get<std::int64_t>() * static_cast<std::int64_t>(rule.by);
    } else if (it->is_number()) {
        *it = it->get<double>() * rule.by;
    }
}

/// Every object below `value` that the rule's field is in. With "a.b" only objects that stand under the name
/// a.
void change_fields(json& value, const FaultRule& rule, const std::string& under) {
    if (value.is_array()) {
        for (auto& each : value) change_fields(each, rule, under);
        return;
    }
    if (!value.is_object()) return;
    const auto dot = rule.field.rfind('.');
    if (dot == std::string::npos) {
        change_field(value, rule, rule.field);
    } else if (under == rule.field.substr(0, dot)) {
        change_field(value, rule, rule.field.substr(dot + 1));
    }
    for (auto& [name, each] : value.items()) change_fields(each, rule, name);
}

/// What each provider says to a client that asks too often.
HttpResponse throttled(std::string_view provider) {
    HttpResponse response;
    if (provider == "vastai") {
        response = {.status = 429,
                    .type = "text/plain",
                    .body = "API requests too frequent",
                    .headers = {},
                    .cut = false};
        return response;
    }
    if (provider == "lambda") {
        return json_response(
            429, {{"error", {{"code", "global/too-many-requests"}, {"message", "Too many requests."}}}});
    }
    if (provider == "vultr") {
        response = json_response(
            429, {{"error", "Rate limit reached - please try your request again later."}, {"status", 429}});
        response.headers.emplace_back("Retry-After", "1");
        return response;
    }
    response = json_response(429, {{"title", "Too Many Requests"},
                                   {"status", 429},
                                   {"detail", "rate limit exceeded for the minute window"}});
    response.type = "application/problem+json";
    response.headers.emplace_back("Retry-After", "5");
    return response;
}

/// What each says about a call that it no longer serves. Lambda and Vultr have retired none so far: the plain
/// status.
HttpResponse gone_call(std::string_view provider) {
    if (provider == "vastai") {
        return json_response(410, {{"success", false},
                                   {"error", "deprecated_endpoint"},
                                   {"msg", "This endpoint is deprecated and no longer available."}});
    }
    if (provider == "lambda")
        return json_response(
            410, {{"error", {{"code", "global/not-found"}, {"message", "This API version is retired."}}}});
    if (provider == "vultr")
        return json_response(410, {{"error", "This API call is retired."}, {"status", 410}});
    return json_response(410, {{"error", "REST API has been retired."}, {"status", 410}});
}

}  // namespace

HttpResponse refusal(const FaultRule& rule, std::string_view provider) {
    if (rule.action == Action::throttle) return throttled(provider);
    if (rule.action == Action::retired) return gone_call(provider);
    HttpResponse response;
    response.status = rule.status;
    response.headers = rule.headers;
    response.body = rule.body;
    if (rule.action == Action::html && response.body.empty()) {
        response.body =
            "<!DOCTYPE html><html><head><title>Access denied</title></head><body><h1>Error 1010</h1><p>The "
            "owner of "
            "this website has banned your access based on your browser's signature.</p></body></html>";
    }
    if (!rule.type.empty()) {
        response.type = rule.type;
    } else if (rule.action == Action::html) {
        response.type = "text/html; charset=UTF-8";
    } else {
        const bool object = response.body.starts_with("{") || response.body.starts_with("[");
        response.type = object ? "application/json" : "text/plain";
    }
    return response;
}

void distort(HttpResponse& response, const FaultRule& rule) {
    switch (rule.action) {
        case Action::cut_after_effect:
            response.cut = true;
            return;
        case Action::error_after_effect:
            response = refusal(rule);
            return;
        case Action::truncate_json:
            response.body.resize(response.body.size() / 2);
            return;
        case Action::null_instances:
            response = json_response(200, {{"instances", nullptr}});
            return;
        case Action::empty_list:
        case Action::short_list:
        case Action::drop_field:
        case Action::scale_field:
        case Action::set_field:
        case Action::merge_json: {
            auto body = json::parse(response.body, nullptr, false);
            if (!body.is_object()) return;
            if (!rule.field.empty()) {
                change_fields(body, rule, {});
            } else if (rule.action == Action::merge_json) {
                const auto patch = json::parse(rule.body, nullptr, false);
                if (patch.is_object()) body.update(patch);
            } else {
                shorten(body, rule);
            }
            response.body = body.dump();
            return;
        }
        case Action::status:
        case Action::html:
        case Action::cut_before:
        case Action::delay_ms:
        case Action::delay_after_effect:
        case Action::hang:
        case Action::throttle:
        case Action::retired:
            return;
    }
}

}  // namespace gf::sim
