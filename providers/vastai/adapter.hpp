// Vast.ai behind the provider port: on-demand and interruptible ("bid") offers, rented in `args` mode.
#pragma once
#include "providers/canary.hpp"
#include "providers/gpu_lookup.hpp"
#include "providers/key_proof.hpp"
#include "providers/port.hpp"
#include "providers/vastai/client.hpp"

namespace gf::vastai {

class Adapter final : public Provider {
 public:
    /// `http` and `clock` must outlive the adapter.
    Adapter(std::string api_url, Secret key, HttpClient& http, Clock& clock, GpuLookup lookup,
            std::uint64_t seed);

    [[nodiscard]] ProviderName name() const override { return ProviderName{"vastai"}; }
    [[nodiscard]] Capabilities capabilities() const override {
        return {.spot = true,
                .balance = true,
                .is_local = false,
                .listing_has_env = true,
                .per_disk_price = true,
                .gpu_free_while_booting = true,
                .bids = true,
                .charges = true,
                .search_per_count = true};
    }
    Result<OfferList> offers(const OfferQuery& query) override;
    LaunchOutcome launch(const LaunchRequest& request) override;
    Result<Listing> list() override;
    Result<ProviderMachine> read(const ProviderMachineId& id) override;
    Result<void> destroy(const ProviderMachineId& id) override;
    Result<Usd> balance() override;
    Result<void> rename(const ProviderMachineId& id, const std::string& name) override;
    /// `unknown_outcome` where it may have been carried out; the listing then shows which bid stands.
    Result<void> raise_bid(const ProviderMachineId& id, UsdPerHour bid) override;
    Result<std::vector<Charge>> charges(Instant from, Instant until) override;
    std::vector<Finding> check() override;

 private:
    /// One count and kind of renting: one search for a waiting job; in a sweep as many as the cap of 64 rows needs.
    Result<void> search_all(const OfferQuery& query, const std::vector<std::string>& names, int count, bool bid,
                            int& searches_left, OfferList& out, Shapes& shapes);
    Result<void> prove_key();
    /// A 404 that blames the key is put to the key itself, whatever was proved before.
    void settle_blame(Answer& answer);
    /// A key that is refused anywhere voids earlier proofs.
    Error seen(Error error);

    Client client_;
    Clock& clock_;
    GpuLookup lookup_;
    KeyProof proof_;
    ShapeWatch offer_shapes_{"Vast.ai's offers"};
    ShapeWatch listing_shapes_{"Vast.ai's listing"};
    OfferCanary market_canary_;
    RateCanary rate_canary_{market_canary_};
};

}  // namespace gf::vastai
