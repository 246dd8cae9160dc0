// `code:` in a spec's text: where it is and putting the blob's hash in its place. Every other byte stays,
// comments included, so that what is stored is what the user wrote.
#include <algorithm>
#include <optional>

#include "config/job_spec_parser.hpp"
#include "config/node.hpp"
#include "config/quoted.hpp"
#include "config/utf8.hpp"

namespace gf {
namespace {

Result<Node> read_spec(std::string_view text, SpecFormat format) {
    if (text.size() > kSpecBytesMax)
        return fail(ErrorKind::malformed,
                    "the spec is larger than 1 MiB (" + std::to_string(kSpecBytesMax) + " bytes)");
    return format == SpecFormat::json ? read_json(text) : read_yaml(text);
}

std::unexpected<Error> invalid(const Place& place, std::string message) {
    return fail(Error{.kind = ErrorKind::invalid,
                      .message = std::move(message),
                      .field = "code",
                      .line = place.line,
                      .column = place.column});
}

/// End of the scalar that starts at `at`: past the closing quote, or before what ends a plain scalar on its
/// line.
std::size_t scalar_end(std::string_view s, std::size_t at) {
    const char quote = at < s.size() ? s[at] : '\0';
    if (quote == '"' || quote == '\'') return quoted_end(s, at).value_or(s.size());
    std::size_t end = at;
    while (end < s.size() && s[end] != '\n' && s[end] != '\r' && s[end] != ',' && s[end] != '}' &&
           !(s[end] == '#' && end > at && (s[end - 1] == ' ' || s[end - 1] == '\t')))
        ++end;
    while (end > at && (s[end - 1] == ' ' || s[end - 1] == '\t')) --end;
    return end;
}

bool same_except_code(const Node& a, const Node& b, bool top = true) {
    if (a.kind != b.kind || a.keys.size() != b.keys.size() || a.items.size() != b.items.size()) return false;
    if (a.text != b.text || a.quoted != b.quoted) return false;
    for (std::size_t i = 0; i < a.items.size(); ++i) {
        if (!a.keys.empty() && a.keys[i].text != b.keys[i].text) return false;
        const bool is_code = top && !a.keys.empty() && a.keys[i].text == "code";
        if (!is_code && !same_except_code(a.items[i], b.items[i], false)) return false;
    }
    return true;
}

}  // namespace

Result<std::string> code_of_spec(std::string_view text, SpecFormat format) {
    const auto root = read_spec(text, format);
    if (!root) return fail(root.error());
    const Node* code = root->find("code");
    if (code == nullptr) return std::string();
    if (code->kind != Node::Kind::scalar || code->text.empty())
        return invalid(code->place, "code must be a path");
    return code->text;
}

Result<std::string> spec_with_code(std::string_view text, SpecFormat format, std::string_view sha256_hex) {
    const auto root = read_spec(text, format);
    if (!root) return fail(root.error());
    const Node* code = root->find("code");
    if (code == nullptr) return invalid({}, "the spec has no code");
    const std::size_t from = code->place.offset, to = scalar_end(text, from);
    const std::string value = "sha256:" + std::string(sha256_hex);
    std::string out(text.substr(0, from));
    out += '"' + value + '"';
    out += text.substr(std::min(to, text.size()));
    // The result is read again instead of trusted: a block scalar or a scalar over several lines would leave
    // its rest behind.
    const auto again = read_spec(out, format);
    const Node* replaced = again ? again->find("code") : nullptr;
    if (replaced == nullptr || replaced->text != value || !same_except_code(*root, *again))
        return invalid(code->place, "code must be written as one word or one quoted text on one line");
    return out;
}

}  // namespace gf
