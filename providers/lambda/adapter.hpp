// Lambda behind the provider port: on-demand virtual machines, one offer per type and region with capacity.
// There is no spot market, no stop and no balance.
//
// A launch wants exactly one registered SSH key. The adapter owns one per installation: it is found by its
// text, registered when it is missing, and removed by `tidy` once no machine of the installation is left.
// Other people's keys are never changed.
#pragma once
#include <mutex>
#include <string>

#include "providers/canary.hpp"
#include "providers/gpu_lookup.hpp"
#include "providers/key_proof.hpp"
#include "providers/lambda/client.hpp"
#include "providers/port.hpp"

namespace gf::lambda {

class Adapter final : public Provider {
 public:
    /// `install` is the installation's 8 characters. `http` and `clock` must outlive the adapter.
    Adapter(std::string api_url, Secret key, std::string install, HttpClient& http, Clock& clock,
            GpuLookup lookup, std::uint64_t seed);

    [[nodiscard]] ProviderName name() const override { return ProviderName{"lambda"}; }
    [[nodiscard]] Capabilities capabilities() const override {
        return {.listing_has_env = true,
                .per_disk_price = false,
                .gpu_free_while_booting = true,
                .vm = true,
                .ssh = true};
    }
    Result<OfferList> offers(const OfferQuery& query) override;
    LaunchOutcome launch(const LaunchRequest& request) override;
    Result<Listing> list() override;
    Result<ProviderMachine> read(const ProviderMachineId& id) override;
    Result<void> destroy(const ProviderMachineId& id) override;
    Result<Usd> balance() override;
    Result<void> rename(const ProviderMachineId& id, const std::string& name) override;
    std::vector<Finding> check() override;
    Result<void> tidy() override;

 private:
    /// The name of a registered key with the request's text, or of any of ours where the request brings none.
    Result<std::string> registered_key(const LaunchRequest& request);
    /// What comes of a terminate whose answer says neither yes nor no: the instance's own state tells.
    Result<void> settle_destroy(const ProviderMachineId& id, const Answer& answer);
    Result<void> prove_key();
    /// A 404 that blames the key is put to the key itself, whatever was proved before.
    void settle_blame(Answer& answer);
    /// A key that is refused anywhere voids earlier proofs.
    Error seen(Error error);

    Client client_;
    std::string install_;
    GpuLookup lookup_;
    KeyProof proof_;
    ShapeWatch types_watch_{"the list of instance types"};
    OfferCanary market_canary_;
    RateCanary rate_canary_{market_canary_};
    std::mutex keys_;  // guards what follows, and that nobody registers or removes a key at the same time
    std::string known_name_;  // of the key that the last launch used; empty = ask
    std::string known_text_;
    int launching_{0};  // launches that name a key and have not ended
};

}  // namespace gf::lambda
