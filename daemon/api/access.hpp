// Who is asking, and may they. Bearer tokens on TCP, the peer's uid on the unix socket, and a guard against web pages that
// make a browser talk to a loopback listener.
#pragma once
#include <chrono>
#include <optional>
#include <string>
#include <unordered_map>

#include "daemon/api/context.hpp"
#include "daemon/api/routes.hpp"

namespace gf::api {

class Access {
 public:
    explicit Access(Context& context) : context_(context) {}

    struct Verdict {
        Caller caller;
        std::optional<http::Response> refuse;  // 401, 403, 421 or the store's trouble
    };
    /// Loop's thread. Reads the store at most once per token and five seconds.
    [[nodiscard]] Verdict judge(const http::Request& request, const Route& route);
    /// Host and Origin: a page of another site that got a browser to resolve its name to 127.0.0.1 is told off here, before
    /// anything else. Only for loopback peers on TCP. `open`: the path needs no token.
    [[nodiscard]] std::optional<http::Response> foreign_page(const http::Request& request, bool open) const;

 private:
    struct Remembered {
        Caller caller;
        std::chrono::steady_clock::time_point until;
    };
    [[nodiscard]] std::optional<http::Response> by_token(const http::Request& request, Caller& caller);

    Context& context_;
    std::uint64_t epoch_{0};
    std::unordered_map<std::string, Remembered> remembered_;  // by the token's SHA-256; looked up, never walked
};

/// The least role that holds every right of `wanted`.
[[nodiscard]] bool role_covers(Role held, Role wanted);

}  // namespace gf::api
