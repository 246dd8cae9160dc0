#include "replay/play.hpp"

#include <algorithm>

namespace gf::replay {

int cheapest_on_demand(const Trace& trace, const Setting& setting, int from, Millis work) {
    int best = 0;
    Usd least{};
    for (int z = 0; z < static_cast<int>(trace.zones.size()); ++z) {
        const Usd total =
            cost(trace.on_demand[static_cast<std::size_t>(z)], work) + setting.move_fee(from, z);
        if (z == 0 || total < least) {
            best = z;
            least = total;
        }
    }
    return best;
}

bool feasible(const Setting& setting) {
    return setting.work + setting.changeover <= setting.deadline;
}

Usd on_demand_work(const Trace& trace, const Setting& setting) {
    const int zone = cheapest_on_demand(trace, setting, -1, setting.work);
    return cost(trace.on_demand[static_cast<std::size_t>(zone)], setting.work);
}

Outcome play(const Trace& trace, const Setting& setting, std::size_t start, Policy& policy) {
    Outcome out;
    Millis left = setting.work;
    Millis unsaved{0};  // work of this stay since its last checkpoint
    Place current;
    Millis startup{0};
    int checkpoint_zone = -1;
    for (std::size_t tick = 0; left > Millis{0}; ++tick) {
        const std::size_t at = start + tick;
        const Millis elapsed = static_cast<std::int64_t>(tick) * trace.tick;
        if (current.mode == Mode::spot && !trace.is_up(static_cast<std::size_t>(current.zone), at)) {
            ++out.interruptions;
            left += unsaved;
            unsaved = Millis{0};
            current = Place{};
            startup = Millis{0};
        }
        Place next = policy.decide({.trace = trace,
                                    .setting = setting,
                                    .at = at,
                                    .tick = tick,
                                    .elapsed = elapsed,
                                    .work_left = left,
                                    .to_deadline = setting.deadline - elapsed,
                                    .current = current,
                                    .startup_left = startup,
                                    .checkpoint_zone = checkpoint_zone});
        if (elapsed >= setting.deadline) {
            out.missed = true;
            if (next.mode != Mode::on_demand)
                next = {Mode::on_demand, cheapest_on_demand(trace, setting, checkpoint_zone, left)};
        }
        if (next.mode == Mode::spot && !trace.is_up(static_cast<std::size_t>(next.zone), at)) next = Place{};
        if (next != current) {
            // Leaving is planned: the job saves before it goes.
            unsaved = Millis{0};
            startup = Millis{0};
            if (next.mode != Mode::idle) {
                ++out.starts;
                if (checkpoint_zone >= 0 && checkpoint_zone != next.zone) ++out.moves;
                out.cost += setting.move_fee(checkpoint_zone, next.zone);
                startup = setting.changeover;
                checkpoint_zone = next.zone;
            }
            current = next;
        }
        if (current.mode == Mode::idle) continue;
        const auto zone = static_cast<std::size_t>(current.zone);
        const bool spot = current.mode == Mode::spot;
        out.cost += cost(spot ? trace.price(zone, at) : trace.on_demand[zone], trace.tick);
        (spot ? out.spot : out.on_demand) += trace.tick;
        const Millis waited = std::min(startup, trace.tick);
        startup -= waited;
        const Millis ran = std::min(trace.tick - waited, left);
        left -= ran;
        if (left <= Millis{0}) out.finished = elapsed + waited + ran;
        if (spot && setting.checkpoint_every > Millis{0}) {
            unsaved += ran;
            unsaved %= setting.checkpoint_every;
        }
    }
    out.missed = out.missed || out.finished > setting.deadline;
    return out;
}

}  // namespace gf::replay
