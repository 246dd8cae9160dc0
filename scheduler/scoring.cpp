#include "scheduler/scoring.hpp"

#include <algorithm>

#include "scheduler/bid_rule.hpp"
#include "scheduler/billing.hpp"

namespace gf {
namespace {

std::int64_t new_machine(const void*, const Fit& fit) {
    return ranked_rate(fit).micros;
}

std::int64_t warm_machine(const void*, const Fit& fit, Millis ahead) {
    constexpr Millis kHour = std::chrono::hours{1};
    const auto& limit = fit.spec.limits.duration;
    const Millis run = limit && *limit > fit.task.ran ? *limit - fit.task.ran : kHour;
    const Millis saved = std::min(run, ahead) + kBidChangeover;
    const auto bill = static_cast<__int128>(fit.all_in.micros) * (run - saved).count();
    return static_cast<std::int64_t>(bill / run.count());  // below 0 where more is saved than it costs
}

}  // namespace

const Scoring& rate_scoring() {
    static constexpr Scoring kScoring{.score = new_machine, .warm = warm_machine};
    return kScoring;
}

Millis paid_ahead(const Offer& offer, Millis held) {
    return std::max(Millis{0}, billed_time(offer, held) - std::max(Millis{0}, held));
}

}  // namespace gf
