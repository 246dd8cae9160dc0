#include "daemon/orchestrator/orchestrator.hpp"

#include <algorithm>
#include <set>
#include <string_view>

#include "daemon/orchestrator/learned.hpp"
#include "daemon/orchestrator/step.hpp"

namespace gf {

namespace {

/// Where the bill of a machine began, as far as its rows still tell: the last interval, and when it was made or came up.
std::optional<Instant> billed_from(const World& w, const LiveMachine& machine) {
    const LedgerRecord& last = *machine.ledger;
    if (last.gpu_rate.micros <= 0) return std::nullopt;
    const auto from = w.providers.find(machine.row.provider.get());
    const bool free_boot = from != w.providers.end() && from->second.capabilities.gpu_free_while_booting;
    // Intervals one and two of a machine that boots for nothing are the boot and the first one that costs.
    if (last.number == 1 || (free_boot && last.number == 2)) return last.from;
    const Instant then = free_boot ? machine.row.ready_at.value_or(last.from) : machine.row.call_began.value_or(machine.row.created_at);
    return std::min(then, last.from);
}

}  // namespace

Orchestrator::Orchestrator(CoreSettings settings, std::vector<ProviderInfo> providers, std::uint64_t seed,
                           const LiveRows& live, std::map<JobId, std::shared_ptr<const JobSpec>> specs, Instant now)
    : world_(std::make_unique<World>(World{.settings = std::move(settings), .ids = IdMaker{Entropy{seed}},
                                           .entropy = Entropy{seed ^ 0x5bd1e995U}})) {
    World& w = *world_;
    w.ids.note("x_" + live.last_id_body);
    w.observations_from = now;
    w.queued_jobs = live.queued_jobs;
    for (auto& info : providers) {
        LiveProvider p;
        p.name = info.name;
        p.capabilities = info.capabilities;
        if (const auto listed = live.listed.find(info.name.get()); listed != live.listed.end())
            p.listed_before = p.listed_saved = listed->second;
        w.providers.emplace(info.name.get(), std::move(p));
    }
    for (const JobRecord& row : live.jobs) {
        // Jobs that only still have a machine on its way out are not live any more.
        if (is_final(row.state) || row.state == JobState::held || row.state == JobState::queued) continue;
        w.jobs[row.id] = LiveJob{row, specs.contains(row.id) ? specs.at(row.id) : nullptr};
    }
    for (const TaskRecord& row : live.tasks) {
        if (!w.jobs.contains(row.job)) continue;
        LiveTask task;
        task.row = row;
        if (const auto job = w.jobs.find(row.job); job != w.jobs.end() && job->second.row.state == JobState::stopping)
            task.stop_reason = job->second.row.reason;
        w.tasks[row.id] = std::move(task);
    }
    for (const AttemptRecord& row : live.attempts)
        if (const auto task = w.tasks.find(row.task); task != w.tasks.end()) task->second.attempt = row;
    for (const MachineRecord& row : live.machines) {
        LiveMachine& machine = w.machines[row.id];
        machine.row = row;
        machine.last_heard = now;
        machine.seen_saved = row.seen_at;
        machine.bid_unsure = row.bid.has_value();
        // Up, with its task waiting under the number that it ran: it came back from an interruption.
        const auto task = w.tasks.find(row.task);
        if ((row.state == MachineState::booting || row.state == MachineState::ready) && task != w.tasks.end() &&
            task->second.row.state == TaskState::waiting && task->second.row.attempt == row.attempt)
            machine.back_at = now;
        machine.next_call = now;
    }
    for (const LedgerRecord& row : live.ledgers)
        if (const auto machine = w.machines.find(row.machine); machine != w.machines.end()) {
            machine->second.ledger = row;
            machine->second.billed_from = billed_from(w, machine->second);
        }
    auto marks = std::make_shared<HostMarks>();
    for (const HostMarkRecord& row : live.host_marks) {
        // The cool-down after a fault outlives the process.
        if (const std::size_t host = row.key.find("/host/"); host != std::string::npos && now - row.at < w.settings.cooldown)
            w.bad_hosts[row.key.substr(0, host) + row.key.substr(host + 5)] = {row.at + w.settings.cooldown, row.last};
        (*marks)[row.key] = row;
    }
    w.host_marks = std::move(marks);
    auto learned = std::make_shared<RunHistory>();
    for (const LearnedRecord& row : live.learned) (void)take_learned(*learned, row);  // what cannot be read was never learned
    w.learned = std::move(learned);
    for (auto& [id, job] : w.jobs) job.spec = with_peaks(std::move(job.spec), *w.learned);
    for (const ReservationRecord& row : live.reservations)
        if (const auto machine = w.machines.find(row.machine); machine != w.machines.end()) machine->second.reservation = row;
    for (const AlertRecord& row : live.alerts) w.open_alerts[row.dedupe] = row;
}

Orchestrator::~Orchestrator() = default;

RowRequest Orchestrator::wants(const Event& event) const {
    RowRequest want;
    if (const auto* e = std::get_if<SubmitJob>(&event)) {
        want.principal = e->principal;
        want.idempotency_key = e->idempotency_key;
    } else if (const auto* command = std::get_if<CommandJob>(&event)) {
        if (!world_->jobs.contains(command->job)) want.job = command->job;
    } else if (const auto* machine = std::get_if<CommandMachine>(&event)) {
        if (!world_->machines.contains(machine->machine)) want.machines.push_back(machine->machine);
    } else if (const auto* listing = std::get_if<ListingSeen>(&event); listing && listing->result) {
        for (const auto& seen : listing->result->machines)
            for (const std::string& tag : {seen.tag, seen.env_tag}) {
                const auto parts = parse_machine_tag(tag);
                if (parts.install != world_->settings.install || parts.install.empty()) continue;
                if (!world_->machines.contains(MachineId{parts.machine_id})) want.machines.emplace_back(parts.machine_id);
            }
    } else if (const auto* offered = std::get_if<CheckpointOffered>(&event)) {
        const auto found = world_->machines.find(offered->machine);
        if (found != world_->machines.end()) want.checkpoint_of = found->second.row.task;
    }
    return want;
}

Effects Orchestrator::apply(const Event& event, const StoredRows& rows, Instant now) {
    Step step(*world_, now);
    step.settle_after_start();
    std::visit([&](const auto& e) { step.on(e, rows); }, event);
    return step.take();
}

PublicView Orchestrator::view(Instant now) const {
    PublicView out;
    out.ready = true;
    for (const auto& [name, p] : world_->providers) {
        ProviderView view{.name = p.name, .capabilities = p.capabilities, .health = "ok", .reason = {}, .balance = p.balance,
                          .offers_at = p.offers_at, .listing_at = p.listing_at, .offers = static_cast<int>(p.offers.size()),
                          .rejected = 0};
        std::set<std::string_view> told;  // by several searches, and once only here
        for (const auto& [piece, list] : p.rejected)
            for (const RejectedOffer& offer : list.second) {
                if (!told.insert(offer.id).second) continue;
                ++view.rejected;
                ++view.rejected_by[offer.reason];
            }
        if (!p.listing_asked_once || !p.offers_asked_once) {
            view.health = "unknown";
            view.reason = "not asked yet";
            out.ready = false;
        }
        if (!p.offers_error.empty()) view.health = "degraded", view.reason = p.offers_error;
        if (!p.listing_error.empty()) view.health = "degraded", view.reason = p.listing_error;
        if (auto reason = p.paused(now); !reason.empty()) view.health = "launch_paused", view.reason = std::move(reason);
        if (breaker_state(p.breaker, now) != BreakerState::closed) view.health = "launch_paused", view.reason = "creates_failing";
        for (const auto* list : {&p.offers_drift, &p.listing_drift}) view.drift.insert(view.drift.end(), list->begin(), list->end());
        if (!view.drift.empty()) view.health = "launch_paused", view.reason = "drift";
        if (p.not_trusted) view.health = "listing_not_trusted", view.reason = "machines that exist are missing from it";
        out.offers.insert(out.offers.end(), p.offers.begin(), p.offers.end());
        for (const auto& [id, m] : world_->machines)
            if (m.row.provider == p.name && m.row.state != MachineState::gone) ++view.machines;
        out.providers.push_back(std::move(view));
    }
    out.jobs_live = static_cast<std::int64_t>(world_->jobs.size());
    out.jobs_queued = world_->queued_jobs;
    return out;
}

}  // namespace gf
