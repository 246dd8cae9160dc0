// Vultr behind the provider port: Cloud GPU plans, slices of cards and whole nodes, as virtual machines.
// Plans that are sold as preemptible alone are spot at a fixed price. Bare metal is not offered.
#pragma once
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "providers/canary.hpp"
#include "providers/gpu_lookup.hpp"
#include "providers/key_proof.hpp"
#include "providers/port.hpp"
#include "providers/vultr/client.hpp"

namespace gf::vultr {

class Adapter final : public Provider {
 public:
    /// `http` and `clock` must outlive the adapter.
    Adapter(std::string api_url, Secret key, HttpClient& http, Clock& clock, GpuLookup lookup,
            std::uint64_t seed);

    [[nodiscard]] ProviderName name() const override { return ProviderName{"vultr"}; }
    [[nodiscard]] Capabilities capabilities() const override {
        return {.spot = true,
                .balance = true,
                .listing_has_env = true,
                .per_disk_price = false,
                .vm = true,
                .ssh = true,
                .charges = true};
    }
    Result<OfferList> offers(const OfferQuery& query) override;
    LaunchOutcome launch(const LaunchRequest& request) override;
    Result<Listing> list() override;
    Result<ProviderMachine> read(const ProviderMachineId& id) override;
    Result<void> destroy(const ProviderMachineId& id) override;
    Result<Usd> balance() override;
    Result<void> rename(const ProviderMachineId& id, const std::string& name) override;
    Result<std::vector<Charge>> charges(Instant from, Instant until) override;
    std::vector<Finding> check() override;

 private:
    using Catalogue = std::map<std::string, Plan>;  // by id

    /// Reads all plans anew and keeps them: an instance does not tell its price, so its plan must.
    Result<Catalogue> read_plans(OfferList* out);
    /// Regions change by the year; read once a day, and after one of them could not be read.
    Result<std::vector<Region>> known_regions();
    struct RegionStock {
        Region region;
        std::vector<std::string> plans;  // in stock there
    };
    /// What the asked regions have in stock. One that cannot be read is left out and told in `out`; an error
    /// when none can.
    Result<std::vector<RegionStock>> read_stock(const OfferQuery& query, OfferList& out);
    /// The last stock of a region, while it is young.
    std::optional<std::vector<std::string>> known_stock(const std::string& region);
    /// The number of the operating system; read once.
    Result<std::int64_t> system();
    ProviderMachine machine(const Instance& instance);
    /// Reads the plans when one of these instances has a plan that is not known, or the prices are old.
    void learn_plans(const std::vector<Instance>& instances);
    /// What comes of a destroy whose answer says neither yes nor no.
    Result<void> settle_destroy(const ProviderMachineId& id, const Answer& answer);
    Result<void> prove_key();
    /// A 404 that blames the key is put to the key itself, whatever was proved before.
    void settle_blame(Answer& answer);
    /// A key that is refused anywhere voids earlier proofs.
    Error seen(Error error);

    Client client_;
    Clock& clock_;
    GpuLookup lookup_;
    KeyProof proof_;
    ShapeWatch plans_watch_{"the list of plans"};
    OfferCanary market_canary_;
    RateCanary rate_canary_{market_canary_};
    std::mutex mutex_;  // guards what follows; never held during a call
    Catalogue plans_;
    std::optional<Instant> plans_at_;  // when they were last asked for, whatever came
    std::vector<Region> regions_;
    Instant regions_at_;
    struct StockRead {
        std::vector<std::string> plans;
        Instant at;
    };
    std::map<std::string, StockRead> stock_;  // by region
    std::optional<std::int64_t> system_;
};

}  // namespace gf::vultr
