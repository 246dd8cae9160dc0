// The runtime: the one thread that owns the core and the store's writer. It takes a batch of queued events, applies them
// all, commits one transaction and only then lets the effects out. If the commit fails nothing is let out: the core is
// rebuilt from the store and what was not an API request is applied again.
#pragma once
#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "daemon/api/core_port.hpp"
#include "daemon/batch.hpp"
#include "daemon/gateway/gateway.hpp"
#include "daemon/orchestrator/orchestrator.hpp"
#include "daemon/runtime/disk_guard.hpp"
#include "daemon/runtime/lanes.hpp"
#include "daemon/runtime/provider_checks.hpp"
#include "db/store.hpp"
#include "providers/clock.hpp"
#include "providers/port.hpp"
#include "scheduler/market_book.hpp"

namespace gf {

struct RuntimeOptions {
    CoreSettings core;
    PrunePolicy retention;                                        // applied about every hour
    std::uint64_t seed{0};
    std::string data_dir;
    /// Parses a stored spec; null for a text that no longer parses. Called on the core's thread.
    std::function<std::shared_ptr<const JobSpec>(const std::string& text, bool yaml)> parse_spec;
    /// Fills in what a machine needs to find us: environment, start script, ssh keys. Called on a lane's thread. An error is told
    /// as the outcome of a launch that never left this machine.
    std::function<Result<void>(LaunchRequest&, const MachineId&)> complete_launch;
    /// Opens a stored secret (daemon/secrets). Called on the core's thread. Empty = no secret can be opened.
    std::function<Result<Secret>(const SecretRecord&)> open_secret;
    /// What the daemon sees of its own place, for the doctor. Called on a lane's thread, may block. May be empty.
    std::function<std::vector<CheckLine>()> self_checks;
    std::function<void(std::int64_t last_seq)> events_committed;  // may be empty
    std::function<void(const JobId&)> generation_committed;       // a new checkpoint generation of this job; may be empty
    /// What a look at a provider's market has shown, for the record. Called on a lane's thread; never blocks; may be empty.
    std::function<void(MarketLook)> market_seen;
    std::function<void()> alive;                                  // called about every second by a healthy core thread
    /// Both may be empty, and neither blocks for long.
    std::function<void(const OpenTunnel&)> open_tunnel;
    std::function<void(const MachineId&)> close_tunnel;
};

class Runtime final : public CorePort {
 public:
    /// All references outlive the runtime. `start` may be called once.
    Runtime(Store& store, Clock& clock, std::vector<std::unique_ptr<Provider>> providers, RuntimeOptions options);
    ~Runtime() override;

    /// Rebuilds the core from the store. Errors: of the store. Call before `start` and before the gateway admits agents.
    Result<void> load();
    void start();
    /// Where messages for agents go; set before `start`. The gateway outlives the runtime's thread.
    void set_gateway(Gateway* gateway) { gateway_ = gateway; }
    /// Finishes the batch in hand, answers what waits with `unavailable`, waits shortly for provider calls.
    void stop();

    void post(Event event, std::function<void(ApiResult)> reply) override;
    [[nodiscard]] std::shared_ptr<const PublicView> view() const override;
    [[nodiscard]] std::shared_ptr<const ChoiceWorld> choice_world() const override;
    [[nodiscard]] Instant now() const override { return clock_.now(); }
    void check_providers(std::function<void(std::vector<CheckLine>)> done) override { checks_->ask(std::move(done)); }

    /// The gateway's admission look-up: thread-safe.
    [[nodiscard]] std::optional<MachineGate> gate(const std::string& tag) const;
    struct Counters {
        std::int64_t commits{0}, commits_failed{0}, events{0}, micros{0};
    };
    [[nodiscard]] Counters counters() const;

 private:
    struct Pending {
        Event event;
        RequestId request{0};
    };

    void run();
    std::vector<Pending> next_batch();
    void apply_batch(std::vector<Pending> batch);
    Result<StoredRows> rows_for(const RowRequest& want);
    /// The rows of an event could not be read. True = it was changed into one that can be applied without them.
    bool unreadable(Pending& pending, const Error& error);
    /// Commits what the batch holds, lets its effects out and empties it. False = nothing of it happened (`commit_error_`).
    bool commit(Batch& batch);
    void release(std::vector<Effect> effects);
    void commit_failed(std::vector<Pending> batch);
    void drop_queue();
    void prune();
    void answer(RequestId to, ApiResult result);
    void release_call(Effect& effect);
    /// Tells the core which secrets there are that can be opened, and the log which cannot. Errors: of the store.
    Result<void> tell_secrets();
    /// The value of a stored secret, for the moment in which it leaves. Errors name the secret.
    Result<Secret> secret(const std::string& name);
    /// Puts the values in where the core has left their places.
    Result<void> complete_lease(agent_protocol::Lease& lease);
    Result<void> complete_login(LaunchRequest& request, const MachineId& machine);
    void send_to_agent(SendToAgent& message);
    /// Says for an agent that its attempt never started and would not on any machine.
    void end_for_agent(const MachineId& machine, const std::string& attempt, const std::string& why);
    void read_queue(const ReadQueue& e);
    void watch_clock();
    void publish(bool force);
    void update_gates(const std::vector<RowChange>& rows);
    void set_gate(const MachineId& id);
    std::shared_ptr<const JobSpec> spec_of(const JobRecord& job);
    Provider* provider(const ProviderName& name);
    void enqueue(Event event);

    Store& store_;
    Clock& clock_;
    std::vector<std::unique_ptr<Provider>> providers_;
    RuntimeOptions options_;
    Gateway* gateway_{nullptr};
    std::unique_ptr<Orchestrator> core_;
    std::map<JobId, std::shared_ptr<const JobSpec>> specs_;  // of queued jobs seen lately; bounded
    std::unique_ptr<DiskGuard> disk_;
    Lanes lanes_;
    std::unique_ptr<ProviderChecks> checks_;
    std::thread thread_;

    mutable std::mutex queue_mutex_;  // guards queue_, replies_, next_request_, stopping_
    std::condition_variable queue_wake_;
    std::vector<Pending> queue_;
    std::map<RequestId, std::function<void(ApiResult)>> replies_;
    RequestId next_request_{1};
    bool stopping_{false};

    mutable std::mutex view_mutex_;  // guards view_, choice_
    std::shared_ptr<const PublicView> view_;
    std::shared_ptr<const ChoiceWorld> choice_;
    std::chrono::steady_clock::time_point view_made_{};

    mutable std::mutex gate_mutex_;  // guards gates_
    std::map<std::string, MachineGate> gates_;

    std::chrono::steady_clock::time_point last_tick_{};
    std::chrono::steady_clock::time_point last_slow_{};
    std::int64_t wall_minus_boot_ms_{0};
    Error commit_error_;  // of the last commit that failed
    Instant prune_next_{};
    std::atomic<bool> accepts_work_{true};
    std::atomic<std::int64_t> commits_{0}, commits_failed_{0}, events_{0}, commit_micros_{0};
};

}  // namespace gf
