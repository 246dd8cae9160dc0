// The one form that YAML and JSON texts take before the schema walk: a tree of mappings, sequences and
// scalars that keeps what was typed. Types are given by the schema, never guessed from the look of a scalar.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "model/result.hpp"

namespace gf {

struct Place {
    int line{0};            // 1-based
    int column{0};          // 1-based, in characters
    std::size_t offset{0};  // in bytes
};

struct Node {
    enum class Kind { null, scalar, sequence, mapping };
    struct Key {
        std::string text;
        Place place;
    };

    Kind kind{Kind::null};
    std::string text;    // of a scalar: as typed, with escapes resolved
    bool quoted{false};  // a quoted or block scalar, a JSON string
    Place place;
    std::vector<Key> keys;  // of a mapping: keys[i] belongs to items[i]
    std::vector<Node> items;

    /// The value under `key`; null if the mapping has none.
    [[nodiscard]] const Node* find(std::string_view key) const;
};

inline constexpr int kNodeDepthMax = 32;
inline constexpr int kNodesMax = 20'000;

/// Errors: `malformed` with line and column: not UTF-8, a byte order mark, a syntax error, a duplicate key, a
/// null key, deeper than 32, more than 20,000 values.
Result<Node> read_json(std::string_view text);
/// The same for one YAML document; also refused: anchors, aliases, merge keys, tags, keys that are not plain
/// texts, a second document, and more than 100,000 brackets and commas (they cost memory before they can be
/// judged).
Result<Node> read_yaml(std::string_view text);

}  // namespace gf
