#include "daemon/orchestrator/learned.hpp"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

namespace gf {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kSpeed = "speed", kFamily = "family", kLosses = "losses", kStart = "start", kMemory = "memory";

/// Foreign only in so far as an older or newer version may have written it.
std::optional<std::int64_t> count(const Json& value, const char* name) {
    const auto at = value.find(name);
    if (at == value.end() || !at->is_number_integer()) return std::nullopt;
    const auto n = at->get<std::int64_t>();
    return n >= 0 ? std::optional(n) : std::nullopt;
}

std::string words(const Json& value, const char* name) {
    const auto at = value.find(name);
    return at != value.end() && at->is_string() ? at->get<std::string>() : std::string();
}

LearnedRecord row(std::string_view kind, std::string key, const Json& value, Instant at) {
    return {.kind = std::string(kind), .key = std::move(key), .value = value.dump(-1, ' ', false, Json::error_handler_t::replace), .at = at};
}

bool take_speed(RunHistory& history, const Json& value, Instant at) {
    const auto unit = enum_from<WorkUnit>(words(value, "unit"));
    const auto work = count(value, "work"), busy = count(value, "busy"), looks = count(value, "looks");
    const auto gpus = count(value, "gpus"), share = count(value, "share");
    const auto cpus = count(value, "cpus").value_or(0);  // rows of older versions have none
    ThroughputRecord record{.family = words(value, "family"), .place = {.card = words(value, "card")}, .at = at};
    if (!unit || !work || !busy || !looks || !gpus || *gpus > 64 || !share || *share > 1000 || cpus > 1'000'000 || record.family.empty()) return false;
    record.unit = *unit;
    record.place.gpus = static_cast<int>(*gpus);
    record.place.share_thousandths = static_cast<int>(*share);
    record.place.cpus = static_cast<int>(cpus);
    record.work = *work, record.busy = Millis{*busy}, record.looks = *looks;
    auto& places = history.speeds[{record.family, record.unit}];
    const auto same = std::ranges::find(places, record.place, &ThroughputRecord::place);
    if (same == places.end()) places.push_back(std::move(record));
    else *same = std::move(record);
    return true;
}

bool take_family(RunHistory& history, const Json& value, Instant at) {
    const auto unit = enum_from<WorkUnit>(words(value, "unit"));
    const auto total = count(value, "total");
    FamilyRecord record{.family = words(value, "family"), .at = at};
    if (!unit || !total || record.family.empty()) return false;
    record.unit = *unit, record.total = *total;
    history.families[{record.family, record.unit}] = std::move(record);
    return true;
}

bool take_losses(RunHistory& history, const std::string& key, const Json& value, Instant at) {
    const auto losses = count(value, "losses"), expected = count(value, "expected"), hours = count(value, "hours");
    if (!losses || !expected || !hours) return false;
    history.losses[key] = {.key = key, .losses = *losses, .expected = *expected, .hours = *hours, .at = at};
    return true;
}

bool take_memory(RunHistory& history, const Json& value, Instant at) {
    const auto estimated = count(value, "estimated"), peak = count(value, "peak"), runs = count(value, "runs"), ran_out = count(value, "ran_out");
    PeakRecord record{.family = words(value, "family"), .method = words(value, "method"), .at = at};
    if (!estimated || !peak || !runs || !ran_out || record.family.empty()) return false;
    record.estimated = *estimated, record.peak = *peak, record.runs = *runs, record.ran_out = *ran_out;
    auto& kept = history.peaks[record.family];
    const auto same = std::ranges::find_if(kept, [&](const auto& r) { return r.method == record.method && r.estimated == record.estimated; });
    if (same != kept.end()) *same = std::move(record);
    else if (kept.size() < kPeaksKept) kept.push_back(std::move(record));
    return true;
}

bool take_start(RunHistory& history, const std::string& key, const Json& value, Instant at) {
    const auto times = value.find("times");
    if (times == value.end() || !times->is_array() || times->size() > kStartTimesKept) return false;
    StartRecord record{.key = key, .at = at};
    for (const Json& one : *times) {
        if (!one.is_number_integer() || one.get<std::int64_t>() < 0) return false;
        record.times.emplace_back(one.get<std::int64_t>());
    }
    history.starts[key] = std::move(record);
    return true;
}

}  // namespace

LearnedRecord learned_row(const ThroughputRecord& r) {
    const std::string key = r.family + "/" + std::string(text(r.unit)) + "/" + r.place.card + "/" + std::to_string(r.place.gpus) + "/" +
                            std::to_string(r.place.share_thousandths) + (r.place.cpus > 0 ? "/" + std::to_string(r.place.cpus) : "");
    return row(kSpeed, key,
               {{"family", r.family}, {"unit", text(r.unit)}, {"card", r.place.card}, {"gpus", r.place.gpus},
                {"share", r.place.share_thousandths}, {"cpus", r.place.cpus}, {"work", r.work}, {"busy", r.busy.count()}, {"looks", r.looks}},
               r.at);
}

LearnedRecord learned_row(const FamilyRecord& r) {
    return row(kFamily, r.family + "/" + std::string(text(r.unit)), {{"family", r.family}, {"unit", text(r.unit)}, {"total", r.total}}, r.at);
}

LearnedRecord learned_row(const LossRecord& r) {
    return row(kLosses, r.key, {{"losses", r.losses}, {"expected", r.expected}, {"hours", r.hours}}, r.at);
}

LearnedRecord learned_row(const StartRecord& r) {
    Json times = Json::array();
    for (const Millis time : r.times) times.push_back(time.count());
    return row(kStart, r.key, {{"times", std::move(times)}}, r.at);
}

LearnedRecord learned_row(const PeakRecord& r) {
    return row(kMemory, r.family + "/" + r.method + "/" + std::to_string(r.estimated),
               {{"family", r.family}, {"method", r.method}, {"estimated", r.estimated}, {"peak", r.peak}, {"runs", r.runs}, {"ran_out", r.ran_out}},
               r.at);
}

std::shared_ptr<const JobSpec> with_peaks(std::shared_ptr<const JobSpec> spec, const RunHistory& history) {
    if (!spec || !spec->estimate || history.peaks.empty()) return spec;
    auto by_runs = std::make_shared<JobSpec>(*spec);
    return take_peaks(*by_runs, history) ? std::move(by_runs) : std::move(spec);
}

bool take_learned(RunHistory& history, const LearnedRecord& row) {
    const Json value = Json::parse(row.value, nullptr, false);
    if (!value.is_object()) return false;
    if (row.kind == kSpeed) return take_speed(history, value, row.at);
    if (row.kind == kFamily) return take_family(history, value, row.at);
    if (row.kind == kMemory) return take_memory(history, value, row.at);
    if (row.kind == kLosses) return take_losses(history, row.key, value, row.at);
    return row.kind == kStart && take_start(history, row.key, value, row.at);
}

}  // namespace gf
