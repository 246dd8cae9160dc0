#include "daemon/market/look.hpp"

#include <algorithm>
#include <array>

namespace gf {
namespace {

// What stood there and is not to be had: as gone as what is missing.
constexpr std::array<std::string_view, 3> kNotToBeHad{"not_rentable", "no_machine_of_that_size", "sold_out"};

bool by_figures(const OfferQuery& asked) {
    const OfferDemands& d = asked.demands;
    // Searches leave out machines whose disk is too small; nobody lacks what is asked for by default.
    return d.vram_min || d.memory_min || d.cpus_min || d.inet_down_min || d.reliability_min || d.lease_min || !d.cuda_min.empty() ||
           asked.disk_gb > OfferQuery{}.disk_gb;
}

}  // namespace

MarketLook look_of(const ProviderName& provider, const Capabilities& can, const OfferQuery& asked, const OfferList& answer, Instant began) {
    MarketLook look{.provider = provider, .at = began, .read_at = {}, .offers = answer.offers, .unreadable = {},
                    .drifted = !answer.drift.empty(), .gpu_counts = asked.gpu_counts, .on_demand = asked.on_demand, .spot = asked.spot,
                    .cards = asked.demands.gpus, .regions = asked.demands.regions,
                    // What is about to be rented may be read from memory in part: good for what is there, not for what is not.
                    .by_figures = by_figures(asked) || asked.look == Look::rent,
                    // Where everything comes in one answer, vetted or not is a matter of the filters here.
                    .vetted_only = can.search_per_count && !asked.demands.unvetted, .reaches = answer.reaches};
    for (const PriceRead& read : answer.reads) {
        const auto [line, fresh] = look.read_at.try_emplace({read.gpu_count, read.spot}, read.at);
        if (!fresh) line->second = std::min(line->second, read.at);
    }
    for (const RejectedOffer& rejected : answer.rejected)
        if (std::ranges::find(kNotToBeHad, rejected.reason) == kNotToBeHad.end()) look.unreadable.insert(rejected.id);
    return look;
}

}  // namespace gf
