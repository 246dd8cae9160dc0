#include "providers/breaker.hpp"

#include <algorithm>

namespace gf {

std::optional<Millis> Breaker::holds(Instant now) const {
    if (!open_until_) return std::nullopt;
    if (trial_ && now - *trial_ < rules_.trial_max) return rules_.trial_max - (now - *trial_);
    if (now < *open_until_) return *open_until_ - now;
    return std::nullopt;
}

void Breaker::let_out(Instant now) {
    if (open_until_) trial_ = now;
}

void Breaker::heard(bool failed, Instant now, Entropy& entropy) {
    if (!failed) {
        failures_ = 0;
        wait_ = Millis{0};
        open_until_.reset();
        trial_.reset();
        return;
    }
    if (rules_.failures <= 0) return;
    if (open_until_) {
        if (trial_) open(std::min(wait_ * 2, rules_.open_max), now, entropy);
        return;
    }
    if (++failures_ >= rules_.failures) open(rules_.open_first, now, entropy);
}

void Breaker::open(Millis wait, Instant now, Entropy& entropy) {
    wait_ = wait;
    // Jitter of up to a quarter keeps several daemons from coming back together.
    const auto jitter = entropy.below(static_cast<std::uint64_t>(wait.count()) / 4 + 1);
    open_until_ = now + wait + Millis{static_cast<std::int64_t>(jitter)};
    trial_.reset();
}

}  // namespace gf
