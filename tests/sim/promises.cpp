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
            if (!machine->row.provider_id.empty()) provider_ids_[machine->row.id] = machine->row.provider_id.get();
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
    // P4: per machine within 1 % or one unit of its bill, and what nobody could have known better: how long each change of its
    // price had not been told to anybody. Where an answer was told and lost on the way (a crash, a commit that failed), or came
    // late, the next one is as good, a sweep or two later.
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
    // One poll, and with answers that fail a few: what vanished is billed to its last sight.
    Seconds late{33};
    if (faults_.slow_answers) late += Seconds{120};
    if (report_.crashes > 0 || report_.failed_commits > 0) late += Seconds{150} * (report_.crashes + report_.failed_commits);
    for (auto& p : providers_)
        for (const auto& [pid, m] : p->machines()) {
            const std::int64_t bill = m.gpu_bill_micros_ms / 3'600'000;
            report_.billed_micros += bill;
            const MachineId id{parse_machine_tag(m.tag).machine_id};
            const auto found = sums.find(id);
            const Sum sum = found == sums.end() ? Sum{} : found->second;
            const std::int64_t rate = std::max(m.dearest, std::max(m.gpu_rate.micros, m.offer.gpu_rate.micros) + disk_rate(m.offer, 20).micros);
            const std::int64_t off = std::abs(sum.micros - bill);
            const std::int64_t unit = std::max(bill / 100, cost(UsdPerHour{rate}, p->profile().step).micros);
            report_.off_micros += off;
            if (sum.at_least || sum.micros == 0) report_.at_least_micros += bill;
            if (off > unit) ++report_.machines_off;
            if (sum.at_least && sum.micros <= bill) continue;
            // A create without a clear answer whose machine ended before any listing could show it.
            if (!m.shown && sum.micros == 0) continue;
            // What it cost under an id that ended before anybody was shown it.
            if (m.moved_unseen) continue;
            // Under a new id it is not believed to be the same machine before a read of the old one has said so, which may take
            // as long as reads fail. Its bill is never too low for that.
            if (m.migrated && sum.micros >= bill) continue;
            const std::int64_t unknown = m.untold_micros_ms / 3'600'000 + cost(UsdPerHour{rate}, late).micros;
            if (off > unit + unknown)
                violated("P4", "the ledger of " + id.get() + " (" + pid + ") says " + dollars(sum.micros) + ", billed were " + dollars(bill) +
                                   "; one unit is " + dollars(unit) + ", not to be known were " + dollars(unknown));
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
