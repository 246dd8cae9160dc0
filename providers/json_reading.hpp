// Reading foreign JSON: bodies that may be HTML, truncated or oddly typed. A missing or null field is
// "unknown", a wrong type is an error with the field's path, and unknown fields are ignored. For the clients'
// .cpp files only.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "model/result.hpp"
#include "providers/canary.hpp"
#include "providers/decimal.hpp"

namespace gf {

/// The document, or `malformed` saying what it looks like instead ("HTML page", "truncated JSON", "empty
/// body"). Numbers that no double can hold (1e309) are kept as texts, so that one such field does not cost
/// the whole document.
Result<nlohmann::json> parse_json(std::string_view body);

/// Reads fields of one object and remembers the first that had a wrong type.
class FieldReader {
 public:
    /// `path` names the object in messages: "gpus[3]".
    FieldReader(const nlohmann::json& object, std::string path) : object_(object), path_(std::move(path)) {}

    /// Strings only; other types are an error.
    [[nodiscard]] std::optional<std::string> text(std::string_view key);
    /// A JSON number or a text, as decimal text. Booleans, arrays and objects are an error.
    [[nodiscard]] NumberText number(std::string_view key);
    /// A finite number (also in a text) as a double, for quantities that are no money.
    [[nodiscard]] std::optional<double> quantity(std::string_view key);
    /// A whole number that fits (also "3.0" or "3"); fractions are an error.
    [[nodiscard]] std::optional<std::int64_t> whole(std::string_view key);
    [[nodiscard]] std::optional<bool> boolean(std::string_view key);
    /// The value itself; null pointer when missing or null.
    [[nodiscard]] const nlohmann::json* value(std::string_view key) const;

    /// Set when a field had a wrong type: "gpus[3].price: expected a number, found an object".
    [[nodiscard]] const std::optional<std::string>& problem() const { return problem_; }

 private:
    void wrong(std::string_view key, std::string_view expected, const nlohmann::json& found);
    const nlohmann::json& object_;
    std::string path_;
    std::optional<std::string> problem_;
};

/// Decimal text of a JSON number exactly as a person would write the double's shortest form; the text itself
/// for a string; nothing for anything else.
[[nodiscard]] NumberText number_text(const nlohmann::json& value);

/// How the fields of `rows` came: the elements of an array, or the values of an object keyed by name. For the drift canary.
[[nodiscard]] Shapes count_shapes(const nlohmann::json& rows, std::span<const FieldRule> rules);

}  // namespace gf
