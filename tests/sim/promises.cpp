// What is checked after every step.
#include <algorithm>

#include "tests/sim/simulation.hpp"

namespace gf::sim {

void Simulation::check_rows(const std::vector<RowChange>& rows) {
    for (const RowChange& change : rows) {
        if (const auto* machine = std::get_if<PutMachine>(&change)) {
            rows_[machine->row.id] = machine->row;
            // Exactly once (6.1): a create call is written off only if nothing came of it. Listings lag by less than the
            // settle time here, so that this holds unless listings lie.
            if (machine->row.state == MachineState::gone && machine->row.reason == "never_appeared" && !faults_.listing_lies)
                if (const ModelMachine* m = model_of(machine->row.id); m && ModelProvider::exists(*m) && !m->dies_at)
                    violated("P1", machine->row.id.get() + " was written off as never appeared, but " + m->id.get() + " exists");
            if (!machine->row.provider_id.empty()) {
                provider_ids_[machine->row.id] = machine->row.provider_id.get();
                row_of_[machine->row.provider_id.get()] = machine->row.id;
            }
        } else if (const auto* interval = std::get_if<PutLedger>(&change)) {
            interval_began_[interval->row.machine] = interval->row.from;
        } else if (std::holds_alternative<PutHostMark>(change)) {
            ++report_.marks;
        } else if (const auto* event = std::get_if<AddEvent>(&change); event && event->row.reason == "creates_failing") {
            ++report_.breaker_trips;
        } else if (const auto* attempt = std::get_if<PutAttempt>(&change)) {
            const AttemptRecord& row = attempt->row;
            if (!attempt->was) {
                ++report_.attempts;
                auto& numbers = placed_[row.task];
                if (!numbers.empty() && row.number <= numbers.rbegin()->first)
                    violated("P2", "attempt number " + std::to_string(row.number) + " is not new");
                numbers[row.number] = row.machine;
                if (const auto job = jobs_.find(row.job); job != jobs_.end()) job->second.highest_attempt = row.number;
            }
            // P6: only something that really happened ends an attempt as a loss.
            if (row.state == AttemptState::ended && row.cause &&
                (*row.cause == Cause::spot_lost || *row.cause == Cause::host_fault)) {
                const ModelMachine* m = model_of(row.machine);
                if (m && !m->disturbed && m->presence == Presence::running)
                    violated("P6", "attempt " + std::to_string(row.number) + " of " + row.job.get() + " was ended as " +
                                       std::string(text(*row.cause)) + " (" + row.detail + ") though its machine " +
                                       m->id.get() + " runs undisturbed");
            }
        } else if (const auto* checkpoint = std::get_if<PutCheckpoint>(&change)) {
            if (const auto job = jobs_.find(checkpoint->row.job); job != jobs_.end()) {
                if (checkpoint->row.generation != job->second.committed_generation + 1)
                    violated("P3", "generation jumped to " + std::to_string(checkpoint->row.generation));
                if (checkpoint->row.step < job->second.committed_step)
                    violated("P3", "work went back from step " + std::to_string(job->second.committed_step) + " to " +
                                       std::to_string(checkpoint->row.step));
                job->second.committed_generation = checkpoint->row.generation;
                job->second.committed_step = checkpoint->row.step;
            }
        }
    }
}

void Simulation::check_fleet() {
    // P1: a machine that exists is on the books, and if nobody needs it, it is being destroyed.
    for (auto& p : providers_)
        for (const auto& [pid, m] : p->machines()) {
            if (!ModelProvider::exists(m) || m.dies_at) continue;
            const MachineId id{parse_machine_tag(m.tag).machine_id};
            const auto row = rows_.find(id);
            if (row == rows_.end()) violated("P1", pid + " exists and no row was ever written for it");
            // A machine that was moved is found under its new id by the next listing; until then its old id is gone.
            if (row->second.state == MachineState::gone && !row->second.watch && !m.migrated)
                violated("P1", pid + " exists and its row says gone (" + row->second.reason + ")");
        }
    // P2: at most one machine holds the current attempt of a task.
    if (!core_) return;
    // A provider whose trial is no machine of ours any more would never be launched at again.
    for (const auto& [name, p] : core_->world().providers)
        if (!p.breaker.trial.empty() && !core_->world().machines.contains(MachineId{p.breaker.trial}))
            violated("liveness", name + " waits for " + p.breaker.trial + ", which is not there");
    std::map<TaskId, int> holders;
    for (const auto& [id, machine] : core_->world().machines) {
        const auto& row = machine.row;
        // A machine that is up belongs to a current attempt, is ready for one, or came back and is about to be judged.
        if (row.state == MachineState::booting || row.state == MachineState::busy || row.state == MachineState::draining) {
            const auto task = core_->world().tasks.find(row.task);
            const bool holds = task != core_->world().tasks.end() && task->second.attempt && task->second.attempt->machine == id;
            if (!holds && row.reason != "back_from_interruption")
                violated("P1", row.id.get() + " is " + std::string(text(row.state)) + " (" + row.reason + ") for nobody");
        }
        if (row.state != MachineState::busy && row.state != MachineState::draining) continue;
        const auto task = core_->world().tasks.find(row.task);
        if (task != core_->world().tasks.end() && task->second.row.attempt == row.attempt && task->second.attempt &&
            ++holders[row.task] > 1)
            violated("P2", "two machines hold the current attempt of " + row.task.get());
    }
    // P7: whatever was acknowledged is in the store. All of them every ten minutes, and after each crash.
    if (unix_millis(now_) / 1000 % 600 != 0 && now_ - daemon_up_ > Seconds{2}) return;
    for (const std::string& id : acknowledged_) {
        const auto job = store_->reader().job(JobId{id});
        if (!job || !*job) violated("P7", id + " was acknowledged and is not in the store");
    }
}

void Simulation::check_settled() {
    for (auto& p : providers_)
        for (const auto& [pid, m] : p->machines())
            if (ModelProvider::exists(m)) violated("P1 liveness", pid + " (" + m.tag + ") still exists at the end");
    report_.jobs = static_cast<int>(jobs_.size());
    for (const auto& [id, user] : jobs_) {
        const auto job = store_->reader().job(id);
        if (!job || !*job) violated("P7", id.get() + " was acknowledged and is not in the store");
        switch ((*job)->state) {
            case JobState::succeeded: ++report_.succeeded; break;
            case JobState::failed: ++report_.failed; break;
            case JobState::cancelled: ++report_.cancelled; break;
            case JobState::held: ++report_.held; break;
            default:
                violated("liveness", id.get() + " is still " + std::string(text((*job)->state)) + " (" + (*job)->reason + ", " +
                                         (*job)->detail + ") after twelve calm hours");
        }
        if ((*job)->state == JobState::succeeded && user.accepted_outputs_attempt == 0)
            violated("truth", id.get() + " succeeded without an accepted output");
        const auto reserved = store_->reader().reservations(id);
        for (const auto& held : *reserved)
            if (!held.released_at && !rows_.at(held.machine).watch)
                violated("P5", "money is still reserved for " + held.machine.get());
    }
    for (auto& p : providers_) {
        report_.creates += p->creates;
        report_.raises += p->raises;
        report_.drifts += p->drifts;
        report_.migrations += p->migrations;
    }
    check_bills();
}

void Simulation::check_bills() {
    // P4, machine by machine: within 1 % of its bill, or one unit and a poll (a poll for each change of its price, where it had
    // several), and what lay hidden from the daemon (bill.hpp). A cost that is marked as "at least" may be lower. A change that
    // was told late though nothing kept the daemon from looking is a breach by itself.
    const auto ledger = store_->reader().ledger(JobId{}, instant_of(0), now_ + std::chrono::hours{2});
    if (!ledger) violated("store", ledger.error().message);
    struct Sum {
        std::int64_t micros{0};
        bool at_least{false};
    };
    std::map<MachineId, Sum> sums;
    for (const auto& row : *ledger) {
        if (!row.until) {
            if (const ModelMachine* m = model_of(row.machine); m && !rows_.at(row.machine).watch)
                violated("P4", "the ledger of " + row.machine.get() + " is still open");
            continue;
        }
        // A machine that moved to a new id may end in a second row under its tag; its bill goes on.
        const auto known = rows_.find(row.machine);
        const std::string tag = known == rows_.end() ? std::string() : known->second.tag.get();
        const std::size_t twin = tag.find('#');
        Sum& sum = sums[twin == std::string::npos ? row.machine : MachineId{parse_machine_tag(tag.substr(0, twin)).machine_id}];
        sum.micros += cost(row.gpu_rate + row.disk_rate, *row.until - row.from).micros;
        sum.at_least = sum.at_least || !row.rate_known;
    }
    for (const auto& [id, sum] : sums) report_.ledger_micros += sum.micros;
    for (auto& p : providers_)
        for (auto& [pid, m] : p->machines()) {
            m.bill.end(m.ended_at.value_or(now_));
            const std::int64_t bill = m.gpu_bill_micros_ms / 3'600'000;
            report_.billed_micros += bill;
            const MachineId id{parse_machine_tag(m.tag).machine_id};
            const auto found = sums.find(id);
            const Sum sum = found == sums.end() ? Sum{} : found->second;
            const std::int64_t off = std::abs(sum.micros - bill);
            report_.off_micros += off;
            const UsdPerHour rate{m.dearest};
            const std::int64_t unit = cost(rate, p->profile().step).micros;
            // What the promise says by itself is counted; the changes between make up for a machine of many.
            const std::int64_t plain = std::max(bill / 100, unit + cost(rate, Bill::kPoll).micros);
            const std::int64_t may = std::max(plain, unit + m.bill.between_looks());
            if (sum.at_least || sum.micros == 0) report_.at_least_micros += bill;
            if (off > plain) ++report_.machines_off;
            if (!m.bill.touched()) {
                report_.plain_billed_micros += bill;
                report_.plain_ledger_micros += sum.micros;
                ++report_.plain_machines;
            }
            if (m.bill.unexcused() > Millis{0})
                violated("P4", "a change of what " + id.get() + " (" + pid + ") costs lay between two looks that were " +
                                   duration_text(std::chrono::floor<Seconds>(m.bill.unexcused())) + " apart, from +" +
                                   duration_text(std::chrono::floor<Seconds>(m.bill.unexcused_at() - instant_of(1'790'000'000'000))) +
                                   ", and nothing kept the daemon from looking");
            if (sum.at_least && sum.micros <= bill) continue;
            if (off > may + m.bill.hidden())
                violated("P4", "the ledger of " + id.get() + " (" + pid + ") says " + dollars(sum.micros) + ", billed were " + dollars(bill) +
                                   "; 1 % or a unit and a poll are " + dollars(may) + ", not to be known were " + dollars(m.bill.hidden()));
        }
    // In an undisturbed world the whole is within 1 % plus, for each machine, one poll and the confirmation of its end, or a unit.
    if (seed_ % 8 != 0) return;
    std::int64_t slack = report_.billed_micros / 100;
    for (auto& p : providers_)
        slack += p->creates * cost(UsdPerHour{720'000}, std::max<Millis>(Seconds{30}, p->profile().step > Seconds{1} ? p->profile().step : Millis{0})).micros;
    if (std::abs(report_.ledger_micros - report_.billed_micros) > slack)
        violated("P4", "the ledger says " + dollars(report_.ledger_micros) + ", the provider billed " + dollars(report_.billed_micros));
}

}  // namespace gf::sim
