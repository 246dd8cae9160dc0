#include "cli/json_read.hpp"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "model/time.hpp"

namespace gf::cli {

using nlohmann::json;

const json& member(const json& object, std::string_view key) {
    static const json nothing;
    const json* at = &object;
    while (true) {
        if (!at->is_object()) return nothing;
        const auto dot = key.find('.');
        const auto found = at->find(std::string(key.substr(0, dot)));
        if (found == at->end()) return nothing;
        at = &*found;
        if (dot == std::string_view::npos) return *at;
        key.remove_prefix(dot + 1);
    }
}

const json& list_at(const json& object, std::string_view key) {
    static const json empty = json::array();
    const auto& found = member(object, key);
    return found.is_array() ? found : empty;
}

std::string text_of(const json& object, std::string_view key) {
    const auto& value = member(object, key);
    if (value.is_string()) return value.get<std::string>();
    if (value.is_number() || value.is_boolean()) return value.dump();
    return {};
}

std::optional<std::int64_t> whole_of(const json& object, std::string_view key) {
    const auto& value = member(object, key);
    if (!value.is_number_integer()) return std::nullopt;
    if (value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX))
        return std::nullopt;
    return value.get<std::int64_t>();
}

bool true_at(const json& object, std::string_view key) {
    const auto& value = member(object, key);
    return value.is_boolean() && value.get<bool>();
}

std::string one_line(const json& value) {
    return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string dollars_at(const json& object, std::string_view key) {
    const auto amount = text_of(object, key);
    if (amount.empty()) return "?";
    return amount.starts_with('$') ? amount : "$" + amount;
}

std::string ago(const std::string& rfc3339_text, std::int64_t now_ms) {
    const auto then = parse_rfc3339(rfc3339_text);
    if (!then) return "-";
    const auto seconds = (now_ms - unix_millis(*then)) / 1000;
    if (seconds < 0) return "0s";  // the daemon's clock is ahead of this one
    if (seconds < 120) return fmt::format("{}s", seconds);
    if (seconds < 7200) return fmt::format("{}m", seconds / 60);
    if (seconds < 2 * 86400) return fmt::format("{}h", seconds / 3600);
    return fmt::format("{}d", seconds / 86400);
}

}  // namespace gf::cli
