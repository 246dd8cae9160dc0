// The market: which hosts exist, what they carry, what they ask, and how much of them others have taken. No
// clock, no IO. Prices are what a new tenant would be asked; what a tenant pays is fixed in the rental.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "model/money.hpp"
#include "model/result.hpp"
#include "simulator/gpu_models.hpp"
#include "simulator/vm_type.hpp"

namespace gf::sim {

enum class Provider { runpod, vastai, lambda, vultr };
inline constexpr std::array kProviders{Provider::runpod, Provider::vastai, Provider::lambda, Provider::vultr};
/// Lambda and Vultr rent whole virtual machines out of a type's stock, not containers on a host.
[[nodiscard]] inline bool rents_vms(Provider provider) {
    return provider == Provider::lambda || provider == Provider::vultr;
}
[[nodiscard]] std::string_view text(Provider provider);
[[nodiscard]] std::optional<Provider> parse_provider(std::string_view name);

struct Host {
    Provider provider{Provider::vastai};
    std::int64_t id{0};  // Vast's machine_id; unique over the whole market
    std::string gpu;     // canonical model
    int gpus{1};
    int taken{0};  // GPUs held by other tenants at a fixed price: nobody can outbid them
    bool online{true};
    double disk_gb{800};  // free for new tenants
    double cuda{12.8};    // highest CUDA version of the driver
    std::string driver{"570.124.06"};
    std::string public_ip{"203.0.113.10"};
    std::string fails;  // "docker_fails" or "never_runs": what happens to every rental here; empty = nothing

    // RunPod only.
    bool secure{true};
    std::string data_center{"EU-RO-1"};

    // Vast.ai only. Money is micro-dollars.
    std::int64_t price_per_gpu{0};         // on-demand, per hour
    std::int64_t floor_per_gpu{0};         // lowest winning bid, per hour; 0 = no bidding
    std::int64_t storage_per_gb{150'000};  // per month
    std::int64_t inet_up_per_gb{4'400};
    std::int64_t inet_down_per_gb{1'800};
    std::int64_t host_owner{0};
    std::optional<int> cpu_cores{64};  // some hosts do not say
    int cpu_ram_mb{257'000};
    std::string cpu_name{"AMD EPYC 7763 64-Core Processor"};
    double reliability{0.995};
    bool verified{true};
    bool datacenter{true};
    bool external{false};
    bool static_ip{true};
    int direct_ports{200};
    std::optional<std::string> geolocation{"Oregon, US"};
    std::int64_t lease_s{90LL *
                         86'400};  // an instance cannot outlive this, counted from the start of the market
    double inet_up_mbps{700};
    double inet_down_mbps{900};

    std::string offer_overrides;     // JSON object laid over this host's offers as they leave; empty = none
    std::string instance_overrides;  // the same for instances (pods) on it
};

/// RunPod prices a type per cloud, not a host. Micro-dollars per GPU and hour.
struct TypePrice {
    std::int64_t secure{0};
    std::int64_t community{0};
    std::int64_t secure_spot{0};
    std::int64_t community_spot{0};
    std::string overrides;  // JSON object laid over the catalog entry; empty = none
};

/// What the simulator knows of an image. Anything not listed pulls in the default time and has no entrypoint.
struct ImageFacts {
    std::vector<std::string> entrypoint;
    std::vector<std::string> cmd;
    std::map<std::string, std::string> env;
    std::optional<std::int64_t> pull_ms;
    std::string root;     // folder with this image's root; empty = the simulator's default
    bool missing{false};  // the registry does not know it
};

/// One thing that Vast would rent: a slice of a host.
struct Ask {
    std::int64_t id{0};
    std::int64_t host{0};
    int gpus{0};
};

class Market {
 public:
    [[nodiscard]] const std::vector<Host>& hosts() const { return hosts_; }
    [[nodiscard]] Host* host(std::int64_t id);
    [[nodiscard]] const Host* host(std::int64_t id) const;
    /// An id already there is replaced.
    void put(Host host);
    bool remove(std::int64_t id);

    [[nodiscard]] const GpuModel* model(std::string_view canonical) const;
    [[nodiscard]] const std::vector<GpuModel>& models() const { return models_; }
    void put_model(GpuModel model);

    [[nodiscard]] std::map<std::string, TypePrice>& type_prices() { return type_prices_; }
    [[nodiscard]] const std::map<std::string, TypePrice>& type_prices() const { return type_prices_; }
    /// In the order in which they were put; a name is unique within its provider.
    [[nodiscard]] const std::vector<VmType>& vm_types(Provider provider) const;
    [[nodiscard]] VmType* vm_type(Provider provider, std::string_view name);
    [[nodiscard]] const VmType* vm_type(Provider provider, std::string_view name) const;
    /// A name already there is replaced.
    void put_vm_type(Provider provider, VmType type);
    void clear_vm_types(Provider provider) { vm_types_[provider].clear(); }

    [[nodiscard]] const ImageFacts& image(const std::string& reference) const;
    void put_image(const std::string& reference, ImageFacts facts) { images_[reference] = std::move(facts); }

    /// The asks of a host with `free` GPUs: powers of two up to that, and all of it. Ids are stable until
    /// `relist`, and never used twice.
    [[nodiscard]] std::vector<Ask> asks(std::int64_t host, int free);
    /// Looks an ask up by id; nothing if it was never listed or the host was relisted since.
    [[nodiscard]] std::optional<Ask> find_ask(std::int64_t id) const;
    /// Forgets the asks of a host: the next search lists it under new ids, as hosts do after a rental.
    void relist(std::int64_t host);

    Market();

 private:
    std::vector<Host> hosts_;  // ordered by id
    std::vector<GpuModel> models_;
    std::map<std::string, TypePrice> type_prices_;
    std::map<std::string, ImageFacts> images_;
    std::map<Provider, std::vector<VmType>> vm_types_;
    std::map<std::int64_t, Ask> asks_;
    std::int64_t next_ask_{18'440'001};
};

/// A market with several dozen GPUs of common models on both providers, in the price range of late 2026.
[[nodiscard]] Market default_market();

/// The virtual machine types of Lambda and Vultr in that market: list prices of 2026, stock in a few regions.
void add_default_vm_types(Market& market);

/// Reads a market file over `market`: "hosts" and "vm_types" replace all there are, "add_hosts" adds,
/// "add_vm_types", "runpod_prices", "gpu_models" and "images" add or replace single entries. The keys are listed in simulator/README.md.
[[nodiscard]] Result<std::string> apply_market(Market& market, const nlohmann::json& file);
[[nodiscard]] nlohmann::json to_json(const Market& market);
[[nodiscard]] nlohmann::json to_json(const Host& host);

/// A JSON number or decimal text as micro-dollars; nothing for anything else, and for negative amounts.
[[nodiscard]] std::optional<std::int64_t> micros_of(const nlohmann::json& value);
/// Micro-dollars as the JSON float that these APIs speak.
[[nodiscard]] double dollars_float(std::int64_t micros);

}  // namespace gf::sim
