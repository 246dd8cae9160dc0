#include "replay/ferry.hpp"

#include <utility>
#include <vector>

#include "scheduler/spot_policy.hpp"

namespace gf::replay {
namespace {

constexpr std::string_view kSure = "/on-demand";

class Ferry final : public Policy {
 public:
    Place decide(const Look& look) override {
        if (look.tick == 0) history_ = SpotHistory{};  // what came before the job's start was not seen
        const Instant now{look.elapsed};
        std::vector<SpotSeen> seen;
        std::vector<SpotOffer> offers;
        for (std::size_t z = 0; z < look.trace.zones.size(); ++z) {
            const auto& name = look.trace.zones[z];
            const bool up = look.trace.is_up(z, look.at);
            const UsdPerHour rate = look.trace.price(z, look.at);
            const Usd fee = look.setting.move_fee(look.checkpoint_zone, static_cast<int>(z));
            seen.push_back({.key = name, .up = up, .rate = rate});
            offers.push_back({.key = name, .spot = true, .up = up, .rate = rate, .move_fee = fee});
            offers.push_back({.key = name + std::string(kSure),
                              .spot = false,
                              .up = true,
                              .rate = look.trace.on_demand[z],
                              .move_fee = fee});
        }
        history_.observe(now, seen);
        SpotJob job{.work_left = look.work_left,
                    .to_deadline = look.to_deadline,
                    .changeover = look.setting.changeover,
                    .changeover_worst = look.setting.changeover,
                    .lost_worst = look.setting.checkpoint_every,
                    .look = look.trace.tick,
                    .on = key_of(look),
                    .startup_left = look.startup_left};
        const auto decision = decide_spot(job, offers, history_, now, tables_);
        if (decision.move == SpotMove::stay) return look.current;
        if (decision.move == SpotMove::idle) return {};
        for (std::size_t z = 0; z < look.trace.zones.size(); ++z) {
            if (decision.key == look.trace.zones[z]) return {Mode::spot, static_cast<int>(z)};
            if (decision.key == look.trace.zones[z] + std::string(kSure))
                return {Mode::on_demand, static_cast<int>(z)};
        }
        return {};
    }

 private:
    static std::string key_of(const Look& look) {
        if (look.current.mode == Mode::idle) return {};
        const auto& name = look.trace.zones[static_cast<std::size_t>(look.current.zone)];
        return look.current.mode == Mode::spot ? name : name + std::string(kSure);
    }

    SpotHistory history_;
    SpotTables tables_{std::size_t{1} << 30};  // runs of a trace ask for the same tables again and again
};

}  // namespace

std::unique_ptr<Policy> make_ferry(std::string_view name) {
    return name == "gpuferry" ? std::make_unique<Ferry>() : nullptr;
}

}  // namespace gf::replay
