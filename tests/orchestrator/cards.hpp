// The bench with the shipped tables of cards and of their speeds, so that offers are ranked by the money to finish.
#pragma once
#include "config/shipped.hpp"
#include "tests/orchestrator/bench.hpp"

namespace gf {

inline CoreSettings with_cards() {
    static const GpuNames names = GpuNames::parse(shipped_gpus_csv(), shipped_aliases_csv()).value();
    static const CardSpeeds speeds = CardSpeeds::parse(names, shipped_throughput_csv()).value();
    CoreSettings s = CoreBench::default_settings();
    s.gpus = &names;
    s.card_speeds = &speeds;
    return s;
}

}  // namespace gf
