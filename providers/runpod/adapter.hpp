// RunPod behind the provider port: on-demand pods of REST v2. Spot is not offered, because v2 has none.
#pragma once
#include <string>
#include <vector>

#include "providers/gpu_lookup.hpp"
#include "providers/key_proof.hpp"
#include "providers/port.hpp"
#include "providers/runpod/client.hpp"

namespace gf::runpod {

class Adapter final : public Provider {
 public:
    /// `clouds`: "secure", "community". `http` and `clock` must outlive the adapter.
    Adapter(ClientSettings settings, std::vector<std::string> clouds, HttpClient& http, Clock& clock,
            GpuLookup lookup, std::uint64_t seed);

    [[nodiscard]] ProviderName name() const override { return ProviderName{"runpod"}; }
    [[nodiscard]] Capabilities capabilities() const override;
    Result<OfferList> offers(const OfferQuery& query) override;
    LaunchOutcome launch(const LaunchRequest& request) override;
    Result<Listing> list() override;
    Result<ProviderMachine> read(const ProviderMachineId& id) override;
    Result<void> destroy(const ProviderMachineId& id) override;
    Result<Usd> balance() override;

 private:
    /// True if the key is known to be good now; asks when the last proof is older than a minute.
    Result<void> prove_key();
    /// The id of RunPod's stored login for these credentials, made if it is not there. Never rents anything.
    Result<std::string> registry_id(const RegistryLogin& login);

    Client client_;
    std::vector<std::string> clouds_;
    GpuLookup lookup_;
    KeyProof proof_;
};

}  // namespace gf::runpod
