// The rows of what was learned: records of scheduler/throughput.hpp, interruption.hpp, start_times.hpp and estimate/peaks.hpp to and from
// the text that the store keeps. Pure.
#pragma once
#include <memory>

#include "model/job_spec.hpp"
#include "model/records.hpp"
#include "scheduler/finish_cost.hpp"

namespace gf {

[[nodiscard]] LearnedRecord learned_row(const ThroughputRecord& record);
[[nodiscard]] LearnedRecord learned_row(const FamilyRecord& record);
[[nodiscard]] LearnedRecord learned_row(const LossRecord& record);
[[nodiscard]] LearnedRecord learned_row(const StartRecord& record);
[[nodiscard]] LearnedRecord learned_row(const PeakRecord& record);

/// Puts a stored row into its place. False, and nothing changed, for a kind or a value that this version cannot read: what cannot be
/// read was never learned.
bool take_learned(RunHistory& history, const LearnedRecord& row);

/// The spec with its `resources.estimate`, and the memory that it asks for, by what runs of its family took; the same object where that
/// changes nothing. Null gives null.
[[nodiscard]] std::shared_ptr<const JobSpec> with_peaks(std::shared_ptr<const JobSpec> spec, const RunHistory& history);

}  // namespace gf
