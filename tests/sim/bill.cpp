#include "tests/sim/bill.hpp"

#include <algorithm>

#include "model/money.hpp"

namespace gf::sim {

void Bill::begin(Instant asked, Instant at, std::int64_t micros) {
    asked_ = seen_ = untold_from_ = asked;
    made_ = at;
    told_micros_ = micros;
    untold_.push_back({at, micros});
}

void Bill::change(Instant at, std::int64_t micros) {
    if (micros == (untold_.empty() ? told_micros_ : untold_.back().micros)) return;
    if (untold_.empty()) untold_from_ = seen_;
    untold_.push_back({at, micros});
}

void Bill::move(Instant at) {
    const std::int64_t micros = untold_.empty() ? told_micros_ : untold_.back().micros;
    // As long as nobody knows its new id it costs nothing that anybody could tell.
    change(at, 0);
    change(at, micros);
    trouble(at);
}

void Bill::look(const Look& look, bool created) {
    if (created) named();
    told_ = true;
    const auto shown = static_cast<std::size_t>(
        std::ranges::count_if(untold_, [&](const Change& c) { return c.at <= look.made; }));
    if (shown > 0) {
        count_untold(shown, look.heard);
        told_micros_ = untold_[shown - 1].micros;
        untold_.erase(untold_.begin(), untold_.begin() + static_cast<std::ptrdiff_t>(shown));
    }
    untold_from_ = std::max(untold_from_, look.began);
    seen_ = std::max(seen_, look.began);
}

void Bill::named() {
    if (!told_) count(told_micros_, asked_, made_);
}

void Bill::forget(Instant last_look) {
    seen_ = std::min(seen_, std::max(last_look, asked_));
    untold_from_ = std::min(untold_from_, seen_);
}

void Bill::end(Instant ended) {
    if (untold_.empty()) return;
    // Nothing of it was ever told: all of it is hidden.
    if (!told_) untold_.push_back({ended, 0});
    trouble(ended);
    count_untold(untold_.size(), std::max(untold_from_ + kBetweenLooks + Seconds{1}, ended));
    untold_.clear();
}

void Bill::count_untold(std::size_t changes, Instant to) {
    std::int64_t low = told_micros_, high = told_micros_;
    for (std::size_t i = 0; i < changes; ++i) {
        low = std::min(low, untold_[i].micros);
        high = std::max(high, untold_[i].micros);
    }
    count(high - low, untold_from_, to);
}

void Bill::count(std::int64_t micros_per_hour, Instant from, Instant to) {
    const std::int64_t micros = cost(UsdPerHour{micros_per_hour}, to - from).micros;
    if (to - from <= kBetweenLooks) {
        between_looks_ += micros;
        return;
    }
    if (micros == 0) return;
    touched_ = true;
    hidden_ += micros;
    if (trouble_ < from && to - from > unexcused_) {
        unexcused_ = to - from;
        unexcused_at_ = from;
    }
}

}  // namespace gf::sim
