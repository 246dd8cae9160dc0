#include "model/secret_forms.hpp"

#include <algorithm>
#include <cstdint>

namespace gf {
namespace {

constexpr std::size_t kBase64Min = 8;  // fewer characters stand in ordinary texts

bool unreserved(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_' ||
           c == '~';
}

/// `space` is how a blank is written: "%20" in URLs, "+" in forms.
std::string percent_encoded(std::string_view text, std::string_view digits, std::string_view space) {
    std::string out;
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (unreserved(c)) {
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

/// As it stands between quotes. `control` begins the two or four digits of a control character: "\\x" or "\\u00".
std::string escaped(std::string_view text, std::string_view control, bool slash) {
    static constexpr std::string_view digits = "0123456789abcdef";
    std::string out;
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\' || (slash && c == '/')) {
            out += '\\';
            out += c;
        } else if (c == '\n') {
            out += "\\n";
        } else if (c == '\t') {
            out += "\\t";
        } else if (c == '\r' && control != "\\x") {
            out += "\\r";
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
        for (const std::string_view space : {"%20", "+"}) forms.push_back(percent_encoded(plain, digits, space));
    forms.push_back(escaped(plain, "\\x", false));
    for (const bool slash : {false, true}) forms.push_back(escaped(plain, "\\u00", slash));
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
