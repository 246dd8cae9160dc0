// How much GPU memory runs of a job family really took, and what follows for the estimate of the next one
// (correction.hpp has the rule). Pure: the core keeps the records and the store holds them.
//
// What `resources.estimate` says is a formula's answer; two runs asked the same question if their family (so
// their model), their method and that answer are the same. A peak is of one GPU, the CUDA context taken off,
// as the formula and `usable_memory` have it.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "model/job_spec.hpp"
#include "scheduler/gpu_names.hpp"

namespace gf {

/// One row per family and question.
struct PeakRecord {
    std::string family;
    std::string method;
    std::int64_t estimated{0};  // bytes per GPU: the formula's answer without its margin
    std::int64_t peak{0};       // bytes: the highest of the runs; 0 = none has shown one
    std::int64_t runs{0};       // that ended well
    std::int64_t ran_out{0};    // bytes: the most that was not enough; 0 = none ran out
    Instant at;
    friend bool operator==(const PeakRecord&, const PeakRecord&) = default;
};
inline constexpr std::size_t kPeaksKept = 16;  // questions per family

/// The formula's answer to what was asked, in bytes, whether `estimate` was corrected since or not.
[[nodiscard]] std::int64_t formula_bytes(const MemoryEstimate& estimate);

enum class RunEnd : std::uint8_t {
    well,      // all of it ran
    ran_out,   // of GPU memory: `peak` was not enough
    cut_short  // it may have been on its way up: only a higher peak than is known says anything
};
/// `record` with one more run; the same record where it tells nothing. `peak` in bytes.
[[nodiscard]] PeakRecord observed(PeakRecord record, RunEnd how, std::int64_t peak, Instant now);

/// What of `used` bytes of one GPU is the job's own: without the CUDA context. `reported`: of that GPU;
/// `card` may be null.
[[nodiscard]] std::int64_t without_context(const GpuCard* card, Bytes reported, std::int64_t used);

/// The estimate by what runs of its family took (`correct_estimate`), with a note that says so; as it is
/// where nothing is known. `estimate` is the formula's own or was made by this function.
[[nodiscard]] MemoryEstimate corrected(const MemoryEstimate& estimate, std::span<const PeakRecord> family);

}  // namespace gf
