#include "model/states.hpp"

#include <initializer_list>

namespace gf {
namespace {

template <class S>
struct Edge {
    S from;
    std::initializer_list<S> to;
};

template <class S>
bool allowed(std::initializer_list<Edge<S>> table, S from, S to) {
    if (from == to) return true;
    for (const auto& edge : table) {
        if (edge.from != from) continue;
        for (S s : edge.to)
            if (s == to) return true;
    }
    return false;
}

}  // namespace

bool may_become(JobState from, JobState to) {
    using enum JobState;
    // A job goes back to `queued` when its attempt never started (nothing was lost), to `recovering` after a loss.
    return allowed<JobState>(
        {
            {queued, {provisioning, held, failed, cancelled}},
            {provisioning, {queued, starting, running, recovering, stopping, held, failed, cancelled}},
            {starting, {queued, running, recovering, stopping, held, failed, cancelled}},
            {running, {recovering, stopping, held, succeeded, failed, cancelled}},
            {recovering, {provisioning, starting, running, stopping, held, failed, cancelled}},
            {stopping, {succeeded, failed, cancelled, held}},
            {held, {queued, recovering, stopping, failed, cancelled}},
            {failed, {queued}},     // `retry` by the user
            {cancelled, {queued}},  // `retry` by the user
        },
        from, to);
}

bool may_become(TaskState from, TaskState to) {
    using enum TaskState;
    return allowed<TaskState>(
        {
            {waiting, {assigned, failed, cancelled}},
            {assigned, {waiting, running, failed, cancelled}},
            {running, {waiting, done, failed, cancelled}},
            {failed, {waiting}},
            {cancelled, {waiting}},
        },
        from, to);
}

bool may_become(AttemptState from, AttemptState to) {
    using enum AttemptState;
    return allowed<AttemptState>({{leased, {running, ended}}, {running, {ended}}}, from, to);
}

bool may_become(MachineState from, MachineState to) {
    using enum MachineState;
    // `gone` is reached from `requested` (a clean refusal: nothing was made), from `unknown` (absent from two
    // trusted listings), and otherwise only through `destroying` and a confirmation, or when the provider's own
    // read says that the machine is gone. A gone row whose machine shows up again goes back to `destroying`.
    return allowed<MachineState>(
        {
            {requested, {booting, unknown, destroying, gone}},
            {unknown, {booting, destroying, gone}},
            {booting, {ready, interrupted, lost, destroying, gone}},
            {ready, {busy, draining, interrupted, lost, destroying, gone}},
            {busy, {ready, draining, interrupted, lost, destroying, gone}},
            {draining, {ready, interrupted, lost, destroying, gone}},
            {interrupted, {booting, ready, destroying, gone}},
            {lost, {booting, ready, busy, destroying, gone}},
            {destroying, {gone}},
            {gone, {destroying, booting}},
        },
        from, to);
}

}  // namespace gf
