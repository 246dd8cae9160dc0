#include "model/secret_forms.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace gf {
namespace {

constexpr std::size_t kBase64Min = 8;  // fewer characters stand in ordinary texts

bool unreserved(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_' ||
           c == '~';
}

/// `space` is how a blank is written: "%20" in URLs, "+" in forms. `left` is left as it is besides.
std::string percent_encoded(std::string_view text, std::string_view digits, std::string_view space, std::string_view left) {
    std::string out;
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (unreserved(c) || left.find(c) != std::string_view::npos) {
            out += c;
        } else if (c == ' ') {
            out += space;
        } else {
            out += '%';
            out += digits[byte >> 4U];
            out += digits[byte & 15U];
        }
    }
    return out;
}

/// The code point of the UTF-8 sequence at `at` and its length; length 0 for ASCII and what is no whole sequence.
std::pair<std::uint32_t, std::size_t> code_point(std::string_view text, std::size_t at) {
    const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(text[i])); };
    const auto first = byte(at);
    const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
    if (first < 0xC2 || first > 0xF4 || at + length > text.size()) return {0, 0};
    std::uint32_t point = first & (0x7FU >> length);
    for (std::size_t i = at + 1; i < at + length; ++i) {
        if ((byte(i) & 0xC0U) != 0x80U) return {0, 0};
        point = point << 6U | (byte(i) & 0x3FU);
    }
    return {point, length};
}

/// How writers of JSON differ.
struct Escapes {
    std::string_view control;  // begins the two or four digits of a control character: "\\x" or "\\u00"
    bool slash{false};         // "\\/"
    bool html{false};          // & < > as \u0026 …, as Go does
    bool ascii{false};         // what is not ASCII as \u00e4, in UTF-16
    std::string_view digits{"0123456789abcdef"};
};

/// As it stands between quotes.
std::string escaped(std::string_view text, const Escapes& how) {
    const auto& [control, slash, html, ascii, digits] = how;
    std::string out;
    const auto unit = [&](std::uint32_t u) {
        out += "\\u";
        for (const unsigned bits : {12U, 8U, 4U, 0U}) out += digits[u >> bits & 15U];
    };
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        const auto byte = static_cast<unsigned char>(c);
        if (const auto [point, length] = ascii ? code_point(text, i) : std::pair<std::uint32_t, std::size_t>{}; length > 0) {
            if (point >= 0x10000) {
                unit(0xD800U + ((point - 0x10000U) >> 10U));
                unit(0xDC00U + ((point - 0x10000U) & 0x3FFU));
            } else {
                unit(point);
            }
            i += length - 1;
            continue;
        }
        if (c == '"' || c == '\\' || (slash && c == '/')) {
            out += '\\';
            out += c;
        } else if (c == '\n') {
            out += "\\n";
        } else if (c == '\t') {
            out += "\\t";
        } else if (c == '\r' && control != "\\x") {
            out += "\\r";
        } else if (html && (c == '&' || c == '<' || c == '>')) {
            unit(byte);
        } else if (byte < 0x20 || c == '\x7f') {
            out += control;
            out += digits[byte >> 4U];
            out += digits[byte & 15U];
        } else {
            out += c;
        }
    }
    return out;
}

std::string hex(std::string_view text, std::string_view digits) {
    std::string out;
    for (const char c : text) {
        out += digits[static_cast<unsigned char>(c) >> 4U];
        out += digits[static_cast<unsigned char>(c) & 15U];
    }
    return out;
}

/// The base64 of a text inside a longer one depends on where it starts, modulo three; these are the parts that are the same
/// whatever stands before and after.
void add_base64(std::string_view text, std::string_view last_two, std::vector<std::string>& forms) {
    const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789" + std::string(last_two);
    for (std::size_t shift = 0; shift < 3; ++shift) {
        const std::string bytes = std::string(shift, '\0') + std::string(text);
        std::string out;
        for (std::size_t i = 0; i + 3 <= bytes.size(); i += 3) {
            const auto at = [&](std::size_t k) { return static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[i + k])); };
            const auto group = at(0) << 16U | at(1) << 8U | at(2);
            for (const unsigned bits : {18U, 12U, 6U, 0U}) out += digits[group >> bits & 63U];
        }
        // What is left over fills some characters whole; the one after them mixes in bits of what comes behind.
        const std::size_t rest = bytes.size() % 3;
        if (rest > 0) {
            const auto first = static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[bytes.size() - rest]));
            out += digits[first >> 2U];
            if (rest == 2) {
                const auto second = static_cast<std::uint32_t>(static_cast<unsigned char>(bytes.back()));
                out += digits[(first << 4U | second >> 4U) & 63U];
            }
        }
        const std::size_t foreign = shift == 0 ? 0 : shift + 1;  // characters that mix in bits of what stands before
        if (out.size() >= foreign + kBase64Min) forms.push_back(out.substr(foreign));
    }
}

}  // namespace

std::vector<std::string> secret_forms(std::string_view plain) {
    std::vector<std::string> forms{std::string(plain)};
    for (const std::string_view digits : {"0123456789ABCDEF", "0123456789abcdef"})
        for (const std::string_view space : {"%20", "+"})
            for (const std::string_view left : {"", "!'()*"})  // the second is JavaScript's encodeURIComponent
                forms.push_back(percent_encoded(plain, digits, space, left));
    forms.push_back(escaped(plain, {.control = "\\x"}));
    for (const std::string_view digits : {"0123456789abcdef", "0123456789ABCDEF"})
        for (const bool slash : {false, true})
            for (const bool html : {false, true})
                for (const bool ascii : {false, true})
                    forms.push_back(escaped(plain, {.control = "\\u00", .slash = slash, .html = html, .ascii = ascii, .digits = digits}));
    for (const std::string_view digits : {"0123456789ABCDEF", "0123456789abcdef"}) forms.push_back(hex(plain, digits));
    add_base64(plain, "+/", forms);
    add_base64(plain, "-_", forms);
    std::vector<std::string> out;
    for (auto& form : forms)
        if (std::ranges::find(out, form) == out.end()) out.push_back(std::move(form));
    return out;
}

void mask_forms(std::string& text, const std::vector<std::string>& forms) {
    constexpr std::string_view mask = "***";
    for (const auto& form : forms) {
        if (form.empty()) continue;
        for (auto at = text.find(form); at != std::string::npos; at = text.find(form, at + mask.size()))
            text.replace(at, form.size(), mask);
    }
}

void sort_forms(std::vector<std::string>& forms) {
    std::ranges::sort(forms, [](const std::string& a, const std::string& b) { return a.size() != b.size() ? a.size() > b.size() : a < b; });
    const auto twice = std::ranges::unique(forms);
    forms.erase(twice.begin(), twice.end());
}

}  // namespace gf
