// This machine's hardware <-> the model. Pure.
#pragma once
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "providers/gpu_lookup.hpp"
#include "providers/local/hardware.hpp"
#include "providers/local/machine_file.hpp"
#include "providers/port.hpp"

namespace gf::local {

/// What is rented out already.
struct InUse {
    std::set<std::string> gpus;       // uuids
    std::set<std::string> cpu_slots;  // offer ids of CPU-only machines
};
[[nodiscard]] InUse in_use(const std::vector<MachineFile>& running);

/// "gpu/GPU-1c…+GPU-2d…" (the very cards) or "cpu/1".
[[nodiscard]] std::string offer_id(const std::vector<std::string>& uuids);
/// The cards of an id; empty for a CPU-only one or a text that is no id.
[[nodiscard]] std::vector<std::string> cards_of(std::string_view offer_id);
[[nodiscard]] bool is_cpu_offer(std::string_view offer_id);

struct LocalMarket {
    UsdPerHour electricity;  // of the whole machine at work
    int cpu_machines{1};     // CPU-only machines at a time; each is offered all CPUs and memory
};

/// Cards that are neither rented out nor at work for somebody else, in groups of the wanted sizes (cards of one
/// offer are of one kind, no card is in two offers of one size), and the free CPU-only slots.
[[nodiscard]] OfferList offers_of(const Hardware& hardware, const InUse& used, const OfferQuery& query,
                                  const LocalMarket& market, const GpuLookup& lookup);

/// A machine whose agent runs.
[[nodiscard]] ProviderMachine machine_of(const MachineFile& file, const GpuLookup& lookup);

/// A tag that can name a folder: [a-z0-9-], at most 64 characters.
[[nodiscard]] bool is_plain_tag(std::string_view tag);

}  // namespace gf::local
