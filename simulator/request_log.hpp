// The last requests with their times, so that tests can count calls and measure between them. No bodies and
// no keys.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "model/time.hpp"

namespace gf::sim {

struct LoggedRequest {
    std::uint64_t sequence{0};
    std::string face;
    std::string method;
    std::string target;        // key parameters blotted out
    int status{0};             // 0 = the connection was cut
    std::string fault;         // the action of the rule that fired
    Instant at;                // scaled
    std::int64_t began_us{0};  // real, since 1970: when the request had been read
    std::int64_t ended_us{0};  // when the answer was ready to be written
};

/// "/api/v0/instances/24880101/" -> "/api/v0/instances/{id}/": what counters are kept by.
[[nodiscard]] std::string endpoint_of(const std::string& path);
/// Blots out the value of an `api_key` parameter.
[[nodiscard]] std::string without_key(const std::string& target);

/// Thread-safe.
class RequestLog {
 public:
    void add(LoggedRequest request, const std::string& path);
    void clear();
    /// Entries after `since` of one face (empty = all), oldest first, at most `limit`.
    [[nodiscard]] nlohmann::json entries(std::uint64_t since, const std::string& face,
                                         std::size_t limit) const;
    /// {"runpod":{"GET /v2/pods":{"calls":3,"200":2,"429":1}},...}
    [[nodiscard]] nlohmann::json counters() const;

 private:
    mutable std::mutex mutex_;  // guards all below
    std::deque<LoggedRequest> entries_;
    std::map<std::string, std::map<std::string, std::map<std::string, std::uint64_t>>> counters_;
    std::uint64_t next_{1};
};

}  // namespace gf::sim
