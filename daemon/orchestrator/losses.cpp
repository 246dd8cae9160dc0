// Losses that may be an empty account's doing (DESIGN 6.4: look at the balance before counting). A provider that runs out of our
// money stops or ends machines as a market or a broken host does, and gives no reason. Such an end is nobody's fault and counts
// for nothing; which it was, the balance tells.
#include <algorithm>
#include <utility>

#include "daemon/orchestrator/step.hpp"

namespace gf {
namespace {

/// How long a task is held back at most for the balance after its loss. An answer takes a second or two.
constexpr Millis kJudged = Seconds{30};

}  // namespace

UsdPerHour Step::burn_at(const LiveProvider& from) {
    UsdPerHour sum;
    const auto add = [&](const MachineRecord& row) {
        sum = sum + std::max(row.offer.gpu_rate, row.bid.value_or(UsdPerHour{0})) + disk_rate(row);
    };
    for (const auto& [id, machine] : w_.machines)
        if (machine.row.provider == from.name && machine.ledger) add(machine.row);
    for (const UnjudgedLoss& loss : from.unjudged)
        if (!w_.machines.contains(loss.machine.id)) add(loss.machine);
    return sum;
}

Step::Account Step::account_at_loss(const LiveMachine& machine, Instant began) {
    const LiveProvider* from = provider(machine.row.provider);
    if (!from || !from->balance) return Account::in_money;
    const Instant asked = from->balance_at.value_or(now_);
    // A minute-old figure that the machines there have used up since.
    if (*from->balance <= cost(burn_at(*from), std::max(Millis{0}, now_ - asked) + w_.settings.sweep)) return Account::empty;
    // It is enough for ours. Whether others use the account too is seen by asking.
    return asked >= began || !from->capabilities.balance ? Account::in_money : Account::in_doubt;
}

void Step::lost(LiveMachine& machine, LiveTask& task, LiveJob& job, UnjudgedLoss loss, Account account) {
    LiveProvider* from = provider(machine.row.provider);
    switch (account) {
        case Account::in_money:
            if (loss.boot_failed) mark_host(machine, HostEvent::boot_failure, loss.detail);
            else mark_loss(machine, loss.by_market, loss.detail);
            end_attempt(task, loss.cause, loss.detail);
            recover(job, task, loss.cause, loss.detail);
            return;
        case Account::empty:
            // Not the host's fault and not the job's: it does not count, and the provider is out until there is money. What else
            // is lost there next has the same reason.
            if (from) {
                from->balance = Usd{std::min<std::int64_t>(0, from->balance ? from->balance->micros : 0)};
                from->balance_next = now_;
                pause(*from, "no_money", loss.detail);
            }
            end_attempt(task, Cause::host_fault, "no money left at the provider: " + loss.detail);
            if (job.row.cancel_requested || job.row.hold_requested || !task.stop_reason.empty()) return stop_over(job, task);
            move(task, TaskState::waiting, "no_money");
            move(job, JobState::recovering, "no_money", loss.detail);
            return;
        case Account::in_doubt:
            break;
    }
    loss.machine = machine.row;
    loss.task = task.row.id;
    loss.attempt = task.row.attempt;
    loss.at = now_;
    loss.held_until = now_ + kJudged;
    end_attempt(task, loss.cause, loss.detail);
    task.row.not_before = loss.held_until;
    recover(job, task, loss.cause, loss.detail, false);
    from->unjudged.push_back(std::move(loss));
    if (from->balance_call) return;  // its answer may be older than the loss; then another one follows
    from->balance_call = now_;
    effect(CallBalance{from->name});
}

void Step::judge_losses(LiveProvider& from, Instant asked, bool told) {
    if (from.unjudged.empty()) return;
    const bool empty = told && from.balance && *from.balance <= cost(burn_at(from), w_.settings.sweep);
    // Nobody waits for an answer for ever; without one a loss is what it looks like.
    const auto due = [&](const UnjudgedLoss& loss) { return loss.at <= asked || now_ + Seconds{2} >= loss.held_until; };
    std::vector<UnjudgedLoss> judged;
    for (const UnjudgedLoss& loss : from.unjudged)
        if (due(loss)) judged.push_back(loss);
    std::erase_if(from.unjudged, due);
    for (const UnjudgedLoss& loss : judged) {
        LiveMachine was;
        was.row = loss.machine;
        was.life_from = now_;  // its hours were noted when it went
        if (empty) pause(from, "no_money", loss.detail);
        else if (loss.boot_failed) mark_host(was, HostEvent::boot_failure, loss.detail);
        else mark_loss(was, loss.by_market, loss.detail);
        LiveTask* task = task_of(was);
        LiveJob* job = task ? job_of(*task) : nullptr;
        if (!job || task->attempt || task->row.attempt != loss.attempt || task->row.state != TaskState::waiting ||
            job->row.state != JobState::recovering)
            continue;
        w_.queue_dirty = true;
        // Whoever waits for a kept machine waits on.
        const auto waits = task->row.not_before == loss.held_until ? std::nullopt : task->row.not_before;
        if (empty) {
            task->row.not_before = waits;
            move(*task, TaskState::waiting, "no_money");
            move(*job, JobState::recovering, "no_money", loss.detail);
            continue;
        }
        recover(*job, *task, loss.cause, loss.detail);
        if (!waits || task->row.state != TaskState::waiting) continue;
        task->row.not_before = waits;
        save(*task);
    }
    if (w_.queue_dirty) look_at_queue_now();  // a take-over waited for this answer
    if (from.unjudged.empty() || from.balance_call) return;
    from.balance_call = now_;
    effect(CallBalance{from.name});
}

}  // namespace gf
