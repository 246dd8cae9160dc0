#include "cli/market_trace.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>

#include "cli/exit_code.hpp"
#include "cli/json_read.hpp"

namespace gf::cli {
namespace {

using nlohmann::json;

std::unexpected<Failure> odd_answer() {
    return failed(kExitUnexpected, "the daemon's history is not of the shape that this gpuferry knows");
}

std::string zone_name(std::string name) {
    for (char& c : name)
        if (c == ',' || c == '"' || static_cast<unsigned char>(c) <= ' ') c = '_';
    return name;
}

/// The points of one item; false = not of that shape.
bool read_steps(const json& points, std::int64_t ticks, std::vector<TraceZone::Step>& steps) {
    for (const json& point : points) {
        if (!point.is_array() || point.size() != 3 || !point[0].is_number_integer() || !point[1].is_string())
            return false;
        const auto tick = point[0].get<std::int64_t>();
        const auto state = point[1].get<std::string>();
        if (tick < 0 || tick >= ticks || (!steps.empty() && tick <= steps.back().tick)) return false;
        TraceZone::Step step{
            .tick = tick, .up = state == "up", .known = state == "up" || state == "down", .price = {}};
        if (step.up && !point[2].is_string()) return false;
        if (step.up) step.price = point[2].get<std::string>();
        steps.push_back(std::move(step));
    }
    return true;
}

/// Fills the holes; false = it never was up.
bool fill(std::vector<TraceZone::Step>& steps) {
    const auto first_up = std::ranges::find_if(steps, &TraceZone::Step::up);
    if (first_up == steps.end()) return false;
    const auto first_known = std::ranges::find_if(steps, &TraceZone::Step::known);
    bool up = first_known->up;
    std::string price = first_up->price;
    if (steps.front().tick > 0)
        steps.insert(steps.begin(), TraceZone::Step{.tick = 0, .up = up, .known = false, .price = price});
    for (auto& step : steps) {
        if (!step.known) step.up = up;
        if (step.price.empty()) step.price = price;
        up = step.up;
        price = step.price;
    }
    return true;
}

template <class Cell>
void write_rows(std::ostream& out, const TraceZones& trace, Cell cell) {
    out << "tick";
    for (const auto& zone : trace.zones) out << ',' << zone.name;
    out << '\n';
    std::vector<std::size_t> at(trace.zones.size(), 0);
    std::string row;
    for (std::int64_t tick = 0; tick < trace.ticks; ++tick) {
        row = std::to_string(tick);
        for (std::size_t z = 0; z < at.size(); ++z) {
            const auto& steps = trace.zones[z].steps;
            if (at[z] + 1 < steps.size() && steps[at[z] + 1].tick == tick) ++at[z];
            row += cell(steps[at[z]]) ? ",1" : ",0";
        }
        out << row << '\n';
    }
}

}  // namespace

Outcome<TraceZones> trace_zones(const json& answer, double known_least) {
    TraceZones out;
    const auto ticks = whole_of(answer, "ticks");
    if (!ticks || *ticks < 1) return odd_answer();
    out.ticks = *ticks;
    std::int64_t carried = 0;
    for (const json& item : list_at(answer, "items")) {
        TraceZone zone{.name = zone_name(text_of(item, "zone")), .steps = {}};
        if (zone.name.empty() || !read_steps(list_at(item, "points"), out.ticks, zone.steps))
            return odd_answer();
        // By ticks, because that is what is written.
        std::int64_t known = 0;
        for (std::size_t i = 0; i < zone.steps.size(); ++i) {
            const auto end = i + 1 < zone.steps.size() ? zone.steps[i + 1].tick : out.ticks;
            if (zone.steps[i].known) known += end - zone.steps[i].tick;
        }
        if (static_cast<double>(known) < known_least * static_cast<double>(out.ticks) || known == 0) {
            ++out.hardly_known;
        } else if (!fill(zone.steps)) {
            ++out.never_up;
        } else {
            carried += out.ticks - known;
            out.zones.push_back(std::move(zone));
        }
    }
    if (!out.zones.empty())
        out.carried_share = static_cast<double>(carried) / static_cast<double>(out.ticks) /
                            static_cast<double>(out.zones.size());
    return out;
}

void write_availability(std::ostream& out, const TraceZones& trace) {
    write_rows(out, trace, [](const auto& step) { return step.up; });
}

void write_known(std::ostream& out, const TraceZones& trace) {
    write_rows(out, trace, [](const auto& step) { return step.known; });
}

void write_prices(std::ostream& out, const TraceZones& trace) {
    out << "zone,tick,spot_usd_per_h\n";
    for (const auto& zone : trace.zones) {
        std::string last;
        for (const auto& step : zone.steps) {
            if (step.price == last) continue;
            last = step.price;
            out << zone.name << ',' << step.tick << ',' << last << '\n';
        }
    }
}

}  // namespace gf::cli
