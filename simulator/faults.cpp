#include "simulator/faults.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace gf::sim {

namespace {

using nlohmann::json;
using Action = FaultRule::Action;

constexpr std::array<std::pair<Action, std::string_view>, 13> kActions{{
    {Action::status, "status"},
    {Action::html, "html"},
    {Action::cut_before, "cut_before"},
    {Action::cut_after_effect, "cut_after_effect"},
    {Action::error_after_effect, "error_after_effect"},
    {Action::delay_ms, "delay_ms"},
    {Action::delay_after_effect, "delay_after_effect"},
    {Action::hang, "hang"},
    {Action::truncate_json, "truncate_json"},
    {Action::empty_list, "empty_list"},
    {Action::short_list, "short_list"},
    {Action::null_instances, "null_instances"},
    {Action::merge_json, "merge_json"},
}};

/// The keys under which the providers put their lists.
constexpr std::array kLists{"pods", "instances", "offers", "gpus", "results", "records", "dataCenters"};

void read_match(FaultRule& rule, const json& match) {
    for (const auto& [key, value] : match.items()) {
        if (key == "method") {
            rule.method = value.get<std::string>();
        } else if (key == "path") {
            rule.path = value.get<std::string>();
        } else {
            throw std::runtime_error("match: unknown key '" + key + "'");
        }
    }
}

void read_rule(FaultRule& rule, const json& given) {
    bool acted = false;
    for (const auto& [key, value] : given.items()) {
        if (key == "provider") {
            rule.provider = value.get<std::string>();
        } else if (key == "match") {
            read_match(rule, value);
        } else if (key == "action") {
            const auto name = value.get<std::string>();
            const auto* found =
                std::ranges::find(kActions, name, &std::pair<Action, std::string_view>::second);
            if (found == kActions.end()) throw std::runtime_error("no action '" + name + "'");
            rule.action = found->first;
            acted = true;
        } else if (key == "status") {
            rule.status = value.get<int>();
        } else if (key == "body") {
            rule.body = value.is_string() ? value.get<std::string>() : value.dump();
        } else if (key == "type") {
            rule.type = value.get<std::string>();
        } else if (key == "headers") {
            for (const auto& [name, header] : value.items())
                rule.headers.emplace_back(name, header.get<std::string>());
        } else if (key == "ms") {
            rule.ms = value.get<std::int64_t>();
        } else if (key == "drop") {
            rule.drop = value.get<int>();
        } else if (key == "ids") {
            for (const auto& id : value)
                rule.ids.push_back(id.is_string() ? id.get<std::string>() : id.dump());
        } else if (key == "count") {
            rule.count = value.get<int>();
        } else if (key == "after") {
            rule.after = value.get<int>();
        } else if (key == "rate") {
            rule.rate = value.get<double>();
        } else {
            throw std::runtime_error("unknown key '" + key + "'");
        }
    }
    // What an edge in front of an API answers.
    if (rule.action == Action::html && !given.contains("status")) rule.status = 403;
    if (!acted) throw std::runtime_error("a rule needs an action");
    if (rule.status < 100 || rule.status > 599) throw std::runtime_error("status must be 100..599");
    rule.pattern = std::regex(rule.path, std::regex::ECMAScript);
}

std::string id_text(const json& entry) {
    const auto it = entry.find("id");
    if (it == entry.end()) return {};
    return it->is_string() ? it->get<std::string>() : it->dump();
}

void shorten(json& body, const FaultRule& rule) {
    for (const auto* key : kLists) {
        const auto it = body.find(key);
        if (it == body.end() || !it->is_array()) continue;
        json kept = json::array();
        int dropped = 0;
        for (const auto& entry : *it) {
            const bool named = std::ranges::find(rule.ids, id_text(entry)) != rule.ids.end();
            const bool drop =
                rule.action == Action::empty_list || (rule.ids.empty() ? dropped < rule.drop : named);
            if (drop) {
                ++dropped;
            } else {
                kept.push_back(entry);
            }
        }
        *it = std::move(kept);
        // A listing that lies lies about its counts too.
        for (const auto* count : {"instances_found", "total_instances", "count", "total"}) {
            const auto number = body.find(count);
            if (number != body.end() && number->is_number_integer()) *number = number->get<int>() - dropped;
        }
        if (rule.action == Action::empty_list && body.contains("next_token")) body["next_token"] = nullptr;
    }
}

}  // namespace

std::string_view text(Action action) {
    return std::ranges::find(kActions, action, &std::pair<Action, std::string_view>::first)->second;
}

Result<int> Faults::add(const json& given) {
    FaultRule rule;
    try {
        read_rule(rule, given);
    } catch (const std::exception& e) {
        return fail(ErrorKind::invalid, std::string{"fault rule: "} + e.what());
    }
    const std::scoped_lock lock(mutex_);
    rule.id = next_id_++;
    rules_.push_back(std::move(rule));
    return rules_.back().id;
}

void Faults::clear() {
    const std::scoped_lock lock(mutex_);
    rules_.clear();
}

bool Faults::remove(int id) {
    const std::scoped_lock lock(mutex_);
    return std::erase_if(rules_, [id](const FaultRule& r) { return r.id == id; }) > 0;
}

json Faults::list() const {
    const std::scoped_lock lock(mutex_);
    json result = json::array();
    for (const auto& rule : rules_) {
        result.push_back({{"id", rule.id},
                          {"provider", rule.provider},
                          {"match", {{"method", rule.method}, {"path", rule.path}}},
                          {"action", text(rule.action)},
                          {"fired", rule.fired},
                          {"left", rule.count ? json(*rule.count) : json(nullptr)}});
    }
    return result;
}

std::optional<FaultRule> Faults::match(std::string_view provider, const HttpRequest& request) {
    const std::scoped_lock lock(mutex_);
    for (auto& rule : rules_) {
        if (!rule.provider.empty() && rule.provider != provider) continue;
        if (!rule.method.empty() && rule.method != request.method) continue;
        if (!std::regex_search(request.path, rule.pattern)) continue;
        if (rule.count && *rule.count <= 0) continue;
        if (rule.after > 0) {
            --rule.after;
            continue;
        }
        if (rule.rate < 1.0 && static_cast<double>(entropy_.below(1'000'000)) >= rule.rate * 1e6) continue;
        if (rule.count) --*rule.count;
        ++rule.fired;
        return rule;
    }
    return std::nullopt;
}

HttpResponse refusal(const FaultRule& rule) {
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
        case Action::merge_json: {
            auto body = json::parse(response.body, nullptr, false);
            if (!body.is_object()) return;
            if (rule.action == Action::merge_json) {
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
            return;
    }
}

}  // namespace gf::sim
