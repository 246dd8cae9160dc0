// What is asked of a market. Pure data: the core makes it of the jobs that wait, an adapter turns it into searches.
#pragma once
#include <algorithm>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "model/bytes.hpp"
#include "model/offer.hpp"
#include "model/region.hpp"
#include "model/time.hpp"

namespace gf {

/// Why the market is looked at, which says how long the answer may take.
enum class Look : std::uint8_t {
    sweep,   // for people and for later: as complete as the adapter can make it
    wanted,  // a job waits: its answer must be young when it comes, so one search per GPU count and kind
    rent,    // the same for an offer that is about to be rented
};

/// What an offer must have. Empty or absent = no demand; an offer that does not tell a figure does not meet a demand for it.
struct OfferDemands {
    std::vector<std::string> gpus{};        // any of, canonical names; the adapter knows its provider's spellings
    std::vector<std::string> regions{};     // any of: countries and groups, spelled as model/region.hpp does
    std::optional<Bytes> vram_min{};        // per GPU, as reported
    std::optional<Bytes> memory_min{};      // of the host, in our share
    std::optional<int> cpus_min{};          // in our share
    std::optional<double> inet_down_min{};  // Mbps
    std::optional<double> reliability_min{};
    std::optional<Millis> lease_min{};      // from now
    std::string cuda_min{};                 // "12.6"
    bool unvetted{false};                   // hosts that nobody has vetted will do too, where there are such
    friend auto operator<=>(const OfferDemands&, const OfferDemands&) = default;
};

/// What waiting jobs can use; an adapter may use it to ask less, never to answer with less than fits. Where an answer has a
/// largest size, every demand that the provider can search by must be searched by, cheapest first, or what fits hides behind
/// what does not.
struct OfferQuery {
    std::vector<int> gpu_counts{1};  // distinct counts wanted
    std::int64_t disk_gb{20};        // prices of disk-dependent offers are computed for this size
    bool on_demand{true};
    bool spot{true};
    OfferDemands demands{};
    Look look{Look::sweep};

    /// What is looked at, apart from the kinds of renting.
    [[nodiscard]] auto market() const { return std::tie(gpu_counts, disk_gb, demands); }

    /// Whether an answer to this replaces what was known of `o`. Goes by what every offer tells.
    [[nodiscard]] bool replaces(const Offer& o) const {
        return std::ranges::find(gpu_counts, o.gpu_count) != gpu_counts.end() && (o.spot ? spot : on_demand) && covers(o);
    }
    /// The same for the demands alone.
    [[nodiscard]] bool covers(const Offer& o) const {
        const auto any = [](const auto& list, auto holds) { return list.empty() || std::ranges::any_of(list, holds); };
        return any(demands.gpus, [&](const auto& name) { return name == o.gpu.canonical; }) &&
               any(demands.regions, [&](const auto& region) { return in_region(o.country, region); }) &&
               (demands.unvetted || o.verified.value_or(true));
    }
};

}  // namespace gf
