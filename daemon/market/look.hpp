// From what a provider was asked and what it answered to what the book of the market takes in (scheduler/market_book.hpp). Pure.
#pragma once
#include "providers/port.hpp"
#include "scheduler/market_book.hpp"

namespace gf {

/// `began`: when the call was made.
[[nodiscard]] MarketLook look_of(const ProviderName& provider, const Capabilities& can, const OfferQuery& asked, const OfferList& answer,
                                 Instant began);

}  // namespace gf
