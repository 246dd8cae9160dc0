// The deterministic simulation: the real orchestrator and the real store (in memory) against modelled providers, agents,
// users and time, all from one seed. The promises are checked after every step while faults are on; then the faults stop
// and everything must settle.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "daemon/batch.hpp"
#include "daemon/orchestrator/orchestrator.hpp"
#include "tests/sim/model_provider.hpp"

namespace gf::sim {

/// A promise that did not hold. The text names the promise, the seed and what was seen.
struct Violation {
    std::string text;
};

struct Report {
    int jobs{0}, succeeded{0}, failed{0}, cancelled{0}, held{0};
    int creates{0}, attempts{0}, checkpoints{0}, crashes{0}, failed_commits{0}, kill_points{0};
    std::int64_t steps{0}, batched{0};
    std::int64_t billed_micros{0}, ledger_micros{0};
    std::int64_t off_micros{0};        // sum over machines of |ledger - bill|
    int machines_off{0};               // further off than 1 % or one unit of the bill
    std::int64_t at_least_micros{0};   // billed for machines whose cost is marked as "at least"
    // Of machines whose bill met no trouble: a daemon that was down, a listing that was lost, a suspend.
    std::int64_t plain_billed_micros{0}, plain_ledger_micros{0};
    int plain_machines{0};
    int doubled{0};  // two agents held an attempt of one task at the same time
    int fenced{0};   // refusals that the older of two such agents was given
    int raises{0}, drifts{0}, migrations{0}, marks{0}, breaker_trips{0}, tidies{0};
    double simulated_hours{0};
    std::string trace_hash;  // same seed, same trace
};

class Simulation {
 public:
    /// `tell` prints every event, row and effect. With a profile, one of the two providers is like that.
    explicit Simulation(std::uint64_t seed, bool tell = false, const Profile* like = nullptr);
    ~Simulation();
    /// Runs both phases. Throws Violation.
    Report run();

 private:
    struct Agent {
        std::string machine;           // provider machine id
        MachineId id;
        std::string boot;
        bool connected{false};
        Instant next{};                // next thing it does
        Instant partitioned_until{};
        std::int64_t seq{0};
        std::map<std::int64_t, agent_protocol::FromAgentBody> unacked;
        // The attempt it holds.
        std::optional<agent_protocol::Lease> lease;
        std::string state;             // "", preparing, running, exited
        Instant phase_ends{};
        Instant next_checkpoint{};
        std::int64_t step{0};          // seconds of work done
        Instant worked_to{};
        bool fenced{false};
        int manifests{0};
        std::string open_manifest;     // offered, not yet answered
        std::int64_t open_step{0};
        bool output_sent{false};
        bool stop_asked{false};
        bool drained{false};
        // What an earlier boot of this machine left unsent on its disk.
        std::optional<agent_protocol::Lease> left_lease;
        std::string left_manifest;
        std::int64_t left_step{0};
    };
    struct UserJob {
        JobId id;
        std::string key;
        std::shared_ptr<JobSpec> spec;
        std::int64_t work_s{0};
        bool errs{false};
        std::int64_t committed_step{0};
        std::int64_t committed_generation{0};
        int highest_attempt{0};
        std::int64_t highest_leased{0};  // attempt that an agent was handed
        int accepted_outputs_attempt{0};
    };

    // harness
    void at(Instant when, std::function<void()> what);
    void later(Millis d, std::function<void()> what) { at(now_ + d, std::move(what)); }
    /// `made`: of an answer, when its provider gave it.
    void deliver(Event event, Instant made = {});
    /// Ends the open batch. False if nothing of it happened or the process died on the way.
    bool commit();
    void trace(const std::string& line);
    StoredRows rows_for(const RowRequest& want);
    void release(std::vector<Effect> effects);
    void release_call(Effect& effect);
    void crash(std::string_view why);
    void load();
    Millis latency();
    bool chance(bool on, unsigned per_mille) { return faults_on_ && on && rng_.below(1000) < per_mille; }
    // users, nature, agents
    void submit();
    void answered(RequestId request, const ApiResult& result);
    void trouble();
    void agents();
    void drive(Agent& agent, ModelMachine& machine);
    void say(Agent& agent, agent_protocol::FromAgentBody body, bool keep);
    void offer_checkpoint(Agent& agent, const agent_protocol::Lease& lease, const std::string& manifest, std::int64_t step);
    void agent_hears(const MachineId& id, const agent_protocol::ToAgent& message);
    void agent_gets_lease(Agent& agent, const agent_protocol::Lease& lease);
    void close_agent(const MachineId& id);
    /// Two agents of one task may both believe that it is theirs; only the younger one's word counts.
    void look_for_doubles();
    void accepted(const JobId& job, std::int64_t number, std::string_view what);
    void refused(const JobId& job, std::int64_t number);
    void exit_agent(Agent& agent, std::optional<int> code, std::string reason);
    // looks.cpp
    struct PendingLook {
        ModelProvider* provider;
        ModelMachine* machine;
        std::string id;  // as it was when the answer was given
        Look look;
        enum class Shows : std::uint8_t { alive, gone, created } shows;
    };
    static void trouble_at(ModelProvider& p, Instant at);
    void trouble_everywhere();
    /// What an answer tells of each machine, held against the core as it is before it hears it.
    void note_looks(const Event& event, Instant made);
    void note_listing(const ListingSeen& e, Instant made);
    void note_read(const ReadEnded& e, Instant made);
    void note_launch(const LaunchEnded& e, Instant made);
    /// They are committed.
    void take_looks(std::vector<PendingLook> looks);
    /// The daemon begins with what its store has of earlier looks.
    void remember_looks();
    // checks
    void check_rows(const std::vector<RowChange>& rows);
    void check_fleet();
    void check_settled();
    void check_bills();
    [[noreturn]] void violated(std::string_view promise, const std::string& what);
    ModelMachine* model_of(const MachineId& id);
    ModelProvider& provider(const ProviderName& name);

    std::uint64_t seed_;
    bool told_;
    Entropy rng_;
    Faults faults_;
    bool faults_on_{true};
    Instant now_;
    Instant daemon_up_{};              // down before this
    int epoch_{0};                     // of the daemon process: answers to an older one are lost
    std::unique_ptr<Store> store_;
    std::unique_ptr<Orchestrator> core_;
    Batch open_;                       // applied and not committed yet
    std::vector<Event> open_events_;   // whose rows those are
    std::vector<PendingLook> open_looks_;  // and what they told
    CoreSettings settings_;
    std::vector<std::unique_ptr<ModelProvider>> providers_;
    std::multimap<Instant, std::function<void()>> todo_;
    std::map<std::string, Agent> agents_;               // by provider machine id
    std::map<JobId, UserJob> jobs_;
    std::map<RequestId, std::function<void(const ApiResult&)>> waiting_;
    RequestId next_request_{1};
    std::set<std::string> acknowledged_;                // job ids of a 201
    std::map<TaskId, std::map<int, MachineId>> placed_; // attempt number -> machine, from committed rows
    std::map<MachineId, std::string> provider_ids_;     // from committed rows
    std::map<MachineId, MachineRecord> rows_;           // last committed row of each machine
    std::map<std::string, MachineId> row_of_;           // provider machine id -> row
    std::map<MachineId, Instant> interval_began_;       // the last interval of its ledger
    std::uint64_t trace_{1469598103934665603ULL};
    Report report_;
};

}  // namespace gf::sim
