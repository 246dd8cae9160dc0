// Makes a Node out of parser events, with the limits that hold for every format. After an error each call
// returns false and changes nothing.
#pragma once
#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "config/node.hpp"

namespace gf {

class NodeBuilder {
 public:
    /// `text` must outlive the builder.
    explicit NodeBuilder(std::string_view text) : text_(text) {}

    bool begin(Node::Kind kind, std::size_t offset);  // mapping or sequence
    bool end();
    bool scalar(std::string value, bool quoted, std::size_t offset);
    bool null(std::size_t offset);
    /// In a mapping, before its value.
    bool key(std::string name, std::size_t offset);
    /// In a mapping where keys come as scalars (YAML): true when the next scalar is a key.
    [[nodiscard]] bool expects_key() const;

    bool fail_at(std::size_t offset, std::string message);
    [[nodiscard]] const std::optional<Error>& error() const { return error_; }
    /// Path of the value that is being read: "resources.gpus".
    [[nodiscard]] std::string path() const;
    /// The tree, or the error. Call once, at the end.
    Result<Node> take();

 private:
    struct Open {
        Node* node;
        std::set<std::string, std::less<>> seen;
        bool key_waits{false};
    };
    Node* add(Node::Kind kind, std::size_t offset);
    /// Offsets come in the order of the text, so that lines and columns are counted once.
    Place place_of(std::size_t offset);

    std::string_view text_;
    Place cursor_{1, 1, 0};
    Node root_;
    bool has_root_{false};
    int nodes_{0};
    std::vector<Open> open_;
    std::optional<Error> error_;
};

/// Line and column of a byte offset, counted from the start.
[[nodiscard]] Place place_in(std::string_view text, std::size_t offset);

/// The checks that come before any parser. Errors: `malformed`.
Result<void> check_readable(std::string_view text);

}  // namespace gf
