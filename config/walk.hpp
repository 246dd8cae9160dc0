// The schema walk: a table of keys per section, each with the function that reads its value. The key decides
// the type; what does not fit becomes an error with the field's path, place and allowed range, and the walk
// goes on to find the next one.
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/node.hpp"
#include "model/bytes.hpp"
#include "model/enum_text.hpp"
#include "model/money.hpp"
#include "model/result.hpp"
#include "model/time.hpp"

namespace gf {

class Walk {
 public:
    explicit Walk(std::size_t errors_max) : errors_max_(errors_max) {}

    /// "resources.gpu must be <want>, not <the value>".
    void wrong(const Node& node, std::string_view want);
    /// Any other message; the path is put in front.
    void error(const Node& node, ErrorKind kind, std::string_view message);
    void error_at(const Place& place, ErrorKind kind, std::string field, std::string message);
    [[nodiscard]] const std::vector<Error>& errors() const { return errors_; }
    [[nodiscard]] bool full() const { return errors_.size() >= errors_max_; }
    [[nodiscard]] const std::string& path() const { return path_; }

    // Scalars. Nothing, with an error noted, for a value that does not fit. Ranges are inclusive.
    /// `want` in place of "a text of 1 to N bytes" in the message.
    std::optional<std::string> text(const Node& node, std::size_t bytes_max, std::string want = {});
    std::optional<std::int64_t> integer(const Node& node, std::int64_t least, std::int64_t most);
    std::optional<bool> boolean(const Node& node);
    std::optional<double> decimal(const Node& node, double least, double most);
    /// Dollars, as micros.
    std::optional<std::int64_t> dollars(const Node& node, std::int64_t least_micros,
                                        std::int64_t most_micros);
    std::optional<Bytes> bytes(const Node& node, Bytes least, Bytes most);
    std::optional<Millis> duration(const Node& node, Millis least, Millis most);
    std::optional<std::string> one_of(const Node& node, std::span<const std::string_view> names);

    template <class E>
    std::optional<E> choice(const Node& node) {
        std::vector<std::string_view> names;
        for (const auto& [value, name] : EnumNames<E>::table) names.push_back(name);
        const auto name = one_of(node, names);
        return name ? enum_from<E>(*name) : std::nullopt;
    }

    /// Calls `each(item)` for the items of a sequence, or for the one scalar that stands for a sequence of
    /// one.
    template <class Each>
    void list(const Node& node, std::size_t items_max, Each each) {
        if (node.kind == Node::Kind::scalar) {
            each(node);
            return;
        }
        if (node.kind != Node::Kind::sequence || node.items.size() > items_max) {
            wrong(node, "a list of at most " + std::to_string(items_max) + " items");
            return;
        }
        for (std::size_t i = 0; i < node.items.size() && !full(); ++i) {
            const auto length = path_.size();
            path_ += "[" + std::to_string(i) + "]";
            each(node.items[i]);
            path_.resize(length);
        }
    }

    /// Calls `each(key, value)` for a mapping with free keys, or those of `known` where it is given; inside it the path names the key.
    template <class Each>
    void entries(const Node& node, std::size_t items_max, Each each, std::span<const std::string_view> known = {}) {
        if (node.kind != Node::Kind::mapping || node.items.size() > items_max) {
            wrong(node, "a mapping of at most " + std::to_string(items_max) + " keys");
            return;
        }
        for (std::size_t i = 0; i < node.items.size() && !full(); ++i) {
            if (!known.empty() && std::ranges::find(known, node.keys[i].text) == known.end()) {
                unknown_key(node.keys[i], known);
                continue;
            }
            const auto length = enter(node.keys[i].text);
            each(node.keys[i], node.items[i]);
            path_.resize(length);
        }
    }

    /// A key that no table knows.
    void unknown_key(const Node::Key& key, std::span<const std::string_view> known);

    /// Appends a key to the path; returns the length to go back to with `leave`.
    std::size_t enter(std::string_view key);
    void leave(std::size_t length) { path_.resize(length); }

 private:
    bool scalar(const Node& node, std::string_view want);

    std::size_t errors_max_;
    std::string path_;
    std::vector<Error> errors_;
};

/// One key of a section that fills a T.
template <class T>
struct Field {
    std::string_view key;
    void (*read)(Walk& walk, const Node& node, T& into);
};

/// Reads a section by its table, in the order of the text.
template <class T>
void read_section(Walk& walk, const Node& node, std::span<const Field<T>> fields, T& into) {
    if (node.kind != Node::Kind::mapping) {
        walk.wrong(node, "a mapping of keys to values");
        return;
    }
    for (std::size_t i = 0; i < node.keys.size() && !walk.full(); ++i) {
        const Field<T>* found = nullptr;
        for (const auto& field : fields)
            if (field.key == node.keys[i].text) found = &field;
        if (found == nullptr) {
            std::vector<std::string_view> known;
            for (const auto& field : fields) known.push_back(field.key);
            walk.unknown_key(node.keys[i], known);
            continue;
        }
        const auto length = walk.enter(found->key);
        found->read(walk, node.items[i], into);
        walk.leave(length);
    }
}

}  // namespace gf
