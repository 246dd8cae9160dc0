#include <algorithm>

#include "simulator/machines.hpp"

namespace gf::sim {

// The world calls these under its own lock and the sink only queues, so no lock is needed here.

void ModelMachines::start(ContainerSpec spec) {
    std::erase_if(running_, [&](const auto& r) { return r.first == spec.machine; });
    running_.emplace_back(spec.machine, spec.run);
    sink_({.machine = spec.machine, .run = spec.run, .kind = MachineEvent::Kind::started, .pid = 1});
    // Large fleets would otherwise keep every start command for ever.
    constexpr std::size_t kKept = 1'000;
    if (started_.size() < kKept) started_.push_back(std::move(spec));
}

void ModelMachines::kill(const std::string& machine) {
    const auto it = std::ranges::find(running_, machine, &std::pair<std::string, std::uint64_t>::first);
    if (it == running_.end()) return;
    const auto run = it->second;
    running_.erase(it);
    sink_({.machine = machine, .run = run, .kind = MachineEvent::Kind::exited, .signal = 9});
}

void ModelMachines::destroy(const std::string& machine) {
    std::erase_if(running_, [&](const auto& r) { return r.first == machine; });
}

}  // namespace gf::sim
