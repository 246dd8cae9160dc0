// All outgoing HTTP of the daemon's providers, over libcurl. Blocking; any number of threads may send at
// once; connections are kept and used again. TLS is verified, redirects are never followed, plain HTTP goes
// to loopback only, and the user's proxy is honoured except for loopback. Credentials are written in headers
// and nowhere else; no text that comes out of here shows one.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/secret.hpp"
#include "model/time.hpp"

namespace gf {

/// How far a request got. The difference decides whether something may have happened at the other end.
enum class Delivery : std::uint8_t {
    answered,   // a whole response came back, whatever its status
    not_sent,   // no byte of the request left: bad URL, name not resolved, connection or TLS refused
    no_answer,  // it was sent, at least in part, and no whole response came: cut, timed out, too large
};

struct HttpHeader {
    std::string name;
    std::string value;
};

struct HttpRequest {
    std::string method{"GET"};
    std::string url{};
    std::vector<HttpHeader> headers{};
    Secret bearer{};     // empty = no Authorization header
    std::string body{};  // sent as application/json when not empty
    /// At most one copy of this request may ever be written to a wire. libcurl by itself repeats a request
    /// when a kept connection turns out to be closed, which for a create call would be a second machine; so
    /// such a request gets a connection of its own.
    bool once{false};
    std::optional<Millis> timeout{};  // for the whole exchange, real time; absent = the client's
    /// Hex SHA-256 of the DER SubjectPublicKeyInfo: the peer is judged by this key alone, not by names and roots.
    std::string pin{};
};

struct HttpResponse {
    Delivery delivery{Delivery::not_sent};
    int status{0};                    // 0 = none was seen
    std::vector<HttpHeader> headers;  // names in lower case
    std::string body;                 // what came, also when cut
    std::string failure;              // for people, when delivery is not `answered`
    bool other_key{false};            // the peer's key is not the pinned one; nothing was sent

    /// The first header of that name (lower case).
    [[nodiscard]] std::optional<std::string_view> header(std::string_view name) const;
};

struct HttpSettings {
    std::string user_agent{"gpuferry"};
    Millis connect_timeout{Seconds{10}};
    Millis total_timeout{Seconds{60}};
    std::size_t body_bytes_max{8U << 20U};
    std::string ca_file;  // empty = the system's roots
};

class HttpClient {
 public:
    explicit HttpClient(HttpSettings settings);
    ~HttpClient();
    HttpClient(const HttpClient&) = delete;
    HttpClient& operator=(const HttpClient&) = delete;

    /// One request, one response; blocks up to the time-outs. Never throws for anything the network does.
    HttpResponse send(const HttpRequest& request);

 private:
    struct Pool;
    HttpSettings settings_;
    std::unique_ptr<Pool> pool_;
};

/// Percent-encodes everything but unreserved characters: for one path segment or one query value.
[[nodiscard]] std::string url_encoded(std::string_view text);

/// True for 127.0.0.0/8, ::1 and "localhost" (which libcurl never asks DNS for). `host` without brackets or
/// port.
[[nodiscard]] bool is_loopback(std::string_view host);

/// Nothing if requests may go to this base URL; otherwise why not: not https (or http on loopback), user
/// information, a query or fragment, or no URL at all.
[[nodiscard]] std::optional<std::string> base_url_problem(std::string_view url);

}  // namespace gf
