#include "simulator/rate_limit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace gf::sim {

namespace {
struct Kind {
    const char* name;
    int seconds;
};
constexpr std::array<Kind, 3> kKinds{{{"minute", 60}, {"hour", 3600}, {"day", 86'400}}};
}  // namespace

Quotas::Answer Quotas::count(const std::string& account, const Settings& settings, Instant now) {
    const std::array<int, 3> quotas{settings.runpod_per_minute, settings.runpod_per_hour,
                                    settings.runpod_per_day};
    auto& windows = accounts_[account];
    Answer answer;
    for (std::size_t i = 0; i < kKinds.size(); ++i) {
        const auto length = std::chrono::seconds(kKinds[i].seconds);
        auto& window = windows[i];
        if (now - window.began >= length) window = {.began = now, .used = 0};
        const auto left_ms = (window.began + length - now).count();
        const int reset = static_cast<int>((left_ms + 999) / 1000);
        if (window.used >= quotas[i]) {
            if (!answer.retry_after_s || *answer.retry_after_s < reset) {
                answer.retry_after_s = reset;
                answer.window = kKinds[i].name;
            }
        } else {
            ++window.used;
        }
        answer.policy += fmt::format("{}\"{}\";q={};w={}", i == 0 ? "" : ", ", kKinds[i].name, quotas[i],
                                     kKinds[i].seconds);
        answer.state += fmt::format("{}\"{}\";r={};t={}", i == 0 ? "" : ", ", kKinds[i].name,
                                    quotas[i] - window.used, reset);
    }
    return answer;
}

std::optional<Millis> TokenBuckets::look(const std::string& name, double per_second, double capacity,
                                         Instant now) const {
    const auto it = buckets_.find(name);
    if (it == buckets_.end()) return std::nullopt;  // full at first
    const auto passed = static_cast<double>((now - it->second.at).count()) / 1000.0;
    const double tokens = std::min(capacity, it->second.tokens + passed * per_second);
    if (tokens >= 1.0) return std::nullopt;
    return Millis{static_cast<std::int64_t>(std::ceil((1.0 - tokens) / per_second * 1000.0))};
}

std::optional<Millis> TokenBuckets::refuse(const std::string& name, double per_second, double capacity, Instant now) {
    if (const auto wait = look(name, per_second, capacity, now)) return wait;
    auto [it, fresh] = buckets_.try_emplace(name, Bucket{.tokens = capacity, .at = now});
    auto& bucket = it->second;
    if (!fresh) {
        const auto passed = static_cast<double>((now - bucket.at).count()) / 1000.0;
        bucket = {.tokens = std::min(capacity, bucket.tokens + passed * per_second), .at = now};
    }
    bucket.tokens -= 1.0;
    return std::nullopt;
}

std::optional<double> Intervals::refuse(const std::string& identity, const std::string& endpoint,
                                        double interval_s, double penalty_s, Instant now) {
    const auto found = last_.find({identity, endpoint});
    if (found != last_.end()) {
        const double wanted = found->second.punished ? penalty_s : interval_s;
        const auto passed = static_cast<double>((now - found->second.passed).count()) / 1000.0;
        if (passed < wanted) {
            found->second.punished = penalty_s > interval_s;
            return interval_s;
        }
    }
    last_[{identity, endpoint}] = {.passed = now, .punished = false};
    return std::nullopt;
}

bool Intervals::over_per_minute(const std::string& identity, const std::string& endpoint, std::size_t most,
                                Instant now) {
    auto& calls = recent_[{identity, endpoint}];
    while (!calls.empty() && now - calls.front() >= std::chrono::minutes(1)) calls.pop_front();
    if (calls.size() >= most) return true;
    calls.push_back(now);
    return false;
}

}  // namespace gf::sim
