#include "scheduler/estimate/correction.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>
#include <vector>

namespace gf {
namespace {

std::string gib(double value) {
    char out[64];
    std::snprintf(out, sizeof out, "%.1f GiB", value);
    return out;
}
std::string runs(std::size_t n) {
    return std::to_string(n) + (n == 1 ? " earlier run" : " earlier runs");
}

void rescale(Estimate& e, double peak) {
    const double factor = peak / e.peak_gib;
    for (auto& part : e.parts) part.gib *= factor;
    e.peak_gib = peak;
}

}  // namespace

CorrectedEstimate correct_estimate(Estimate estimate, std::span<const ObservedPeak> observed) {
    CorrectedEstimate out{.estimate = std::move(estimate),
                          .reason = "no earlier run of this family was measured"};
    Estimate& e = out.estimate;
    double same_peak = 0;
    double out_of_memory = 0;
    std::size_t same = 0;
    std::vector<double> ratios;
    for (const auto& run : observed) {
        if (!std::isfinite(run.peak_gib) || run.peak_gib <= 0) continue;
        if (run.same_settings && run.ended_by_memory)
            out_of_memory = std::max(out_of_memory, run.peak_gib);
        else if (run.same_settings) {
            ++same;
            same_peak = std::max(same_peak, run.peak_gib);
        } else if (!run.ended_by_memory && std::isfinite(run.estimated_gib) && run.estimated_gib > 0) {
            ratios.push_back(run.peak_gib / run.estimated_gib);
        }
    }
    const double formula = e.peak_gib;
    if (!(formula > 0)) return out;
    if (out_of_memory > 0 && out_of_memory >= same_peak) {
        out.corrected = true;
        rescale(e, std::max(formula, out_of_memory * 1.1));
        out.reason = "a run with these settings ran out of memory at " + gib(out_of_memory) +
                     ": at least a tenth more";
    } else if (same > 0) {
        out.corrected = true;
        rescale(e, same_peak);
        e.margin = same > 1 ? 1.05 : 1.10;
        e.margin_reason = "measured";
        out.reason = runs(same) + " with these settings took " + gib(same_peak) +
                     " at most; the formula says " + gib(formula);
    } else if (!ratios.empty()) {
        const auto middle = ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2);
        std::ranges::nth_element(ratios, middle);
        const double factor = std::clamp(*middle, 0.5, 2.0);
        out.corrected = true;
        rescale(e, formula * factor);
        char times[32];
        std::snprintf(times, sizeof times, "%.2f", factor);
        out.reason = runs(ratios.size()) + " of this family took " + times + " times what the formula says";
    }
    return out;
}

}  // namespace gf
