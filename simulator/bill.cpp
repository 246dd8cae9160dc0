#include "simulator/bill.hpp"

#include <algorithm>

namespace gf::sim {

namespace {

constexpr std::int64_t kMillisPerHour = 3'600'000;

Usd rounded(__int128 amount, std::int64_t unit) {
    return Usd{static_cast<std::int64_t>((amount + unit / 2) / unit)};
}
Usd of_hours(__int128 amount) {
    return rounded(amount, kMillisPerHour);
}
Usd of_months(__int128 amount) {
    return rounded(amount, kMillisPerHour * kHoursPerMonth);
}

}  // namespace

void Bill::accrue(Instant now, Rates rates) {
    if (now < to_) return;
    if (step_.count() > 0) charge_steps(now, rates.gpu_micros_per_hour);
    if (now == to_) return;
    const auto span = static_cast<__int128>((now - to_).count());
    if (step_.count() == 0) gpu_ += span * rates.gpu_micros_per_hour;
    disk_ += span * rates.disk_micros_per_month;
    if (!spans_.empty() && spans_.back().rates == rates && spans_.back().to == to_) {
        spans_.back().to = now;
    } else {
        spans_.push_back({to_, now, rates});
    }
    to_ = now;
}

void Bill::charge_steps(Instant now, std::int64_t rate) {
    if (rate <= 0) return;
    // The first step is charged as soon as it begins: that is the least that a machine costs.
    if (steps_ == 0) charged_to_ = to_;
    std::int64_t begun = steps_ == 0 ? 1 : 0;
    const auto from = std::max(charged_to_, to_);
    if (charged_to_ < to_) charged_to_ = to_;  // what cost nothing in between is left out
    const auto open = now - from;
    if (open.count() > 0) begun = std::max(begun, (open.count() + step_.count() - 1) / step_.count());
    steps_ += begun;
    charged_to_ += step_ * begun;
    gpu_ += static_cast<__int128>(begun) * step_.count() * rate;
}

Usd Bill::gpu() const {
    return of_hours(gpu_);
}
Usd Bill::disk() const {
    return of_months(disk_);
}

Bill::Part Bill::within(Instant from, Instant to) const {
    __int128 gpu = 0;
    __int128 disk = 0;
    Millis gpu_time{0};
    for (const auto& span : spans_) {
        const auto length = std::min(to, span.to) - std::max(from, span.from);
        if (length.count() <= 0) continue;
        gpu += static_cast<__int128>(length.count()) * span.rates.gpu_micros_per_hour;
        disk += static_cast<__int128>(length.count()) * span.rates.disk_micros_per_month;
        if (span.rates.gpu_micros_per_hour > 0) gpu_time += length;
    }
    return {of_hours(gpu), of_months(disk), gpu_time};
}

}  // namespace gf::sim
