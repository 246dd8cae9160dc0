// The money side of a machine: intervals at its real rate from the provider's record, until destruction is confirmed, and
// the reservation that was made before it was rented.
#include <algorithm>

#include "daemon/orchestrator/step.hpp"
#include "scheduler/billing.hpp"

namespace gf {
namespace {

UsdPerHour rate_of(const LiveMachine& machine) {
    return machine.ledger ? machine.ledger->gpu_rate + machine.ledger->disk_rate : machine.row.offer.gpu_rate;
}

/// What may be billed of a machine that is held this long, now or with more time added later: the minimum, and one step more
/// where a step is more than the poll that sees the end.
Millis with_steps(const Offer& offer, Millis held) {
    return std::max(held, offer.billing_minimum) + (offer.billing_step > Seconds{1} ? offer.billing_step : Millis{0});
}

}  // namespace

void Step::open_ledger(LiveMachine& machine, Instant from, UsdPerHour gpu, UsdPerHour disk, bool known) {
    if (machine.ledger && machine.ledger->gpu_rate == gpu && machine.ledger->disk_rate == disk &&
        machine.ledger->rate_known == known)
        return;
    int number = 1;
    JobId job = machine.row.job;
    std::string project;
    if (machine.ledger) {
        // Whom it is billed to changes by `bill_to` alone: an idle machine keeps the job that it last ran.
        job = machine.ledger->job;
        project = machine.ledger->project;
        // The instant of a change is the observation's; it never lies before the interval that it ends.
        from = std::max(from, machine.ledger->from);
        machine.ledger->until = from;
        out_.rows.push_back(PutLedger{*machine.ledger});
        number = machine.ledger->number + 1;
    }
    machine.ledger = LedgerRecord{.machine = machine.row.id, .number = number, .job = job,
                                  .project = project, .provider = machine.row.provider, .from = from, .until = {},
                                  .gpu_rate = gpu, .disk_rate = disk, .rate_known = known};
    if (const LiveTask* task = project.empty() ? task_of(machine) : nullptr)
        if (const LiveJob* of = job_of(*task)) machine.ledger->project = of->row.project;
    if (machine.ledger->project.empty() && machine.reservation) machine.ledger->project = machine.reservation->project;
    out_.rows.push_back(PutLedger{*machine.ledger});
    if (gpu.micros > 0 && !machine.billed_from) machine.billed_from = from;
    machine.row.rate = gpu + disk;
}

Instant Step::last_sight(const LiveMachine& machine) {
    return std::max(machine.row.seen_at.value_or(machine.ledger->from), machine.ledger->from);
}

bool Step::long_unseen(Instant last, Instant at) const {
    // As long as a sight may be unwritten, and a few looks more.
    constexpr Millis kUnwritten = Seconds{60};
    return at - last > kUnwritten + 3 * w_.settings.sweep;
}

void Step::rate_seen(LiveMachine& machine, const ProviderMachine& seen, Instant at, Instant last) {
    if (!machine.ledger) {
        // First sight of a machine that no answer told us of: it has been billing since the provider made it, or at the
        // latest since our create call began.
        Instant from = machine.row.call_began.value_or(machine.row.created_at);
        if (seen.created_at) from = std::clamp(*seen.created_at, std::min(from, at), at);
        const LiveProvider* of = provider(machine.row.provider);
        const bool free_boot = of && of->capabilities.gpu_free_while_booting;
        const bool stands = seen.presence == Presence::stopped || seen.presence == Presence::failed;
        // A price that is not told is the offered one while it runs; else nobody knows.
        const bool unsure = !seen.gpu_rate && (stands || (free_boot && seen.presence == Presence::booting));
        const bool known = !unsure && (seen.gpu_rate.has_value() || machine.row.offer.gpu_rate.micros > 0);
        const UsdPerHour gpu = unsure ? UsdPerHour{0} : seen.gpu_rate.value_or(machine.row.offer.gpu_rate);
        const UsdPerHour disk = seen.disk_rate.value_or(disk_rate(machine.row));
        // One that costs less than was offered when it is first seen (it stands still, or has lost its GPUs) may have run before, at
        // a price that nobody has shown: at least this.
        const bool may_have_run = stands || seen.presence == Presence::unknown || (!free_boot && seen.presence == Presence::running);
        const bool sure = at - from <= 3 * w_.settings.sweep;  // a look or two are what any change may lack
        if (known && may_have_run && gpu < machine.row.offer.gpu_rate && at > from) open_ledger(machine, from, gpu, disk, sure);
        // One that runs when it is first seen has booted for nothing, for as long as nobody knows: until its agent spoke at most.
        if (known && free_boot && seen.presence == Presence::running && at > from) {
            open_ledger(machine, from, UsdPerHour{0}, disk, sure);
            at = std::clamp(machine.first_hello.value_or(at), from, at);
        }
        open_ledger(machine, machine.ledger ? at : from, gpu, disk, known);
        save(machine);
        return;
    }
    // A rate that is not told now stays the last known one.
    const UsdPerHour gpu = seen.gpu_rate.value_or(machine.ledger->gpu_rate);
    const UsdPerHour disk = seen.disk_rate.value_or(machine.ledger->disk_rate);
    const LedgerRecord open = *machine.ledger;
    const bool same = gpu == open.gpu_rate && disk == open.disk_rate;
    const bool away = open.rate_known && long_unseen(last, at);
    if (same && (seen.gpu_rate ? open.rate_known : !away)) return;
    // When it changed in a time that nobody looked is not known, nor whether it did where it is not told now: the lesser of both
    // rates for all of it, at least.
    if (away) open_ledger(machine, last, std::min(gpu, open.gpu_rate), std::min(disk, open.disk_rate), false);
    open_ledger(machine, at, gpu, disk, seen.gpu_rate || machine.ledger->rate_known);
    save(machine);
}

void Step::free_boot_unseen(LiveMachine& machine) {
    const LiveProvider* from = provider(machine.row.provider);
    if (!from || !from->capabilities.gpu_free_while_booting || !machine.ledger || machine.ledger->gpu_rate.micros > 0 ||
        machine.row.state != MachineState::booting)
        return;
    const Instant last = last_sight(machine);
    if (long_unseen(last, now_))
        open_ledger(machine, last, machine.ledger->gpu_rate, machine.ledger->disk_rate, false);
}

void Step::bill_to(LiveMachine& machine, const JobId& job, const std::string& project) {
    if (!machine.ledger) return;
    const LedgerRecord open = *machine.ledger;
    const Instant at = std::max(now_, open.from);
    close_ledger(machine, at);
    machine.ledger = open;
    machine.ledger->number += 1;
    machine.ledger->from = at;
    machine.ledger->job = job;
    machine.ledger->project = project;
    out_.rows.push_back(PutLedger{*machine.ledger});
}

void Step::close_ledger(LiveMachine& machine, Instant at) {
    if (!machine.ledger) return;
    machine.ledger->until = std::max(at, machine.ledger->from);
    out_.rows.push_back(PutLedger{*machine.ledger});
    machine.ledger.reset();
}

void Step::end_ledger(LiveMachine& machine, Instant at) {
    // The last interval takes the rounding, so that a sum over intervals is the bill, whoever sums and over whatever period.
    // What bills nothing any more (or yet) has nothing to round.
    if (machine.ledger && machine.billed_from && machine.ledger->gpu_rate.micros > 0)
        at = std::max(at, *machine.billed_from + billed_time(machine.row.offer, at - *machine.billed_from));
    close_ledger(machine, at);
}

UsdPerHour Step::rate_held(const LiveMachine& machine) {
    const MachineRecord& row = machine.row;
    UsdPerHour gpu = std::max({row.offer.gpu_rate, row.bid.value_or(UsdPerHour{}), machine.bid_asked.value_or(UsdPerHour{})});
    UsdPerHour disk = disk_rate(row);
    if (machine.ledger) {
        gpu = std::max(gpu, machine.ledger->gpu_rate);
        disk = std::max(disk, machine.ledger->disk_rate);
    }
    return gpu + disk;
}

void Step::reserve(LiveMachine& machine, const JobSpec& spec, const LiveTask& task) {
    const Offer& offer = machine.row.offer;
    const UsdPerHour rate = rate_held(machine);
    Millis permitted = w_.settings.reservation;
    if (spec.limits.duration) permitted = std::max(Millis{0}, *spec.limits.duration - task.row.ran);
    machine.reservation = ReservationRecord{.machine = machine.row.id, .job = machine.row.job,
                                            .project = spec.project, .amount = cost(rate, with_steps(offer, permitted + tail(spec))),
                                            .from = now_, .until = now_ + permitted, .released_at = {}};
    out_.rows.push_back(PutReservation{*machine.reservation});
}

void Step::reserve_rolling(LiveMachine& machine) {
    machine.reservation = ReservationRecord{.machine = machine.row.id, .job = machine.row.job, .project = {},
                                            .amount = cost(rate_of(machine), with_steps(machine.row.offer, w_.settings.reservation + w_.settings.destroy_allowance)),
                                            .from = now_, .until = now_ + w_.settings.reservation, .released_at = {}};
    out_.rows.push_back(PutReservation{*machine.reservation});
}

void Step::reserve_until(LiveMachine& machine, Instant until) {
    ReservationRecord& held = *machine.reservation;
    if (until <= held.until) return;
    held.amount += cost(rate_of(machine), until - std::max(held.until, std::min(now_, until)));
    held.until = until;
    out_.rows.push_back(PutReservation{held});
}

void Step::renew(LiveMachine& machine) {
    if (!machine.reservation || machine.row.state == MachineState::gone) return;
    if (machine.reservation->until - now_ > w_.settings.reservation_renew) return;
    // Unknown, interrupted and destroying machines keep theirs: they may bill, so they are renewed like the others.
    const LiveTask* task = task_of(machine);
    const LiveJob* job = task ? job_of(*task) : nullptr;
    if (job && job->spec && job->spec->limits.duration && machine.row.state == MachineState::busy) return;
    reserve_until(machine, now_ + w_.settings.reservation);
}

void Step::release(LiveMachine& machine) {
    if (!machine.reservation) return;
    machine.reservation->released_at = now_;
    out_.rows.push_back(PutReservation{*machine.reservation});
    machine.reservation.reset();
}

}  // namespace gf
