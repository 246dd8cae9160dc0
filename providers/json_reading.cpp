#include "providers/json_reading.hpp"

#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <cmath>

#include "providers/redaction.hpp"

namespace gf {
namespace {

constexpr std::size_t kNumberTextMax =
    300;  // a longer token, or an exponent of three digits above this, may overflow a double
constexpr int kExponentMax = 290;

bool in_number(char c) {
    return (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.' || c == 'e' || c == 'E';
}

bool may_overflow(std::string_view token) {
    if (token.size() > kNumberTextMax) return true;
    const auto e = token.find_first_of("eE");
    if (e == std::string_view::npos) return false;
    auto digits = token.substr(e + 1);
    if (digits.starts_with('+')) digits.remove_prefix(1);
    if (digits.starts_with('-')) return false;  // becomes 0, which is no overflow
    int exponent = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), exponent);
    return error == std::errc::result_out_of_range || (error == std::errc{} && exponent > kExponentMax);
}

/// What some languages write for a number that is none; empty if the text starts with something else.
std::string_view not_finite_at(std::string_view text) {
    for (const std::string_view word : {"NaN", "-NaN", "Infinity", "-Infinity"})
        if (text.starts_with(word) && (text.size() == word.size() || std::isalnum(static_cast<unsigned char>(text[word.size()])) == 0))
            return word;
    return {};
}

// Every answer that is documented nests less than ten deep.
constexpr int kDepthMax = 64;

bool too_deep(std::string_view json) {
    int depth = 0;
    bool in_string = false;
    for (std::size_t at = 0; at < json.size(); ++at) {
        const char c = json[at];
        if (in_string) {
            if (c == '\\') ++at;
            if (c == '"') in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '[' || c == '{') {
            if (++depth > kDepthMax) return true;
        } else if (c == ']' || c == '}') {
            --depth;
        }
    }
    return false;
}

/// The same document with numbers beyond a double, and NaN and infinities, put into quotes. The JSON parser
/// refuses a whole document for one of them.
std::string quote_huge_numbers(std::string_view json) {
    std::string out;
    std::size_t copied = 0;
    bool in_string = false;
    for (std::size_t at = 0; at < json.size(); ++at) {
        const char c = json[at];
        if (in_string) {
            if (c == '\\') ++at;
            if (c == '"') in_string = false;
            continue;
        }
        if (c == '"') in_string = true;
        if (const auto word = c == 'N' || c == 'I' || c == '-' ? not_finite_at(json.substr(at)) : std::string_view();
            !word.empty()) {
            out.append(json.substr(copied, at - copied));
            out += '"';
            out.append(word);
            out += '"';
            copied = at + word.size();
            at = copied - 1;
            continue;
        }
        if (c != '-' && (c < '0' || c > '9')) continue;
        std::size_t end = at;
        while (end < json.size() && in_number(json[end])) ++end;
        const auto token = json.substr(at, end - at);
        if (may_overflow(token)) {
            out.append(json.substr(copied, at - copied));
            out += '"';
            out.append(token);
            out += '"';
            copied = end;
        }
        at = end - 1;
    }
    if (copied == 0) return {};
    out.append(json.substr(copied));
    return out;
}

std::string_view looks_like(std::string_view body) {
    const auto at = body.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
    if (at == std::string_view::npos) return "an empty body";
    if (body[at] == '<') return "an HTML or XML page";
    if (body[at] == '{' || body[at] == '[') return "truncated or broken JSON";
    return "plain text";
}

bool is_of(FieldKind kind, const nlohmann::json& value) {
    switch (kind) {
        case FieldKind::number:
            return value.is_number();
        case FieldKind::text:
            return value.is_string();
        case FieldKind::boolean:
            return value.is_boolean();
        case FieldKind::list:
            return value.is_array();
        case FieldKind::object:
            return value.is_object();
    }
    return false;
}

/// The value at "a.b", null where a step is missing.
const nlohmann::json* at_path(const nlohmann::json& row, std::string_view path) {
    const auto* at = &row;
    while (!path.empty()) {
        if (!at->is_object()) return nullptr;
        const auto dot = std::min(path.find('.'), path.size());
        const auto it = at->find(path.substr(0, dot));
        if (it == at->end() || it->is_null()) return nullptr;
        at = &*it;
        path.remove_prefix(std::min(dot + 1, path.size()));
    }
    return at;
}

}  // namespace

Result<nlohmann::json> parse_json(std::string_view body) {
    if (too_deep(body))
        return fail(ErrorKind::malformed, fmt::format("expected JSON, got one nested more than {} deep", kDepthMax));
    const auto tamed = quote_huge_numbers(body);
    const auto text = tamed.empty() ? body : std::string_view(tamed);
    auto json = nlohmann::json::parse(text.begin(), text.end(), nullptr, false);
    if (json.is_discarded())
        return fail(ErrorKind::malformed, fmt::format("expected JSON, got {}", looks_like(body)));
    return json;
}

NumberText number_text(const nlohmann::json& value) {
    if (value.is_string()) return value.get<std::string>();
    // dump() writes the shortest text that reads back as the same double, so 0.69 stays "0.69".
    if (value.is_number()) return value.dump();
    return std::nullopt;
}

const nlohmann::json* FieldReader::value(std::string_view key) const {
    if (!object_.is_object()) return nullptr;
    const auto it = object_.find(key);
    return it == object_.end() || it->is_null() ? nullptr : &*it;
}

void FieldReader::wrong(std::string_view key, std::string_view expected, const nlohmann::json& found) {
    if (!problem_)
        problem_ = fmt::format("{}.{}: expected {}, found {}", path_, key, expected, found.type_name());
}

std::optional<std::string> FieldReader::text(std::string_view key) {
    const auto* v = value(key);
    if (v == nullptr) return std::nullopt;
    if (v->is_string()) return v->get<std::string>();
    wrong(key, "a text", *v);
    return std::nullopt;
}

NumberText FieldReader::number(std::string_view key) {
    const auto* v = value(key);
    if (v == nullptr) return std::nullopt;
    auto text = number_text(*v);
    if (!text) wrong(key, "a number", *v);
    return text;
}

std::optional<double> FieldReader::quantity(std::string_view key) {
    const auto text = number(key);
    if (!text || text->empty()) return std::nullopt;
    char* end = nullptr;
    const double d = std::strtod(text->c_str(), &end);
    if (end != text->c_str() + text->size() || !std::isfinite(d)) return std::nullopt;
    return d;
}

std::optional<std::int64_t> FieldReader::whole(std::string_view key) {
    const auto d = quantity(key);
    if (!d) return std::nullopt;
    // 2^53: beyond it a double no longer holds every whole number, and no id or count of a provider is there.
    if (std::floor(*d) != *d || std::fabs(*d) > 9007199254740992.0) {
        wrong(key, "a whole number", *value(key));
        return std::nullopt;
    }
    return static_cast<std::int64_t>(*d);
}

std::optional<bool> FieldReader::boolean(std::string_view key) {
    const auto* v = value(key);
    if (v == nullptr) return std::nullopt;
    if (v->is_boolean()) return v->get<bool>();
    wrong(key, "true or false", *v);
    return std::nullopt;
}

Shapes count_shapes(const nlohmann::json& rows, std::span<const FieldRule> rules) {
    Shapes out;
    for (const auto& rule : rules) out.fields.push_back({.rule = rule, .found = {}});
    for (const auto& item : rows.items()) {
        ++out.rows;
        for (auto& field : out.fields) {
            const auto* value = at_path(item.value(), field.rule.path);
            if (value == nullptr) {
                ++field.missing;
            } else if (is_of(field.rule.kind, *value)) {
                ++field.right;
            } else {
                ++field.wrong;
                if (field.found.empty()) field.found = value->type_name();
            }
        }
    }
    return out;
}

}  // namespace gf
