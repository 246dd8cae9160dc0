// Bids of spot machines: when they are raised, and to what (scheduler/bid_rule.hpp decides; this shows it what there is).
#include "scheduler/bid_rule.hpp"

#include <algorithm>

#include "daemon/orchestrator/step.hpp"

namespace gf {
namespace {

/// A floor that runs away is followed step by step, not with each look at it.
constexpr Millis kBidPause = Seconds{60};

std::optional<UsdPerHour> on_demand_there(const LiveProvider& from, const Offer& held) {
    std::optional<UsdPerHour> least;
    for (const Offer& o : from.offers)
        if (!o.spot && o.gpu_count == held.gpu_count && o.gpu.canonical == held.gpu.canonical && !o.gpu.canonical.empty() &&
            o.gpu_rate.micros > 0)
            least = std::min(least.value_or(o.gpu_rate), o.gpu_rate);
    return least;
}

}  // namespace

void Step::consider_bid(LiveMachine& machine, const ProviderMachine& seen) {
    const MachineRecord& row = machine.row;
    LiveProvider* from = provider(row.provider);
    if (!from || !from->capabilities.bids || !row.offer.spot || !row.bid || !seen.spot_floor) return;
    if (machine.bid_tried && now_ - *machine.bid_tried < kBidPause) return;
    // An interrupted machine is kept only where it holds the only copy of its task's work (`observe_stopped`).
    const bool interrupted = row.state == MachineState::interrupted;
    const bool works = row.state == MachineState::booting || row.state == MachineState::ready || row.state == MachineState::busy;
    LiveTask* task = task_of(machine);
    LiveJob* job = task ? job_of(*task) : nullptr;
    if (!job || !job->spec || (!interrupted && !(works && holds_current(machine)))) return;
    if (!task->stop_reason.empty()) return;
    Millis at_stake = task->row.generation == 0 ? task->row.ran : Millis{0};
    if (task->attempt && task->attempt->started_at) {
        const Millis running = now_ - *task->attempt->started_at;
        const Millis every = job->spec->checkpoint.every.value_or(w_.settings.checkpoint_every);
        at_stake += job->spec->checkpoint.declared && task->row.generation > 0 ? std::min(running, every) : running;
    }
    const UsdPerHour disk = disk_rate(row);
    const BidChoice choice = choose_bid({.bid = *row.bid, .floor = *seen.spot_floor, .disk = disk,
                                         .max_price = job->spec->resources.max_price,
                                         .on_demand = on_demand_there(*from, row.offer),
                                         .elsewhere = best_elsewhere(*job, *task, machine), .at_stake = at_stake});
    if (choice.reason == "floor_is_far") return;
    machine.bid_tried = now_;
    history({.at = now_, .kind = "bid", .job = row.job, .task = row.task, .attempt = row.attempt, .machine = row.id,
             .state = choice.raise_to ? "asked" : "kept", .reason = std::string(choice.reason),
             .detail = "bid $" + dollars(*row.bid) + "/h, floor $" + dollars(*seen.spot_floor) + "/h" +
                       (choice.raise_to ? ", raising to $" + dollars(*choice.raise_to) + "/h" : "")});
    if (!choice.raise_to) return;
    machine.bid_asked = std::max(machine.bid_asked.value_or(*choice.raise_to), *choice.raise_to);
    effect(CallRaiseBid{row.id, row.provider, row.provider_id, *choice.raise_to});
}

void Step::on(const BidRaised& e, const StoredRows&) {
    const auto found = w_.machines.find(e.machine);
    if (found == w_.machines.end()) return;
    LiveMachine& machine = found->second;
    if (!e.result) {
        // The bid stands as it was; with the floor still near, the next look tries again after the pause.
        note("warn", "bid not raised machine=" + machine.row.id.get() + " provider=" + machine.row.provider.get() + " error=\"" +
                         e.result.error().message + "\"");
        history({.at = now_, .kind = "bid", .job = machine.row.job, .machine = machine.row.id, .state = "failed",
                 .reason = std::string(text(e.result.error().kind)), .detail = e.result.error().message});
        return;
    }
    machine.bid_asked.reset();
    machine.bid_unsure = false;
    // A bid is what is paid while it runs. What the provider shows afterwards has the last word.
    if (machine.ledger && machine.ledger->gpu_rate.micros > 0)
        open_ledger(machine, e.began, e.bid, machine.ledger->disk_rate, machine.ledger->rate_known);
    bid_is(machine, e.bid);
}

UsdPerHour Step::bid_most(const LiveMachine& machine) {
    const MachineRecord& row = machine.row;
    const UsdPerHour bid = row.bid.value_or(UsdPerHour{0});
    const UsdPerHour asked = std::max(bid, machine.bid_asked.value_or(bid));
    const LiveProvider* from = provider(row.provider);
    if (!machine.bid_unsure || !row.bid || !from || !from->capabilities.bids) return asked;
    // What an earlier process asked for is nowhere told; it was within these.
    const LiveTask* task = task_of(machine);
    const LiveJob* job = task ? job_of(*task) : nullptr;
    std::optional<UsdPerHour> cap = on_demand_there(*from, row.offer);
    if (job && job->spec && job->spec->resources.max_price)
        cap = std::min(cap.value_or(*job->spec->resources.max_price), *job->spec->resources.max_price);
    return std::max(asked, cap.value_or(asked));
}

void Step::take_over_bid(LiveMachine& machine, const ProviderMachine& seen) {
    const LiveProvider* from = provider(machine.row.provider);
    if (!from || !from->capabilities.bids || !machine.row.offer.spot || !machine.row.bid || !seen.gpu_rate ||
        seen.presence != Presence::running || *seen.gpu_rate <= *machine.row.bid || *seen.gpu_rate > bid_most(machine))
        return;
    bid_is(machine, *seen.gpu_rate);
}

void Step::bid_is(LiveMachine& machine, UsdPerHour bid) {
    const UsdPerHour before = machine.row.bid.value_or(machine.row.offer.gpu_rate);
    machine.row.bid = bid;
    if (machine.reservation && bid > before && machine.reservation->until > now_) {
        machine.reservation->amount +=
            cost(UsdPerHour{bid.micros - before.micros}, machine.reservation->until - now_ + w_.settings.destroy_allowance);
        out_.rows.push_back(PutReservation{*machine.reservation});
    }
    save(machine);
    history({.at = now_, .kind = "bid", .job = machine.row.job, .machine = machine.row.id, .state = "raised", .reason = "raise",
             .detail = "from $" + dollars(before) + "/h to $" + dollars(bid) + "/h"});
}

}  // namespace gf
