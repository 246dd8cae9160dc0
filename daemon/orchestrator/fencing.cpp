// The only commit point of a checkpoint or a result: the attempt number is compared with the task's in the same step that
// inserts the row. A stale number is refused and its machine destroyed (DESIGN 6.3).
#include "daemon/orchestrator/step.hpp"

namespace gf {
namespace {

Error fenced(std::string message) { return Error{.kind = ErrorKind::conflict, .message = std::move(message)}; }
std::string generation_json(std::int64_t generation) { return R"({"generation":)" + std::to_string(generation) + "}"; }

}  // namespace

void Step::on(const CheckpointOffered& e, const StoredRows& rows) {
    const auto found = w_.machines.find(e.machine);
    if (found == w_.machines.end()) return refuse(e.request, 409, fenced("this machine is not known or is being destroyed"));
    LiveMachine& machine = found->second;
    LiveTask* task = task_of(machine);
    LiveJob* job = task ? job_of(*task) : nullptr;
    // The number alone decides. An attempt that has ended keeps its right until the task is placed again: what waited on an
    // interrupted machine is still the newest work there is.
    const bool current = task && job && machine.row.attempt == task->row.attempt && !is_final(task->row.state) &&
                         machine.row.state != MachineState::destroying && machine.row.state != MachineState::gone &&
                         (!task->attempt || task->attempt->id == e.attempt);
    if (!current) {
        refuse(e.request, 409, fenced("attempt " + std::to_string(machine.row.attempt) + " is no longer current"));
        destroy(machine, "fenced");
        return;
    }
    if (task->last_manifest.empty() && rows.checkpoint && rows.checkpoint->state == CheckpointState::whole) {
        task->last_manifest = rows.checkpoint->manifest_sha256;
        task->last_manifest_generation = rows.checkpoint->generation;
    }
    // The answer to the first offer may have been lost: the same manifest again is the same generation.
    if (task->last_manifest == e.manifest_sha256)
        return reply(e.request, 200, generation_json(task->last_manifest_generation));

    // A program that hangs is saved on and on: the same step again is no progress.
    const bool progress = e.step <= 0 || e.step != task->row.step;
    const std::int64_t generation = task->row.generation + 1;
    task->row.generation = generation;
    task->row.step = e.step;
    task->checkpoint_size = e.size;
    if (progress) task->row.retries.without_progress = 0;
    if (!task->attempt) {
        // It came from a machine that was kept for it: nothing is left to wait for.
        task->row.not_before.reset();
        w_.queue_dirty = true;
    }
    task->last_manifest = e.manifest_sha256;
    task->last_manifest_generation = generation;
    save(*task);
    out_.rows.push_back(PutCheckpoint{{.id = CheckpointId{w_.ids.make("ckp_", now_)}, .task = task->row.id,
                                       .job = task->row.job, .generation = generation, .attempt = task->row.attempt,
                                       .step = e.step, .size = e.size, .manifest_sha256 = e.manifest_sha256,
                                       .state = CheckpointState::whole, .detail = {}, .committed_at = now_}});
    history({.at = now_, .kind = "checkpoint", .job = task->row.job, .task = task->row.id, .attempt = task->row.attempt,
             .machine = machine.row.id, .state = "committed", .reason = "generation " + std::to_string(generation),
             .detail = "step " + std::to_string(e.step) + ", " + bytes_text(e.size)});
    out_.rows.push_back(PruneCheckpoints{task->row.id, job->spec ? job->spec->checkpoint.keep : 3});
    reply(e.request, 200, generation_json(generation));
}

void Step::on(const OutputOffered& e, const StoredRows&) {
    const auto found = w_.machines.find(e.machine);
    if (found == w_.machines.end()) return refuse(e.request, 409, fenced("this machine is not known or is being destroyed"));
    LiveMachine& machine = found->second;
    if (!holds_current(machine) || machine.row.state == MachineState::destroying) {
        refuse(e.request, 409, fenced("attempt " + std::to_string(machine.row.attempt) + " is no longer current"));
        destroy(machine, "fenced");
        return;
    }
    LiveTask& task = *task_of(machine);
    if (task.attempt->id != e.attempt) return refuse(e.request, 409, fenced("not this machine's attempt"));
    out_.rows.push_back(PutOutput{{.job = task.row.job, .task = task.row.id, .attempt = task.row.attempt, .size = e.size,
                                   .files = e.files, .manifest_sha256 = e.manifest_sha256, .published_at = now_}});
    history({.at = now_, .kind = "output", .job = task.row.job, .task = task.row.id, .attempt = task.row.attempt,
             .machine = machine.row.id, .state = "published", .reason = std::to_string(e.files) + " files",
             .detail = bytes_text(e.size)});
    reply(e.request, 200, "{}");
}

void Step::on(const CheckpointBroken& e, const StoredRows&) {
    const auto found = w_.machines.find(e.machine);
    LiveTask* task = found == w_.machines.end() ? nullptr : task_of(found->second);
    if (!task) return refuse(e.request, 409, fenced("this machine works for no task"));
    out_.rows.push_back(SetCheckpointState{task->row.id, e.generation, CheckpointState::quarantined, e.detail});
    history({.at = now_, .kind = "checkpoint", .job = task->row.job, .task = task->row.id, .attempt = task->row.attempt,
             .machine = e.machine, .state = "quarantined", .reason = "generation " + std::to_string(e.generation),
             .detail = e.detail});
    alert("checkpoint_broken", "warning", "checkpoint/" + task->row.id.get() + "/" + std::to_string(e.generation),
          "checkpoint " + std::to_string(e.generation) + " of " + task->row.job.get() +
              " is broken and was set aside; an older one is used: " + e.detail,
          &found->second);
    if (task->last_manifest_generation == e.generation) task->last_manifest.clear();
    reply(e.request, 200, "{}");
}

}  // namespace gf
