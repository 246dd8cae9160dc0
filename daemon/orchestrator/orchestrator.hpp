// The orchestrator: events in, rows and effects out. No IO, no clock, no logging; the caller passes `now`. One thread.
// Deterministic: the same state, events, rows and `now` give the same answers in the same order.
#pragma once
#include <memory>

#include "daemon/orchestrator/world.hpp"
#include "scheduler/choice.hpp"

namespace gf {

class Orchestrator {
 public:
    struct ProviderInfo {
        ProviderName name;
        Capabilities capabilities;
    };

    /// `seed` feeds ids and jitter only. `live` is what the store holds (Store::load_live), `specs` the parsed spec of
    /// each live job (null where the text no longer parses; such a job is ended at the first tick).
    Orchestrator(CoreSettings settings, std::vector<ProviderInfo> providers, std::uint64_t seed, const LiveRows& live,
                 std::map<JobId, std::shared_ptr<const JobSpec>> specs, Instant now);
    ~Orchestrator();
    Orchestrator(const Orchestrator&) = delete;
    Orchestrator& operator=(const Orchestrator&) = delete;

    /// The secrets that can be opened, and the bytes of their values; the runtime tells after each rebuild. Later ones come by events.
    void set_secrets(std::map<std::string, std::int64_t> bytes_by_name);

    /// The stored rows that `apply` must be given for this event.
    [[nodiscard]] RowRequest wants(const Event& event) const;

    /// Applies one event. The rows must be committed (together with those of other events of the batch, in order) before
    /// any effect is released; if the commit fails the object must be thrown away and rebuilt from the store. Never
    /// throws for anything that came from outside; a broken invariant aborts.
    [[nodiscard]] Effects apply(const Event& event, const StoredRows& rows, Instant now);

    /// The live state that is in no row, for the API.
    [[nodiscard]] PublicView view(Instant now) const;
    /// Read-only view for the gateway's admission check, tests and the simulation.
    [[nodiscard]] const World& world() const { return *world_; }

 private:
    std::unique_ptr<World> world_;
};

/// What choosing is told of the core's state, for placement and for plan.
[[nodiscard]] ChoiceWorld choice_world(const World& world, Instant now, bool local_allowed);

/// One more machine of ours, on that offer and at that rate, in quotas and among the offers that are taken.
void count_machine(ChoiceWorld& into, const Offer& offer, UsdPerHour rate);

}  // namespace gf
