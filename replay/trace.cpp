#include "replay/trace.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <utility>

#include "scheduler/csv.hpp"

namespace gf::replay {
namespace {

/// More ticks than ten years of minutes are a mistake in --tick.
constexpr std::int64_t kTicksMax = 6'000'000;

std::unexpected<Error> malformed(int line, std::string what) {
    return fail(Error{.kind = ErrorKind::malformed,
                      .message = "line " + std::to_string(line) + ": " + std::move(what),
                      .line = line});
}

std::optional<std::int64_t> whole(std::string_view text) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return value;
}

std::string no_price(std::string_view field, const std::string& text) {
    return std::string(field) + " \"" + text + "\" is no number of dollars (0 or more)";
}

void fill_prices(Trace& trace, const TraceOptions& options) {
    trace.spot.assign(trace.zones.size(), std::vector<UsdPerHour>(trace.length(), options.spot));
    trace.on_demand.assign(trace.zones.size(), options.on_demand);
}

Result<void> read_constants(Trace& trace, const CsvTable& table) {
    const std::size_t zone = table.column("zone");
    const std::size_t spot = table.column("spot_usd_per_h");
    const std::size_t on_demand = table.column("ondemand_usd_per_h");
    std::vector<bool> seen(trace.zones.size());
    for (const auto& row : table.rows) {
        const auto found = std::find(trace.zones.begin(), trace.zones.end(), row.fields[zone]);
        if (found == trace.zones.end()) continue;
        const auto at = static_cast<std::size_t>(found - trace.zones.begin());
        const auto low = parse_decimal_micros(row.fields[spot]);
        const auto high = parse_decimal_micros(row.fields[on_demand]);
        if (!low) return malformed(row.line, no_price("spot_usd_per_h", row.fields[spot]));
        if (!high) return malformed(row.line, no_price("ondemand_usd_per_h", row.fields[on_demand]));
        if (seen[at]) return malformed(row.line, "a second row for the zone " + row.fields[zone]);
        std::fill(trace.spot[at].begin(), trace.spot[at].end(), UsdPerHour{*low});
        trace.on_demand[at] = UsdPerHour{*high};
        seen[at] = true;
    }
    for (std::size_t z = 0; z < seen.size(); ++z) {
        if (!seen[z]) return fail(ErrorKind::invalid, "no price for the zone " + trace.zones[z]);
    }
    return {};
}

Result<void> read_changes(Trace& trace, const CsvTable& table) {
    const std::size_t zone = table.column("zone");
    const std::size_t tick = table.column("tick");
    const std::size_t price = table.column("spot_usd_per_h");
    std::vector<std::map<std::int64_t, UsdPerHour>> changes(trace.zones.size());
    for (const auto& row : table.rows) {
        const auto found = std::find(trace.zones.begin(), trace.zones.end(), row.fields[zone]);
        if (found == trace.zones.end()) continue;
        const auto label = whole(row.fields[tick]);
        const auto rate = parse_decimal_micros(row.fields[price]);
        if (!label) return malformed(row.line, "tick \"" + row.fields[tick] + "\" is not a whole number");
        if (!rate) return malformed(row.line, no_price("spot_usd_per_h", row.fields[price]));
        changes[static_cast<std::size_t>(found - trace.zones.begin())][*label] = UsdPerHour{*rate};
    }
    for (std::size_t z = 0; z < changes.size(); ++z) {
        if (changes[z].empty()) return fail(ErrorKind::invalid, "no price for the zone " + trace.zones[z]);
        auto next = changes[z].begin();
        UsdPerHour now =
            next->second;  // before its first change point a price is taken to have been that one
        for (std::size_t at = 0; at < trace.length(); ++at) {
            const std::int64_t label = trace.first_label + static_cast<std::int64_t>(at);
            for (; next != changes[z].end() && next->first <= label; ++next) now = next->second;
            trace.spot[z][at] = now;
        }
    }
    return {};
}

}  // namespace

Result<Trace> read_trace(std::string_view csv, const TraceOptions& options) {
    if (options.tick <= Millis{0}) return fail(ErrorKind::invalid, "the tick must be longer than nothing");
    auto table = parse_csv(csv);
    if (!table) return fail(std::move(table).error());
    if (table->rows.empty() || table->columns.size() < 2)
        return fail(ErrorKind::invalid, "no rows of availability");
    Trace trace{.zones = {}, .tick = options.tick, .up = {}, .spot = {}, .on_demand = {}};
    std::vector<std::size_t> columns;
    if (options.zones.empty()) {
        for (std::size_t c = 1; c < table->columns.size(); ++c) columns.push_back(c);
    }
    for (const auto& zone : options.zones) {
        columns.push_back(table->column(zone));
        if (columns.back() == 0 || columns.back() >= table->columns.size()) {
            return fail(ErrorKind::invalid, "there is no zone \"" + zone + "\" in the header");
        }
    }
    for (auto c = columns.begin(); c != columns.end(); ++c) {
        const auto same = [&](std::size_t other) { return table->columns[other] == table->columns[*c]; };
        if (table->columns[*c].empty())
            return fail(ErrorKind::malformed, "a zone without a name in the header");
        if (std::find_if(columns.begin(), c, same) != c)
            return fail(ErrorKind::malformed, "the zone \"" + table->columns[*c] + "\" comes twice");
    }
    trace.first_label = whole(table->rows.front().fields.front()).value_or(0);
    for (const std::size_t c : columns) {
        trace.zones.push_back(table->columns[c]);
        auto& series = trace.up.emplace_back();
        series.reserve(table->rows.size());
        for (const auto& row : table->rows) {
            const auto count = whole(row.fields[c]);
            if (!count || *count < 0)
                return malformed(row.line, "zone " + table->columns[c] + ": \"" + row.fields[c] +
                                               "\" is neither 0, 1 nor a count");
            series.push_back(*count >= options.at_least ? 1 : 0);
        }
    }
    fill_prices(trace, options);
    return trace;
}

Result<void> read_prices(Trace& trace, std::string_view csv) {
    auto table = parse_csv(csv);
    if (!table) return fail(std::move(table).error());
    const auto has = [&](std::string_view name) { return table->column(name) < table->columns.size(); };
    if (has("zone") && has("spot_usd_per_h") && has("ondemand_usd_per_h"))
        return read_constants(trace, *table);
    if (has("zone") && has("spot_usd_per_h") && has("tick")) return read_changes(trace, *table);
    return fail(ErrorKind::malformed,
                "prices need the columns zone, spot_usd_per_h and either tick or ondemand_usd_per_h");
}

Result<Trace> read_history(std::string_view csv, const TraceOptions& options) {
    if (options.tick <= Millis{0}) return fail(ErrorKind::invalid, "the tick must be longer than nothing");
    auto table = parse_csv(csv);
    if (!table) return fail(std::move(table).error());
    std::size_t columns[4] = {table->column("time"), table->column("key"), table->column("usd_per_h"),
                              table->column("up")};
    for (const std::size_t c : columns) {
        if (c >= table->columns.size())
            return fail(ErrorKind::malformed, "a history needs the columns time, key, usd_per_h and up");
    }
    struct Seen {
        UsdPerHour rate;
        bool up{false};
    };
    std::map<std::string, std::map<Instant, Seen>> keys;
    Instant first = Instant::max();
    Instant last = Instant::min();
    for (const auto& row : table->rows) {
        const auto time = parse_rfc3339(row.fields[columns[0]]);
        const auto rate = parse_decimal_micros(row.fields[columns[2]]);
        const auto up = whole(row.fields[columns[3]]);
        const auto field = [&](std::size_t n) { return '"' + row.fields[columns[n]] + '"'; };
        if (!time) return malformed(row.line, "time " + field(0) + " is not like 2026-01-31T12:00:00Z");
        if (!rate) return malformed(row.line, no_price("usd_per_h", row.fields[columns[2]]));
        if (!up || *up < 0) return malformed(row.line, "up " + field(3) + " is neither 0 nor 1");
        first = std::min(first, *time);
        last = std::max(last, *time);
        const auto& key = row.fields[columns[1]];
        if (!options.zones.empty() &&
            std::find(options.zones.begin(), options.zones.end(), key) == options.zones.end())
            continue;
        keys[key][*time] = Seen{.rate = UsdPerHour{*rate}, .up = *up >= options.at_least};
    }
    if (keys.empty()) return fail(ErrorKind::invalid, "no rows of the asked keys");
    const std::int64_t ticks = (last - first) / options.tick + 1;
    if (ticks > kTicksMax)
        return fail(ErrorKind::invalid,
                    "more than " + std::to_string(kTicksMax) + " ticks: use a longer --tick");
    Trace trace{.zones = {}, .tick = options.tick, .up = {}, .spot = {}, .on_demand = {}};
    for (const auto& [key, rows] : keys) {
        trace.zones.push_back(key);
        trace.on_demand.push_back(options.on_demand);
        auto& up = trace.up.emplace_back();
        auto& rates = trace.spot.emplace_back();
        auto next = rows.begin();
        Seen now{.rate = next->second.rate, .up = false};
        for (std::int64_t at = 0; at < ticks; ++at) {
            for (; next != rows.end() && next->first <= first + at * options.tick; ++next) now = next->second;
            up.push_back(now.up ? 1 : 0);
            rates.push_back(now.rate);
        }
    }
    return trace;
}

}  // namespace gf::replay
