#include "agent/bulk_client.hpp"

#include <algorithm>
#include <thread>

#include "agent/clock.hpp"

namespace gf::agent {

BulkClient::BulkClient(const Settings& settings, Session& session, std::function<void()> contact)
    : session_(session), contact_(std::move(contact)), http_(settings.url, {.pin = settings.pin}) {}

Result<HttpResponse> BulkClient::call(HttpRequest request, const HttpClient::Sink& sink) {
    const std::string token = session_.token();
    if (token.empty()) return fail(ErrorKind::unavailable, "not enrolled with the daemon");
    request.headers["Authorization"] = "Bearer " + token;
    auto answer = http_.call(request, sink);
    if (!answer) return answer;
    // A refusal says that nobody answers for this machine, and 502 and 504 are a proxy's: the daemon behind it is away.
    if (answer->status != 401 && answer->status != 403 && answer->status != 502 && answer->status != 504) contact_();
    if (answer->status == 401) session_.token_refused(token);
    if (answer->status == 401 || answer->status == 429 || answer->status == 408 || answer->status >= 500)
        return fail(ErrorKind::unavailable,
                    request.method + " " + request.target + ": status " + std::to_string(answer->status));
    return answer;
}

bool RetryPause::wait(const std::function<bool()>& stop) {
    const Millis until = boot_time() + next_;
    next_ = std::min(next_ * 2, Millis{30'000});
    while (boot_time() < until) {
        if (stop()) return false;
        std::this_thread::sleep_for(Millis{50});
    }
    return !stop();
}

}  // namespace gf::agent
