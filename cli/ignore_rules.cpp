#include "cli/ignore_rules.hpp"

#include <optional>

namespace gf::cli {
namespace {

constexpr int kStepsMax = 200'000;  // of back-tracking per match, against patterns such as a*a*a*a*…

/// Reads "[…]" at the start of `pattern`; whether `c` is in it and how long it is. Nothing = no closing
/// bracket.
struct ClassMatch {
    bool inside{false};
    std::size_t size{0};
};
std::optional<ClassMatch> match_class(std::string_view pattern, char c) {
    std::size_t at = 1;
    bool negated = false;
    if (at < pattern.size() && (pattern[at] == '!' || pattern[at] == '^')) {
        negated = true;
        ++at;
    }
    bool inside = false;
    for (bool first = true; at < pattern.size(); first = false) {
        if (pattern[at] == ']' && !first)
            return ClassMatch{.inside = inside != negated && c != '/', .size = at + 1};
        char low = pattern[at];
        if (low == '\\' && at + 1 < pattern.size()) low = pattern[++at];
        char high = low;
        if (at + 2 < pattern.size() && pattern[at + 1] == '-' && pattern[at + 2] != ']') {
            high = pattern[at + 2];
            at += 2;
        }
        const auto u = [](char x) { return static_cast<unsigned char>(x); };
        if (u(low) <= u(c) && u(c) <= u(high)) inside = true;
        ++at;
    }
    return std::nullopt;
}

bool match(std::string_view pattern, std::string_view text, int& steps) {
    while (true) {
        if (++steps > kStepsMax) return false;
        if (pattern.empty()) return text.empty();
        if (pattern.starts_with("**/")) {
            if (match(pattern.substr(3), text, steps)) return true;
            const auto slash = text.find('/');
            if (slash == std::string_view::npos) return false;
            text.remove_prefix(slash + 1);
            continue;
        }
        if (pattern == "**") return true;
        if (pattern.front() == '*') {
            while (pattern.starts_with('*')) pattern.remove_prefix(1);
            while (true) {
                if (match(pattern, text, steps)) return true;
                if (text.empty() || text.front() == '/' || steps > kStepsMax) return false;
                text.remove_prefix(1);
            }
        }
        if (text.empty()) return false;
        std::size_t used = 1;
        bool same = false;
        if (pattern.front() == '?') {
            same = text.front() != '/';
        } else if (const auto in_class =
                       pattern.front() == '[' ? match_class(pattern, text.front()) : std::nullopt) {
            same = in_class->inside;
            used = in_class->size;
        } else if (pattern.front() == '\\' && pattern.size() > 1) {
            same = pattern[1] == text.front();
            used = 2;
        } else {
            same = pattern.front() == text.front();
        }
        if (!same) return false;
        pattern.remove_prefix(used);
        text.remove_prefix(1);
    }
}

}  // namespace

bool matches_pattern(std::string_view pattern, std::string_view text) {
    int steps = 0;
    return match(pattern, text, steps);
}

void IgnoreRules::add(std::string_view folder, std::string_view text) {
    while (!text.empty()) {
        const auto end = text.find('\n');
        auto line = text.substr(0, end);
        text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
        if (line.ends_with('\r')) line.remove_suffix(1);
        // Blanks at the end do not count unless the last one is written "\ ".
        while (line.ends_with(' ') && !(line.size() > 1 && line[line.size() - 2] == '\\'))
            line.remove_suffix(1);
        if (line.empty() || line.front() == '#') continue;
        Rule rule;
        if (!folder.empty()) rule.folder = std::string(folder) + "/";
        if (line.front() == '!') {
            rule.negated = true;
            line.remove_prefix(1);
        }
        if (line.ends_with('/')) {
            rule.directory_only = true;
            line.remove_suffix(1);
        }
        rule.anchored = line.find('/') != std::string_view::npos;
        if (line.starts_with('/')) line.remove_prefix(1);
        if (line.empty()) continue;
        rule.pattern = std::string(line);
        rules_.push_back(std::move(rule));
    }
}

bool IgnoreRules::ignored(std::string_view path, bool is_directory) const {
    for (auto rule = rules_.rbegin(); rule != rules_.rend(); ++rule) {
        if (rule->directory_only && !is_directory) continue;
        if (!path.starts_with(rule->folder)) continue;
        auto below = path.substr(rule->folder.size());
        if (!rule->anchored)
            if (const auto slash = below.rfind('/'); slash != std::string_view::npos)
                below.remove_prefix(slash + 1);
        if (matches_pattern(rule->pattern, below)) return !rule->negated;
    }
    return false;
}

}  // namespace gf::cli
