// The rows of what was learned: records of scheduler/throughput.hpp, interruption.hpp and start_times.hpp to and from the text that the
// store keeps. Pure.
#pragma once
#include "model/records.hpp"
#include "scheduler/finish_cost.hpp"

namespace gf {

[[nodiscard]] LearnedRecord learned_row(const ThroughputRecord& record);
[[nodiscard]] LearnedRecord learned_row(const FamilyRecord& record);
[[nodiscard]] LearnedRecord learned_row(const LossRecord& record);
[[nodiscard]] LearnedRecord learned_row(const StartRecord& record);

/// Puts a stored row into its place. False, and nothing changed, for a kind or a value that this version cannot read: what cannot be
/// read was never learned.
bool take_learned(RunHistory& history, const LearnedRecord& row);

}  // namespace gf
