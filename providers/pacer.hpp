// How fast a provider may be asked. Each endpoint has a minimum interval; answers teach more: RateLimit and
// Retry-After headers, a threshold named in a 429 text, and exponential back-off with jitter where a 429 says
// nothing. Destroys are never delayed behind searches: endpoints queue apart, and what is left of an
// account-wide quota is kept for the more urgent calls; a destroy is held by its own interval and by refusals of
// destroys alone, for five minutes at most. What an answer says holds other calls for an hour at most: then one call
// asks whether it is still so. A provider that does not answer is left alone for a while (breaker.hpp), except by
// destroys. Thread-safe; the clock is injected.
#pragma once
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/id.hpp"
#include "model/result.hpp"
#include "providers/breaker.hpp"
#include "providers/clock.hpp"
#include "providers/http_client.hpp"

namespace gf {

/// Most urgent first: an account-wide quota that runs low is refused from the bottom.
enum class Urgency : std::uint8_t { destroy, machine, listing, search };

struct EndpointRule {
    std::string name;
    Millis interval{0};  // least time between two calls
    Urgency urgency{Urgency::machine};
    Millis backoff_first{Seconds{1}};  // first wait after a 429 that names none
    bool apart{false};  // another service of the provider: its failures, refusals and quota say nothing of the rest, and the
                        // other way round
};

struct PacerRules {
    std::vector<EndpointRule> endpoints;
    bool account_wide{false};  // a 429 on one endpoint holds for all (one quota per account)
    Millis backoff_max{Seconds{30}};
    Millis interval_all{0};  // least time between any two calls, whatever they are; the most urgent waiter goes first
    BreakerRules breaker{};
};

class Pacer {
 public:
    Pacer(Clock& clock, std::uint64_t seed, PacerRules rules);

    /// Blocks until a call of this endpoint may go out, and counts it. When that would take longer than
    /// `patience` nothing is counted and the answer is `rate_limited` with the time left in `retry_after`. While the
    /// breaker is open the answer is `unavailable` at once, with the time until the next trial; never for a destroy.
    Result<void> enter(std::string_view endpoint, Millis patience);

    /// Learns from the answer, or from there being none; to be called once for every `enter` that let a call out. For a 429 returns how long to wait before the next call of this endpoint.
    std::optional<Millis> learn(std::string_view endpoint, const HttpResponse& response);

    /// Holds the next call of this endpoint for `wait` from now, for what a provider says in ways of its own. At most as long as
    /// any other answer can hold it; returns how long.
    Millis hold(std::string_view endpoint, Millis wait);

    /// Calls that wait for their turn now.
    [[nodiscard]] std::size_t waiting() const;

 private:
    struct Endpoint {
        EndpointRule rule;
        Instant next;           // the next free slot
        Instant blocked_until;  // after a 429
        Millis backoff{0};      // 0 = the last answer was no 429
    };
    struct Window {  // one window of the account's quota
        std::int64_t quota{0};
        std::int64_t remaining{0};
        Instant resets_at;
        Instant told_at;  // by the last answer that named it
    };
    struct Waiter {
        Urgency urgency;
        Instant ready;  // when its own endpoint lets it out
    };
    Endpoint& endpoint(std::string_view name);
    [[nodiscard]] static bool guarded(const EndpointRule& rule) {
        return rule.urgency != Urgency::destroy && !rule.apart;
    }
    [[nodiscard]] bool somebody_is_more_urgent(Urgency than, Instant now) const;
    [[nodiscard]] Instant earliest(const Endpoint& e, Instant now) const;
    void learn_windows(std::string_view header, std::string_view policy, Instant now);

    Clock& clock_;
    PacerRules rules_;
    mutable std::mutex mutex_;  // guards everything below
    Entropy entropy_;
    Breaker breaker_;
    std::map<std::string, Endpoint, std::less<>> endpoints_;
    std::map<std::string, Window, std::less<>> windows_;
    Instant account_blocked_until_;
    Instant account_blocked_at_;
    Instant next_of_all_;        // the next free slot where `interval_all` is set
    std::list<Waiter> waiters_;  // those asleep in `enter`
};

/// The wait that a `Retry-After` header names, in seconds or as a date beside the answer's own `Date`, or "try again in 60 s" or
/// `"retry_after": 60` in a text; nothing if none is there.
/// At most an hour.
[[nodiscard]] std::optional<Millis> retry_hint(const HttpResponse& response);

}  // namespace gf
