// What the core publishes of its live state: read by the API on its own threads, made anew after a batch.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/money.hpp"
#include "model/offer.hpp"
#include "model/time.hpp"
#include "providers/port.hpp"

namespace gf {

/// What the API shows of the live state that is in no row; published by the runtime after each batch.
struct ProviderView {
    ProviderName name;
    Capabilities capabilities;
    std::string health;              // "ok" | "unknown" | "degraded" | "listing_not_trusted" | "launch_paused"
    std::string reason;
    std::optional<Usd> balance;
    std::optional<Instant> offers_at;
    std::optional<Instant> listing_at;
    int offers{0};
    int rejected{0};
    std::map<std::string, int> rejected_by{};  // reason ("price_zero") -> offers of the last answer that could not be used
    int machines{0};
    std::vector<Drift> drift;        // of its last answers; launches are paused while there is any
};
struct PublicView {
    std::vector<ProviderView> providers;
    std::vector<Offer> offers;
    bool ready{false};               // every provider was asked once
    std::int64_t jobs_live{0};
    std::int64_t jobs_queued{0};
};

}  // namespace gf
