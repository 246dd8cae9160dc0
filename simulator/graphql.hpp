// Enough of GraphQL to read what clients send: one operation, nested selections, arguments, variables,
// aliases. Fragments and directives are refused.
#pragma once
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/result.hpp"

namespace gf::sim {

struct GraphField {
    std::string name;
    std::string alias;         // the key in the answer; the name if none was given
    nlohmann::json arguments;  // variables already put in; enum values are strings
    std::vector<GraphField> fields;
};

struct GraphDocument {
    bool mutation{false};
    std::vector<GraphField> fields;
};

[[nodiscard]] Result<GraphDocument> parse_graphql(std::string_view query, const nlohmann::json& variables);

/// Cuts `value` down to what was selected, under the aliases; a selected key that is not there is null.
[[nodiscard]] nlohmann::json selected(const nlohmann::json& value, const std::vector<GraphField>& fields);

}  // namespace gf::sim
