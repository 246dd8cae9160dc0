// The two kinds of rate limit: RunPod's quotas per window, Vast's least interval per endpoint. Scaled time,
// no clock.
#pragma once
#include <array>
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "model/time.hpp"
#include "simulator/settings.hpp"

namespace gf::sim {

/// Fixed windows of a minute, an hour and a day, per account.
class Quotas {
 public:
    struct Answer {
        std::string policy;                // RateLimit-Policy
        std::string state;                 // RateLimit
        std::optional<int> retry_after_s;  // set = refused
        std::string window;                // the window that refused
    };
    [[nodiscard]] Answer count(const std::string& account, const Settings& settings, Instant now);

 private:
    struct Window {
        Instant began;
        int used{0};
    };
    std::map<std::string, std::array<Window, 3>> accounts_;
};

/// So many calls in a burst, refilled at a rate.
class TokenBuckets {
 public:
    /// Takes a token of the bucket `name`; without one, the time until there is one, and nothing is taken.
    [[nodiscard]] std::optional<Millis> refuse(const std::string& name, double per_second, double capacity,
                                               Instant now);
    /// Whether `refuse` would let a call pass.
    [[nodiscard]] std::optional<Millis> look(const std::string& name, double per_second, double capacity,
                                             Instant now) const;

 private:
    struct Bucket {
        double tokens{0};
        Instant at;
    };
    std::map<std::string, Bucket> buckets_;
};

/// A least time between two calls of one endpoint by one identity.
class Intervals {
 public:
    /// The threshold in seconds that the call broke; nothing if it may pass. `penalty` replaces `interval`
    /// after a refusal, until a call has passed.
    [[nodiscard]] std::optional<double> refuse(const std::string& identity, const std::string& endpoint,
                                               double interval_s, double penalty_s, Instant now);
    /// At most `most` calls per minute.
    [[nodiscard]] bool over_per_minute(const std::string& identity, const std::string& endpoint,
                                       std::size_t most, Instant now);

 private:
    struct Last {
        Instant passed;
        bool punished{false};
    };
    std::map<std::pair<std::string, std::string>, Last> last_;
    std::map<std::pair<std::string, std::string>, std::deque<Instant>> recent_;
};

}  // namespace gf::sim
