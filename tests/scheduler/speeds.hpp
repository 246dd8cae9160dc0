// The speeds of cards from the shipped tables, read once.
#pragma once
#include "offers.hpp"
#include "scheduler/card_speed.hpp"

namespace gf::test {

inline const CardSpeeds& card_speeds() {
    static const CardSpeeds speeds = [] {
        auto parsed = CardSpeeds::parse(gpu_names(), shipped_throughput_csv());
        GF_ASSERT(parsed.has_value());
        return *std::move(parsed);
    }();
    return speeds;
}

}  // namespace gf::test
