// A provider as the simulation has it: a market, machines that boot, are taken back and die, listings that lag, and every
// way in which a call can go wrong. It knows nothing of the core; it is the ground truth that the promises are checked
// against.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "model/id.hpp"
#include "providers/port.hpp"
#include "tests/sim/bill.hpp"

namespace gf::sim {

/// How a provider rents and bills, as far as the core can tell providers apart. The figures are those of the pages about them.
struct Profile {
    std::string name;
    bool spot{false};                // some of its offers can be taken back
    bool bids{false};                // by a floor that moves over our bid
    bool auto_resume{true};          // and come back by themselves
    bool free_boot{false};           // GPUs are billed from running on
    bool stopped_bills_full{false};  // a stopped machine costs what a running one does
    bool can_stop{true};             // hosts stop machines; else they only vanish
    bool balance{false};             // it tells what is left
    bool offline{false};             // hosts fall silent for a while, and their machines cost nothing then
    Millis step{Seconds{1}};         // the bill of a machine grows in these
    Millis minimum{0};
    Millis locked{0};                // destroys fail this long after the create
    bool second_destroy_fails{false};
    std::int64_t disk_micros_per_gb_month{100'000};
    Millis settle{Seconds{60}};      // listings lag by less
    Millis boot_least{Seconds{5}}, boot_most{Seconds{125}};
};

/// Of the providers that the core has adapters for.
const std::vector<Profile>& profiles();

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
    bool drifts{false};                    // answers in other units, marked as such
    bool price_changes{false};             // of a machine that runs
    bool migrates{false};                  // moved under a new id, its container restarted
    bool goes_offline{false};              // its host is off the net for a while, and bills nothing
    bool loses_gpus{false};                // restarted without its GPUs, at a tenth of the price
    bool storms{false};                    // 429 to every call for a while
    bool listing_stale{false};             // machines that are gone are still listed for a while
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
    Instant online_at;                // its silent host is back then
    std::optional<Instant> dies_at;   // an accepted destroy takes effect
    std::optional<Instant> ended_at;
    int boots{0};                     // container starts
    bool disturbed{false};            // something really happened to it: an end of its attempt is justified
    std::int64_t gpu_bill_micros_ms{0};  // exact bill: sum of micros/h x ms
    Instant billed_to{};
    std::optional<Instant> billed_from;  // steps count from here
    UsdPerHour gpu_rate;                 // while it runs
    std::optional<UsdPerHour> bid;
    int gpus{1};
    std::int64_t dearest{0};          // what an hour of it has cost at most
    Bill bill;
    bool migrated{false};
    bool shown{false};   // to anybody, ever
    bool listed{false};  // under this id
    Presence last{Presence::booting};  // before it was gone
};

class ModelProvider {
 public:
    ModelProvider(Profile profile, Entropy& rng, const Faults& faults);

    /// Moves machines to `now`: boots, deaths, billing.
    void advance(Instant now);

    Result<OfferList> offers(Instant now);
    /// `began`: when the caller began; it bills from there until it knows better.
    LaunchOutcome launch(const LaunchRequest& request, Instant began, Instant now);
    Result<Listing> list(Instant now);
    Result<ProviderMachine> read(const ProviderMachineId& id, Instant now);
    Result<void> destroy(const ProviderMachineId& id, Instant now);
    Result<Usd> balance(Instant now);
    Result<void> raise_bid(const ProviderMachineId& id, UsdPerHour bid, Instant now);

    /// What nature does in a second: floors move, storms begin.
    void weather(Instant now);
    /// The same machine under another id.
    ModelMachine& migrate(const std::string& id, Instant now);
    /// The change is in what it costs from now on.
    void set_rate(ModelMachine& m, UsdPerHour rate) { m.gpu_rate = rate; }

    [[nodiscard]] const ProviderName& name() const { return name_; }
    [[nodiscard]] const Profile& profile() const { return profile_; }
    [[nodiscard]] Capabilities capabilities() const {
        return {.spot = profile_.spot, .balance = profile_.balance, .gpu_free_while_booting = profile_.free_boot, .bids = profile_.bids};
    }
    /// Micro-dollars per hour, all lines together.
    [[nodiscard]] std::int64_t costs(const ModelMachine& m) const;
    [[nodiscard]] UsdPerHour floor() const { return floor_; }
    std::map<std::string, ModelMachine>& machines() { return machines_; }
    /// Exists and bills (or could): not gone.
    [[nodiscard]] static bool exists(const ModelMachine& m) { return m.presence != Presence::gone; }
    bool blind{false};  // its last listing did not reach the daemon as it should: the next one is put off
    int creates{0}, raises{0}, drifts{0}, migrations{0};
    bool faults_on{true};

 private:
    bool chance(bool on, unsigned percent) { return faults_on && on && rng_.below(100) < percent; }
    [[nodiscard]] ProviderMachine shown(const ModelMachine& m) const;
    void rate_changed(ModelMachine& m, Instant at);
    ModelMachine& make(const LaunchRequest& request, Instant began, Instant now);
    [[nodiscard]] bool storm(Instant now) const { return faults_on && now < storm_until_; }

    Profile profile_;
    ProviderName name_;
    Entropy& rng_;
    const Faults& faults_;
    UsdPerHour floor_{180'000};
    Instant storm_until_{};
    std::map<std::string, ModelMachine> machines_;
    std::vector<Offer> market_;
    int next_{1};
};

}  // namespace gf::sim
