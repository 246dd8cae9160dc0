// What a provider of virtual machines sells: a named type (Lambda) or plan (Vultr) with its price, and how
// many of it each region has left. Money is micro-dollars.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace gf::sim {

struct VmType {
    std::string name;       // "gpu_1x_a10", "vcg-a100-12c-120g-80vram"
    std::string gpu;        // canonical model; empty = a machine without GPUs
    int gpus{0};            // cards that the machine sees
    std::string share{};    // "1/8": a slice of one card; empty = whole cards
    int vram_gb{0};         // of the whole type, as Vultr counts
    std::int64_t price{0};  // per hour, for the whole machine
    int vcpus{0};
    int memory_gib{0};
    int storage_gb{0};                   // Lambda says GiB
    std::map<std::string, int> stock{};  // region -> machines there are, rented ones included
    std::string overrides{};             // JSON object laid over the row as it leaves; empty = none
    std::string arch{"x86_64"};          // or "arm64"

    // Lambda only.
    std::string gpu_description{"N/A"};
    std::string description{};

    // Vultr only.
    std::string kind{"vcg"};               // or "vdm" (whole nodes, also by /instances), "vbm" (bare metal)
    std::string gpu_type{};                // "NVIDIA_A100"
    std::vector<std::string> locations{};  // where it may exist; says nothing about stock
    std::map<std::string, std::int64_t> location_price{};  // per hour, where a region differs
    std::int64_t preemptible_price{0};                     // per hour; 0 = the same
    bool on_demand{true};
    bool preemptible{false};

    /// The price in a region.
    [[nodiscard]] std::int64_t price_in(const std::string& region) const {
        // A type that is sold as preemptible alone costs that.
        if (!on_demand && preemptible && preemptible_price > 0) return preemptible_price;
        const auto it = location_price.find(region);
        return it == location_price.end() ? price : it->second;
    }
};

}  // namespace gf::sim
