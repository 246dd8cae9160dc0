#include "replay/baselines.hpp"

#include <algorithm>
#include <cctype>
#include <tuple>
#include <vector>

namespace gf::replay {
namespace {

Millis whole_ticks_up(Millis span, Millis tick) {
    return (span + tick - Millis{1}) / tick * tick;
}
Millis whole_ticks_down(Millis span, Millis tick) {
    return span > Millis{0} ? span / tick * tick : Millis{0};
}

/// Whether, after a tick without progress, on-demand would no longer make it. Counted in whole ticks, as the
/// papers do.
bool last_call(const Look& look, int starts) {
    const Millis need = whole_ticks_up(look.work_left + starts * look.setting.changeover, look.trace.tick);
    return need >= whole_ticks_down(look.to_deadline, look.trace.tick);
}

/// The zones that are up, cheapest first, of equals the first in the file; those of `last_region` after all
/// others.
std::vector<int> up_by_price(const Look& look, std::string_view last_region = {}) {
    std::vector<int> zones;
    for (int z = 0; z < static_cast<int>(look.trace.zones.size()); ++z) {
        if (look.trace.is_up(static_cast<std::size_t>(z), look.at)) zones.push_back(z);
    }
    const auto key = [&](int z) {
        const auto at = static_cast<std::size_t>(z);
        return std::tuple(!last_region.empty() && region_of(look.trace.zones[at]) == last_region,
                          look.trace.price(at, look.at), z);
    };
    std::sort(zones.begin(), zones.end(), [&](int a, int b) { return key(a) < key(b); });
    return zones;
}

Place on_demand_here(const Look& look) {
    if (look.current.mode == Mode::on_demand) return look.current;
    return {Mode::on_demand,
            cheapest_on_demand(look.trace, look.setting, look.checkpoint_zone, look.work_left)};
}

class OnDemand final : public Policy {
 public:
    Place decide(const Look& look) override { return on_demand_here(look); }
};

/// Spot while there is any, else wait; on-demand from the last moment on, to the end.
class Greedy final : public Policy {
 public:
    Place decide(const Look& look) override {
        if (look.current.mode == Mode::on_demand) return look.current;
        if (look.current.mode == Mode::spot) return look.current;
        if (last_call(look, 2)) return on_demand_here(look);
        const auto up = up_by_price(look);
        return up.empty() ? Place{} : Place{Mode::spot, up.front()};
    }
};

class UniformProgress final : public Policy {
 public:
    explicit UniformProgress(bool loose) : loose_(loose) {}

    Place decide(const Look& look) override {
        if (look.tick == 0) {
            waiting_ = loose_ && 10 * look.setting.work < 6 * look.setting.deadline;
            line_from_ = Millis{0};
            line_work_ = look.setting.work;
            latched_ = false;
            last_spot_ = -1;
        }
        if (look.current.mode == Mode::spot) last_spot_ = look.current.zone;
        const bool many = look.trace.zones.size() > 1;
        if (many && (latched_ || last_call(look, 1))) {
            latched_ = true;
            return on_demand_here(look);
        }
        if (waiting_) {
            // Spot or nothing until the rest of the work fills seven tenths of the rest of the time; then the
            // line begins anew.
            if (10 * look.work_left < 7 * look.to_deadline && !last_call(look, 2)) {
                if (look.current.mode == Mode::spot) return look.current;
                const auto up = order(look);
                return up.empty() ? Place{} : Place{Mode::spot, up.front()};
            }
            waiting_ = false;
            line_from_ = look.elapsed;
            line_work_ = look.work_left;
        }
        if (look.current.mode == Mode::spot) {
            if (!many && last_call(look, 1) && look.startup_left > Millis{0}) return on_demand_here(look);
            return look.current;
        }
        const auto up = order(look);
        Place wish = !up.empty()               ? Place{Mode::spot, up.front()}
                     : behind(look, Millis{0}) ? on_demand_here(look)
                                               : Place{};
        if (look.current.mode == Mode::on_demand && (up.empty() || !ahead(look, 2 * look.setting.changeover)))
            wish = look.current;
        if (last_call(look, 2) && !(many && two_starts_fit_exactly(look))) wish = on_demand_here(look);
        return wish;
    }

 private:
    /// (progress - line) * deadline of the line, so that nothing is rounded.
    [[nodiscard]] std::int64_t lead(const Look& look, Millis later) const {
        const std::int64_t span = (look.setting.deadline - line_from_).count();
        const std::int64_t done = (line_work_ - look.work_left).count();
        const auto exact =
            static_cast<__int128>(done) * span -
            static_cast<__int128>((look.elapsed - line_from_ + later).count()) * line_work_.count();
        return exact > 0 ? 1 : exact < 0 ? -1 : 0;
    }
    [[nodiscard]] bool behind(const Look& look, Millis later) const { return lead(look, later) < 0; }
    [[nodiscard]] bool ahead(const Look& look, Millis later) const { return lead(look, later) > 0; }

    /// The form for many zones may still leave when exactly two changeovers fit.
    static bool two_starts_fit_exactly(const Look& look) {
        const Millis need = whole_ticks_up(look.work_left + 2 * look.setting.changeover, look.trace.tick);
        return need == whole_ticks_down(look.to_deadline, look.trace.tick);
    }

    /// After a loss the other regions come first, by price; reclaiming comes in waves.
    [[nodiscard]] std::vector<int> order(const Look& look) const {
        if (last_spot_ < 0 || look.trace.zones.size() == 1) return up_by_price(look);
        return up_by_price(look, region_of(look.trace.zones[static_cast<std::size_t>(last_spot_)]));
    }

    bool loose_;
    bool waiting_{false};
    bool latched_{false};
    int last_spot_{-1};
    Millis line_from_{0};
    Millis line_work_{0};
};

}  // namespace

std::string region_of(std::string_view zone) {
    const auto letter = [](char c) { return std::islower(static_cast<unsigned char>(c)) != 0; };
    const auto digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
    const auto n = zone.size();
    if (n > 2 && letter(zone[n - 1]) && digit(zone[n - 2])) return std::string(zone.substr(0, n - 1));
    if (n > 3 && letter(zone[n - 1]) && zone[n - 2] == '-' && digit(zone[n - 3]))
        return std::string(zone.substr(0, n - 2));
    return std::string(zone);
}

std::unique_ptr<Policy> make_baseline(std::string_view name) {
    if (name == "on_demand") return std::make_unique<OnDemand>();
    if (name == "greedy") return std::make_unique<Greedy>();
    if (name == "uniform_progress") return std::make_unique<UniformProgress>(false);
    if (name == "uniform_progress_loose") return std::make_unique<UniformProgress>(true);
    return nullptr;
}

}  // namespace gf::replay
