#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "replay/grid.hpp"

namespace gf::replay {
namespace {

double in_hours(Millis span) {
    return static_cast<double>(span.count()) / 3'600'000.0;
}

std::string percent(const std::optional<double>& value) {
    return value ? fmt::format("{:.2f} %", *value * 100) : std::string("-");
}

std::string mean_dollars(const PolicyResult& result) {
    std::int64_t sum = 0;
    for (const auto& c : result.costs) {
        if (!c) return "-";
        sum += c->micros;
    }
    return result.costs.empty() ? "-"
                                : fmt::format("{:.2f}", static_cast<double>(sum) / 1e6 /
                                                            static_cast<double>(result.costs.size()));
}

}  // namespace

std::string as_table(const std::vector<Cell>& cells) {
    std::string text;
    for (const auto& cell : cells) {
        text += fmt::format("work {}  deadline {}  changeover {}{}{}\n", duration_text(cell.setting.work),
                            duration_text(cell.setting.deadline), duration_text(cell.setting.changeover),
                            cell.ratio > 0 ? fmt::format("  on-demand/spot {:.2f}", cell.ratio) : "",
                            cell.feasible ? "" : "  (on-demand alone would be late)");
        text += fmt::format("  {:<24}{:>12}{:>14}{:>14}{:>12}{:>8}{:>10}{:>10}\n", "policy", "mean $",
                            "of on-demand", "over optimum", "gap closed", "missed", "taken", "moves");
        for (const auto& result : cell.results) {
            const bool oracle = result.runs.empty();
            const auto runs = static_cast<double>(result.costs.empty() ? 1 : result.costs.size());
            text += fmt::format("  {:<24}{:>12}{:>14.4f}{:>14}{:>12}{:>8}{:>10}{:>10}\n", result.policy,
                                mean_dollars(result), result.over_on_demand, percent(result.over_optimum),
                                percent(result.gap_closed), oracle ? "-" : fmt::format("{}", result.missed),
                                oracle ? "-" : fmt::format("{:.1f}", result.interruptions / runs),
                                oracle ? "-" : fmt::format("{:.1f}", result.moves / runs));
        }
    }
    return text;
}

std::string as_json(const std::vector<Cell>& cells, bool runs) {
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    const auto number = [](const std::optional<double>& v) {
        return v ? nlohmann::ordered_json(*v) : nlohmann::ordered_json(nullptr);
    };
    for (const auto& cell : cells) {
        nlohmann::ordered_json one;
        one["work_h"] = in_hours(cell.setting.work);
        one["deadline_h"] = in_hours(cell.setting.deadline);
        one["changeover_h"] = in_hours(cell.setting.changeover);
        one["price_ratio"] =
            cell.ratio > 0 ? nlohmann::ordered_json(cell.ratio) : nlohmann::ordered_json(nullptr);
        one["feasible"] = cell.feasible;
        one["policies"] = nlohmann::ordered_json::array();
        for (const auto& result : cell.results) {
            nlohmann::ordered_json row;
            row["policy"] = result.policy;
            row["runs"] = result.costs.size();
            std::int64_t sum = 0;
            for (const auto& c : result.costs) sum += c ? c->micros : 0;
            row["total_cost"] = dollars(Usd{sum});
            row["of_on_demand"] = result.over_on_demand;
            row["over_optimum"] = number(result.over_optimum);
            row["over_optimum_mean"] = number(result.over_optimum_mean);
            row["gap_closed"] = number(result.gap_closed);
            if (!result.runs.empty()) {
                row["missed"] = result.missed;
                row["interruptions"] = result.interruptions;
                row["moves"] = result.moves;
                row["starts"] = result.starts;
            }
            if (runs) {
                row["costs"] = nlohmann::ordered_json::array();
                for (const auto& c : result.costs)
                    row["costs"].push_back(c ? nlohmann::ordered_json(dollars(*c))
                                             : nlohmann::ordered_json(nullptr));
            }
            one["policies"].push_back(std::move(row));
        }
        all.push_back(std::move(one));
    }
    return all.dump(2) + "\n";
}

}  // namespace gf::replay
