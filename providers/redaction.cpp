#include "providers/redaction.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>
#include <vector>

#include "model/secret_forms.hpp"

namespace gf {
namespace {

constexpr std::string_view kMask = "***";
// A secret shorter than this is not searched for: masking every "1" of a text would only hide the text.
constexpr std::size_t kSecretMin = 4;

char lower(char c) {
    return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
}

std::size_t find_folded(std::string_view text, std::string_view word, std::size_t from) {
    const auto it =
        std::search(text.begin() + static_cast<std::ptrdiff_t>(std::min(from, text.size())), text.end(),
                    word.begin(), word.end(), [](char a, char b) { return lower(a) == b; });
    return it == text.end() ? std::string::npos : static_cast<std::size_t>(it - text.begin());
}

bool ends_value(char c) {
    return std::isspace(static_cast<unsigned char>(c)) != 0 || c == '&' || c == '"' || c == '\'' ||
           c == '<' || c == '>' || c == ',' || c == ';' || c == ')' || c == '}' || c == ']';
}

/// Masks what follows `word`, whatever mixture of `=`, `:`, quotes and blanks stands between. Where only a
/// blank does
/// ("missing bearer token"), the next word is masked only if it looks like a credential.
void mask_after(std::string& text, std::string_view word) {
    for (auto at = find_folded(text, word, 0); at != std::string::npos;
         at = find_folded(text, word, at + 1)) {
        auto from = at + word.size();
        bool separated = false;
        bool assigned = false;
        for (; from < text.size(); ++from) {
            const char c = text[from];
            if (c != '=' && c != ':' && c != '"' && c != '\'' && c != ' ' && c != '\\') break;
            separated = true;
            assigned = assigned || c == '=' || c == ':';
        }
        if (!separated) continue;
        auto to = from;
        while (to < text.size() && !ends_value(text[to])) ++to;
        const auto value = std::string_view(text).substr(from, to - from);
        const bool credential =
            value.size() >= 20 || (value.size() >= 8 && value.find_first_of("0123456789") != value.npos);
        if (!value.empty() && (assigned || credential)) text.replace(from, to - from, kMask);
    }
}

void mask_queries(std::string& text) {
    for (auto at = text.find("://"); at != std::string::npos; at = text.find("://", at + 3)) {
        auto end = at;
        auto query = std::string::npos;
        while (end < text.size() && std::isspace(static_cast<unsigned char>(text[end])) == 0 &&
               text[end] != '"' && text[end] != '<' && text[end] != '\'') {
            if (text[end] == '?' && query == std::string::npos) query = end;
            ++end;
        }
        if (query != std::string::npos && query + 1 < end) text.replace(query + 1, end - query - 1, kMask);
    }
}

/// Length of the well-formed UTF-8 sequence at `at`; 0 if it is broken.
std::size_t sequence_length(std::string_view text, std::size_t at) {
    const auto first = static_cast<unsigned char>(text[at]);
    if (first < 0x80) return 1;
    const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
    if (first < 0xC2 || first > 0xF4 || at + length > text.size()) return 0;
    for (std::size_t i = 1; i < length; ++i)
        if ((static_cast<unsigned char>(text[at + i]) & 0xC0U) != 0x80U) return 0;
    return length;
}

std::string plain(std::string_view text, std::size_t limit) {
    std::string out;
    for (std::size_t at = 0; at < text.size();) {
        const auto length = sequence_length(text, at);
        const bool control = length <= 1 && (static_cast<unsigned char>(text[at]) < 0x20 || text[at] == 0x7F);
        if (length == 0 || control) {
            if (!out.empty() && out.back() != ' ') out += ' ';
            ++at;
        } else {
            if (out.size() + length > limit) return out + "...";
            out.append(text.substr(at, length));
            at += length;
        }
    }
    return out;
}

}  // namespace

std::string shown(std::string_view text, std::span<const Secret> secrets, std::size_t limit) {
    // The bound on what is searched keeps a hostile megabyte cheap; four times the limit leaves room for what
    // masking removes, and a secret that straddles the bound is cut off with it by `plain` below.
    std::string out(text.substr(0, limit * 4 + 4096));
    std::vector<std::string> forms;
    for (const auto& secret : secrets)
        if (secret.reveal().size() >= kSecretMin) std::ranges::move(secret_forms(secret.reveal()), std::back_inserter(forms));
    sort_forms(forms);
    mask_forms(out, forms);
    constexpr std::array<std::string_view, 10> words{
        "api_key",  "apikey", "api-key", "access_token", "instance_api_key",
        "password", "secret", "bearer",  "token",        "jupyter_token"};
    for (const auto word : words) mask_after(out, word);
    mask_queries(out);
    return plain(out, limit);
}

}  // namespace gf
