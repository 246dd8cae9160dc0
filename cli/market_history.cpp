#include "cli/market_history.hpp"

#include <fmt/core.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <ranges>
#include <set>
#include <tuple>

#include "cli/exit_code.hpp"
#include "cli/json_read.hpp"
#include "cli/market_trace.hpp"
#include "model/money.hpp"
#include "model/time.hpp"

namespace gf::cli {
namespace {

using nlohmann::json;

/// "7d" is so long ago; everything else is the daemon's to read.
std::string moment(const Context& context, const std::string& typed) {
    const auto ago = parse_duration(typed);
    return ago ? rfc3339(instant_of(now_ms(context)) - *ago) : typed;
}

Query query_of(const Context& context, const HistoryOptions& options, const std::string& tick) {
    const bool spot = options.spot || (!options.out.empty() && !options.on_demand);
    return {{"gpu", options.gpu},
            {"gpus", options.gpus > 0 ? std::to_string(options.gpus) : ""},
            {"provider", options.provider},
            {"spot", spot                ? "1"
                     : options.on_demand ? "0"
                                         : ""},
            {"from", moment(context, options.from)},
            {"to", moment(context, options.to)},
            {"tick", tick}};
}

Outcome<json> ask(Context& context, const Query& query) {
    return context.client.send_json(Call{.path = path_of({"v1", "offers", "history"}, query),
                                         .total = std::chrono::milliseconds{120'000}});
}

std::string percent(const json& item, std::string_view key) {
    const auto& share = member(item, key);
    return share.is_number() ? fmt::format("{:.1f}%", share.get<double>() * 100) : "-";
}

std::string rate(const json& item, std::string_view key) {
    const auto text = text_of(item, key);
    return text.empty() ? "-" : "$" + text;
}

std::string per_day(const json& item, const json& answer) {
    const auto from = parse_rfc3339(text_of(answer, "from"));
    const auto to = parse_rfc3339(text_of(answer, "to"));
    const auto& known = member(item, "known_share");
    const auto changes = whole_of(item, "changes");
    if (!from || !to || !known.is_number() || !changes) return "-";
    const double days = known.get<double>() * static_cast<double>((*to - *from).count()) / 86'400'000;
    return days > 0 ? fmt::format("{:.1f}", static_cast<double>(*changes) / days) : "-";
}

int print_table(Context& context, const json& answer, std::size_t shown_most) {
    std::vector<const json*> rows;
    for (const json& item : list_at(answer, "items")) rows.push_back(&item);
    const auto order = [](const json* item) {
        // What never stood has no price and comes last.
        const auto price = parse_decimal_micros(text_of(*item, "p50"));
        return std::tuple(!price, price.value_or(0), text_of(*item, "zone"));
    };
    std::ranges::sort(rows, {}, order);
    Table table({"PROVIDER", "PLACE", "GPU", ">N", "SPOT", ">KNOWN", ">UP", ">P10 $/H", ">P50 $/H",
                 ">P90 $/H", ">CHANGES/DAY"});
    for (const json* item : rows | std::views::take(shown_most)) {
        const auto& share = member(*item, "gpu_share");
        const bool slice = share.is_number() && share.get<double>() < 1;
        table.add({{text_of(*item, "provider")},
                   {text_of(*item, "place")},
                   {text_of(*item, "gpu") + (slice ? fmt::format(" ({} of one)", share.get<double>()) : "")},
                   {text_of(*item, "gpus")},
                   {true_at(*item, "spot") ? "yes" : ""},
                   {percent(*item, "known_share")},
                   {percent(*item, "up_share")},
                   {rate(*item, "p10")},
                   {rate(*item, "p50")},
                   {rate(*item, "p90")},
                   {per_day(*item, answer)}});
    }
    if (table.empty())
        context.env.err
            << "nothing was recorded of that yet; the daemon looks at each market every few minutes\n";
    else
        context.env.out << table.print(context.style);
    if (rows.size() > shown_most)
        fmt::print(context.env.err, "and {} more (--limit)\n", rows.size() - shown_most);
    return kExitOk;
}

template <class Write>
Outcome<void> write_file(const std::filesystem::path& path, Write write) {
    std::ofstream out(path, std::ios::binary);
    if (out) write(out);
    out.close();
    if (!out)
        return std::unexpected(Failure{.exit_code = kExitRefused, .text = "cannot write " + path.string()});
    return {};
}

/// The lowest middle price on demand of the one card and count that the zones are of; empty where they are of
/// several.
std::string on_demand_price(Context& context, HistoryOptions options, const json& answer) {
    std::set<std::pair<std::string, std::string>> kinds;
    for (const json& item : list_at(answer, "items"))
        kinds.emplace(text_of(item, "gpu"), text_of(item, "gpus"));
    if (kinds.size() != 1) return {};
    options.gpu = kinds.begin()->first;
    options.gpus = static_cast<int>(whole_of(list_at(answer, "items").front(), "gpus").value_or(0));
    options.spot = false;
    options.on_demand = true;
    const auto other = ask(context, query_of(context, options, ""));
    if (!other) return {};
    std::optional<std::int64_t> least;
    for (const json& item : list_at(*other, "items"))
        if (const auto price = parse_decimal_micros(text_of(item, "p50"));
            price && (!least || *price < *least))
            least = price;
    return least ? dollars(*least) : std::string();
}

int write_traces(Context& context, const HistoryOptions& options, const json& answer,
                 const std::string& tick) {
    const auto trace = trace_zones(answer, options.known_least);
    if (!trace) return report(context, trace.error());
    auto& err = context.env.err;
    if (trace->hardly_known > 0)
        fmt::print(err, "{} zones are left out: less than {:.0f}% of their time is known (--known)\n",
                   trace->hardly_known, options.known_least * 100);
    if (trace->never_up > 0)
        fmt::print(err, "{} zones are left out: they were never to be had\n", trace->never_up);
    if (trace->zones.empty())
        return report(context, Failure{.exit_code = kExitRefused, .text = "no zone is left to be written"});
    const std::filesystem::path folder(options.out);
    std::error_code failed;
    std::filesystem::create_directories(folder, failed);
    if (failed)
        return report(context, Failure{.exit_code = kExitRefused,
                                       .text = "cannot make " + options.out + ": " + failed.message()});
    for (const char* name : {"availability.csv", "prices.csv", "known.csv"})
        if (std::filesystem::exists(folder / name, failed))
            return report(context, Failure{.exit_code = kExitRefused,
                                           .text = (folder / name).string() +
                                                   " is there already; nothing was written"});
    for (const auto& written :
         {write_file(folder / "availability.csv", [&](std::ostream& o) { write_availability(o, *trace); }),
          write_file(folder / "prices.csv", [&](std::ostream& o) { write_prices(o, *trace); }),
          write_file(folder / "known.csv", [&](std::ostream& o) { write_known(o, *trace); })})
        if (!written) return report(context, written.error());
    fmt::print(context.env.out, "{} zones, {} ticks of {} in {}\n", trace->zones.size(), trace->ticks, tick,
               shown(options.out));
    if (trace->carried_share > 0)
        fmt::print(
            err,
            "{:.1f}% of the ticks were not seen: there the zones stay as they were; known.csv says which\n",
            trace->carried_share * 100);
    if (options.on_demand) return kExitOk;
    if (const auto price = on_demand_price(context, options, answer); !price.empty())
        fmt::print(err,
                   "on demand the same is from ${}: gpuferry-replay --availability {} --prices {} --tick {} "
                   "--on-demand {} --work 8h --slack 1.5\n",
                   price, (folder / "availability.csv").string(), (folder / "prices.csv").string(), tick,
                   price);
    return kExitOk;
}

}  // namespace

int offer_history(Context& context, const HistoryOptions& options) {
    const std::string tick = options.out.empty() || !options.tick.empty() ? options.tick : "5m";
    const auto answer = ask(context, query_of(context, options, tick));
    if (!answer) return report(context, answer.error());
    if (!options.out.empty()) return write_traces(context, options, *answer, tick);
    if (context.json) return print_json(context, *answer);
    return print_table(context, *answer, options.limit);
}

}  // namespace gf::cli
