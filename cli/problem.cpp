#include "cli/problem.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/json_read.hpp"

namespace gf::cli {
namespace {

using nlohmann::json;

constexpr std::size_t kLineShownMax = 160;

std::string line_of(std::string_view text, std::int64_t number) {
    for (std::int64_t at = 1; at < number; ++at) {
        const auto end = text.find('\n');
        if (end == std::string_view::npos) return {};
        text.remove_prefix(end + 1);
    }
    auto line = text.substr(0, text.find('\n'));
    if (line.ends_with('\r')) line.remove_suffix(1);
    return std::string(line);
}

/// Columns count characters; nothing when the line has not so many.
std::optional<std::size_t> bytes_before(std::string_view line, std::int64_t column) {
    if (column < 1) return std::nullopt;
    std::size_t at = 0;
    for (std::int64_t seen = 1; seen < column; ++seen) {
        if (at >= line.size()) return std::nullopt;
        do ++at;
        while (at < line.size() && (static_cast<unsigned char>(line[at]) & 0xC0U) == 0x80U);
    }
    return at;
}

/// The line and a mark below the column, as compilers do it.
std::string excerpt(const SpecShown& spec, std::int64_t line, std::int64_t column, const Style& style) {
    if (spec.name.empty() || line < 1) return {};
    const auto source = line_of(spec.text, line);
    if (source.empty() || source.size() > kLineShownMax) return {};
    const auto margin = fmt::format("{:>5} | ", line);
    std::string out = style.paint(Colour::dim, margin) + shown(source) + "\n";
    const auto bytes = bytes_before(source, column);
    if (!bytes) return out;
    const auto before = shown(std::string_view(source).substr(0, *bytes));
    const auto indent = std::string(margin.size() + static_cast<std::size_t>(display_width(before)), ' ');
    return out + indent + style.paint(Colour::bad, "^") + "\n";
}

/// One complaint: `field` at `line:column`, what is wrong, what is allowed.
std::string complaint(const json& entry, const std::string& message, const SpecShown& spec,
                      const Style& style) {
    const auto field = text_of(entry, "field");
    const auto line = whole_of(entry, "line").value_or(0);
    const auto column = whole_of(entry, "column").value_or(0);
    std::string where;
    if (!spec.name.empty() && line > 0) {
        where = fmt::format("{}:{}", spec.name, line);
        if (column > 0) where += fmt::format(":{}", column);
        where += ": ";
    } else if (line > 0) {
        where =
            column > 0 ? fmt::format("line {}, column {}: ", line, column) : fmt::format("line {}: ", line);
    }
    std::string text = shown(where);
    if (!field.empty() && message.find(field) == std::string::npos) text += shown(field) + ": ";
    text += shown(message);
    for (const char* key : {"allowed", "range", "allowed_range"}) {
        const auto allowed = text_of(entry, key);
        if (!allowed.empty() && message.find(allowed) == std::string::npos)
            text += fmt::format(" (allowed: {})", shown(allowed));
    }
    const auto suggestion = text_of(entry, "suggestion");
    if (!suggestion.empty() && message.find(suggestion) == std::string::npos)
        text += fmt::format("; did you mean {}?", shown(suggestion));
    return text + "\n" + excerpt(spec, line, column, style);
}

}  // namespace

std::string failure_text(const Failure& failure, const Style& style, const SpecShown& spec) {
    const std::string head = style.paint(Colour::bad, "error: ");
    if (failure.problem.empty()) return head + shown(failure.text) + "\n";
    const auto problem = json::parse(failure.problem, nullptr, false);
    if (!problem.is_object()) return head + shown(failure.text) + "\n";
    std::string out;
    if (const auto errors = problem.find("errors");
        errors != problem.end() && errors->is_array() && !errors->empty()) {
        for (const auto& entry : *errors) {
            auto message = text_of(entry, "detail");
            if (message.empty()) message = text_of(entry, "message");
            if (message.empty() && entry.is_string()) message = entry.get<std::string>();
            out += head + complaint(entry, message, spec, style);
        }
    } else {
        auto message = problem_detail(failure.problem);
        if (message.empty()) message = failure.text;
        out += head + complaint(problem, message, spec, style);
    }
    if (failure.retry_after_s > 0) out += fmt::format("try again in {} s\n", failure.retry_after_s);
    return out;
}

std::string problem_detail(std::string_view problem_json) {
    const auto problem = json::parse(problem_json, nullptr, false);
    if (!problem.is_object()) return {};
    for (const char* key : {"detail", "message", "title"})
        if (auto text = text_of(problem, key); !text.empty()) return text;
    return {};
}

}  // namespace gf::cli
