// Reading the daemon's answers without trusting them: a missing, null or oddly typed member is an empty text
// or nothing, never an exception.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace gf::cli {

/// A member as text. Numbers and booleans as JSON writes them; null, missing, objects and lists as "". `key`
/// may have dots: "offer.gpu.canonical".
[[nodiscard]] std::string text_of(const nlohmann::json& object, std::string_view key);
[[nodiscard]] std::optional<std::int64_t> whole_of(const nlohmann::json& object, std::string_view key);
[[nodiscard]] bool true_at(const nlohmann::json& object, std::string_view key);
/// The member, or null. `key` may have dots.
[[nodiscard]] const nlohmann::json& member(const nlohmann::json& object, std::string_view key);
/// The list at `key`, or an empty one.
[[nodiscard]] const nlohmann::json& list_at(const nlohmann::json& object, std::string_view key);

/// For a stream of objects: one line, bytes that are no UTF-8 replaced.
[[nodiscard]] std::string one_line(const nlohmann::json& json);

/// "0.39" of the API (decimal dollars) as "$0.39"; "?" where it is missing.
[[nodiscard]] std::string dollars_at(const nlohmann::json& object, std::string_view key);
/// How long ago an RFC 3339 time was, "3m", "2h"; "-" where it is missing.
[[nodiscard]] std::string ago(const std::string& rfc3339_text, std::int64_t now_ms);

}  // namespace gf::cli
