// A provider as the simulation has it: a market, machines that boot, are taken back and die, listings that lag, and every
// way in which a call can go wrong. It knows nothing of the core; it is the ground truth that the promises are checked
// against.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "model/id.hpp"
#include "providers/port.hpp"

namespace gf::sim {

/// Which kinds of trouble this run has. Each run turns a random subset on (swarm), so that rare ones meet.
struct Faults {
    bool create_effect_then_error{false};  // the machine is made, the answer is lost or 5xx
    bool create_error_no_effect{false};    // unclear answer, nothing was made
    bool create_id_then_nothing{false};    // an id that never appears
    bool create_error_with_id{false};      // a bid too low: a stopped, billed machine
    bool no_capacity{false};
    bool listing_fails{false};
    bool listing_lies{false};              // complete-looking but empty or short
    bool read_fails{false};
    bool destroy_fails{false};             // error, no effect
    bool destroy_lost{false};              // accepted, no effect
    bool offers_fail{false};
    bool taken_back{false};
    bool host_dies{false};                 // vanishes from the provider
    bool machine_stops{false};             // on-demand machine stopped by its host
    bool manual_delete{false};
    bool agent_partition{false};
    bool container_restart{false};
    bool never_boots{false};
    bool slow_answers{false};
    bool user_errors{false};
    bool daemon_crash{false};
    bool commit_fails{false};
    bool clock_jumps{false};
};

struct ModelMachine {
    ProviderMachineId id;
    std::string tag;
    Offer offer;
    Presence presence{Presence::booting};
    Instant created_at;
    Instant listed_from;              // listings lag behind creation
    Instant runs_at;                  // becomes running then
    bool never_boots{false};
    std::optional<Instant> dies_at;   // an accepted destroy takes effect
    std::optional<Instant> ended_at;
    int boots{0};                     // container starts
    bool disturbed{false};            // something really happened to it: an end of its attempt is justified
    std::int64_t gpu_bill_micros_ms{0};  // exact bill: sum of micros/h x ms
    Instant billed_to{};
};

class ModelProvider {
 public:
    ModelProvider(ProviderName name, bool spot, Entropy& rng, const Faults& faults, Millis lag_max);

    /// Moves machines to `now`: boots, deaths, billing.
    void advance(Instant now);

    Result<OfferList> offers(Instant now);
    LaunchOutcome launch(const LaunchRequest& request, Instant now);
    Result<Listing> list(Instant now);
    Result<ProviderMachine> read(const ProviderMachineId& id);
    Result<void> destroy(const ProviderMachineId& id, Instant now);

    [[nodiscard]] const ProviderName& name() const { return name_; }
    [[nodiscard]] bool spot() const { return spot_; }
    std::map<std::string, ModelMachine>& machines() { return machines_; }
    /// Exists and bills (or could): not gone.
    [[nodiscard]] static bool exists(const ModelMachine& m) { return m.presence != Presence::gone; }
    int creates{0};
    bool faults_on{true};

 private:
    bool chance(bool on, unsigned percent) { return faults_on && on && rng_.below(100) < percent; }
    ProviderMachine shown(const ModelMachine& m) const;
    ModelMachine& make(const LaunchRequest& request, Instant now);

    ProviderName name_;
    bool spot_;
    Entropy& rng_;
    const Faults& faults_;
    Millis lag_max_;
    std::map<std::string, ModelMachine> machines_;
    std::vector<Offer> market_;
    int next_{1};
};

}  // namespace gf::sim
