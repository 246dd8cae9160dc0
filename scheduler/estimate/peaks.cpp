#include "scheduler/estimate/peaks.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "scheduler/estimate/correction.hpp"

namespace gf {
namespace {

constexpr auto kGiBd = static_cast<double>(kGiB);
constexpr double kLargest = 1e9;  // GiB, as the formulas have it

double gib(std::int64_t bytes) {
    return static_cast<double>(bytes) / kGiBd;
}

}  // namespace

std::int64_t formula_bytes(const MemoryEstimate& estimate) {
    const double formula = estimate.formula_gib > 0 ? estimate.formula_gib : estimate.peak_gib;
    return std::llround(std::clamp(formula, 0.0, kLargest) * kGiBd);
}

PeakRecord observed(PeakRecord record, RunEnd how, std::int64_t peak, Instant now) {
    if (peak <= 0) return record;
    switch (how) {
        case RunEnd::well:
            ++record.runs;
            record.peak = std::max(record.peak, peak);
            break;
        case RunEnd::ran_out:
            record.ran_out = std::max(record.ran_out, peak);
            break;
        case RunEnd::cut_short:
            // Without a run that ended well nothing says how far up it was.
            if (record.runs == 0 || peak <= record.peak) return record;
            record.peak = peak;
            break;
    }
    record.at = std::max(record.at, now);
    return record;
}

std::int64_t without_context(const GpuCard* card, Bytes reported, std::int64_t used) {
    const auto visible = static_cast<std::int64_t>(static_cast<double>(reported.count) * kReportedShare);
    return std::max<std::int64_t>(
        0, used - std::max<std::int64_t>(0, visible - usable_memory(card, reported).count));
}

MemoryEstimate corrected(const MemoryEstimate& estimate, std::span<const PeakRecord> family) {
    const std::int64_t asked = formula_bytes(estimate);
    if (family.empty() || asked <= 0 || estimate.formula_gib > 0) return estimate;
    std::vector<ObservedPeak> observed;
    for (const auto& record : family) {
        // What a method needs says nothing of another's need.
        if (record.method != estimate.method) continue;
        const bool same = record.estimated == asked;
        const auto add = [&](std::int64_t peak, bool ran_out) {
            observed.push_back({.peak_gib = gib(peak),
                                .estimated_gib = gib(record.estimated),
                                .same_settings = same,
                                .ended_by_memory = ran_out});
        };
        // One run or several is all that the rule asks of their number.
        for (std::int64_t i = 0; record.peak > 0 && i < std::min<std::int64_t>(record.runs, 2); ++i)
            add(record.peak, false);
        if (record.ran_out > 0) add(record.ran_out, true);
    }
    Estimate formula{.model = estimate.model,
                     .method = estimate.method,
                     .peak_gib = estimate.peak_gib,
                     .margin = estimate.margin,
                     .margin_reason = estimate.margin_reason,
                     .parts = {},
                     .notes = estimate.notes};
    for (const auto& [name, size] : estimate.parts_gib) formula.parts.push_back({.name = name, .gib = size});
    auto made = correct_estimate(std::move(formula), observed);
    if (!made.corrected) return estimate;
    MemoryEstimate out{.model = made.estimate.model,
                       .method = made.estimate.method,
                       .peak_gib = made.estimate.peak_gib,
                       .formula_gib = estimate.peak_gib,
                       .margin = made.estimate.margin,
                       .margin_reason = made.estimate.margin_reason,
                       .demand = made.estimate.demand(),
                       .text = made.estimate.text(),
                       .parts_gib = {},
                       .notes = made.estimate.notes};
    for (const auto& part : made.estimate.parts) out.parts_gib.emplace_back(part.name, part.gib);
    out.notes.insert(out.notes.begin(), std::move(made.reason));
    return out;
}

}  // namespace gf
