// One application of one event: the world it changes, the rows and effects it leaves. The member functions are grouped by
// the file that implements them. Parents decide and apply; the only way to change a state is `move`, which checks the
// transition table and writes the row and its event.
#pragma once
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/orchestrator/world.hpp"
#include "scheduler/choice.hpp"
#include "scheduler/deadline.hpp"
#include "scheduler/planner.hpp"

namespace gf {

/// The same sight without its figures of money: from an answer whose units are in doubt.
[[nodiscard]] inline ProviderMachine without_money(ProviderMachine seen) {
    seen.gpu_rate.reset();
    seen.disk_rate.reset();
    seen.spot_floor.reset();
    return seen;
}

class Step {
 public:
    Step(World& world, Instant now) : w_(world), now_(now), told_at_(now) {}
    /// Ends the step: lets go of jobs that are not live any more and hands out what was decided.
    Effects take();

    /// The first step after a start: calls that were open when the last process ended.
    void settle_after_start();

    // api.cpp
    void on(const SubmitJob& e, const StoredRows& rows);
    void on(const CommandJob& e, const StoredRows& rows);
    void on(const CommandMachine& e, const StoredRows& rows);
    void on(const PutTokenCommand& e, const StoredRows& rows);
    // secrets.cpp
    void on(const PutSecretCommand& e, const StoredRows& rows);
    void on(const DropSecretCommand& e, const StoredRows& rows);
    // bids.cpp
    void on(const BidRaised& e, const StoredRows& rows);
    // tunnels.cpp
    void on(const TunnelChanged& e, const StoredRows& rows);
    // market.cpp
    void on(const OffersSeen& e, const StoredRows& rows);
    void on(const BalanceSeen& e, const StoredRows& rows);
    // listing.cpp
    void on(const ListingSeen& e, const StoredRows& rows);
    // renting.cpp
    void on(const LaunchEnded& e, const StoredRows& rows);
    void on(const ReadEnded& e, const StoredRows& rows);
    void on(const DestroyEnded& e, const StoredRows& rows);
    // agents.cpp
    void on(const AgentConnected& e, const StoredRows& rows);
    void on(const AgentDisconnected& e, const StoredRows& rows);
    void on(const AgentSaid& e, const StoredRows& rows);
    // fencing.cpp
    void on(const CheckpointOffered& e, const StoredRows& rows);
    void on(const OutputOffered& e, const StoredRows& rows);
    void on(const CheckpointBroken& e, const StoredRows& rows);
    // planning.cpp
    void on(const QueuePage& e, const StoredRows& rows);
    // timers.cpp
    void on(const Tick& e, const StoredRows& rows);
    void on(const ClockJumped& e, const StoredRows& rows);

 private:
    // step.cpp: the one way to change rows and speak.
    void move(LiveJob& job, JobState to, std::string_view reason, std::string_view detail = {});
    void move(LiveTask& task, TaskState to, std::string_view reason);
    void move(LiveTask& task, AttemptState to, std::string_view reason);
    void move(LiveMachine& machine, MachineState to, std::string_view reason, std::string_view detail = {});
    void save(LiveMachine& machine);
    void save(LiveTask& task);
    void save_attempt(LiveTask& task);
    void history(EventRecord event);
    void alert(std::string_view kind, std::string_view severity, std::string dedupe, std::string text,
               const LiveMachine* machine = nullptr, const ProviderName& provider = {});
    void clear_alert(const std::string& dedupe);
    void note(std::string_view level, std::string text);
    void reply(RequestId to, int status, std::string json, std::string location = {});
    void refuse(RequestId to, int status, Error error);
    void send(const LiveMachine& machine, agent_protocol::ToAgent message);
    template <class E>
    void effect(E e) { out_.after_commit.push_back(std::move(e)); }

    LiveJob* job_of(const LiveTask& task);
    LiveTask* task_of(const LiveMachine& machine);
    /// The machine of the task's current attempt; null if there is none that is live.
    LiveMachine* machine_of(const LiveTask& task);
    LiveTask* task_of_job(const JobId& job);
    LiveProvider* provider(const ProviderName& name);
    /// True while the machine's attempt number is the task's and that attempt has not ended.
    bool holds_current(const LiveMachine& machine);
    Millis backoff(int tries);
    void drop_idle_jobs();

    // renting.cpp
    void rent(LiveJob& job, LiveTask& task, const RankedOffer& choice);
    void adopt(LiveMachine& machine, const ProviderMachineId& id, std::string_view how);
    void destroy(LiveMachine& machine, std::string_view reason, std::string_view detail = {});
    void drive_destroy(LiveMachine& machine);
    /// The task is about to be placed: its older machines that are still kept (interrupted, back, waiting for their market) lose
    /// their right, and go in the transaction that gives it to `next`.
    void supersede(const LiveTask& task, const MachineId& next);
    void call_read(LiveMachine& machine);
    void now_gone(LiveMachine& machine, std::string_view reason);
    /// A sight of the machine alive, by its provider or its agent. Written at most once a minute.
    void seen_alive(LiveMachine& machine, Instant at);
    /// The machine is gone without our order: it billed until somebody last saw it, what came after is not known.
    void bill_to_last_sight(LiveMachine& machine);
    void cool(const Offer& offer, std::string reason, bool host_too);
    /// No launches for the cool-down, and people are told. A longer pause for the same reason stays as it is.
    void pause(LiveProvider& provider, std::string_view reason, std::string_view detail);
    // hosts.cpp
    /// Remembers something of the machine's host. Before `recover`, which counts the try.
    void mark_host(const LiveMachine& machine, HostEvent event, std::string_view detail);
    /// A machine was lost, by its market's or its host's doing: learned, and held against the host if it came within the first hour.
    void mark_loss(LiveMachine& machine, bool by_market, std::string_view detail);
    /// A machine has come up: how long it took, held against what its image takes.
    void mark_start(const LiveMachine& machine);
    void forget_faint_marks();
    /// The create or the start of this machine came to nothing, and nobody was asked to.
    void create_failed(LiveMachine& machine, std::string_view detail);
    void create_worked(LiveMachine& machine);
    /// A machine of the task did not come up. True once that is its image's doing, so that another machine would be no use: where the
    /// provider says so (`told`) of two hosts, or where three in a row came to nothing, while other images do come up there and this
    /// one never did.
    bool image_at_fault(const LiveMachine& machine, LiveTask& task, bool told);
    // learning.cpp
    [[nodiscard]] std::shared_ptr<RunHistory> history_to_change() const;
    void learn_speed(const LiveTask& task, const LiveMachine& machine, WorkUnit unit, std::int64_t work, Millis busy);
    void learn_total(const LiveTask& task, WorkUnit unit, std::int64_t total);
    void learn_progress(LiveTask& task, const LiveMachine& machine, std::int64_t step, std::int64_t total);
    /// The task's attempt is over, and its row is still there.
    void learn_end(const LiveTask& task, const LiveMachine& machine, bool succeeded);
    /// The hours since its life was last noted, and whether it was lost now.
    void learn_life(LiveMachine& machine, bool lost);
    /// The machine has left one state for another.
    void learn_life(LiveMachine& machine, MachineState from, MachineState to);
    void learn_start(StartPhase phase, const LiveMachine& machine, Millis took);
    /// The command of the task's attempt was started.
    void learn_started(LiveTask& task, const LiveMachine& machine);
    /// How much GPU memory the attempt took, at its end.
    void learn_memory(const LiveTask& task, const LiveMachine& machine, Cause cause);
    void forget_learned();
    // bids.cpp
    void consider_bid(LiveMachine& machine, const ProviderMachine& seen);
    /// The bid is that now: told by the answer to a raise, or by what its provider bills.
    void bid_is(LiveMachine& machine, UsdPerHour bid);
    /// The highest rate that may be our own bid: one whose answer never came is as good as taken.
    UsdPerHour bid_most(const LiveMachine& machine);
    /// Takes over a bid of ours that the provider shows and no answer told of.
    void take_over_bid(LiveMachine& machine, const ProviderMachine& seen);
    // losses.cpp
    enum class Account { in_money, empty, in_doubt };
    /// What the account of the machine's provider had when the machine was lost, as far as the last balance tells. `began`: of the
    /// look that showed the loss.
    Account account_at_loss(const LiveMachine& machine, Instant began);
    /// By the agreed rates, of the machines that bill there and of those that were just lost.
    UsdPerHour burn_at(const LiveProvider& provider);
    /// The provider's word is that the machine of this attempt is lost. Ends the attempt; counts, marks and recovers as the account
    /// says. The machine stays as it is. `boot_failed`: its host stopped it before it was up.
    void lost(LiveMachine& machine, LiveTask& task, LiveJob& job, UnjudgedLoss loss, Account account);
    /// With a balance that was asked for then; `told` = it came.
    void judge_losses(LiveProvider& provider, Instant asked, bool told);
    // observing.cpp
    void observe(LiveMachine& machine, const ProviderMachine& seen, Instant began, bool by_read);
    void observe_stopped(LiveMachine& machine, const ProviderMachine& seen, Instant began);
    /// Held against the offer and the job's cap. True if the machine was given back for it.
    bool rate_over(LiveMachine& machine, const ProviderMachine& seen);
    /// It is not what was offered: its host is remembered, it goes, and its attempt is made up for elsewhere.
    void worse_than_offered(LiveMachine& machine, std::string_view reason, const std::string& detail);
    /// It lives on under another id of its provider. False if that is somebody else's by now.
    bool follow(LiveMachine& machine);
    /// An interrupted machine runs again, by its provider's word or its agent's.
    void back_from_interruption(LiveMachine& machine);
    // listing.cpp
    void listing_failed(LiveProvider& from, const Error& error);
    [[nodiscard]] static bool may_have_moved(const LiveMachine& machine, const ProviderMachineId& to, const Listing& listing);
    bool compare_listing(LiveProvider& from, const ListingSeen& e, bool& alone);
    void resolve_unknown(LiveMachine& machine, Instant began, bool trusted, bool alone);
    void unlisted_row(const ProviderMachine& seen, LiveProvider& from, Instant began, const StoredRows& rows);
    void twin(const ProviderMachine& seen, LiveProvider& from, const std::string& tag);
    void orphan(const ProviderMachine& seen, LiveProvider& from, MachineRecord row);
    void back_from_gone(const ProviderMachine& seen, LiveProvider& from, MachineRecord row);
    LiveMachine& found_machine(const ProviderMachine& seen, LiveProvider& from, MachineRecord row);
    LiveMachine* live_match(const ProviderMachine& seen, const ProviderName& from);
    // agents.cpp
    /// Any word of the agent.
    void heard(LiveMachine& machine);
    void hello(LiveMachine& machine, const agent_protocol::Hello& m);
    /// What of the machine is worse than was offered or asked for; empty = nothing (machine_check.cpp).
    std::string check_machine(const LiveMachine& machine, const JobSpec* spec, const agent_protocol::MachineReport& r);
    /// Hands out the lease, once its provider has said what it bills: that is the last part of the machine check.
    void lease_when_billed(LiveMachine& machine, bool held);
    void lease_after_read(LiveMachine& machine);
    /// The agent of a machine that is known to its provider has passed its check: ready, and billed for its GPUs.
    void agent_is_there(LiveMachine& machine);
    /// `held`: the agent holds this attempt already, so that what was given with it need not be there any more.
    void lease(LiveMachine& machine, bool held = false);
    void exited(LiveMachine& machine, LiveTask& task, const agent_protocol::Exited& m);
    // tunnels.cpp
    /// Opens the way to a machine whose provider shows where its sshd is, or moves it. Machines that dial us have none.
    void look_for_tunnel(LiveMachine& machine, const ProviderMachine& seen);
    void close_tunnel(LiveMachine& machine);
    // recovery.cpp
    void end_attempt(LiveTask& task, Cause cause, std::string_view detail);
    void give_back(LiveTask& task, std::string_view reason, std::string_view detail);
    /// `counted` = false: it is not known yet whether this counts (losses.cpp).
    void recover(LiveJob& job, LiveTask& task, Cause cause, std::string_view detail, bool counted = true);
    void finish(LiveJob& job, LiveTask& task, TaskState task_state, JobState job_state, std::string_view reason,
                std::string_view detail);
    void stop_job(LiveJob& job, LiveTask& task, std::string_view reason);
    void stop_over(LiveJob& job, LiveTask& task);
    /// Asks a job to checkpoint and leave a machine whose lease at its provider ends.
    void leave_before_lease_ends(LiveMachine& machine, LiveTask& task, LiveJob& job);
    /// Asks a running job to checkpoint and leave its machine, for `reason`. Asked once.
    void leave(LiveMachine& machine, LiveTask& task, std::string_view reason, const std::string& detail);
    /// Lets go of one that was asked and did not leave in time. True if it is gone for that.
    bool leave_is_over(LiveMachine& machine, LiveTask& task, LiveJob& job);
    /// The attempt is over for that: no loss, nobody's fault, nothing counted.
    void left(LiveMachine& machine, LiveTask& task, LiveJob& job);
    // deadlines.cpp
    /// For a job whose deadline decides between spot and on-demand: narrows the decision down to what is to be rented now, if anything.
    void choose_by_deadline(const LiveJob& job, LiveTask& task, const ChoiceWorld& world, Decision& decision);
    /// A running job with a deadline: leaves its machine when it should be elsewhere.
    void look_at_deadline(LiveJob& job, LiveTask& task);
    std::optional<SpotDecision> ask_spot_policy(LiveTask& task, const DeadlinePlan& plan);
    void release_machine(LiveMachine& machine, std::string_view reason, bool reusable);
    // ledger.cpp
    void open_ledger(LiveMachine& machine, Instant from, UsdPerHour gpu, UsdPerHour disk, bool known);
    /// `last`: when what it costs was told before this, where it was.
    void rate_seen(LiveMachine& machine, const ProviderMachine& seen, Instant at, Instant last = Instant::max());
    /// When the machine, whose ledger is open, was last seen alive, or its rate told.
    [[nodiscard]] static Instant last_sight(const LiveMachine& machine);
    /// So long without a look that what was billed meanwhile is not known.
    [[nodiscard]] bool long_unseen(Instant last, Instant at) const;
    void close_ledger(LiveMachine& machine, Instant at);
    /// From now on its time is that job's, at the same rate: an interval of its own. An empty job = idle, at the project's cost.
    void bill_to(LiveMachine& machine, const JobId& job, const std::string& project);
    /// All-in, what it may cost from now on: the most of what was offered, bid and billed.
    [[nodiscard]] static UsdPerHour rate_held(const LiveMachine& machine);
    /// We were away while a machine booted that costs nothing until it runs: it may have run since it was last seen, so that what
    /// it costs is "at least" from there.
    void free_boot_unseen(LiveMachine& machine);
    /// The same for the end of the machine's bill: up to the next step of it, and no less than its minimum.
    void end_ledger(LiveMachine& machine, Instant at);
    void reserve(LiveMachine& machine, const JobSpec& spec, const LiveTask& task);
    /// For a machine without a job: a rolling hour, renewed like the others.
    void reserve_rolling(LiveMachine& machine);
    /// Makes the reservation last until then, if it ends earlier; its amount grows with it.
    void reserve_until(LiveMachine& machine, Instant until);
    /// What still bills after the permitted time is over: the last checkpoint, and the destroy until it is confirmed.
    [[nodiscard]] Millis tail(const JobSpec& spec) const { return spec.checkpoint.grace + w_.settings.destroy_allowance; }
    void renew(LiveMachine& machine);
    void release(LiveMachine& machine);
    // placement.cpp
    [[nodiscard]] static TaskWork work_of(const LiveJob& job, const LiveTask& task);
    /// What choosing may know, with what is known of this task's work.
    [[nodiscard]] ChoiceWorld choice_world_of(const LiveJob& job, const LiveTask& task) const;
    /// Of all providers, what can be chosen from now.
    [[nodiscard]] std::vector<Offer> choosable_offers() const;
    /// Asks for what this task has to see of the markets. False while it has to wait for that; `settled` = there is nothing more to wait for.
    bool known_enough(const LiveJob& job, const LiveTask& task, bool& settled);
    /// Only the price that is about to be paid has to be young: it alone is read again, before all other looks. False if it is young.
    bool ask_price(const Offer& chosen);
    /// All-in, of the best known offer for the rest of this job that is not on that machine's host.
    std::optional<UsdPerHour> best_elsewhere(const LiveJob& job, const LiveTask& task, const LiveMachine& machine);
    /// A decision without a choice is written no more often than this says.
    [[nodiscard]] bool decision_due(const JobId& job) const;
    void write_decision(const JobId& job, const Decision& decision);
    void look_at_queue();
    /// For the answer that waiting tasks were held up for: at once, not at the next pass.
    void look_at_queue_now();
    bool offers_settled(const JobSpec& spec);
    [[nodiscard]] bool price_fresh(const LiveProvider& p, int gpu_count, bool spot) const;
    [[nodiscard]] bool prices_fresh(const LiveProvider& p, const ResourceSpec& wanted) const;
    /// What this provider must be asked to know the prices that the job can use.
    [[nodiscard]] static OfferQuery query_for(const LiveProvider& p, const JobSpec& spec);
    // planning.cpp
    struct Ready;
    class QueuePass;
    std::vector<Ready> ready_tasks(const QueuePage& page, bool& waits_for_offers);
    /// Of a page, or the holder of a quota: fails it, says what it waits for, or makes it ready.
    bool is_ready(LiveJob& job, LiveTask& task, bool& waits_for_offers);
    void take_holder(std::vector<Ready>& ready);
    void plan_tasks(std::span<const Ready> ready, QueuePass& pass);
    void place_by_deadline(const Ready& ready, QueuePass& pass);
    /// True if it was rented, false if it is not what the plan saw any more.
    bool launch(const Ready& ready, const Offer& offer, bool kept, QueuePass& pass);
    /// False where creates came to nothing before, and a launch of this very pass is the trial.
    [[nodiscard]] bool may_launch(const Offer& offer) const;
    void take_warm(LiveJob& job, LiveTask& task, LiveMachine& warm);
    void note_waiting(const Ready& ready, const Waiting& waiting, QueuePass& pass);
    void keep_holder(std::span<const Ready> ready, const Plan& made);
    QueueNote& note_of(const LiveTask& task);
    [[nodiscard]] std::vector<WarmMachine> warm_machines() const;
    [[nodiscard]] std::map<std::string, PlanProject> projects_now() const;
    // secrets.cpp
    /// Why the job's secrets cannot be handed over now; empty = they can.
    [[nodiscard]] std::string secrets_trouble(const JobSpec& spec) const;
    /// True while the task can only wait for a secret: said in its job's reason, and nothing is rented.
    bool waits_for_secrets(LiveJob& job, LiveTask& task);
    // market.cpp
    void drive_provider(LiveProvider& provider);
    /// Takes over what an answer says of its own shape, and tells people when that changes anything.
    void take_drift(LiveProvider& provider, std::vector<Drift>& kept, const std::vector<Drift>& seen, bool whole);
    void drive_tidy(LiveProvider& provider, bool machines_here);
    // timers.cpp
    void drive_machine(LiveMachine& machine);
    void drive_task(LiveTask& task);
    bool not_started_in_time(LiveMachine& machine, LiveTask* task, LiveJob* job);
    /// True while a machine that came back may still hand in the only copy of its task's work.
    bool may_hold_work(const LiveMachine& machine);

    World& w_;
    Instant now_;
    Instant told_at_;  // when the answer that is applied came; a suspend of ours may lie between
    Effects out_;
    std::vector<JobId> touched_;  // jobs whose state changed in this step
    int deadline_looks_{0};       // in this step
};

}  // namespace gf
