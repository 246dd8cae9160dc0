// What a provider's record of one machine means for us. The provider's own state decides; "unknown" changes nothing.
#include <algorithm>
#include <utility>

#include "daemon/orchestrator/step.hpp"

namespace gf {
namespace {

/// How long an accepted destroy may take to show before it is asked for again (Vast: a few seconds, providers/vastai.md 8).
constexpr Millis kDestroyShows = Seconds{15};

bool has_id(MachineState s) { return s != MachineState::requested && s != MachineState::unknown; }

}  // namespace

void Step::seen_alive(LiveMachine& machine, Instant at) {
    machine.row.seen_at = std::max(machine.row.seen_at.value_or(at), at);
    // A row per machine and sweep would be most of what a large fleet writes; a minute is what a bill after a crash may lack.
    constexpr Millis kWritten = Seconds{60};
    if (!has_id(machine.row.state) || (machine.seen_saved && *machine.row.seen_at - *machine.seen_saved < kWritten)) return;
    machine.seen_saved = machine.row.seen_at;
    save(machine);
}

void Step::bill_to_last_sight(LiveMachine& machine) {
    if (!machine.ledger || !machine.row.read_alive) return;
    const Instant last = std::clamp(machine.row.seen_at.value_or(now_), machine.ledger->from, std::max(machine.ledger->from, now_));
    // Within a few looks the difference is a rounding; beyond (we were away, or the provider was) it is a span without a rate,
    // which marks the cost as "at least".
    if (now_ - last < 3 * w_.settings.sweep) return end_ledger(machine, last);
    open_ledger(machine, last, UsdPerHour{0}, UsdPerHour{0}, false);
}

void Step::observe(LiveMachine& machine, const ProviderMachine& seen, Instant began, bool by_read) {
    if (seen.presence == Presence::gone) {
        if (!by_read) return;  // listings show what is there; only a read by id proves absence
        if (!machine.moved_to.empty() && follow(machine)) return;
        if (!machine.row.read_alive && now_ - machine.row.call_ended.value_or(machine.row.created_at) < w_.settings.start) {
            // Read-after-create lag: an id never yet seen alive is not gone yet. Destroy again in a while if it is to go.
            if (machine.row.state == MachineState::destroying) {
                machine.row.destroy_tries += 1;
                machine.last_destroy = Instant{};
                machine.next_call = now_ + backoff(machine.row.destroy_tries);
            }
            save(machine);
            return;
        }
        if (!machine.row.read_alive) machine.row.watch = true;  // it may still show up one day
        if (holds_current(machine)) {
            LiveTask& task = *task_of(machine);
            const bool spot = machine.row.offer.spot;
            const bool started = task.attempt->state == AttemptState::running;
            const Cause cause = spot ? Cause::spot_lost : started ? Cause::host_fault : Cause::start_timeout;
            const std::string_view detail = machine.row.read_alive ? "the provider no longer has the machine"
                                                                   : "the machine never appeared at the provider";
            const Account account = account_at_loss(machine, began);
            if (account != Account::empty && !machine.row.ready_at) create_failed(machine, detail);
            if (LiveJob* job = job_of(task))
                lost(machine, task, *job, {.cause = cause, .detail = std::string(detail), .by_market = spot}, account);
            else end_attempt(task, cause, detail);
        }
        if (machine.row.state != MachineState::destroying && machine.row.state != MachineState::gone) {
            bill_to_last_sight(machine);
            move(machine, MachineState::destroying, "vanished");
        }
        now_gone(machine, machine.row.read_alive ? "confirmed_gone" : "never_appeared");
        return;
    }
    // A host that is silent, or a state that nobody knows: with a price told, its row is there and this is what it costs.
    const bool priced = seen.presence == Presence::unknown && seen.gpu_rate;
    const bool alive = priced || seen.presence == Presence::booting || seen.presence == Presence::running ||
                       seen.presence == Presence::stopped || seen.presence == Presence::failed;
    const bool first_sight = alive && !machine.row.read_alive;
    if (alive) machine.row.read_alive = true;
    if (alive && by_read && machine.moved_at && began >= *machine.moved_at) {
        // It is there under its own id too: what the listing showed is a second machine.
        machine.not_moved = std::exchange(machine.moved_to, ProviderMachineId{});
        machine.moved_at.reset();
    }
    // Where a provider tells its host only of a machine, not of an offer, that is what is remembered.
    if (alive && machine.row.offer.host_id.empty()) machine.row.offer.host_id = seen.host_id;
    if (alive && machine.row.offer.data_center.empty()) machine.row.offer.data_center = seen.data_center;
    if (alive && seen.lease_end) machine.row.offer.lease_end = seen.lease_end;
    if (first_sight && has_id(machine.row.state)) save(machine);
    const Instant last = !machine.ledger ? began
                         : machine.rate_told_at ? std::max(*machine.rate_told_at, machine.ledger->from) : last_sight(machine);
    if (alive && seen.gpu_rate) machine.rate_told_at = std::max(machine.rate_told_at.value_or(began), began);
    if (alive) seen_alive(machine, began);
    // A look that began before the last change of the rate is older news than that (the agent's word, a raised bid, a faster look).
    if (alive && !(machine.ledger && began < machine.ledger->from)) rate_seen(machine, seen, told_at_, last);
    if (seen.presence == Presence::running && seen.gpu_rate) machine.rate_told = true;
    look_for_tunnel(machine, seen);

    switch (machine.row.state) {
        case MachineState::destroying:
            // Still there a good while after the last accepted destroy: ask again, for ever.
            if (by_read && machine.last_destroy != Instant{} && began - machine.last_destroy >= kDestroyShows) {
                machine.last_destroy = Instant{};
                machine.next_call = now_;
            } else if (by_read) {
                machine.next_call = now_ + Seconds{3};
            }
            if (by_read) save(machine);
            return;
        case MachineState::gone:
            // On the watch list, and it did show up.
            machine.row.provider_id = seen.id;
            machine.ending_told = true;
            machine.row.destroy_since.reset();
            move(machine, MachineState::destroying, "appeared_late");
            machine.next_call = now_;
            drive_destroy(machine);
            return;
        case MachineState::requested:
        case MachineState::unknown:
            return;  // `resolve_unknown` and the call's own answer decide
        case MachineState::interrupted:
            consider_bid(machine, seen);
            if (seen.presence == Presence::running || seen.presence == Presence::booting) back_from_interruption(machine);
            return;
        case MachineState::booting:
        case MachineState::ready:
        case MachineState::busy:
        case MachineState::draining:
        case MachineState::lost:
            break;
    }
    if (seen.presence == Presence::failed || seen.presence == Presence::stopped) {
        observe_stopped(machine, seen, began);
        return;
    }
    if (by_read && seen.presence == Presence::running && machine.unreachable)
        machine.next_call = now_ + w_.settings.silence;  // it runs, its agent is silent: ask rarely
    // A dearer machine than was offered is given back, and one that lost its GPUs in a restart (RunPod: billed at the CPU rate,
    // runs on without them).
    take_over_bid(machine, seen);
    if (rate_over(machine, seen)) return;
    const Offer& offer = machine.row.offer;
    if (seen.presence == Presence::running && seen.gpu_count && *seen.gpu_count < offer.gpu_count && !may_hold_work(machine))
        return worse_than_offered(machine, "gpus_missing", "the provider shows " + std::to_string(*seen.gpu_count) +
                                                               " GPUs, offered " + std::to_string(offer.gpu_count));
    consider_bid(machine, seen);
}

bool Step::follow(LiveMachine& machine) {
    const std::string from = machine.row.provider_id.get();
    const ProviderMachineId to = std::exchange(machine.moved_to, ProviderMachineId{});
    machine.moved_at.reset();
    if (std::ranges::any_of(w_.machines, [&](const auto& other) {
            return other.second.row.provider == machine.row.provider && other.second.row.provider_id == to;
        }))
        return false;
    machine.row.provider_id = to;
    machine.missed = false;
    machine.last_destroy = Instant{};
    machine.next_call = now_;
    save(machine);
    history({.at = now_, .kind = "machine_moved", .job = machine.row.job, .task = machine.row.task, .attempt = machine.row.attempt,
             .machine = machine.row.id, .reason = "new_provider_id", .detail = from + " is now " + machine.row.provider_id.get()});
    note("info", "machine moved machine=" + machine.row.id.get() + " provider=" + machine.row.provider.get() + " from=" + from +
                     " to=" + machine.row.provider_id.get());
    return true;
}

void Step::back_from_interruption(LiveMachine& machine) {
    machine.checked = false;
    machine.rate_told = false;
    if (!machine.connected) machine.first_hello.reset();
    machine.last_heard = now_;
    machine.back_at = now_;
    machine.row.idle_since.reset();
    move(machine, MachineState::booting, "back_from_interruption");
}

void Step::observe_stopped(LiveMachine& machine, const ProviderMachine& seen, Instant began) {
    LiveTask* task = holds_current(machine) ? task_of(machine) : nullptr;
    LiveJob* job = task ? job_of(*task) : nullptr;
    const std::string detail = "the provider shows it as " + seen.raw_state + (seen.image_fault.empty() ? "" : ": " + seen.image_fault);
    if (!task || !job) {
        if (seen.presence == Presence::stopped && machine.row.offer.spot && may_hold_work(machine)) {
            // Taken back once more, or its agent was faster than its end: its work is waited for as before.
            machine.row.idle_since = *task_of(machine)->row.not_before - w_.settings.patience;
            machine.connected = false;
            effect(CloseAgent{machine.row.id});
            move(machine, MachineState::interrupted, "spot_lost", detail);
            return;
        }
        destroy(machine, "stopped_without_work", detail);
        return;
    }
    const Account account = account_at_loss(machine, began);
    const bool started = task->attempt->state == AttemptState::running;
    if (seen.presence == Presence::stopped && machine.row.offer.spot) {
        // Taken back. Where a checkpoint is elsewhere (or nothing was promised to be kept) there is nothing to wait for:
        // the disk bills, and the market may never give the machine back.
        const LiveProvider* at = provider(machine.row.provider);
        // A disk that costs nothing while its machine stands still is not there any more.
        const bool kept = at && at->capabilities.per_disk_price;
        const bool only_copy_is_there = kept && job->spec && job->spec->checkpoint.declared && task->row.generation == 0 && started &&
                                        w_.settings.patience > Millis{0};
        // A slice that was just taken from us is not to be had again; the market read that we rent from may still show it.
        if (machine.row.offer.exclusive) cool(machine.row.offer, "spot_lost", false);
        move(machine, MachineState::interrupted, "spot_lost", detail);
        effect(CloseAgent{machine.row.id});
        machine.connected = false;
        machine.row.idle_since = now_;
        lost(machine, *task, *job, {.cause = Cause::spot_lost, .detail = detail, .by_market = true}, account);
        // A job that was to stop, or has failed by this, waits for nothing.
        if (!only_copy_is_there || job->row.state != JobState::recovering) {
            destroy(machine, "spot_lost", detail);
        } else {
            task->row.not_before = now_ + w_.settings.patience;
            save(*task);
            save(machine);
            if (account != Account::empty) consider_bid(machine, seen);
        }
        return;
    }
    // On-demand and not by our order: host stop, crash, or no money. The balance tells the last apart.
    const bool no_money = account == Account::empty;
    const bool boot_failed = !started && !machine.row.ready_at;
    const bool of_image = boot_failed && !seen.image_fault.empty();
    if (!no_money && boot_failed && image_at_fault(machine, *task, of_image)) {
        end_attempt(*task, Cause::user_error, detail);
        recover(*job, *task, Cause::user_error, "the image " + machine.row.image + " does not come up: " + detail);
        destroy(machine, "image_does_not_start", detail);
        return;
    }
    if (!no_money && boot_failed && !of_image) create_failed(machine, detail);
    cool(machine.row.offer, "stopped_by_itself", !no_money && !of_image);
    lost(machine, *task, *job,
         {.cause = started ? Cause::host_fault : Cause::start_timeout, .detail = detail, .boot_failed = boot_failed && !of_image}, account);
    destroy(machine, no_money ? "no_money" : "stopped_by_itself", detail);
}

}  // namespace gf
