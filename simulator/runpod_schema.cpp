#include "simulator/runpod_schema.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>

namespace gf::sim {

namespace {

using nlohmann::json;

constexpr const char* kPodCreate = R"({
 "type":"object","required":["name"],"additionalProperties":false,
 "properties":{
  "name":{"type":"string","minLength":1,"maxLength":191},
  "image":{"type":"string","minLength":1},
  "gpu":{"type":"object","required":["id"],"additionalProperties":false,"properties":{
    "id":{"type":"string","minLength":1},
    "count":{"type":"integer","minimum":1},
    "allowedCudaVersions":{"type":"array","items":{"type":"string","pattern":"^\\d+\\.\\d+$"}},
    "minCudaVersion":{"type":"string","pattern":"^\\d+\\.\\d+$"}}},
  "cpu":{"type":"object","required":["id","vcpuCount"],"additionalProperties":false,"properties":{
    "id":{"type":"string"},"vcpuCount":{"type":"integer","minimum":2}}},
  "cloud":{"type":"string","enum":["SECURE","COMMUNITY"]},
  "dataCenterIds":{"type":"array","items":{"type":"string"}},
  "disk":{"type":"integer","minimum":1},
  "mounts":{"type":"object","additionalProperties":false,"properties":{
    "persistent":{"type":"object","required":["size","path"],"additionalProperties":false,"properties":{
      "size":{"type":"integer","minimum":10},"path":{"type":"string","minLength":1}}},
    "network":{"type":"array","maxItems":1,"items":{"type":"object","required":["volumeId","path"],
      "additionalProperties":false,"properties":{"volumeId":{"type":"string"},"path":{"type":"string","minLength":1}}}}}},
  "ports":{"type":"array","items":{"type":"string","pattern":"^\\d+/(tcp|http)$"}},
  "env":{"type":"object","maxProperties":50,"additionalProperties":{"type":"string"}},
  "args":{"type":"string"},
  "registry":{"type":["string","null"]},
  "startSsh":{"type":"boolean"},
  "startJupyter":{"type":"boolean"},
  "globalNetworking":{"type":"boolean"},
  "templateId":{"type":"string"}}})";

constexpr const char* kPodPatch = R"({
 "type":"object","additionalProperties":false,
 "properties":{
  "name":{"type":"string","minLength":1,"maxLength":191},
  "image":{"type":"string","minLength":1},
  "args":{"type":"string"},
  "disk":{"type":"integer","minimum":1},
  "ports":{"type":"array","items":{"type":"string","pattern":"^\\d+/(tcp|http)$"}},
  "env":{"type":"object","maxProperties":50,"additionalProperties":{"type":"string"}},
  "registry":{"type":["string","null"]},
  "mounts":{"type":"object","additionalProperties":false,"properties":{
    "persistent":{"type":"object","required":["size","path"],"additionalProperties":false,"properties":{
      "size":{"type":"integer","minimum":10},"path":{"type":"string","minLength":1}}},
    "network":{"type":"array","items":{"type":"object","required":["volumeId","path"],"additionalProperties":false,
      "properties":{"volumeId":{"type":"string"},"path":{"type":"string","minLength":1}}}}}},
  "locked":{"type":"boolean"},
  "globalNetworking":{"type":"boolean"},
  "templateId":{"type":"string"}}})";

constexpr const char* kPodAction = R"({
 "type":"object","required":["action"],"additionalProperties":false,
 "properties":{"action":{"type":"string","enum":["start","stop","restart","terminate"]}}})";

constexpr const char* kVolumeCreate = R"({
 "type":"object","required":["name","size","dataCenter"],"additionalProperties":false,
 "properties":{"name":{"type":"string","minLength":1},"size":{"type":"integer","minimum":10,"maximum":4096},
  "dataCenter":{"type":"string"},"type":{"type":"string","enum":["STANDARD","HIGH_PERFORMANCE"]}}})";

constexpr const char* kVolumePatch = R"({
 "type":"object","additionalProperties":false,
 "properties":{"name":{"type":"string","minLength":1},"size":{"type":"integer","minimum":10,"maximum":4096}}})";

constexpr const char* kRegistryCreate = R"({
 "type":"object","required":["name","username","password"],"additionalProperties":false,
 "properties":{"name":{"type":"string","minLength":1},"username":{"type":"string"},"password":{"type":"string"}}})";

constexpr const char* kSshKeys = R"({
 "type":"object","required":["keys"],"additionalProperties":false,
 "properties":{"keys":{"type":"array","items":{"type":"string","pattern":"^(ssh|ecdsa|sk)-\\S+ \\S+([ \\t].*)?$"}}}})";

std::string type_of(const json& value) {
    if (value.is_null()) return "null";
    if (value.is_boolean()) return "boolean";
    if (value.is_number_integer()) return "integer";
    if (value.is_number()) return "number";
    if (value.is_string()) return "string";
    return value.is_array() ? "array" : "object";
}

bool has_type(const json& value, const std::string& wanted) {
    const auto actual = type_of(value);
    if (actual == wanted) return true;
    if (wanted == "number") return value.is_number();
    // 60.0 is an integer to JSON Schema.
    return wanted == "integer" && value.is_number_float() &&
           value.get<double>() == static_cast<double>(static_cast<std::int64_t>(value.get<double>()));
}

std::string quoted_list(const std::vector<std::string>& names) {
    std::string result;
    for (const auto& name : names) result += (result.empty() ? "'" : ", '") + name + "'";
    return result;
}

bool check_type(const json& schema, const json& value, const std::string& path,
                std::vector<std::string>& errors) {
    const auto type = schema.find("type");
    if (type == schema.end()) return true;
    if (type->is_string()) {
        const auto wanted = type->get<std::string>();
        if (has_type(value, wanted)) return true;
        errors.push_back(fmt::format("{}: got {}, want {}", path, type_of(value), wanted));
        return false;
    }
    std::vector<std::string> names;
    for (const auto& name : *type) {
        names.push_back(name.get<std::string>());
        if (has_type(value, names.back())) return true;
    }
    errors.push_back(fmt::format("{}: got {}, want one of {}", path, type_of(value), quoted_list(names)));
    return false;
}

void check_object(const json& schema, const json& value, const std::string& path,
                  std::vector<std::string>& errors) {
    for (const auto& name : schema.value("required", json::array())) {
        if (!value.contains(name.get<std::string>())) {
            errors.push_back(fmt::format("{}: missing property '{}'", path, name.get<std::string>()));
        }
    }
    if (schema.contains("maxProperties") && value.size() > schema["maxProperties"].get<std::size_t>()) {
        errors.push_back(fmt::format("{}: maxProperties: got {}, want {}", path, value.size(),
                                     schema["maxProperties"].get<std::size_t>()));
    }
    const auto properties = schema.value("properties", json::object());
    const auto rest = schema.value("additionalProperties", json(true));
    std::vector<std::string> unknown;
    for (const auto& [key, entry] : value.items()) {
        const auto below = path + "." + key;
        if (properties.contains(key)) {
            const auto inner = schema_errors(properties[key], entry, below);
            errors.insert(errors.end(), inner.begin(), inner.end());
        } else if (rest.is_object()) {
            const auto inner = schema_errors(rest, entry, below);
            errors.insert(errors.end(), inner.begin(), inner.end());
        } else if (rest == json(false)) {
            unknown.push_back(key);
        }
    }
    if (!unknown.empty()) {
        errors.push_back(fmt::format("{}: additional properties {} not allowed", path, quoted_list(unknown)));
    }
}

void check_text(const json& schema, const std::string& value, const std::string& path,
                std::vector<std::string>& errors) {
    if (schema.contains("minLength") && value.size() < schema["minLength"].get<std::size_t>()) {
        errors.push_back(fmt::format("{}: minLength: got {}, want {}", path, value.size(),
                                     schema["minLength"].get<std::size_t>()));
    }
    if (schema.contains("maxLength") && value.size() > schema["maxLength"].get<std::size_t>()) {
        errors.push_back(fmt::format("{}: maxLength: got {}, want {}", path, value.size(),
                                     schema["maxLength"].get<std::size_t>()));
    }
    if (schema.contains("pattern")) {
        const auto pattern = schema["pattern"].get<std::string>();
        if (!std::regex_search(value, std::regex(pattern))) {
            errors.push_back(fmt::format("{}: '{}' does not match pattern '{}'", path, value, pattern));
        }
    }
}

void check_number(const json& schema, const json& value, const std::string& path,
                  std::vector<std::string>& errors) {
    if (schema.contains("minimum") && value.get<double>() < schema["minimum"].get<double>()) {
        errors.push_back(
            fmt::format("{}: minimum: got {}, want {}", path, value.dump(), schema["minimum"].dump()));
    }
    if (schema.contains("maximum") && value.get<double>() > schema["maximum"].get<double>()) {
        errors.push_back(
            fmt::format("{}: maximum: got {}, want {}", path, value.dump(), schema["maximum"].dump()));
    }
}

const json& parsed(const char* text) {
    // Parsed once and kept: the texts are constants of this file.
    static std::map<const char*, json> cache;
    const auto it = cache.find(text);
    if (it != cache.end()) return it->second;
    return cache.emplace(text, json::parse(text)).first->second;
}

}  // namespace

std::vector<std::string> schema_errors(const json& schema, const json& value, const std::string& path) {
    std::vector<std::string> errors;
    if (!check_type(schema, value, path, errors)) return errors;
    if (const auto choices = schema.find("enum"); choices != schema.end()) {
        if (std::ranges::find(*choices, value) == choices->end()) {
            errors.push_back(fmt::format("{}: value must be one of {}", path,
                                         quoted_list(choices->get<std::vector<std::string>>())));
        }
    }
    if (value.is_object()) check_object(schema, value, path, errors);
    if (value.is_string()) check_text(schema, value.get_ref<const std::string&>(), path, errors);
    if (value.is_number()) check_number(schema, value, path, errors);
    if (value.is_array()) {
        if (schema.contains("maxItems") && value.size() > schema["maxItems"].get<std::size_t>()) {
            errors.push_back(fmt::format("{}: maxItems: got {}, want {}", path, value.size(),
                                         schema["maxItems"].get<std::size_t>()));
        }
        const auto items = schema.value("items", json::object());
        for (std::size_t i = 0; i < value.size(); ++i) {
            const auto inner = schema_errors(items, value[i], fmt::format("{}[{}]", path, i));
            errors.insert(errors.end(), inner.begin(), inner.end());
        }
    }
    return errors;
}

const json& pod_create_schema() {
    return parsed(kPodCreate);
}
const json& pod_patch_schema() {
    return parsed(kPodPatch);
}
const json& pod_action_schema() {
    return parsed(kPodAction);
}
const json& network_volume_create_schema() {
    return parsed(kVolumeCreate);
}
const json& network_volume_patch_schema() {
    return parsed(kVolumePatch);
}
const json& registry_create_schema() {
    return parsed(kRegistryCreate);
}
const json& ssh_keys_schema() {
    return parsed(kSshKeys);
}

}  // namespace gf::sim
