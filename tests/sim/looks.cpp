// Which answers the daemon has taken in, and what kept it from others: the side of the bills that is told
// (bill.hpp).
#include <algorithm>

#include "tests/sim/simulation.hpp"

namespace gf::sim {

void Simulation::trouble_at(ModelProvider& p, Instant at) {
    for (auto& [pid, m] : p.machines()) m.bill.trouble(at);
}

void Simulation::trouble_everywhere() {
    for (auto& p : providers_) trouble_at(*p, now_);
}

void Simulation::note_looks(const Event& event, Instant made) {
    if (const auto* e = std::get_if<ListingSeen>(&event))
        note_listing(*e, made);
    else if (const auto* read = std::get_if<ReadEnded>(&event))
        note_read(*read, made);
    else if (const auto* launch = std::get_if<LaunchEnded>(&event))
        note_launch(*launch, made);
}

void Simulation::note_listing(const ListingSeen& e, Instant made) {
    ModelProvider& p = provider(e.provider);
    const bool lost = !e.result || !e.result->drift.empty();
    if (lost || p.blind) trouble_at(p, now_);
    p.blind = lost;
    if (lost) return;
    for (auto& [pid, m] : p.machines()) {
        if (m.created_at > made) continue;
        const bool over = m.ended_at && *m.ended_at <= made;
        const bool listed =
            std::ranges::any_of(e.result->machines, [&](const auto& seen) { return seen.id == m.id; });
        // Left out though it is there, or shown though it is gone.
        if (listed == over) m.bill.trouble(now_);
        if (!listed || over) continue;
        const auto live = core_->world().machines.find(MachineId{parse_machine_tag(m.tag).machine_id});
        if (live != core_->world().machines.end()) {
            // A listing that began before the create call ended, or before a later look changed the rate, is
            // older news.
            const MachineRecord& row = live->second.row;
            if (e.began <= row.call_ended.value_or(row.created_at) && row.state != MachineState::gone)
                continue;
            if (live->second.ledger && e.began < live->second.ledger->from) {
                m.bill.trouble(now_);
                continue;
            }
        }
        open_looks_.push_back({&p, &m, m.id.get(), {e.began, made, now_}, PendingLook::Shows::alive});
    }
}

void Simulation::note_read(const ReadEnded& e, Instant made) {
    const auto live = core_->world().machines.find(e.machine);
    if (live == core_->world().machines.end()) return;
    const LiveMachine& machine = live->second;
    if (core_->world().just_started || machine.row.call != CallKind::read ||
        machine.row.call_seq != e.call_seq)
        return;
    ModelProvider& p = provider(machine.row.provider);
    const auto found = p.machines().find(machine.row.provider_id.get());
    if (found == p.machines().end()) return;
    ModelMachine& m = found->second;
    const bool drifts = !core_->world().providers.at(p.name().get()).listing_drift.empty();
    if (!e.result || (drifts && e.result->presence != Presence::gone)) return m.bill.trouble(now_);
    if (machine.ledger && e.began < machine.ledger->from && e.result->presence != Presence::gone) return;
    open_looks_.push_back(
        {&p,
         &m,
         m.id.get(),
         {e.began, made, now_},
         e.result->presence == Presence::gone ? PendingLook::Shows::gone : PendingLook::Shows::alive});
}

void Simulation::note_launch(const LaunchEnded& e, Instant made) {
    ModelMachine* m = model_of(e.machine);
    const auto live = core_->world().machines.find(e.machine);
    if (!m || live == core_->world().machines.end()) return;
    if (e.outcome.id != m->id) return m->bill.trouble(now_);
    // With an error beside it, it tells that a machine is there and not what it costs.
    if (e.outcome.error) return m->bill.named();
    open_looks_.push_back({&provider(live->second.row.provider),
                           m,
                           m->id.get(),
                           {e.began, made, now_},
                           PendingLook::Shows::created});
}

void Simulation::take_looks(std::vector<PendingLook> looks) {
    for (PendingLook& look : looks) {
        // Only what the daemon holds for this machine, under the id that it has: an answer that it did not
        // believe told it nothing.
        const auto row = row_of_.find(look.id);
        if (row == row_of_.end()) continue;
        const bool gone = rows_.at(row->second).state == MachineState::gone;
        if (gone != (look.shows == PendingLook::Shows::gone)) continue;
        if (!look.machine->listed || look.provider->blind) look.machine->bill.trouble(now_);
        look.look.heard = now_;
        look.machine->bill.look(look.look, look.shows == PendingLook::Shows::created);
    }
}

void Simulation::remember_looks() {
    for (auto& p : providers_)
        for (auto& [pid, m] : p->machines()) {
            m.bill.trouble(now_);
            const auto row = rows_.find(MachineId{parse_machine_tag(m.tag).machine_id});
            if (row == rows_.end()) continue;
            const auto interval = interval_began_.find(row->first);
            const Instant began = interval == interval_began_.end() ? Instant{} : interval->second;
            m.bill.forget(std::max(row->second.seen_at.value_or(began), began));
        }
}

}  // namespace gf::sim
