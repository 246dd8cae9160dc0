#include "cli/cost_text.hpp"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "cli/command.hpp"
#include "cli/json_read.hpp"
#include "cli/listing.hpp"

namespace gf::cli {

std::string cost_text(const nlohmann::json& cost, const Style& style) {
    static const std::vector<Column> columns{
        {"MACHINE", {"machine"}},
        {"JOB", {"job"}},
        {"PROJECT", {"project"}},
        {"PROVIDER", {"provider"}},
        {"GROUP", {"group", "key"}},
        {"KIND", {"kind", "line", "name"}},
        {"GPU", {"gpu"}},
        {"FROM", {"from"}},
        {"TO", {"until", "to"}},
        {"HOURS", {"hours"}, Shape::number},
        {"$/H", {"rate"}, Shape::dollars},
        {"GPU $/H", {"gpu_rate"}, Shape::dollars},
        {"DISK $/H", {"disk_rate"}, Shape::dollars},
        {"COST", {"amount", "cost", "total"}, Shape::dollars, true},
    };
    std::string out;
    if (const auto& lines = list_at(cost, "lines"); !lines.empty())
        out = table_of(lines, columns, wall_clock_ms()).print(style);
    const bool at_least = true_at(cost, "at_least");
    const auto total = fmt::format("total {}{}", at_least ? "at least " : "", dollars_at(cost, "total"));
    out += style.paint(Colour::strong, total) + "\n";
    if (at_least)
        out += "at least: the rate of a machine was not known for a part of the time, or it is not known "
               "whether one was rented\n";
    return out;
}

}  // namespace gf::cli
