#include "config/walk.hpp"

#include <cstdio>

#include "config/utf8.hpp"
#include "model/spelling.hpp"

namespace gf {
namespace {

std::string value_text(const Node& node) {
    switch (node.kind) {
        case Node::Kind::null:
            return "empty (null)";
        case Node::Kind::sequence:
            return node.items.empty() ? "an empty list" : "a list of " + std::to_string(node.items.size());
        case Node::Kind::mapping:
            return "a mapping";
        case Node::Kind::scalar:
            break;
    }
    return node.quoted ? "\"" + shown(node.text) + "\"" : shown(node.text);
}

/// A value that may be or hold a key: whatever stands below these sections, and a URL with a user or a query.
bool may_be_secret(std::string_view path, const Node& node) {
    for (const std::string_view section : {"providers", "stores", "channels"})
        if (path.starts_with(section) &&
            (path.size() == section.size() || path[section.size()] == '.' || path[section.size()] == '['))
            return true;
    const auto at = node.text.find("://");
    return at != std::string::npos && node.text.find_first_of("@?#", at) != std::string::npos;
}

std::string number_text(double v) {
    char out[32];
    std::snprintf(out, sizeof out, "%.10g", v);
    return out;
}

/// Decimal digits with an optional minus and no leading zero; nothing for other texts. Saturates beyond 64
/// bits, which is outside every range.
std::optional<std::int64_t> decimal_integer(std::string_view s) {
    const bool negative = s.starts_with('-');
    if (negative) s.remove_prefix(1);
    if (s.empty() || (s.size() > 1 && s.front() == '0')) return std::nullopt;
    std::int64_t value = 0;
    bool saturated = false;
    for (const char c : s) {
        if (c < '0' || c > '9') return std::nullopt;
        saturated = saturated || __builtin_mul_overflow(value, 10, &value) ||
                    __builtin_add_overflow(value, c - '0', &value);
        if (saturated) value = INT64_MAX;
    }
    return negative ? -value : value;
}

}  // namespace

std::size_t Walk::enter(std::string_view key) {
    const auto length = path_.size();
    if (!path_.empty()) path_ += '.';
    path_ += shown(key);
    return length;
}

void Walk::error_at(const Place& place, ErrorKind kind, std::string field, std::string message) {
    if (full()) return;
    errors_.push_back(Error{.kind = kind,
                            .message = std::move(message),
                            .field = std::move(field),
                            .line = place.line,
                            .column = place.column});
}

void Walk::error(const Node& node, ErrorKind kind, std::string_view message) {
    error_at(node.place, kind, path_, (path_.empty() ? "the document" : path_) + " " + std::string(message));
}

void Walk::wrong(const Node& node, std::string_view want) {
    const bool hidden = node.kind == Node::Kind::scalar && may_be_secret(path_, node);
    error(node, ErrorKind::invalid, "must be " + std::string(want) + (hidden ? "" : ", not " + value_text(node)));
}

void Walk::unknown_key(const Node::Key& key, std::span<const std::string_view> known) {
    // In brackets a pasted key becomes a key of the mapping: it is shown only if it is near to one that there is.
    if (path_.find('.') != std::string::npos && may_be_secret(path_, Node{}) && !nearest_spelling(key.text, known)) {
        error_at(key.place, ErrorKind::invalid, path_, "unknown key in " + path_);
        return;
    }
    const std::string field = (path_.empty() ? "" : path_ + ".") + shown(key.text);
    std::string message = "unknown key \"" + shown(key.text) + "\"" + (path_.empty() ? "" : " in " + path_);
    if (const auto near = nearest_spelling(key.text, known)) message += "; did you mean \"" + *near + "\"?";
    error_at(key.place, ErrorKind::invalid, field, std::move(message));
}

bool Walk::scalar(const Node& node, std::string_view want) {
    if (node.kind == Node::Kind::scalar) return true;
    wrong(node, want);
    return false;
}

std::optional<std::string> Walk::text(const Node& node, std::size_t bytes_max, std::string want) {
    if (want.empty()) want = "a text of 1 to " + std::to_string(bytes_max) + " bytes";
    if (node.kind == Node::Kind::null) {
        wrong(node, want + " (in quotes if it is the word null or empty)");
        return std::nullopt;
    }
    if (!scalar(node, want)) return std::nullopt;
    if (node.text.empty() || node.text.size() > bytes_max) {
        wrong(node, want);
        return std::nullopt;
    }
    if (node.text.find('\0') != std::string::npos) {
        wrong(node, "a text without a NUL character");
        return std::nullopt;
    }
    return node.text;
}

std::optional<std::int64_t> Walk::integer(const Node& node, std::int64_t least, std::int64_t most) {
    const std::string want = "an integer from " + std::to_string(least) + " to " + std::to_string(most);
    if (!scalar(node, want)) return std::nullopt;
    const auto value = node.quoted ? std::nullopt : decimal_integer(node.text);
    if (value && *value >= least && *value <= most) return value;
    wrong(node, value ? want : want + " (decimal digits, no leading zero, no quotes)");
    return std::nullopt;
}

std::optional<bool> Walk::boolean(const Node& node) {
    if (node.kind == Node::Kind::scalar && !node.quoted) {
        if (node.text == "true") return true;
        if (node.text == "false") return false;
    }
    wrong(node, "true or false");
    return std::nullopt;
}

std::optional<double> Walk::decimal(const Node& node, double least, double most) {
    const std::string want = "a number from " + number_text(least) + " to " + number_text(most);
    if (!scalar(node, want)) return std::nullopt;
    if (const auto micros = parse_decimal_micros(node.text)) {
        const double value = static_cast<double>(*micros) / 1e6;
        if (value >= least && value <= most) return value;
    }
    wrong(node, want);
    return std::nullopt;
}

std::optional<std::int64_t> Walk::dollars(const Node& node, std::int64_t least_micros,
                                          std::int64_t most_micros) {
    const std::string want =
        "an amount in dollars from " + gf::dollars(least_micros) + " to " + gf::dollars(most_micros);
    if (!scalar(node, want)) return std::nullopt;
    const auto micros = parse_decimal_micros(node.text);
    if (micros && *micros >= least_micros && *micros <= most_micros) return micros;
    wrong(node, want);
    return std::nullopt;
}

std::optional<Bytes> Walk::bytes(const Node& node, Bytes least, Bytes most) {
    const std::string want = "a size from " + bytes_text(least) + " to " + bytes_text(most) +
                             " (\"32GB\", \"512MiB\", plain bytes)";
    if (!scalar(node, want)) return std::nullopt;
    const auto value = parse_bytes(node.text);
    if (value && *value >= least && *value <= most) return value;
    wrong(node, want);
    return std::nullopt;
}

std::optional<Millis> Walk::duration(const Node& node, Millis least, Millis most) {
    const std::string want = "a duration from " + duration_text(least) + " to " + duration_text(most) +
                             " (\"90s\", \"1h30m\", \"7d\")";
    if (!scalar(node, want)) return std::nullopt;
    const auto value = parse_duration(node.text);
    if (value && *value >= least && *value <= most) return value;
    wrong(node, want);
    return std::nullopt;
}

std::optional<std::string> Walk::one_of(const Node& node, std::span<const std::string_view> names) {
    std::string want = "one of";
    for (const auto name : names) want += (name == names.front() ? " " : ", ") + std::string(name);
    if (!scalar(node, want)) return std::nullopt;
    for (const auto name : names)
        if (name == node.text) return node.text;
    if (const auto near = nearest_spelling(node.text, names)) want += " (did you mean \"" + *near + "\"?)";
    wrong(node, want);
    return std::nullopt;
}

}  // namespace gf
