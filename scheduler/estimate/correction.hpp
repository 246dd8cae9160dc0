// An estimate corrected by what earlier runs of the same job family took. What was measured outranks the
// formula, as far as it was measured on the same question: batch, length and method the same. Pure; who the
// family is and where its peaks are kept is the caller's.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "scheduler/estimate/estimate.hpp"

namespace gf {

/// One earlier run: the highest memory that one of its GPUs showed, CUDA context not counted, and what the
/// formula had said for it.
struct ObservedPeak {
    double peak_gib{0};           // above 0, else the run is passed over
    double estimated_gib{0};      // the formula's peak for that run, without margin; 0 = not known
    bool same_settings{false};    // same model, method, batch and length as what is asked now
    bool ended_by_memory{false};  // it ran out: the peak is only a lower bound
};

struct CorrectedEstimate {
    Estimate estimate;
    bool corrected{false};
    std::string reason;  // a sentence with the figures; also when nothing was corrected
};

/// The rule, in this order:
/// * a run out of memory with the same settings: at least that peak and a tenth;
/// * runs with the same settings: the highest peak, with a margin of 1.05 (1.10 for a single run);
/// * other runs of the family for which the formula's figure is known: the formula times the middle ratio of
/// measured to estimated, held to
///   0.5 to 2, with the margin that was;
/// * else the formula as it is.
/// The parts are scaled with the sum, so that they still add up.
[[nodiscard]] CorrectedEstimate correct_estimate(Estimate estimate, std::span<const ObservedPeak> observed);

}  // namespace gf
