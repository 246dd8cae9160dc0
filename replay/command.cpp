#include "replay/command.hpp"

#include <CLI/CLI.hpp>

#include <charconv>
#include <cmath>
#include <fstream>
#include <optional>
#include <ostream>
#include <sstream>
#include <string>
#include <vector>

#include "replay/grid.hpp"
#include "scheduler/csv.hpp"

namespace gf::replay {
namespace {

/// Beyond these lies a slip of the pen.
constexpr std::size_t kStartsMax = 1'000'000;
constexpr double kSlackMost = 1'000;
constexpr double kRatioMost = 1'000'000;

struct Asked {
    std::string availability, history, prices, starts{"20"}, on_demand{"3.06"}, spot{"0.98"}, tick,
        checkpoint_every{"0s"}, egress{"0"};
    std::vector<std::string> zones, work, deadline, changeover{"12m"}, egress_pairs;
    std::vector<std::string> policies{"gpuferry", "uniform_progress", "greedy", "on_demand", "optimum"};
    std::vector<double> slack, ratio;
    double checkpoint_gb{0};
    int at_least{1};
    bool json{false}, runs{false}, each_zone{false}, no_miss{false};
};

Result<std::string> read_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) return fail(ErrorKind::io, "cannot read " + path);
    std::ostringstream text;
    text << file.rdbuf();
    return std::move(text).str();
}

/// "0" is a duration too, where none is meant.
std::optional<Millis> span_of(const std::string& text) {
    return text == "0" ? std::optional(Millis{0}) : parse_duration(text);
}

Result<std::vector<Millis>> spans_of(const std::vector<std::string>& texts, const char* option) {
    std::vector<Millis> spans;
    for (const auto& text : texts) {
        const auto span = span_of(text);
        if (!span)
            return fail(ErrorKind::invalid,
                        std::string(option) + ": \"" + text + "\" is no duration such as 48h or 12m");
        spans.push_back(*span);
    }
    return spans;
}

/// What a file said wrong, with its name before it.
std::unexpected<Error> in_file(const std::string& path, Error error) {
    error.message = path + ": " + error.message;
    return fail(std::move(error));
}

Result<UsdPerHour> rate_of(const std::string& text, const char* option) {
    const auto micros = parse_decimal_micros(text);
    if (!micros)
        return fail(ErrorKind::invalid,
                    std::string(option) + ": \"" + text + "\" is no number of dollars (0 or more)");
    return UsdPerHour{*micros};
}

template <class T>
std::optional<T> number_of(const std::string& text) {
    T value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return value;
}

/// A count of starts, spread evenly over the starts from which the longest window fits, or a file with a
/// column start_tick (as the trace labels its ticks) or start_h (hours from the first tick).
Result<std::vector<std::size_t>> starts_of(const std::string& text, const Trace& trace, Millis window) {
    std::vector<std::size_t> starts;
    if (const auto count = number_of<std::size_t>(text)) {
        if (*count == 0 || *count > kStartsMax)
            return fail(ErrorKind::invalid,
                        "--starts: \"" + text + "\" is not from 1 to " + std::to_string(kStartsMax));
        const auto need = static_cast<std::size_t>((window + trace.tick - Millis{1}) / trace.tick);
        const std::size_t last = trace.length() > need ? trace.length() - need : 0;
        for (std::size_t n = 0; n < *count; ++n) starts.push_back(*count == 1 ? 0 : n * last / (*count - 1));
        return starts;
    }
    auto file = read_file(text);
    if (!file) return fail(std::move(file).error());
    auto table = parse_csv(*file);
    if (!table) return in_file(text, std::move(table).error());
    if (table->rows.empty()) return fail(ErrorKind::malformed, text + ": no rows of starts");
    const auto tick = table->column("start_tick");
    const auto hour = table->column("start_h");
    for (const auto& row : table->rows) {
        std::int64_t at = 0;
        const auto unread = [&](const char* column, const std::string& field) {
            return fail(ErrorKind::malformed, text + ", line " + std::to_string(row.line) + ": " + column +
                                                  " \"" + field + "\" is not a number");
        };
        if (tick < row.fields.size()) {
            const auto label = number_of<std::int64_t>(row.fields[tick]);
            if (!label) return unread("start_tick", row.fields[tick]);
            at = *label - trace.first_label;
        } else if (hour < row.fields.size()) {
            const auto hours = number_of<double>(row.fields[hour]);
            if (!hours || !(std::abs(*hours) < 1e7)) return unread("start_h", row.fields[hour]);
            const double ticks = *hours * 3.6e6 / static_cast<double>(trace.tick.count());
            // The text has six decimals; what they cut off must not become a tick.
            at = static_cast<std::int64_t>(std::ceil(ticks - 1e-4));
        } else {
            return fail(ErrorKind::malformed, text + " has no column start_tick or start_h");
        }
        if (at < 0 || static_cast<std::size_t>(at) >= trace.length()) {
            return fail(ErrorKind::invalid, text + ", line " + std::to_string(row.line) +
                                                ": the start lies outside of the trace");
        }
        starts.push_back(static_cast<std::size_t>(at));
    }
    return starts;
}

Result<Trace> trace_of(const Asked& asked) {
    TraceOptions options{.at_least = asked.at_least, .zones = asked.zones};
    const auto tick = span_of(asked.tick);
    if (!tick || *tick <= Millis{0})
        return fail(ErrorKind::invalid, "--tick: \"" + asked.tick + "\" is no duration such as 600s");
    options.tick = *tick;
    auto spot = rate_of(asked.spot, "--spot");
    auto on_demand = rate_of(asked.on_demand, "--on-demand");
    if (!spot) return fail(std::move(spot).error());
    if (!on_demand) return fail(std::move(on_demand).error());
    options.spot = *spot;
    options.on_demand = *on_demand;
    auto text = read_file(asked.history.empty() ? asked.availability : asked.history);
    if (!text) return fail(std::move(text).error());
    const auto& path = asked.history.empty() ? asked.availability : asked.history;
    auto trace = asked.history.empty() ? read_trace(*text, options) : read_history(*text, options);
    if (!trace) return in_file(path, std::move(trace).error());
    if (asked.prices.empty()) return trace;
    auto prices = read_file(asked.prices);
    if (!prices) return fail(std::move(prices).error());
    if (auto read = read_prices(*trace, *prices); !read)
        return in_file(asked.prices, std::move(read).error());
    return trace;
}

/// What no job can be asked for.
Result<void> check_times(const GridOptions& options) {
    const auto invalid = [](std::string what) { return fail(ErrorKind::invalid, std::move(what)); };
    for (const auto work : options.work) {
        if (work <= Millis{0}) return invalid("--work: a job without work needs no machine");
        for (const auto deadline : options.deadline) {
            if (deadline < work)
                return invalid("--deadline: " + duration_text(deadline) + " is shorter than --work, " +
                               duration_text(work));
        }
    }
    for (const double slack : options.slack) {
        if (!(slack >= 1 && slack <= kSlackMost))
            return invalid("--slack: the deadline over the work is 1 or more, not " + std::to_string(slack));
    }
    for (const double ratio : options.ratio) {
        if (!(ratio > 0 && ratio <= kRatioMost))
            return invalid("--price-ratio: on-demand over spot is above 0, not " + std::to_string(ratio));
    }
    for (const auto& name : options.policies) {
        if (!is_policy(name)) return invalid("--policy: there is no policy \"" + name + "\"");
    }
    return {};
}

Result<GridOptions> grid_of(const Asked& asked, const Trace& trace) {
    GridOptions options{.slack = asked.slack,
                        .ratio = asked.ratio,
                        .checkpoint_gb = asked.checkpoint_gb,
                        .policies = asked.policies,
                        .each_zone = asked.each_zone};
    auto work = spans_of(asked.work, "--work");
    auto deadline = spans_of(asked.deadline, "--deadline");
    auto changeover = spans_of(asked.changeover, "--changeover");
    auto every = spans_of({asked.checkpoint_every}, "--checkpoint-every");
    for (auto* spans : {&work, &deadline, &changeover, &every}) {
        if (!*spans) return fail(std::move(*spans).error());
    }
    options.work = *work;
    options.deadline = *deadline;
    options.changeover = *changeover;
    options.checkpoint_every = every->front();
    for (const auto& pair : asked.egress_pairs) {
        const auto colon = pair.find(':');
        const auto equals = pair.find('=');
        if (colon == std::string::npos || equals == std::string::npos || equals < colon) {
            return fail(ErrorKind::invalid, "--egress-pair: \"" + pair + "\" is not FROM:TO=DOLLARS_PER_GB");
        }
        auto rate = rate_of(pair.substr(equals + 1), "--egress-pair");
        if (!rate) return fail(std::move(rate).error());
        options.egress.push_back({.from = pair.substr(0, colon),
                                  .to = pair.substr(colon + 1, equals - colon - 1),
                                  .per_gb = *rate});
    }
    auto rate = rate_of(asked.egress, "--egress");
    if (!rate) return fail(std::move(rate).error());
    if (rate->micros > 0) options.egress.push_back({.from = "*", .to = "*", .per_gb = *rate});
    if (auto fits = check_times(options); !fits) return fail(std::move(fits).error());
    Millis window{0};
    for (const auto w : options.work) {
        for (const auto d : options.deadline) window = std::max(window, d);
        for (const auto s : options.slack)
            window = std::max(window, Millis{std::llround(static_cast<double>(w.count()) * s)});
    }
    auto starts = starts_of(asked.starts, trace, window);
    if (!starts) return fail(std::move(starts).error());
    options.starts = *starts;
    return options;
}

void declare(CLI::App& app, Asked& asked) {
    auto* input = app.add_option_group("input", "one of the two");
    input->add_option("--availability", asked.availability,
                      "CSV: a label and one column per zone, 0/1 or a count per tick");
    input->add_option("--history", asked.history, "CSV: time,key,usd_per_h,up, a row per change");
    input->require_option(1);
    app.add_option("--tick", asked.tick, "time between rows (or at which a history is sampled)")->required();
    app.add_option("--at-least", asked.at_least, "a count of this many is up")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    app.add_option("--zones", asked.zones, "only these zones")->delimiter(',');
    app.add_flag("--each-zone", asked.each_zone, "every zone is a market by itself");
    app.add_option("--prices", asked.prices,
                   "CSV: zone,tick,spot_usd_per_h or zone,spot_usd_per_h,ondemand_usd_per_h");
    app.add_option("--on-demand", asked.on_demand, "$/h")->capture_default_str();
    app.add_option("--spot", asked.spot, "$/h, where no prices are given")->capture_default_str();
    app.add_option("--price-ratio", asked.ratio, "on-demand over spot; sets all spot prices")->delimiter(',');
    app.add_option("--work", asked.work, "time that the job computes")->delimiter(',')->required();
    auto* until = app.add_option_group("deadline", "one of the two");
    until->add_option("--deadline", asked.deadline, "time until it must be done")->delimiter(',');
    until->add_option("--slack", asked.slack, "deadline over work")->delimiter(',');
    until->require_option(1);
    app.add_option("--changeover", asked.changeover, "from the start of a machine to the first progress")
        ->delimiter(',')
        ->capture_default_str();
    app.add_option("--checkpoint-every", asked.checkpoint_every,
                   "work since the last one is lost with a spot machine")
        ->capture_default_str();
    app.add_option("--checkpoint-gb", asked.checkpoint_gb, "what moves with the job to another region")
        ->check(CLI::Range(0.0, 1e6))
        ->capture_default_str();
    app.add_option("--egress", asked.egress, "$/GB between regions")->capture_default_str();
    app.add_option("--egress-pair", asked.egress_pairs, "FROM:TO=$/GB, before --egress; * is any");
    app.add_option("--policy", asked.policies,
                   "gpuferry, uniform_progress, uniform_progress_loose, greedy, on_demand, optimum")
        ->delimiter(',');
    app.add_option("--starts", asked.starts, "a count, spread evenly, or a CSV with start_tick or start_h")
        ->capture_default_str();
    app.add_flag("--json", asked.json, "JSON instead of a table");
    app.add_flag("--runs", asked.runs, "with --json: the cost of every run");
    app.add_flag("--no-miss", asked.no_miss,
                 "exit 3 if gpuferry missed a deadline that on-demand alone would have made");
}

}  // namespace

int run(int argc, const char* const* argv, std::ostream& out, std::ostream& err) {
    Asked asked;
    CLI::App app(
        "What a price history would have cost: plays the scheduler's spot policy over recorded availability "
        "and prices.",
        "gpuferry-replay");
    declare(app, asked);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        const int status = app.exit(error, out, err);
        return status == 0 ? 0 : 2;
    }
    const auto refuse = [&](const Error& error) {
        err << "gpuferry-replay: " << error.message << "\n";
        return error.kind == ErrorKind::invalid ? 2 : 1;
    };
    const auto trace = trace_of(asked);
    if (!trace) return refuse(trace.error());
    const auto options = grid_of(asked, *trace);
    if (!options) return refuse(options.error());
    const auto cells = play_grid(*trace, *options);
    if (!cells) return refuse(cells.error());
    out << (asked.json ? as_json(*cells, asked.runs) : as_table(*cells));
    for (const auto& cell : *cells) {
        for (const auto& result : cell.results) {
            if (asked.no_miss && result.policy == "gpuferry" && result.missed > 0 && cell.feasible) return 3;
        }
    }
    return 0;
}

}  // namespace gf::replay
