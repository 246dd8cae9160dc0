// When this key last proved to be good. Where a provider answers a wrong key like a missing machine, "not
// there" counts only beside an authenticated call that succeeded within the last 60 s (DESIGN 6.2).
// Thread-safe.
#pragma once
#include <atomic>

#include "providers/clock.hpp"

namespace gf {

inline constexpr Millis kProofAge{Seconds{60}};

class KeyProof {
 public:
    explicit KeyProof(const Clock& clock) : clock_(clock) {}
    /// A call that no wrong key could have passed has just succeeded.
    void note() { proved_at_.store(unix_millis(clock_.now())); }
    /// A call has just been refused for its key: earlier successes no longer count.
    void revoke() { proved_at_.store(kNever); }
    [[nodiscard]] bool fresh() const {
        const auto at = proved_at_.load();
        return at != kNever && unix_millis(clock_.now()) - at <= kProofAge.count();
    }

 private:
    static constexpr std::int64_t kNever = -1;
    const Clock& clock_;
    std::atomic<std::int64_t> proved_at_{kNever};
};

}  // namespace gf
