// Bulk requests with the session's token. One object per thread.
#pragma once
#include <functional>
#include <string>

#include "agent/http_client.hpp"
#include "agent/session.hpp"

namespace gf::agent {

class BulkClient {
 public:
    /// `contact` is told of every answer of a daemon that knows this machine.
    BulkClient(const Settings& settings, Session& session, std::function<void()> contact);
    /// As HttpClient::call, with the bearer. A 401 makes the session enrol anew and is `unavailable`, as are 5xx and 429: try
    /// again later. Every other status is an answer.
    Result<HttpResponse> call(HttpRequest request, const HttpClient::Sink& sink = {});
    void set_cancelled(std::function<bool()> cancelled) { http_.cancelled = std::move(cancelled); }

 private:
    Session& session_;
    std::function<void()> contact_;
    HttpClient http_;
};

/// Waits of a retry loop: 250 ms, doubled up to 30 s. `wait` is false when `stop` became true meanwhile.
class RetryPause {
 public:
    bool wait(const std::function<bool()>& stop);
    void reset() { next_ = Millis{250}; }

 private:
    Millis next_{250};
};

}  // namespace gf::agent
