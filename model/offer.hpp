// What a provider would rent now, as all parts see it. Provider words never appear here.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/bytes.hpp"
#include "model/money.hpp"
#include "model/strong.hpp"
#include "model/time.hpp"

namespace gf {

/// One GPU of an offer or a machine. `canonical` is a name of config/gpus.csv, found through the alias table by
/// provider name and reported memory; empty when the table does not know the name (then it serves only jobs that
/// ask for no name, memory or ability of a GPU).
struct GpuIdentity {
    std::string canonical;
    std::string provider_name;      // as the provider spells it
    std::optional<Bytes> memory;    // per GPU as reported; absent = the provider did not say (never 0)
    friend bool operator==(const GpuIdentity&, const GpuIdentity&) = default;
};

/// One kind of renting. Absent figures are unknown, which is neither 0 nor infinite.
struct Offer {
    ProviderName provider;
    std::string id;                        // what the adapter needs to rent it; unique per provider in one sweep
    bool spot{false};
    bool exclusive{false};                 // renting it uses it up (a Vast ask, a local card); else it is a stock item
    GpuIdentity gpu;
    int gpu_count{0};                      // 0 only for a CPU-only local machine
    double gpu_share{1};                   // below 1: a slice of one card (vGPU); `gpu.memory` is then the slice's
    UsdPerHour gpu_rate;                   // all GPUs together; for spot: the bid that would be placed
    std::int64_t disk_micros_per_gb_month{0};  // micro-dollars per GB (10^9) and month of `hours_per_month`
    int hours_per_month{720};
    Millis billing_step{Seconds{1}};       // the bill of one machine grows in steps of this, from its creation or first run
    Millis billing_minimum{0};             // and is never less than this
    std::int64_t traffic_up_micros_per_gb{0};
    std::int64_t traffic_down_micros_per_gb{0};
    std::optional<UsdPerHour> spot_floor;  // lowest bid that is accepted now
    std::string region;                    // provider's region text; empty = unknown
    std::string country;                   // ISO 3166 alpha-2, upper case; empty = unknown
    std::string host_id;                   // machine identity for reputation; empty = unknown
    std::string host_owner;                // who runs that machine (Vast.ai's host_id); empty = unknown or the provider itself
    std::string data_center;               // the provider's id of it; empty = unknown
    std::string cloud;                     // sub-market ("secure", "community"); empty = none
    std::optional<double> cpus;            // vCPUs in our share
    std::optional<Bytes> memory;           // host memory in our share
    std::optional<Bytes> disk_max;         // largest disk that can be asked for
    std::optional<double> reliability;     // 0..1
    std::optional<bool> verified;          // the provider itself, or a host that it has vetted: where secrets may go
    std::optional<double> inet_down_mbps;
    std::optional<double> inet_up_mbps;
    std::optional<Instant> lease_end;      // the machine cannot outlive this
    std::string cuda_max;                  // "12.8"; empty = unknown
    std::string driver;                    // "560.35"; empty = unknown
    std::string arch{"amd64"};             // amd64 | arm64
    int stock{-1};                         // -1 unknown, 0 none, 1 low, 2 medium, 3 high: a hint only
};

/// Price of `gb` GB of disk for one hour, rounded up. 128-bit inside; beyond a quarter of what the type holds it stays there,
/// so that a sum with another rate cannot turn negative either.
[[nodiscard]] constexpr UsdPerHour disk_rate(std::int64_t micros_per_gb_month, std::int64_t gb, int hours_per_month) {
    constexpr std::int64_t kMost = INT64_MAX / 4;
    if (micros_per_gb_month <= 0 || gb <= 0 || hours_per_month <= 0) return UsdPerHour{0};
    const auto total = static_cast<__int128>(micros_per_gb_month) * gb + hours_per_month - 1;
    const auto hour = total / hours_per_month;
    return UsdPerHour{hour > kMost ? kMost : static_cast<std::int64_t>(hour)};
}
/// The same for a disk on an offer.
[[nodiscard]] constexpr UsdPerHour disk_rate(const Offer& o, std::int64_t disk_gb) {
    return disk_rate(o.disk_micros_per_gb_month, disk_gb, o.hours_per_month);
}

/// One offer that could not become an `Offer`, or one that a filter refused: the reason as data.
struct RejectedOffer {
    std::string id;
    std::string reason;  // "price_not_a_number", "price_zero", …
};

}  // namespace gf
