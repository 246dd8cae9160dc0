// Renting exactly once and destroying until confirmed (DESIGN 6.1, 6.2). One create call = one machine row = one tag; a
// retry is a new row. Only a white-listed refusal means that nothing was made.
#include <algorithm>
#include <utility>

#include "daemon/orchestrator/step.hpp"
#include "model/image_name.hpp"
#include "scheduler/filters.hpp"

namespace gf {
namespace {

/// No longer than this is a destroy put off, whatever its provider asks for: the machine bills on.
constexpr Millis kDestroyPut = std::chrono::minutes{5};

}  // namespace

void Step::rent(LiveJob& job, LiveTask& task, const RankedOffer& choice) {
    GF_ASSERT(!task.attempt);
    GF_ASSERT(task.row.state == TaskState::waiting);
    const JobSpec& spec = *job.spec;
    const std::string id = w_.ids.make("mch_", now_);
    LiveMachine machine;
    machine.row = MachineRecord{.id = MachineId{id}, .tag = MachineTag{machine_tag(w_.settings.install, id)},
                                .provider = choice.offer.provider, .state = MachineState::requested,
                                .reason = "placed", .provider_id = {}, .job = job.row.id, .task = task.row.id,
                                .attempt = task.row.attempt + 1, .offer = choice.offer,
                                .disk = Bytes{disk_gb(spec) * kGB}, .image = spec.image,
                                .bid = choice.offer.spot ? std::optional(choice.offer.gpu_rate) : std::nullopt,
                                .rate = {}, .call_seq = 1, .call = CallKind::create, .call_began = now_};
    machine.row.created_at = now_;
    machine.last_heard = now_;
    supersede(task, machine.row.id);
    auto& placed = w_.machines.emplace(machine.row.id, std::move(machine)).first->second;

    task.row.attempt += 1;
    task.row.not_before.reset();
    task.attempt = AttemptRecord{.id = AttemptId{w_.ids.make("att_", now_)}, .task = task.row.id, .job = job.row.id,
                                 .number = task.row.attempt, .state = AttemptState::leased, .cause = {}, .detail = {},
                                 .machine = placed.row.id, .created_at = now_};
    task.attempt->start_generation = task.row.generation;
    job.row.attempts += 1;

    // Order matters to the foreign keys: job, task, machine, attempt, reservation.
    move(job, JobState::provisioning, "placed");
    move(task, TaskState::assigned, "placed");
    out_.rows.push_back(PutMachine{placed.row, std::nullopt});
    history({.at = now_, .kind = "machine_state", .job = job.row.id, .task = task.row.id, .attempt = task.row.attempt,
             .machine = placed.row.id, .state = "requested", .reason = "placed",
             .detail = choice.offer.provider.get() + " " + choice.offer.id + " at $" + dollars(choice.all_in) + "/h"});
    out_.rows.push_back(PutAttempt{*task.attempt, std::nullopt});
    reserve(placed, spec, task);
    if (LiveProvider* at = provider(placed.row.provider)) breaker_launched(at->breaker, placed.row.id.get());
    // Without the password, which the runtime adds. On a whole machine the agent logs in, and on this one nobody pulls.
    std::optional<RegistryLogin> registry;
    const LiveProvider* from = provider(placed.row.provider);
    if (spec.image_auth && from && !from->capabilities.vm && !from->capabilities.is_local)
        registry = RegistryLogin{.server = registry_of(spec.image), .username = spec.image_auth->username, .password = {}};
    effect(CallLaunch{placed.row.id, placed.row.call_seq, placed.row.provider,
                      LaunchRequest{.tag = placed.row.tag, .offer = choice.offer, .disk_gb = disk_gb(spec),
                                    .image = spec.image, .bid = placed.row.bid, .env = {}, .start_script = {},
                                    .registry = std::move(registry)}});
}

void Step::supersede(const LiveTask& task, const MachineId& next) {
    for (auto& [id, old] : w_.machines)
        if (id != next && old.row.task == task.row.id && old.row.state != MachineState::destroying &&
            old.row.state != MachineState::gone && old.row.state != MachineState::unknown &&
            old.row.state != MachineState::requested)
            destroy(old, "superseded");
}

void Step::settle_after_start() {
    if (!w_.just_started) return;
    w_.just_started = false;
    // Pauses do not outlive the process, so their alerts end with it: the next refusal tells of itself.
    std::vector<std::string> paused;
    for (const auto& [key, row] : w_.open_alerts)
        if (key.starts_with("provider/")) paused.push_back(key);
    for (const std::string& key : paused) clear_alert(key);
    for (auto& [id, machine] : w_.machines) {
        free_boot_unseen(machine);
        if (machine.row.call == CallKind::none) continue;
        const bool create = machine.row.call == CallKind::create;
        machine.row.call = CallKind::none;
        if (create && machine.row.state == MachineState::requested) {
            // It may have happened. Nothing is known of when it ended, so it ends now: settle periods count from here.
            machine.row.call_ended = now_;
            move(machine, MachineState::unknown, "create_outcome_unknown", "the daemon stopped during the create call");
        } else {
            save(machine);
        }
    }
}

void Step::adopt(LiveMachine& machine, const ProviderMachineId& id, std::string_view how) {
    machine.row.provider_id = id;
    machine.row.absences = 0;
    if (!holds_current(machine)) {
        // The answer came after the task had moved on (cancelled, placed elsewhere): it exists, so it must go.
        destroy(machine, "task_moved_on", std::string(how));
        return;
    }
    move(machine, MachineState::booting, how);
    if (LiveTask* task = task_of(machine))
        if (LiveJob* job = job_of(*task); job && job->row.state == JobState::provisioning)
            move(*job, JobState::starting, "machine_rented");
    // An answer may come minutes late (or by a listing only), when the agent has long said hello.
    if (machine.connected && machine.checked) {
        agent_is_there(machine);
        lease_when_billed(machine, false);
    }
}

void Step::on(const LaunchEnded& e, const StoredRows&) {
    const auto found = w_.machines.find(e.machine);
    if (found == w_.machines.end()) return;  // resolved meanwhile; a machine that exists shows up as an orphan
    LiveMachine& machine = found->second;
    const bool current_call = machine.row.call == CallKind::create && machine.row.call_seq == e.call_seq;
    // An outcome of an older call is dropped unless it carries an id: an id is a machine that bills.
    if (!current_call && e.outcome.id.empty()) return;
    if (machine.row.state != MachineState::requested && machine.row.state != MachineState::unknown) {
        if (!e.outcome.id.empty() && machine.row.provider_id.empty()) {
            machine.row.provider_id = e.outcome.id;
            save(machine);
        }
        return;
    }
    if (current_call) machine.row.call = CallKind::none;
    machine.row.call_ended = e.ended;
    machine.next_call = now_;

    LiveProvider* from = provider(machine.row.provider);
    if (!e.outcome.id.empty()) {
        const UsdPerHour disk = disk_rate(machine.row);
        UsdPerHour gpu = machine.row.offer.gpu_rate;
        if (e.outcome.rate) gpu = UsdPerHour{std::max<std::int64_t>(0, e.outcome.rate->micros - disk.micros)};
        machine.row.provider_id = e.outcome.id;
        if (from && from->capabilities.gpu_free_while_booting) gpu = UsdPerHour{0};
        open_ledger(machine, e.began, gpu, disk, true);
        if (e.outcome.error) {
            // An id together with an error is a machine that bills (a bid that was too low): it goes first.
            cool(machine.row.offer, std::string(text(e.outcome.error->kind)), false);
            LiveTask* task = holds_current(machine) ? task_of(machine) : nullptr;
            destroy(machine, "create_error_with_id", e.outcome.error->message);
            if (task) give_back(*task, "create_error_with_id", e.outcome.error->message);
            return;
        }
        if (from) from->launches_unsent = 0;
        adopt(machine, e.outcome.id, "rented");
        if (!e.outcome.rate || machine.row.state != MachineState::booting) return;
        ProviderMachine told;
        told.gpu_rate = UsdPerHour{std::max<std::int64_t>(0, e.outcome.rate->micros - disk.micros)};
        told.disk_rate = disk;
        rate_over(machine, told);
        return;
    }

    GF_ASSERT(e.outcome.error.has_value());
    const Error& error = *e.outcome.error;
    LiveTask* task = holds_current(machine) ? task_of(machine) : nullptr;
    switch (error.kind) {
        case ErrorKind::no_capacity:
        case ErrorKind::auth:
        case ErrorKind::no_money:
        case ErrorKind::quota:
        case ErrorKind::api_retired:
        case ErrorKind::refused:
        case ErrorKind::invalid:
        case ErrorKind::not_yet:
        case ErrorKind::unavailable:  // it never left this machine (providers/port.hpp)
            break;
        default:
            // Everything else may have made a machine: it stays on the books until a listing settles it.
            move(machine, MachineState::unknown, "create_outcome_unknown", error.message);
            create_failed(machine, error.message);
            return;
    }
    release(machine);
    if (from) breaker_undecided(from->breaker, machine.row.id.get());
    move(machine, MachineState::gone, "refused", error.message);
    close_tunnel(machine);
    if (error.kind == ErrorKind::no_capacity) {
        cool(machine.row.offer, "no_capacity", false);
    } else if (error.kind == ErrorKind::unavailable && from) {
        from->launches_unsent += 1;
        Instant& until = from->pauses["unavailable"];
        until = std::max(until, now_ + std::max(backoff(from->launches_unsent), error.retry_after.value_or(Millis{0})));
    } else if (error.kind == ErrorKind::not_yet && from) {
        pause(*from, kLoginsPause, error.message);
    } else if (error.kind != ErrorKind::refused && error.kind != ErrorKind::invalid && from) {
        pause(*from, text(error.kind), error.message);
    }
    if (task) {
        LiveJob* job = job_of(*task);
        const bool never_retry = error.kind == ErrorKind::refused || error.kind == ErrorKind::invalid;
        if (never_retry && job && !job->row.cancel_requested) {
            end_attempt(*task, Cause::not_started, error.message);
            finish(*job, *task, TaskState::failed, JobState::failed, "refused", error.message);
        } else {
            give_back(*task, text(error.kind), error.message);
        }
    }
    w_.machines.erase(e.machine);
}

void Step::on(const ReadEnded& e, const StoredRows&) {
    const auto found = w_.machines.find(e.machine);
    if (found == w_.machines.end()) return;
    LiveMachine& machine = found->second;
    if (machine.row.call != CallKind::read || machine.row.call_seq != e.call_seq) return;
    machine.row.call = CallKind::none;
    told_at_ = std::min(now_, e.ended);
    if (!e.result) {
        // No answer is no news: the machine is as it was. Ask again later.
        const Millis told = e.result.error().retry_after.value_or(Millis{0});
        machine.reads_failed += 1;
        if (machine.row.state != MachineState::destroying) {
            machine.next_call = now_ + std::max(backoff(machine.reads_failed), told);
        } else if (machine.next_call > now_) {
            // Asked out of turn, because a listing lacked it: its turn stays where it is.
        } else if (machine.last_destroy == Instant{}) {
            // Between two destroys: the next one does not wait for what this read could not tell.
            machine.next_call = now_ + std::clamp<Millis>(told, Seconds{2}, kDestroyPut);
        } else {
            machine.row.destroy_tries += 1;
            machine.next_call = now_ + std::max(backoff(machine.reads_failed), std::min(told, kDestroyPut));
        }
        save(machine);
        lease_after_read(machine);
        return;
    }
    machine.reads_failed = 0;
    machine.next_call = now_ + Seconds{2};
    const bool between_destroys = machine.row.state == MachineState::destroying && machine.last_destroy == Instant{};
    if (std::exchange(machine.missed, false) && e.result->presence != Presence::gone) {
        // A complete listing lacked a machine that this read shows: such listings prove nothing any more.
        if (LiveProvider* from = provider(machine.row.provider)) {
            from->not_trusted = true;
            alert("listing_not_trusted", "warning", "listing/" + from->name.get(),
                  from->name.get() + " leaves machines out of its listing that exist (" + machine.row.id.get() +
                      "); no launches there until it is whole again, running jobs go on",
                  nullptr, from->name);
        }
    }
    const LiveProvider* of = provider(machine.row.provider);
    observe(machine, of && !of->listing_drift.empty() ? without_money(*e.result) : *e.result, e.began, true);
    const auto still = w_.machines.find(e.machine);
    if (still == w_.machines.end()) return;
    if (between_destroys && e.result->presence != Presence::gone) {
        machine.next_call = now_;
        drive_destroy(machine);
    }
    lease_after_read(machine);
}

void Step::lease_after_read(LiveMachine& machine) {
    if (!std::exchange(machine.lease_waits, false)) return;
    const LiveTask* task = holds_current(machine) ? task_of(machine) : nullptr;
    const LiveJob* job = task ? job_of(*task) : nullptr;
    const bool may = machine.row.state == MachineState::ready && machine.connected && machine.checked;
    if (may && job && job->spec && task->stop_reason.empty() && task->attempt->state == AttemptState::leased) lease(machine);
}

void Step::on(const DestroyEnded& e, const StoredRows&) {
    const auto found = w_.machines.find(e.machine);
    if (found == w_.machines.end()) return;
    LiveMachine& machine = found->second;
    if (machine.row.call != CallKind::destroy || machine.row.call_seq != e.call_seq) return;
    machine.row.call = CallKind::none;
    machine.row.destroy_tries += 1;
    if (e.result) {
        machine.last_destroy = e.ended;
        machine.destroy_refused = false;
        machine.next_call = now_ + Seconds{2};  // then a read by id: asked is not gone
    } else {
        machine.destroy_refused = true;
        machine.next_call = now_ + std::max(backoff(machine.row.destroy_tries),
                                            std::min(e.result.error().retry_after.value_or(Millis{0}), kDestroyPut));
        note("warn", "destroy failed machine=" + machine.row.id.get() + " provider=" + machine.row.provider.get() +
                         " try=" + std::to_string(machine.row.destroy_tries) + " error=\"" + e.result.error().message + "\"");
    }
    save(machine);
}

void Step::destroy(LiveMachine& machine, std::string_view reason, std::string_view detail) {
    if (machine.row.state == MachineState::destroying) return;
    if (LiveProvider* from = provider(machine.row.provider)) breaker_undecided(from->breaker, machine.row.id.get());
    if (machine.row.provider_id.empty()) {
        // Nothing to name in a destroy call yet. The row stays open (requested, unknown): the moment an id is known, by
        // the answer or by a listing, `adopt` sees that nobody wants it.
        return;
    }
    if (!machine.ending_told) {
        send(machine, agent_protocol::Drain{std::string(reason)});
        effect(CloseAgent{machine.row.id});
        machine.ending_told = true;
    }
    close_tunnel(machine);
    move(machine, MachineState::destroying, reason, detail);
    machine.row.destroy_tries = 0;
    machine.next_call = now_;
    drive_destroy(machine);
}

void Step::drive_destroy(LiveMachine& machine) {
    if (machine.row.call != CallKind::none || now_ < machine.next_call) return;
    // After an accepted destroy the question is whether it worked; ask for it again only when a read still shows it a good
    // while later (`observe` clears last_destroy then).
    // After a refused one it is whether there is anything left to destroy: somebody may have done it by hand.
    if (machine.last_destroy != Instant{} || std::exchange(machine.destroy_refused, false)) {
        call_read(machine);
        return;
    }
    machine.row.call = CallKind::destroy;
    machine.row.call_seq += 1;
    save(machine);
    effect(CallDestroy{machine.row.id, machine.row.call_seq, machine.row.provider, machine.row.provider_id});
}

void Step::call_read(LiveMachine& machine) {
    if (machine.row.call != CallKind::none || machine.row.provider_id.empty()) return;
    machine.row.call = CallKind::read;
    machine.row.call_seq += 1;
    save(machine);
    effect(CallRead{machine.row.id, machine.row.call_seq, machine.row.provider, machine.row.provider_id});
}

void Step::now_gone(LiveMachine& machine, std::string_view reason) {
    // However it ended: it is nobody's trial any more.
    if (LiveProvider* from = provider(machine.row.provider)) breaker_undecided(from->breaker, machine.row.id.get());
    // What was never seen alive was never billed as far as anybody can tell: the estimate from its create call goes.
    if (machine.row.read_alive) {
        // It ended some time since it was last seen; after a long while without a look that time has no rate.
        if (machine.ledger && long_unseen(last_sight(machine), told_at_))
            open_ledger(machine, last_sight(machine), UsdPerHour{0}, UsdPerHour{0}, false);
        end_ledger(machine, told_at_);
    } else if (machine.ledger) {
        // An id that was told and never shown: whoever asked for its end before it could appear may have been billed.
        machine.ledger->rate_known = false;
        close_ledger(machine, machine.ledger->from);
    }
    release(machine);
    for (const char* about : {"destroy/", "orphan/", "rate/"}) clear_alert(about + machine.row.id.get());
    move(machine, MachineState::gone, reason);
    effect(CloseAgent{machine.row.id});
    close_tunnel(machine);
    w_.queue_dirty = true;
    if (machine.row.tag.get().find('#') != std::string::npos) {
        constexpr std::size_t kRemembered = 256;
        if (w_.ended_twins.size() >= kRemembered) w_.ended_twins.clear();
        w_.ended_twins[machine.row.provider.get() + "/" + machine.row.provider_id.get()] = told_at_;
    }
    if (!machine.row.watch) w_.machines.erase(machine.row.id);
}

void Step::cool(const Offer& offer, std::string reason, bool host_too) {
    const Instant until = now_ + w_.settings.cooldown;
    w_.cooled_offers[offer_key(offer.provider, offer.id)] = {until, reason};
    if (host_too && !offer.host_id.empty()) w_.bad_hosts[offer.provider.get() + "/" + offer.host_id] = {until, reason};
}

void Step::pause(LiveProvider& from, std::string_view reason, std::string_view detail) {
    Instant& until = from.pauses[std::string(reason)];
    until = std::max(until, now_ + w_.settings.cooldown);
    alert("provider_degraded", "warning", "provider/" + from.name.get() + "/" + std::string(reason),
          from.name.get() + (reason == kLoginsPause ? " takes no private images for now: "
                                                    : " takes no launches for now (" + std::string(reason) + "): ") + std::string(detail), nullptr,
          from.name);
}

}  // namespace gf
