// RunPod behind the provider port: on-demand pods of REST v2, and, where it is switched on, the interruptible ones of the
// legacy GraphQL market, which are read and destroyed by v2 like all others.
#pragma once
#include <mutex>
#include <string>
#include <vector>

#include "providers/canary.hpp"
#include "providers/gpu_lookup.hpp"
#include "providers/key_proof.hpp"
#include "providers/port.hpp"
#include "providers/runpod/client.hpp"
#include "providers/runpod/spot_pause.hpp"

namespace gf::runpod {

struct AdapterSettings {
    ClientSettings client;
    std::vector<std::string> clouds;  // "secure", "community"
    bool spot{false};
    std::string install;  // the installation's 8 characters: names the registry logins that are ours
};

class Adapter final : public Provider {
 public:
    /// `http` and `clock` must outlive the adapter.
    Adapter(AdapterSettings settings, HttpClient& http, Clock& clock, GpuLookup lookup, std::uint64_t seed);

    [[nodiscard]] ProviderName name() const override { return ProviderName{"runpod"}; }
    [[nodiscard]] Capabilities capabilities() const override;
    Result<OfferList> offers(const OfferQuery& query) override;
    LaunchOutcome launch(const LaunchRequest& request) override;
    Result<Listing> list() override;
    Result<ProviderMachine> read(const ProviderMachineId& id) override;
    Result<void> destroy(const ProviderMachineId& id) override;
    Result<Usd> balance() override;
    /// `conflict` while the container is up: editing such a pod resets it. Its environment names it anyhow.
    Result<void> rename(const ProviderMachineId& id, const std::string& name) override;
    Result<std::vector<Charge>> charges(Instant from, Instant until) override;
    std::vector<Finding> check() override;
    Result<void> tidy() override;

 private:
    LaunchOutcome launch_spot(const CreateRequest& request, const std::vector<Secret>& secrets);
    Result<void> add_on_demand(const std::string& cloud, int count, OfferList& out, Shapes& shapes, bool& closed);
    void add_spot(const std::string& cloud, int count, OfferList& out);
    [[nodiscard]] std::string login_name(const RegistryLogin& login) const;
    /// True if the key is known to be good now; asks when the last proof is older than a minute.
    Result<void> prove_key();
    /// A 404 that blames the key is put to the key itself, whatever was proved before.
    void settle_blame(Answer& answer);
    /// The id of RunPod's stored login for these credentials, made if it is not there. Never rents anything.
    Result<std::string> registry_id(const RegistryLogin& login);

    AdapterSettings settings_;
    Client client_;
    Clock& clock_;
    GpuLookup lookup_;
    KeyProof proof_;
    ShapeWatch catalog_shapes_{"RunPod's GPU catalog"};
    ShapeWatch listing_shapes_{"RunPod's listing"};
    OfferCanary market_canary_;
    RateCanary rate_canary_{market_canary_};
    std::mutex spot_mutex_;  // guards spot_pause_
    SpotPause spot_pause_;
};

}  // namespace gf::runpod
