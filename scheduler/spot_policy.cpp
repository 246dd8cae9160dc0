#include "scheduler/spot_policy.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "scheduler/spot_market.hpp"

namespace gf {
namespace {

double hours(Millis span) {
    return static_cast<double>(span.count()) / 3.6e6;
}

Millis millis(double hours) {
    return Millis{static_cast<std::int64_t>(std::llround(std::min(hours, 1e6) * 3.6e6))};
}

/// While the work fills less of the time than this, spot that is up is taken at once, where one market is all
/// there is. The table would often let fresh capacity prove itself first, as slack seems to cost nothing; but
/// it takes the last day for the rest of the job, and days ahead that is a guess. What was gained by it came
/// to less than what was lost in markets that turned bad later (bench/RESULTS.md). The figure is where the
/// published rule for loose deadlines ends (NSDI'24), not a fitted one.
constexpr double kLoose = 0.7;

/// What the guards allow. Worst cases only; nothing here is estimated.
struct Guards {
    Millis slack{0};  // without a start
    bool sure_makes_it{false};
    bool may_wait{false};
    bool may_stay{false};         // on the spot machine of now
    bool may_start{false};        // a spot machine
    bool may_start_later{false};  // the same at the next look
    Millis wait_most{0};          // until none may be started any more
};

Guards guards_of(const SpotJob& job, Millis to_deadline) {
    Guards g;
    g.slack = to_deadline - job.work_left;
    const Millis worst = job.changeover_worst + job.lost_worst;
    g.sure_makes_it = g.slack >= job.changeover_worst;
    g.may_wait = g.slack - job.look >= job.changeover_worst;
    g.may_stay = g.slack - std::min(job.look, job.startup_left) >= worst;
    g.may_start = g.slack - std::min(job.look, job.changeover_worst) >= worst;
    g.wait_most = g.slack - std::min(job.look, job.changeover_worst) - worst;
    g.may_start_later = g.slack - job.look - std::min(job.look, job.changeover_worst) >= worst;
    return g;
}

struct View {
    std::vector<SpotOffer> offers;  // by key
    const SpotOffer* on{nullptr};
    const SpotOffer* sure{nullptr};  // the on-demand offer that finishes for least
};

View view_of(const SpotJob& job, std::span<const SpotOffer> offers) {
    View view{.offers = {offers.begin(), offers.end()}};
    std::sort(view.offers.begin(), view.offers.end(), [](const SpotOffer& a, const SpotOffer& b) {
        return std::tie(a.key, a.spot, a.rate, a.move_fee) < std::tie(b.key, b.spot, b.rate, b.move_fee);
    });
    Usd least{};
    for (const auto& offer : view.offers) {
        const bool here = !job.on.empty() && offer.key == job.on;
        if (here && offer.up) view.on = &offer;
        if (offer.spot || !offer.up) continue;
        const Usd total = cost(offer.rate, job.work_left + (here ? job.startup_left : job.changeover)) +
                          (here ? Usd{} : offer.move_fee);
        if (view.sure == nullptr || total < least) {
            view.sure = &offer;
            least = total;
        }
    }
    return view;
}

SpotDecision be_on(const SpotOffer& offer, const View& view, SpotWhy why) {
    return {.move = &offer == view.on ? SpotMove::stay : SpotMove::move,
            .key = offer.key,
            .why = why,
            .hour_value = {},
            .lifetime = {},
            .if_idle = {},
            .if_spot = {},
            .if_sure = {},
            .acceptable = {}};
}

/// Without a deadline: the least expected money to finish on each machine that is up, its losses and starts
/// included.
SpotDecision decide_without_deadline(const SpotJob& job, const View& view, const SpotHistory& history,
                                     Instant now) {
    const SpotOffer* best = nullptr;
    double least = 0;
    double best_life = 0;
    const double work = hours(job.work_left);
    for (const auto& offer : view.offers) {
        if (!offer.up) continue;
        const bool here = &offer == view.on;
        const double rate = static_cast<double>(offer.rate.micros);
        const double fee = here ? 0 : static_cast<double>(offer.move_fee.micros);
        double held = work + hours(here ? job.startup_left : job.changeover);
        double life = 0;
        if (offer.spot) {
            life = key_life(history, offer.key, now, kSpotLifeMax);
            // Each loss costs a start and, on average, half of the work that can be lost.
            held += work / std::max(life, 1e-3) * (hours(job.changeover) + hours(job.lost_worst) / 2);
        }
        const double total = rate * held + fee;
        if (best == nullptr || total < least) {
            best = &offer;
            least = total;
            best_life = life;
        }
    }
    if (best == nullptr) return {};
    auto decision = be_on(*best, view, SpotWhy::no_deadline);
    (best->spot ? decision.if_spot : decision.if_sure) = Usd{std::llround(least)};
    if (best->spot) decision.lifetime = millis(best_life);
    return decision;
}

/// The spot machine to be on, given what an hour of progress is worth: the one whose stay earns most per
/// hour. A running one is left only for a clear gain and for capacity that is past its first twenty minutes,
/// while there is slack for two more starts.
const SpotRoom* best_room(const View& view, const SpotMarket& market, const SpotGain& worth, double slack_h,
                          bool may_start) {
    const double changeover = worth.changeover_h;
    const SpotRoom* best = nullptr;
    double most = 0;
    const SpotRoom* here = nullptr;
    for (const auto& room : market.rooms) {
        if (!room.up) continue;
        if (room.offer == view.on) {
            here = &room;
            continue;
        }
        if (!may_start) continue;
        const double gain = room.earns(worth);
        if (best == nullptr || gain > most) {
            best = &room;
            most = gain;
        }
    }
    if (here == nullptr || best == nullptr) return here != nullptr ? here : best;
    if (slack_h < 3 * changeover || best->age_h < 1 / 3.0) return here;
    const double stay = std::max(std::min(best->life_h, worth.work_h), 1e-3);
    const double saved = (here->level - best->level) * stay +
                         worth.hour_value * changeover * stay * (1 / here->life_h - 1 / best->life_h);
    return saved - worth.hour_value * changeover - best->fee > 0.03 * here->level * stay ? best : here;
}

}  // namespace

SpotDecision decide_spot(const SpotJob& job, std::span<const SpotOffer> offers, const SpotHistory& history,
                         Instant now, SpotTables& tables) {
    const View view = view_of(job, offers);
    if (!job.to_deadline) return decide_without_deadline(job, view, history, now);
    const Guards guards = guards_of(job, *job.to_deadline);
    const bool on_spot = view.on != nullptr && view.on->spot;
    const bool on_sure = view.on != nullptr && !view.on->spot;
    const auto finish = [&](SpotDecision decision) {
        decision.slack = guards.slack - (view.on != nullptr ? job.startup_left : Millis{0});
        decision.guard = job.changeover_worst + job.lost_worst;
        return decision;
    };
    if (!on_sure && !guards.sure_makes_it) {
        // Too late for a start. What runs may still make it; without anything running, on-demand is late by
        // the least.
        if (view.on != nullptr) return finish(be_on(*view.on, view, SpotWhy::too_late));
        if (view.sure != nullptr) return finish(be_on(*view.sure, view, SpotWhy::too_late));
    }
    const bool free_to_choose =
        on_sure || guards.may_wait || guards.may_start || (on_spot && guards.may_stay);
    if (!free_to_choose && view.sure != nullptr)
        return finish(be_on(*view.sure, view, SpotWhy::must_be_sure));

    const SpotMarket market = spot_market(job, view.offers, view.on, view.sure, history, now);
    const SpotOutlook outlook = spot_outlook(job, market, tables);
    const double slack_h = hours(guards.slack);
    const double work_h = hours(job.work_left);
    const SpotGain worth{.hour_value = outlook.hour_value,
                         .done = std::max(0.0, outlook.costs.idle - outlook.hour_value * work_h),
                         .changeover_h = hours(job.changeover),
                         .work_h = work_h};
    const auto* room = best_room(view, outlook.market, worth, slack_h, guards.may_start);
    if (room != nullptr && room->offer == view.on && !guards.may_stay) room = nullptr;
    // For one zone the table knows the age; for many it knows only that some zone is up, and each must be
    // worth its own start.
    if (room != nullptr && room->offer != view.on && outlook.market.rooms.size() > 1 &&
        !room->ripe(worth, hours(job.look), hours(guards.wait_most))) {
        room = nullptr;
    }

    struct Choice {
        double total;
        const SpotOffer* offer;
    };
    std::vector<Choice> choices;  // of equals the first is taken
    if (room != nullptr) choices.push_back({outlook.costs.good, room->offer});
    if (const auto* fallback = outlook.sure_room(view.on, guards.may_start, guards.may_stay))
        choices.push_back({outlook.costs.sure, fallback});
    // Waiting is for spot alone: where none was ever seen, or none could be started any more after it, it
    // would only spend slack.
    const bool spot_known = !history.keys().empty() || std::any_of(view.offers.begin(), view.offers.end(),
                                                                   [](const auto& o) { return o.spot; });
    const bool loose =
        static_cast<double>(job.work_left.count()) < kLoose * static_cast<double>(job.to_deadline->count());
    // Not where machines are lost before they are worth their start even at the price of on-demand.
    const bool takes_at_once = loose && room != nullptr && market.rooms.size() == 1 &&
                               room->earns({.hour_value = 1,
                                            .done = worth.changeover_h,
                                            .changeover_h = worth.changeover_h,
                                            .work_h = work_h}) > 0;
    if (guards.may_wait && !takes_at_once && ((spot_known && guards.may_start_later) || choices.empty()))
        choices.push_back({outlook.costs.idle, nullptr});
    const Choice* best = nullptr;
    for (const auto& choice : choices) {
        if (best == nullptr || choice.total < best->total) best = &choice;
    }
    if (best == nullptr)
        return finish(view.on != nullptr ? be_on(*view.on, view, SpotWhy::too_late) : SpotDecision{});
    SpotDecision decision = best->offer != nullptr ? be_on(*best->offer, view, SpotWhy::cheapest)
                                                   : SpotDecision{.why = SpotWhy::waits};
    const auto money = [&](double in_hours) {
        return std::optional(
            Usd{std::llround(std::min(in_hours, 1e6) * static_cast<double>(market.unit.micros))});
    };
    decision.if_idle = money(outlook.costs.idle);
    decision.if_sure = money(outlook.costs.sure);
    if (room != nullptr) decision.if_spot = money(outlook.costs.good);
    decision.hour_value =
        UsdPerHour{std::llround(outlook.hour_value * static_cast<double>(market.unit.micros))};
    if (room != nullptr && best->offer == room->offer) decision.lifetime = millis(room->life_h);
    for (const auto& one : outlook.market.rooms) decision.acceptable.push_back(one.offer->key);
    return finish(std::move(decision));
}

std::string_view text(SpotMove move) {
    switch (move) {
        case SpotMove::stay:
            return "stay";
        case SpotMove::move:
            return "move";
        case SpotMove::idle:
            return "idle";
    }
    return "";
}

std::string_view text(SpotWhy why) {
    switch (why) {
        case SpotWhy::must_be_sure:
            return "must_be_sure";
        case SpotWhy::too_late:
            return "too_late";
        case SpotWhy::nothing_offered:
            return "nothing_offered";
        case SpotWhy::cheapest:
            return "cheapest";
        case SpotWhy::waits:
            return "waits";
        case SpotWhy::no_deadline:
            return "no_deadline";
    }
    return "";
}

}  // namespace gf
