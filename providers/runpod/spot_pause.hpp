// When the legacy spot market is left alone. Its mutation is being removed; in some weeks every create was
// answered with "no instances". Whoever goes on trying never gets a machine, so after some failures in a row
// spot is not offered for a while, and jobs go on-demand. Pure state: the caller passes the time and guards
// it.
#pragma once
#include <algorithm>
#include <optional>

#include "model/time.hpp"

namespace gf::runpod {

class SpotPause {
 public:
    static constexpr int kFailuresMax = 3;
    static constexpr Millis kFirst{std::chrono::minutes{30}};
    static constexpr Millis kMost{std::chrono::hours{6}};

    [[nodiscard]] bool holds(Instant now) const { return until_ && now < *until_; }
    void succeeded() { *this = {}; }
    /// `for_good`: the call is not there any more, or closed to this key; one such answer is enough.
    void failed(Instant now, bool for_good) {
        ++failures_;
        // After a pause one try is enough to see that nothing has changed.
        if (!for_good && failures_ < kFailuresMax && wait_ == Millis{0}) return;
        wait_ = for_good ? kMost : std::clamp(wait_ * 2, kFirst, kMost);
        until_ = now + wait_;
        failures_ = 0;
    }

 private:
    int failures_{0};
    Millis wait_{0};
    std::optional<Instant> until_;
};

}  // namespace gf::runpod
