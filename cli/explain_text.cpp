#include "cli/explain_text.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "cli/json_read.hpp"

namespace gf::cli {
namespace {

using nlohmann::json;

constexpr std::size_t kShown = 8;  // of the twenty that a decision keeps; --json has them all

std::string more_line(std::size_t count) {
    return count > kShown ? fmt::format("  … and {} more\n", count - kShown) : "";
}

std::string price_lines(const json& lines) {
    std::string text;
    for (const auto& line : lines)
        text += fmt::format("{}{} {}", text.empty() ? "" : " + ", shown(text_of(line, "name")),
                            dollars_at(line, "rate"));
    return text.empty() ? text : " = " + text;
}

/// The offer lies in a member of its own or is the object itself.
const json& offer_in(const json& ranked) {
    const auto& offer = member(ranked, "offer");
    return offer.is_object() ? offer : ranked;
}

std::string price_of(const json& ranked) {
    return dollars_at(ranked, member(ranked, "all_in").is_null() ? "rate" : "all_in");
}

std::string ranked_line(const json& ranked) {
    const auto host = text_of(ranked, "host");
    return fmt::format("{}/h  {}{}{}", price_of(ranked), shown(offer_line(offer_in(ranked))),
                       price_lines(list_at(ranked, "lines")), host.empty() ? "" : fmt::format("  ({})", shown(host)));
}

std::string hours_text(const json& cost, const char* name) {
    const double hours = static_cast<double>(whole_of(cost, name).value_or(0)) / 3600;
    return hours < 1 ? fmt::format("{:.0f} min", hours * 60) : fmt::format("{:.1f} h", hours);
}

std::string unit_of(const json& cost) {
    const auto unit = text_of(cost, "per_unit_of");
    return unit.empty() ? "V100" : unit;
}

/// What an offer is ranked by: "$4.02 to finish", "$0.20 per V100-hour"; empty = its price per hour.
std::string measure_of(const json& cost) {
    if (!cost.is_object()) return {};
    std::string out;
    if (true_at(cost, "known")) out = dollars_at(cost, "total") + " to finish";
    else if (!text_of(cost, "per_unit").empty()) out = fmt::format("{} per {}-hour", dollars_at(cost, "per_unit"), shown(unit_of(cost)));
    if (true_at(cost, "hopeless")) out += " or far more";
    if (true_at(cost, "cut_off")) out += ", not within limits.duration";
    return out;
}

/// What the work on the chosen offer is expected to cost, line by line, and where each figure comes from.
std::string finish_text(const json& cost) {
    if (!cost.is_object()) return {};
    std::string out;
    if (true_at(cost, "known")) {
        out += fmt::format("expected   {} to finish: {} of work, {} of machines\n", dollars_at(cost, "total"),
                           hours_text(cost, "run_seconds"), hours_text(cost, "held_seconds"));
        for (const auto& line : list_at(cost, "lines")) {
            const auto note = text_of(line, "note");
            out += fmt::format("  {:>10}  {}{}\n", dollars_at(line, "amount"), shown(text_of(line, "name")),
                               note.empty() ? "" : fmt::format("  ({})", shown(note)));
        }
    } else if (const auto price = text_of(cost, "per_unit"); !price.empty()) {
        out += fmt::format("expected   {} for what a {} does in an hour; how much work is left is not known\n", dollars_at(cost, "per_unit"),
                           shown(unit_of(cost)));
    }
    const auto& from = member(cost, "from");
    for (const auto* name : {"work", "speed", "losses", "start"})
        if (const auto why = text_of(from, name); !why.empty()) out += fmt::format("  {:>10}  {}\n", name, shown(why));
    return out;
}

/// " (resources.max_price, line 24)", where the reason is of somebody's writing.
std::string source_text(const json& sources, const std::string& reason) {
    const auto& source = member(sources, reason);
    if (!source.is_object()) return {};
    const auto config = text_of(source, "config");
    const auto line = text_of(source, "line");
    return fmt::format("  ({}{})", config.empty() ? shown(text_of(source, "key")) : "configuration: " + shown(config),
                       line.empty() ? "" : ", line " + line);
}

std::vector<std::pair<std::string, std::int64_t>> refusals(const json& refused) {
    std::vector<std::pair<std::string, std::int64_t>> counts;
    if (refused.is_object())
        for (const auto& [reason, count] : refused.items())
            if (count.is_number_integer()) counts.emplace_back(reason, count.get<std::int64_t>());
    if (refused.is_array())
        for (const auto& entry : refused)
            counts.emplace_back(text_of(entry, "reason"),
                                whole_of(entry, "offers").value_or(whole_of(entry, "count").value_or(0)));
    std::sort(counts.begin(), counts.end(), [](const auto& a, const auto& b) {
        return a.second != b.second ? a.second > b.second : a.first < b.first;
    });
    return counts;
}

/// "estimate   17.3 GiB x 1.15 = 19.9 GiB (qlora of …): weights 6.1, …"
std::string estimate_text(const json& estimate) {
    if (!estimate.is_object()) return {};
    std::string parts;
    std::vector<std::pair<double, std::string>> sizes;
    if (const auto& list = member(estimate, "parts"); list.is_object())
        for (const auto& [name, size] : list.items())
            if (size.is_number()) sizes.emplace_back(-size.get<double>(), name);
    std::sort(sizes.begin(), sizes.end());
    for (const auto& [size, name] : sizes) parts += fmt::format("{}{} {:.1f}", parts.empty() ? ": " : ", ", shown(name), -size);
    return fmt::format("estimate   {} ({} of {}){}\n", shown(text_of(estimate, "text")), shown(text_of(estimate, "method")),
                       shown(text_of(estimate, "model")), parts);
}

}  // namespace

std::string gpu_of(const json& offer) {
    const auto& gpu = member(offer, "gpu");
    auto name = gpu.is_object() ? text_of(gpu, "canonical") : text_of(offer, "gpu");
    if (name.empty()) name = text_of(gpu, "provider_name");
    auto count = text_of(offer, "gpu_count");
    if (count.empty()) count = text_of(offer, "gpus");
    if (count == "0" || (name.empty() && count.empty())) return "no GPU";
    return fmt::format("{}x {}", count.empty() ? "1" : count, name.empty() ? "GPU of unknown name" : name);
}

std::string offer_line(const json& offer) {
    const auto provider = text_of(offer, "provider");
    if (provider.empty()) return {};
    auto id = text_of(offer, "id");
    if (id.empty()) id = text_of(offer, "offer");
    auto line = fmt::format("{} {}, {}", provider, id, gpu_of(offer));
    line += true_at(offer, "spot") ? ", spot" : ", on-demand";
    auto where = text_of(offer, "region");
    if (where.empty()) where = text_of(offer, "country");
    if (!where.empty()) line += ", " + where;
    return line;
}

std::string explain_text(const json& explanation, const Style& style) {
    const auto& nested = member(explanation, "decision");
    const auto& decision = nested.is_object() ? nested : explanation;
    std::string out;
    if (const auto state = text_of(explanation, "state"); !state.empty())
        out += fmt::format("state      {} {}\n", shown(state), shown(text_of(explanation, "reason")));
    if (const auto detail = text_of(explanation, "detail"); !detail.empty())
        out += fmt::format("detail     {}\n", shown(detail));
    out += estimate_text(member(explanation, "estimate"));
    if (const auto& chosen = member(decision, "chosen"); chosen.is_object())
        out += fmt::format("chosen     {}\n", style.paint(Colour::good, ranked_line(chosen))) + finish_text(member(chosen, "finish"));
    auto since = text_of(decision, "wait_since");
    if (since.empty()) since = text_of(explanation, "waiting_since");
    if (const auto wait = text_of(decision, "wait_reason"); !wait.empty()) {
        const auto detail = text_of(decision, "wait_detail");
        out += fmt::format("waiting    {}{}{}\n", style.paint(Colour::warn, shown(wait)), detail.empty() ? "" : " (" + shown(detail) + ")",
                           since.empty() ? "" : ", since " + shown(since));
    }
    if (const auto why = text_of(decision, "passed_over"); !why.empty())
        out += fmt::format("not first  {}\n", shown(why));
    if (const auto considered = text_of(decision, "considered"); !considered.empty())
        out += fmt::format("considered {} offers\n", considered);
    if (const auto counts = refusals(member(decision, "refused")); !counts.empty()) {
        out += "refused, by reason\n";
        for (const auto& [reason, count] : counts)
            out += fmt::format("  {:>6}  {}{}\n", count, shown(reason), source_text(member(decision, "sources"), reason));
    }
    if (const auto& changes = list_at(decision, "relaxations"); !changes.empty()) {
        out += "one change would help\n";
        for (const auto& change : changes) out += fmt::format("  {}\n", shown(text_of(change, "text")));
    }
    if (const auto& ranked = list_at(decision, "ranked"); !ranked.empty()) {
        out += "would do, best first\n";
        // What they are ranked by stands first, and under each other.
        std::size_t widest = 0;
        for (std::size_t i = 0; i < ranked.size() && i < kShown; ++i) widest = std::max(widest, measure_of(member(ranked[i], "finish")).size());
        for (std::size_t i = 0; i < ranked.size() && i < kShown; ++i) {
            const auto measure = measure_of(member(ranked[i], "finish"));
            out += widest == 0 ? "  " : fmt::format("  {:<{}}  ", measure, widest);
            out += ranked_line(ranked[i]) + "\n";
        }
        out += more_line(ranked.size());
    }
    if (const auto& misses = list_at(decision, "near_misses"); !misses.empty()) {
        out += "refused for one reason only, best first\n";
        for (std::size_t i = 0; i < misses.size() && i < kShown; ++i) {
            const auto& miss = misses[i];
            out += fmt::format("  {}/h  {}  {}: {}\n", price_of(miss), shown(offer_line(offer_in(miss))),
                               shown(text_of(miss, "reason")), shown(text_of(miss, "detail")));
        }
        out += more_line(misses.size());
    }
    if (out.empty()) out = "nothing was decided for this job yet\n";
    return out;
}

}  // namespace gf::cli
