// This machine behind the provider port. A "machine" is an agent in a process and folder of its own, which
// outlives the daemon; its record is a file in that folder. Each card is rented at most once. Nothing here
// needs a network.
#pragma once
#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

#include "providers/clock.hpp"
#include "providers/gpu_lookup.hpp"
#include "providers/local/mapping.hpp"
#include "providers/port.hpp"

namespace gf::local {

struct AdapterSettings {
    std::filesystem::path data_dir;  // machines live in data_dir/local/<tag>
    std::filesystem::path agent;     // the agent's binary
    std::vector<std::string> agent_arguments;
    LocalMarket market;
    std::string nvidia_smi{"nvidia-smi"};
    Millis smi_patience{Seconds{15}};  // of each of its calls, in real time
    Millis kill_after{Seconds{15}};  // from SIGTERM to SIGKILL of the whole tree, by the given clock
};

class Adapter final : public Provider {
 public:
    Adapter(AdapterSettings settings, Clock& clock, GpuLookup lookup);

    [[nodiscard]] ProviderName name() const override { return ProviderName{"local"}; }
    [[nodiscard]] Capabilities capabilities() const override {
        return {.spot = false,
                .balance = false,
                .is_local = true,
                .listing_has_env = true,
                .per_disk_price = false};
    }
    Result<OfferList> offers(const OfferQuery& query) override;
    LaunchOutcome launch(const LaunchRequest& request) override;
    Result<Listing> list() override;
    Result<ProviderMachine> read(const ProviderMachineId& id) override;
    /// SIGTERM to the agent. The SIGKILL comes with the first call about this machine after `kill_after`; the
    /// core asks until the machine is gone, so it does come.
    Result<void> destroy(const ProviderMachineId& id) override;
    Result<Usd> balance() override;
    std::vector<Finding> check() override;

 private:
    [[nodiscard]] std::filesystem::path folder(std::string_view tag) const;
    Result<std::vector<MachineFile>> records() const;
    Result<std::vector<MachineFile>> running() const;
    [[nodiscard]] std::map<std::string, std::string> environment(const LaunchRequest& request,
                                                                 const std::vector<std::string>& gpus,
                                                                 bool machine_has_gpus) const;
    /// Kills the tree of a machine whose agent is gone, or whose time to go by itself is over. True if
    /// nothing of it is left.
    bool finish(const MachineFile& file);
    /// Removes what a gone machine leaves, its log excepted.
    void bury(std::string_view tag);

    AdapterSettings settings_;
    Clock& clock_;
    GpuLookup lookup_;
    std::mutex mutex_;  // one launch or burial at a time: two launches must not take the same card
};

}  // namespace gf::local
