// What the agents say. Applying a message twice changes nothing: each handler looks at the state that is there.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "daemon/orchestrator/step.hpp"
#include "model/image_name.hpp"

namespace gf {
namespace ap = agent_protocol;
namespace {

template <class... Ts>
struct overloaded : Ts... {
    using Ts::operator()...;
};

/// Main memory as the machine check noted it.
std::optional<Bytes> memory_found(const std::string& agent_detail) {
    const auto found = nlohmann::json::parse(agent_detail, nullptr, false);
    const std::int64_t bytes = found.is_object() ? found.value("memory", std::int64_t{0}) : 0;
    return bytes > 0 ? std::optional(Bytes{bytes}) : std::nullopt;
}

/// Memory of its smallest GPU as the machine check noted it.
std::optional<Bytes> gpu_memory_found(const std::string& agent_detail) {
    const auto found = nlohmann::json::parse(agent_detail, nullptr, false);
    if (!found.is_object() || !found.contains("gpus") || !found["gpus"].is_array()) return std::nullopt;
    std::optional<Bytes> least;
    for (const auto& gpu : found["gpus"]) {
        const std::int64_t bytes = gpu.is_object() ? gpu.value("memory", std::int64_t{0}) : 0;
        if (bytes > 0 && (!least || bytes < least->count)) least = Bytes{bytes};
    }
    return least;
}

}  // namespace

void Step::on(const AgentConnected& e, const StoredRows&) {
    const auto found = w_.machines.find(e.machine);
    if (found == w_.machines.end() || found->second.row.state == MachineState::destroying ||
        found->second.row.state == MachineState::gone) {
        effect(CloseAgent{e.machine});
        return;
    }
    LiveMachine& machine = found->second;
    machine.connected = true;
    heard(machine);
    if (machine.row.boot_id != e.boot_id) {
        const bool restarted = !machine.row.boot_id.empty();
        machine.row.read_alive = true;  // its agent's word is as good a sight of it as the provider's
        machine.row.seen_at = machine.seen_saved = now_;
        machine.row.boot_id = e.boot_id;
        machine.checked = false;
        machine.rate_told = false;
        machine.lease_waits = false;
        machine.first_hello = now_;
        save(machine);
        const bool had_lease = machine.row.state == MachineState::busy || machine.row.state == MachineState::draining;
        if (restarted && had_lease && holds_current(machine)) {
            // The container restarted under a lease: whatever ran or was being prepared there is over.
            LiveTask& task = *task_of(machine);
            const Cause cause = task.attempt->state == AttemptState::running ? Cause::host_fault : Cause::start_timeout;
            mark_loss(machine, false, "the container restarted");
            end_attempt(task, cause, "the container restarted");
            if (LiveJob* job = job_of(task)) recover(*job, task, cause, "the container restarted");
            release_machine(machine, "restarted", false);
            return;
        }
    }
    if (!machine.first_hello) machine.first_hello = now_;
    const auto wire = [&](Millis d) {
        return std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<double>(d.count()) / w_.settings.time_scale));
    };
    send(machine, ap::Welcome{.heartbeat_ms = static_cast<int>(wire(w_.settings.heartbeat)),
                              .time_scale = w_.settings.time_scale, .acked_seq = 0,
                              .dead_man_ms = wire(w_.settings.dead_man)});
}

void Step::on(const AgentDisconnected& e, const StoredRows&) {
    const auto found = w_.machines.find(e.machine);
    if (found == w_.machines.end() || found->second.row.boot_id != e.boot_id) return;
    found->second.connected = false;  // silence counts from the last word, not from here
}

void Step::on(const AgentSaid& e, const StoredRows&) {
    const auto found = w_.machines.find(e.machine);
    if (found == w_.machines.end()) return;
    LiveMachine& machine = found->second;
    if (machine.row.boot_id != e.message.boot_id) return;  // a fenced older session
    heard(machine);
    const MachineId id = machine.row.id;
    LiveTask* task = holds_current(machine) ? task_of(machine) : nullptr;
    const auto mine = [&](const std::string& attempt) { return task && task->attempt->id.get() == attempt; };
    std::visit(
        overloaded{
            [&](const ap::Hello& m) { hello(machine, m); },
            [&](const ap::Heartbeat& m) {
                if (!mine(m.attempt) || task->attempt->state != AttemptState::running) return;
                for (const ap::GpuSample& gpu : m.gpus) task->gpu_peak = std::max({task->gpu_peak, gpu.memory_used, gpu.memory_peak});
            },
            [&](const ap::Preparing& m) {
                if (!mine(m.attempt)) return;
                if (m.phase == "restore" && !task->restore_from) task->restore_from = now_;
                history({.at = now_, .kind = "preparing", .job = task->row.job, .task = task->row.id,
                         .attempt = task->attempt->number, .machine = id, .reason = m.phase, .detail = m.detail});
            },
            [&](const ap::Started& m) {
                if (!mine(m.attempt) || task->attempt->state != AttemptState::leased) return;
                task->attempt->started_at = now_;
                task->attempt->start_generation = m.restored_generation;
                learn_started(*task, machine);
                move(*task, AttemptState::running, "started");
                move(*task, TaskState::running, "started");
                if (LiveJob* job = job_of(*task); job && job->row.state != JobState::stopping)
                    move(*job, JobState::running, m.restored_generation > 0 ? "resumed" : "started",
                         m.restored_generation > 0 ? "from checkpoint " + std::to_string(m.restored_generation) : "");
            },
            [&](const ap::Exited& m) {
                if (mine(m.attempt)) exited(machine, *task, m);
            },
            [&](const ap::Progress& m) {
                if (!mine(m.attempt)) return;
                task->attempt->progress_step = m.step;
                task->attempt->progress_total = m.total;
                learn_progress(*task, machine, m.step, m.total);
                if (now_ - task->progress_written < Seconds{10}) return;
                task->progress_written = now_;
                save_attempt(*task);
            },
            [&](const ap::Notice& m) {
                history({.at = now_, .kind = "interruption_notice", .job = machine.row.job, .task = machine.row.task,
                         .attempt = machine.row.attempt, .machine = id, .reason = m.kind});
            },
        },
        e.message.body);
    if (e.message.seq > 0) effect(SendToAgent{id, ap::Ack{e.message.seq}});
}

void Step::hello(LiveMachine& machine, const ap::Hello& m) {
    // Faster than the listing. What it may hold is judged below as after any return.
    if (machine.row.state == MachineState::interrupted) back_from_interruption(machine);
    LiveTask* task = holds_current(machine) ? task_of(machine) : nullptr;
    LiveJob* job = task ? job_of(*task) : nullptr;
    if (!machine.checked) {
        const std::string trouble = check_machine(machine, job ? job->spec.get() : nullptr, m.report);
        nlohmann::json found = {{"gpus", nlohmann::json::array()}, {"cuda_probe", m.report.cuda_probe},
                                {"cuda", m.report.cuda_version}, {"disk_free", m.report.disk_free},
                                {"memory", m.report.memory_total}, {"cpus", m.report.cpus}, {"arch", m.report.arch}};
        for (const auto& gpu : m.report.gpus)
            found["gpus"].push_back({{"name", gpu.name}, {"memory", gpu.memory_bytes}, {"driver", gpu.driver}});
        machine.row.agent_detail = found.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
        history({.at = now_, .kind = "machine_check", .job = machine.row.job, .machine = machine.row.id,
                 .state = trouble.empty() ? "ok" : "failed", .reason = trouble.empty() ? "as_offered" : "worse_than_offered",
                 .detail = trouble.empty() ? machine.row.agent_detail : trouble});
        if (!trouble.empty()) {
            // Back without its GPUs, say, but with the only copy of what it worked on: it may still hand that in, and is used for
            // nothing else. `not_started_in_time` ends the wait.
            if (may_hold_work(machine)) return save(machine);
            worse_than_offered(machine, "machine_check", "machine check: " + trouble);
            return;
        }
        mark_start(machine);
        create_worked(machine);
        machine.checked = true;
        save(machine);
    }
    if (machine.row.provider_id.empty()) return;  // nobody has told its id yet; `adopt` goes on from here
    agent_is_there(machine);
    if (!task) {
        // It works for nobody now. If it still runs something, that has lost its right.
        if (!m.attempt.empty()) send(machine, ap::Stop{.attempt = m.attempt, .reason = "fenced", .checkpoint = false});
        if (machine.row.state == MachineState::ready && !machine.row.idle_since) {
            machine.row.idle_since = now_;
            save(machine);
        }
        return;
    }
    if (!task->stop_reason.empty()) {
        if (task->stop_sent)
            send(machine, ap::Stop{.attempt = task->attempt->id.get(), .reason = task->stop_reason,
                                   .checkpoint = task->stop_reason != "cancelled"});
        else if (job)
            stop_job(*job, *task, std::string(task->stop_reason));
        return;
    }
    // Without its spec nothing can be leased; what runs already runs on, and `drive_task` ends what has not begun.
    if (!job || !job->spec) return;
    // An attempt that has exited there is told by its own message; everything else gets the lease (again).
    if (m.attempt != task->attempt->id.get() || m.attempt_state != "exited") lease_when_billed(machine, m.attempt == task->attempt->id.get());
}

void Step::heard(LiveMachine& machine) {
    machine.last_heard = now_;
    seen_alive(machine, now_);
    if (!std::exchange(machine.unreachable, false)) return;
    machine.row.reason = "agent_back";
    save(machine);
    history({.at = now_, .kind = "machine_reachable", .job = machine.row.job, .machine = machine.row.id, .reason = "agent_back"});
}

void Step::agent_is_there(LiveMachine& machine) {
    // An agent that speaks runs in a container that runs: from here on the GPUs are billed, whatever the last listing said of the
    // boot, or of the time that it stood still.
    const LiveProvider* from = provider(machine.row.provider);
    const bool was_free = machine.back_at || (from && from->capabilities.gpu_free_while_booting);
    if (was_free && machine.ledger && machine.ledger->gpu_rate.micros == 0 &&
        machine.row.state == MachineState::booting)
        open_ledger(machine, now_, machine.row.bid.value_or(machine.row.offer.gpu_rate), machine.ledger->disk_rate, true);
    if (machine.row.state != MachineState::booting && machine.row.state != MachineState::lost) return;
    machine.row.ready_at = now_;
    move(machine, MachineState::ready, "agent_enrolled");
}

void Step::lease(LiveMachine& machine, bool held) {
    LiveTask& task = *task_of(machine);
    LiveJob* job = job_of(task);
    GF_ASSERT(job != nullptr && job->spec != nullptr && task.attempt.has_value());
    const JobSpec& spec = *job->spec;
    if (const std::string trouble = held ? std::string() : secrets_trouble(spec); !trouble.empty()) {
        // It was taken away after the rent: nothing can be run here, and nobody pays for the wait.
        const bool ran = task.attempt->state == AttemptState::running;
        if (ran) {
            end_attempt(task, Cause::host_fault, "the agent has lost the attempt; " + trouble);
            recover(*job, task, Cause::host_fault, trouble);
        } else {
            give_back(task, "secret_missing", trouble);
        }
        release_machine(machine, "secret_missing", false);
        return;
    }
    if (machine.row.state == MachineState::ready) {
        machine.row.idle_since.reset();
        move(machine, MachineState::busy, "leased");
    }
    if (job->row.state == JobState::provisioning) move(*job, JobState::starting, "machine_ready");
    const auto wire = [&](Millis d) {
        return static_cast<std::int64_t>(static_cast<double>(d.count()) / w_.settings.time_scale);
    };
    CheckpointSpec checkpoint = spec.checkpoint;
    checkpoint.grace = Millis{wire(spec.checkpoint.grace)};
    std::int64_t duration = 0;
    if (spec.limits.duration) {
        Millis ran = task.row.ran;
        if (task.attempt->started_at) ran += now_ - *task.attempt->started_at;
        duration = std::max<std::int64_t>(1, wire(*spec.limits.duration - ran));
        // The time that was reserved at the rent counted from then; what may run counts from now, and the machine must not end
        // itself before its limit does.
        if (machine.reservation && !task.attempt->started_at) reserve_until(machine, now_ + w_.settings.start + (*spec.limits.duration - ran) + tail(spec));
    }
    const std::int64_t reserved_end =
        spec.limits.duration && machine.reservation ? std::max<std::int64_t>(1, wire(machine.reservation->until - now_)) : 0;
    const LiveProvider* from = provider(machine.row.provider);
    const bool vm = from && from->capabilities.vm;
    // Names only; the runtime puts the values in when the message leaves.
    std::map<std::string, std::string> secret_env;
    std::optional<ap::RegistryAccess> registry;
    if (!held) {
        for (const std::string& name : spec.secrets) secret_env.emplace(name, std::string());
        if (vm && !spec.image.empty() && spec.image_auth)
            registry = ap::RegistryAccess{.server = registry_of(spec.image), .username = spec.image_auth->username, .password = {}};
    }
    send(machine, ap::Lease{.attempt = task.attempt->id.get(), .number = task.attempt->number, .job = job->row.id.get(),
                            .task = task.row.id.get(), .task_index = task.row.index, .task_count = 1, .image = spec.image,
                            .container = vm && !spec.image.empty(), .registry = std::move(registry),
                            .shm_bytes = vm && spec.resources.shm ? spec.resources.shm->count : 0,
                            .run = spec.run, .env = spec.env, .secret_env = std::move(secret_env), .user = spec.user,
                            .keep_entrypoint = spec.keep_entrypoint, .code_sha256 = spec.code_sha256,
                            .checkpoint = checkpoint,
                            .checkpoint_every_ms = std::max<std::int64_t>(
                                1, wire(spec.checkpoint.every.value_or(w_.settings.checkpoint_every))),
                            .generation = task.row.generation, .step = task.row.step, .outputs = spec.outputs,
                            .progress_regex = spec.progress_regex, .progress_file = spec.progress_file,
                            .success_exit = spec.success_exit, .success_product = spec.success_product, .duration_ms = duration,
                            .dead_man_ms = reserved_end, .log_bytes_max = 1LL << 30});
}

void Step::exited(LiveMachine& machine, LiveTask& task, const ap::Exited& m) {
    LiveJob* job = job_of(task);
    GF_ASSERT(job != nullptr);
    constexpr Millis kGoodRun = std::chrono::minutes{10};
    if (m.reason.empty() && !m.host_oom && task.attempt->started_at && now_ - *task.attempt->started_at >= kGoodRun)
        mark_host(machine, HostEvent::good_run, {});
    task.attempt->exit_code = m.exit_code;
    task.attempt->exit_signal = m.signal;
    const auto& ok_codes = job->spec ? job->spec->success_exit : std::vector<int>{0};
    const bool exit_ok = m.exit_code && std::ranges::find(ok_codes, *m.exit_code) != ok_codes.end();

    if (job->row.cancel_requested || job->row.hold_requested || !task.stop_reason.empty()) {
        // It may have finished just before the stop reached it: finished work is finished.
        if (exit_ok && m.reason.empty() && !job->row.cancel_requested) {
            end_attempt(task, Cause::succeeded, {});
            finish(*job, task, TaskState::done, JobState::succeeded, "succeeded", {});
        } else {
            end_attempt(task, task.stop_reason == "duration" ? Cause::duration : Cause::cancelled, m.detail);
            stop_over(*job, task);
        }
        release_machine(machine, "job_over", false);
        return;
    }
    if (m.reason.empty() && exit_ok) {
        end_attempt(task, Cause::succeeded, {});
        finish(*job, task, TaskState::done, JobState::succeeded, "succeeded", {});
        release_machine(machine, "job_over", true);
        return;
    }
    if (machine.leave_stop && m.reason == "stopped") return left(machine, task, *job);
    std::string detail = m.detail;
    if (detail.empty() && m.exit_code) detail = "exit code " + std::to_string(*m.exit_code);
    if (detail.empty() && m.signal) detail = "killed by signal " + std::to_string(*m.signal);
    Cause cause = Cause::user_error;
    bool machine_is_fine = true;
    // The machine's own switch fires at the end of the reserved time, which is no earlier than that of the permitted time.
    const bool over_time = m.reason == "dead_man" && job->spec && job->spec->limits.duration && task.attempt->started_at &&
                           task.row.ran + (now_ - *task.attempt->started_at) >= *job->spec->limits.duration;
    if (m.reason == "duration" || over_time) {
        end_attempt(task, Cause::duration, detail);
        finish(*job, task, TaskState::failed, JobState::failed, "duration", "limits.duration reached");
        release_machine(machine, "job_over", true);
        return;
    }
    if (m.reason == "spec") {
        cause = Cause::user_error;  // no such user, a code archive that cannot be unpacked: the same on every machine
    } else if (m.reason == "setup" || m.reason == "unwritable") {
        cause = Cause::start_timeout;
        machine_is_fine = false;
    } else if (m.reason == "dead_man" || m.reason == "stopped" || m.reason == "notice") {
        cause = machine.row.offer.spot ? Cause::spot_lost : Cause::host_fault;
        machine_is_fine = false;
    } else if (m.reason == "keeper_lost") {
        cause = Cause::host_fault;  // the agent's death, in part: never the program's (DESIGN 6.4)
        machine_is_fine = false;
    } else if (m.gpu_oom) {
        cause = Cause::gpu_oom;
    } else if (m.host_oom) {
        cause = Cause::host_oom;
    }
    if (cause == Cause::gpu_oom && job->spec && job->spec->retry.gpu_oom_bigger) {
        // What ran out, as the offer told it, as its agent found it, or as the table has the card.
        auto had = machine.row.offer.gpu.memory;
        if (!had) had = gpu_memory_found(machine.row.agent_detail);
        const GpuCard* card = w_.settings.gpus ? w_.settings.gpus->card(machine.row.offer.gpu.canonical) : nullptr;
        if (!had && card && card->reported) had = card->reported;
        task.row.vram_above = std::max(task.row.vram_above, had);
    }
    if (cause == Cause::host_oom) {
        auto had = machine.row.offer.memory;
        if (!had) had = memory_found(machine.row.agent_detail);
        task.row.memory_above = std::max(task.row.memory_above, had);
    }
    if (!machine_is_fine) {
        const bool by_market = m.reason == "notice" && machine.row.offer.spot;
        if (cause == Cause::start_timeout) mark_host(machine, HostEvent::check_failure, m.reason + ": " + detail);
        else mark_loss(machine, by_market, m.reason + ": " + detail);
        cool(machine.row.offer, m.reason, true);
    }
    end_attempt(task, cause, detail);
    recover(*job, task, cause, detail);
    // A machine that is too small for the retry is no use to it; others go on with the next job at most.
    release_machine(machine, "attempt_over", machine_is_fine && cause == Cause::user_error);
}

}  // namespace gf
