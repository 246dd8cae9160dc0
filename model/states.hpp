// The machines of states: one table each, used by the orchestrator (`may_become`) and mirrored by the schema's
// CHECKs. Every enumerator is spelled as in the API.
#pragma once
#include <cstdint>

#include "model/enum_text.hpp"

namespace gf {

enum class JobKind : std::uint8_t { training, batch_inference };
GF_ENUM_NAMES(JobKind, {{E::training, "training"}, {E::batch_inference, "batch_inference"}});

enum class JobState : std::uint8_t {
    queued, provisioning, starting, running, recovering, stopping, held, succeeded, failed, cancelled,
};
GF_ENUM_NAMES(JobState, {{E::queued, "queued"},
                         {E::provisioning, "provisioning"},
                         {E::starting, "starting"},
                         {E::running, "running"},
                         {E::recovering, "recovering"},
                         {E::stopping, "stopping"},
                         {E::held, "held"},
                         {E::succeeded, "succeeded"},
                         {E::failed, "failed"},
                         {E::cancelled, "cancelled"}});
[[nodiscard]] constexpr bool is_final(JobState s) {
    return s == JobState::succeeded || s == JobState::failed || s == JobState::cancelled;
}

enum class TaskState : std::uint8_t { waiting, assigned, running, done, failed, cancelled };
GF_ENUM_NAMES(TaskState, {{E::waiting, "waiting"},
                          {E::assigned, "assigned"},
                          {E::running, "running"},
                          {E::done, "done"},
                          {E::failed, "failed"},
                          {E::cancelled, "cancelled"}});
[[nodiscard]] constexpr bool is_final(TaskState s) {
    return s == TaskState::done || s == TaskState::failed || s == TaskState::cancelled;
}

enum class AttemptState : std::uint8_t { leased, running, ended };
GF_ENUM_NAMES(AttemptState, {{E::leased, "leased"}, {E::running, "running"}, {E::ended, "ended"}});

/// Why an attempt ended. Each has its own retry count (DESIGN 6.4).
enum class Cause : std::uint8_t {
    succeeded,
    not_started,    // no machine ever came of it: refused, or outcome never established
    spot_lost,
    host_fault,
    start_timeout,  // machine, agent or image did not come up, or the machine was not what was offered
    gpu_oom,
    host_oom,
    no_progress,
    user_error,
    budget,
    duration,       // limits.duration reached
    cancelled,
};
GF_ENUM_NAMES(Cause, {{E::succeeded, "succeeded"},
                      {E::not_started, "not_started"},
                      {E::spot_lost, "spot_lost"},
                      {E::host_fault, "host_fault"},
                      {E::start_timeout, "start_timeout"},
                      {E::gpu_oom, "gpu_oom"},
                      {E::host_oom, "host_oom"},
                      {E::no_progress, "no_progress"},
                      {E::user_error, "user_error"},
                      {E::budget, "budget"},
                      {E::duration, "duration"},
                      {E::cancelled, "cancelled"}});

enum class MachineState : std::uint8_t {
    requested, unknown, booting, ready, busy, draining, interrupted, lost, destroying, gone,
};
GF_ENUM_NAMES(MachineState, {{E::requested, "requested"},
                             {E::unknown, "unknown"},
                             {E::booting, "booting"},
                             {E::ready, "ready"},
                             {E::busy, "busy"},
                             {E::draining, "draining"},
                             {E::interrupted, "interrupted"},
                             {E::lost, "lost"},
                             {E::destroying, "destroying"},
                             {E::gone, "gone"}});

/// The transition tables. A state may always "become" itself (a rewrite of the row with another reason).
[[nodiscard]] bool may_become(JobState from, JobState to);
[[nodiscard]] bool may_become(TaskState from, TaskState to);
[[nodiscard]] bool may_become(AttemptState from, AttemptState to);
[[nodiscard]] bool may_become(MachineState from, MachineState to);

/// The call that a machine row has open. One call in flight per machine.
enum class CallKind : std::uint8_t { none, create, read, destroy };
GF_ENUM_NAMES(CallKind, {{E::none, "none"}, {E::create, "create"}, {E::read, "read"}, {E::destroy, "destroy"}});

enum class Role : std::uint8_t { viewer, submitter, operator_, admin };
GF_ENUM_NAMES(Role, {{E::viewer, "viewer"}, {E::submitter, "submitter"}, {E::operator_, "operator"}, {E::admin, "admin"}});

}  // namespace gf
