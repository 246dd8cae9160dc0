#include "scheduler/move_rule.hpp"

#include <algorithm>
#include <tuple>

#include "scheduler/billing.hpp"
#include "scheduler/filters.hpp"

namespace gf {
namespace {

/// What the bill of a machine that was held for `held` grows by in the next `more`.
Usd growth(const Offer& offer, UsdPerHour rate, Millis held, Millis more) {
    return cost(rate, billed_time(offer, held + more)) - cost(rate, billed_time(offer, held));
}

bool same_place(const Offer& a, const Offer& b) {
    return a.provider == b.provider && (a.id == b.id || (!a.host_id.empty() && a.host_id == b.host_id));
}

}  // namespace

WorkThere same_card(const Offer& here) {
    return [gpu = here.gpu, count = here.gpu_count, share = here.gpu_share](
               const Offer& offer, Millis work) -> std::optional<Millis> {
        const bool same = !gpu.canonical.empty() && offer.gpu.canonical == gpu.canonical &&
                          offer.gpu.memory == gpu.memory && offer.gpu_count == count &&
                          offer.gpu_share == share;
        return same ? std::optional(work) : std::nullopt;
    };
}

std::optional<Move> consider_move(const RunningTask& task, std::span<const Offer> offers,
                                  const ChoiceWorld& world, const MoveCosts& costs, const MoveRule& rule,
                                  const WorkThere& there) {
    if (!rule.on) return std::nullopt;
    const Usd stay = growth(*task.offer, task.rate, task.held, task.left);
    const auto percent =
        static_cast<std::int64_t>(static_cast<__int128>(stay.micros) * rule.saving_percent / 100);
    const Usd least{std::max({std::int64_t{1}, percent, rule.saving_least.micros})};
    std::optional<Move> best;
    for (const Offer& offer : offers) {
        if (same_place(offer, *task.offer)) continue;
        const auto work = there(offer, task.left + costs.redo);
        if (!work) continue;
        const Fit fit = make_fit(*task.spec, *task.row, offer, world);
        if (std::ranges::any_of(filters(), [&](Filter filter) { return filter(fit).has_value(); })) continue;
        // It goes on working while the new one comes up, but what it does after its last checkpoint is done
        // again.
        const Usd overlap = growth(*task.offer, task.rate, task.held, costs.changeover);
        const Usd machine = growth(offer, fit.all_in, Millis{0}, costs.changeover + *work);
        const Usd saving = stay - overlap - machine - costs.transfer;
        if (saving < least) continue;
        const auto name = [](const Offer& o) { return std::tie(o.provider, o.id, o.spot); };
        if (best && (saving < best->saving || (saving == best->saving && name(offer) > name(best->offer))))
            continue;
        best = Move{.offer = offer,
                    .all_in = fit.all_in,
                    .lines = {{"stay", stay},
                              {"overlap", overlap},
                              {"machine", machine},
                              {"transfer", costs.transfer}},
                    .saving = saving};
    }
    return best;
}

}  // namespace gf
