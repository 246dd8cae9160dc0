#include "config/node_builder.hpp"

#include <algorithm>
#include <utility>

#include "config/utf8.hpp"

namespace gf {
namespace {

void advance(std::string_view text, Place& place, std::size_t offset) {
    while (place.offset < offset && place.offset < text.size()) {
        if (text[place.offset] == '\n') {
            ++place.line;
            place.column = 1;
            ++place.offset;
            continue;
        }
        if (!next_character(text, place.offset)) ++place.offset;
        ++place.column;
    }
}

Error error_at(const Place& place, std::string message, std::string field) {
    return Error{.kind = ErrorKind::malformed,
                 .message = std::move(message),
                 .field = std::move(field),
                 .line = place.line,
                 .column = place.column};
}

}  // namespace

const Node* Node::find(std::string_view key) const {
    for (std::size_t i = 0; i < keys.size(); ++i)
        if (keys[i].text == key) return &items[i];
    return nullptr;
}

Place place_in(std::string_view text, std::size_t offset) {
    Place place{1, 1, 0};
    advance(text, place, offset);
    return place;
}

Result<void> check_readable(std::string_view text) {
    const auto fault = find_text_fault(text);
    if (!fault) return {};
    return fail(error_at(place_in(text, fault->offset), fault->what, {}));
}

Place NodeBuilder::place_of(std::size_t offset) {
    advance(text_, cursor_, offset);
    return cursor_;
}

Node* NodeBuilder::add(Node::Kind kind, std::size_t offset) {
    if (error_) return nullptr;
    if (++nodes_ > kNodesMax) {
        fail_at(offset, "more than " + std::to_string(kNodesMax) + " values");
        return nullptr;
    }
    Node* node = nullptr;
    if (open_.empty()) {
        if (std::exchange(has_root_, true)) {
            fail_at(offset, "more than one value");
            return nullptr;
        }
        node = &root_;
    } else {
        open_.back().key_waits = false;
        // Only the innermost open node grows, so that the pointers to the outer ones stay good.
        node = &open_.back().node->items.emplace_back();
    }
    node->kind = kind;
    node->place = place_of(offset);
    return node;
}

bool NodeBuilder::begin(Node::Kind kind, std::size_t offset) {
    if (error_) return false;
    if (static_cast<int>(open_.size()) >= kNodeDepthMax)
        return fail_at(offset, "nested deeper than " + std::to_string(kNodeDepthMax) + " levels");
    Node* node = add(kind, offset);
    if (node == nullptr) return false;
    open_.push_back({.node = node, .seen = {}, .key_waits = false});
    return true;
}

bool NodeBuilder::end() {
    if (error_ || open_.empty()) return false;
    open_.pop_back();
    return true;
}

bool NodeBuilder::scalar(std::string value, bool quoted, std::size_t offset) {
    Node* node = add(Node::Kind::scalar, offset);
    if (node == nullptr) return false;
    node->text = std::move(value);
    node->quoted = quoted;
    return true;
}

bool NodeBuilder::null(std::size_t offset) {
    Node* node = add(Node::Kind::null, offset);
    if (node == nullptr) return false;
    // A YAML key without a value: the parser is at the next line already, the fault is at the key.
    if (open_.empty() || open_.back().node->keys.empty()) return true;
    const Place& key = open_.back().node->keys.back().place;
    if (node->place.line > key.line) node->place = key;
    return true;
}

bool NodeBuilder::expects_key() const {
    return !open_.empty() && open_.back().node->kind == Node::Kind::mapping && !open_.back().key_waits;
}

bool NodeBuilder::key(std::string name, std::size_t offset) {
    if (error_ || open_.empty()) return false;
    Open& open = open_.back();
    if (!open.seen.insert(name).second)
        return fail_at(offset, "the key \"" + shown(name) + "\" is there twice");
    open.node->keys.push_back({std::move(name), place_of(offset)});
    open.key_waits = true;
    return true;
}

bool NodeBuilder::fail_at(std::size_t offset, std::string message) {
    if (!error_) error_ = error_at(place_in(text_, offset), std::move(message), path());
    return false;
}

std::string NodeBuilder::path() const {
    std::string out;
    for (const auto& open : open_) {
        if (open.node->kind == Node::Kind::sequence) {
            out += "[" + std::to_string(open.node->items.size()) + "]";
        } else if (open.key_waits || &open != &open_.back()) {
            if (open.node->keys.empty()) continue;
            if (!out.empty()) out += ".";
            out += shown(open.node->keys.back().text);
        }
    }
    return out;
}

Result<Node> NodeBuilder::take() {
    if (error_) return fail(*error_);
    if (!has_root_) return fail(error_at({1, 1, 0}, "the text is empty", {}));
    return std::move(root_);
}

}  // namespace gf
