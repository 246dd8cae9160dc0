#include "simulator/faults.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace gf::sim {

namespace {

using nlohmann::json;
using Action = FaultRule::Action;

constexpr std::array<std::pair<Action, std::string_view>, 18> kActions{{
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
    {Action::drop_field, "drop_field"},
    {Action::scale_field, "scale_field"},
    {Action::set_field, "set_field"},
    {Action::throttle, "throttle"},
    {Action::retired, "retired"},
}};

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

Millis seconds(const json& value) {
    const auto s = value.get<double>();
    if (s < 0) throw std::runtime_error("times must be seconds, 0 or more");
    return Millis{static_cast<std::int64_t>(s * 1000.0)};
}

void read_rule(FaultRule& rule, const json& given, Instant now) {
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
        } else if (key == "keep") {
            rule.keep = value.get<int>();
        } else if (key == "field") {
            rule.field = value.get<std::string>();
        } else if (key == "by") {
            rule.by = value.get<double>();
        } else if (key == "value") {
            rule.value = value.dump();
        } else if (key == "at_s") {
            rule.from = now + seconds(value);
        } else if (key == "until_s") {
            rule.until = now + seconds(value);
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
    const bool fields = rule.action == Action::drop_field || rule.action == Action::scale_field ||
                        rule.action == Action::set_field;
    if (fields && rule.field.empty()) throw std::runtime_error("the action needs a field");
    if (rule.action == Action::scale_field && !given.contains("by"))
        throw std::runtime_error("the action needs `by`");
    if (rule.action == Action::set_field && !given.contains("value"))
        throw std::runtime_error("the action needs a value");
    if (rule.status < 100 || rule.status > 599) throw std::runtime_error("status must be 100..599");
    rule.pattern = std::regex(rule.path, std::regex::ECMAScript);
}

}  // namespace

std::string_view text(Action action) {
    return std::ranges::find(kActions, action, &std::pair<Action, std::string_view>::first)->second;
}

Result<int> Faults::add(const json& given, Instant now) {
    FaultRule rule;
    try {
        read_rule(rule, given, now);
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

std::optional<FaultRule> Faults::match(std::string_view provider, const HttpRequest& request, Instant now) {
    const std::scoped_lock lock(mutex_);
    for (auto& rule : rules_) {
        if (!rule.provider.empty() && rule.provider != provider) continue;
        if (!rule.method.empty() && rule.method != request.method) continue;
        if (!std::regex_search(request.path, rule.pattern)) continue;
        if (rule.count && *rule.count <= 0) continue;
        if ((rule.from && now < *rule.from) || (rule.until && now >= *rule.until)) continue;
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

}  // namespace gf::sim
