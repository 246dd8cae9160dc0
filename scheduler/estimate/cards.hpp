// Which cards of the catalogue a demand fits on, and with how much room.
#pragma once
#include <string>
#include <vector>

#include "model/bytes.hpp"
#include "scheduler/gpu_names.hpp"

namespace gf {

struct CardFit {
    std::string canonical;
    double usable_gib{0};  // what one process can use of the card (usable_memory)
    double room_gib{0};    // usable less the demand; below 0: it does not fit
};

/// Cards whose usable memory holds the demand, by memory, then by name. Cards that are never rented (tier
/// "edge") and those of other makers than nvidia, which jobs do not run on, are left out.
[[nodiscard]] std::vector<CardFit> cards_that_fit(const GpuNames& gpus, Bytes demand);

}  // namespace gf
