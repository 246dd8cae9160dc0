#include <nlohmann/json.hpp>

#include "scheduler/planner.hpp"

namespace gf {
namespace {

using Json = nlohmann::ordered_json;

Json placement_json(const Placement& p, std::span<const PlanTask> tasks, std::span<const Offer> offers,
                    const PlanWorld& world) {
    Json out{{"task", tasks[p.task].row->id.get()}};
    if (p.warm) out["machine"] = world.warm[*p.warm].id.get();
    if (p.offer) {
        const Offer& offer = offers[*p.offer];
        out["provider"] = offer.provider.get();
        out["offer"] = offer.id;
        out["spot"] = offer.spot;
        if (p.kept) out["kept"] = true;
    }
    out["rate"] = dollars(p.all_in);
    out["score"] = p.score;
    return out;
}

Json waiting_json(const Waiting& w, std::span<const PlanTask> tasks) {
    Json out{{"task", tasks[w.task].row->id.get()}, {"wait_reason", w.reason}};
    if (!w.detail.empty()) out["detail"] = w.detail;
    out["since"] = rfc3339(w.since);
    if (w.looked_at) out["looked_at"] = rfc3339(*w.looked_at);
    if (w.found > 0) out["found"] = w.found;
    if (w.counted_at) out["counted_at"] = rfc3339(*w.counted_at);
    if (w.refusals) out["refusals"] = *w.refusals;
    return out;
}

}  // namespace

std::string plan_json(const Plan& plan, std::span<const PlanTask> tasks, std::span<const Offer> offers,
                      const PlanWorld& world) {
    Json out{{"placements", Json::array()}, {"waiting", Json::array()}, {"refusals", Json::array()}};
    for (const auto& placement : plan.placements)
        out["placements"].push_back(placement_json(placement, tasks, offers, world));
    for (const auto& waiting : plan.waiting) out["waiting"].push_back(waiting_json(waiting, tasks));
    for (const auto& refusals : plan.refusals) {
        Json counts = Json::object();
        for (const auto& [reason, count] : refusals.counts) counts[reason] = count;
        out["refusals"].push_back({{"considered", refusals.considered}, {"refused", std::move(counts)}});
    }
    out["evaluations"] = plan.evaluations;
    out["more"] = plan.more;
    // Provider texts are foreign bytes: whatever is not UTF-8 becomes a replacement character, never an
    // exception.
    return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace gf
