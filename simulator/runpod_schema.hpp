// The request bodies that RunPod's REST v2 accepts, as schemas, and the words of its validator. Unknown
// fields are refused with 422 (providers page, section 2).
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace gf::sim {

/// Complaints about `value` under a JSON-Schema subset (type, properties, required, additionalProperties,
/// enum, minimum, minLength, maxLength, maxProperties, items, pattern); empty = valid.
[[nodiscard]] std::vector<std::string> schema_errors(const nlohmann::json& schema,
                                                     const nlohmann::json& value,
                                                     const std::string& path = "$");

[[nodiscard]] const nlohmann::json& pod_create_schema();
[[nodiscard]] const nlohmann::json& pod_patch_schema();
[[nodiscard]] const nlohmann::json& pod_action_schema();
[[nodiscard]] const nlohmann::json& network_volume_create_schema();
[[nodiscard]] const nlohmann::json& network_volume_patch_schema();
[[nodiscard]] const nlohmann::json& registry_create_schema();
[[nodiscard]] const nlohmann::json& ssh_keys_schema();

}  // namespace gf::sim
