// HTTP for the agent: blocking calls over one kept-alive connection, time-limited between bytes rather than in all, so
// that a slow link may take its time and a dead one may not. Boost.Beast inside; nothing of it shows here.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "agent/url.hpp"
#include "model/result.hpp"
#include "model/time.hpp"

namespace gf::agent {

/// How the other end proves who it is. A pin (SHA-256 of the certificate's SPKI, hex) is enough by itself; without one the
/// certificate must verify for the host by the embedded CA bundle.
struct HttpTrust {
    std::string pin;
};

struct HttpRequest {
    std::string method{"GET"};
    std::string target;                  // below the URL's path: "/agent/enrol"
    std::map<std::string, std::string> headers{};
    std::string_view body{};             // stays alive during the call
    std::string body_file{};             // instead of `body`: a file's bytes
};

struct HttpResponse {
    int status{0};
    std::map<std::string, std::string> headers;  // names in lower case
    std::string body;                    // empty when a sink took it
};

class HttpClient {
 public:
    struct Limits {
        Millis connect{15'000};
        Millis idle{60'000};             // no byte moved for this long
        std::int64_t body_max{64 << 20}; // of an answer without a sink
    };
    HttpClient(Url url, HttpTrust trust);
    HttpClient(Url url, HttpTrust trust, Limits limits);
    ~HttpClient();
    HttpClient(const HttpClient&) = delete;
    HttpClient& operator=(const HttpClient&) = delete;

    /// Takes the body of a 2xx answer piece by piece; false ends the call with `conflict`.
    using Sink = std::function<bool(std::string_view)>;
    /// One request and its answer, whatever its status. A request on a kept connection that the server has closed in the
    /// meantime is sent once more on a new one; all requests of the agent may be repeated.
    /// Errors: `unavailable` (no connection, cut, timed out), `auth` (certificate or pin), `malformed`, `full` (body limit),
    /// `conflict` (`cancel`, or the sink said so), `io` (body_file).
    Result<HttpResponse> call(const HttpRequest& request, const Sink& sink = {});
    /// Asked between pieces; true ends the call with `conflict`. Set before the calls.
    std::function<bool()> cancelled;

 private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace gf::agent
