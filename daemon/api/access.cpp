#include "daemon/api/access.hpp"

#include <unistd.h>

#include <algorithm>

#include "checkpoints/digest.hpp"
#include "model/ascii.hpp"

namespace gf::api {
namespace {

constexpr std::chrono::seconds kRemember{5};
constexpr std::size_t kRememberedMax = 1024;
constexpr std::size_t kTokenBytesMax = 256;

std::string_view without_port(std::string_view host) {
    if (host.starts_with('[')) return host.substr(0, host.find(']') + 1);
    return host.substr(0, host.find(':'));
}

http::Response unauthorized(std::string_view detail) {
    auto response = http::problem(401, detail);
    response.headers.emplace_back("WWW-Authenticate", "Bearer realm=\"gpuferry\"");
    return response;
}

}  // namespace

bool role_covers(Role held, Role wanted) { return static_cast<int>(held) >= static_cast<int>(wanted); }

std::optional<http::Response> Access::foreign_page(const http::Request& request, bool open) const {
    if (request.peer.unix_socket || !request.peer.loopback) return std::nullopt;
    // Probes of load balancers; a browser always names a host.
    if (open && request.http_1_0 && request.header("host").empty()) return std::nullopt;
    const auto sent = ascii_lower(request.header("host"));
    const auto host = without_port(sent);
    const auto& listen = context_.options.listen;
    const auto& extra = context_.options.allowed_hosts;
    const bool known = host == "localhost" || host == "127.0.0.1" || host == "[::1]" || host == without_port(listen) ||
                       std::ranges::find(extra, host) != extra.end();
    if (!known)
        return http::problem(421, "the Host \"" + sent + "\" is not a name of this listener; allowed_hosts in the configuration adds names");
    const auto origin = ascii_lower(request.header("origin"));
    if (!origin.empty() && origin != "http://" + sent && origin != "https://" + sent)
        return http::problem(403, "requests from pages of " + origin + " are not served");
    return std::nullopt;
}

std::optional<http::Response> Access::by_token(const http::Request& request, Caller& caller) {
    const auto header = request.header("authorization");
    constexpr std::string_view scheme = "bearer ";
    if (header.empty()) return unauthorized("a token is needed: Authorization: Bearer TOKEN");
    if (ascii_lower(header.substr(0, scheme.size())) != scheme || header.size() > scheme.size() + kTokenBytesMax)
        return unauthorized("only Authorization: Bearer TOKEN is understood");
    const auto hash = checkpoints::sha256(header.substr(scheme.size())).hex();
    if (epoch_ != context_.tokens_epoch) {
        remembered_.clear();
        epoch_ = context_.tokens_epoch;
    }
    const auto now = std::chrono::steady_clock::now();
    if (const auto found = remembered_.find(hash); found != remembered_.end() && found->second.until > now) {
        caller = found->second.caller;
        return std::nullopt;
    }
    const auto row = context_.reader->token_by_hash(hash);
    if (!row) return http::problem(row.error());
    if (!*row || (*row)->revoked_at) return unauthorized("this token is not known or was revoked");
    caller = Caller{.principal = (*row)->id.get(), .role = (*row)->role, .local = false};
    if (remembered_.size() >= kRememberedMax) remembered_.clear();
    remembered_[hash] = {.caller = caller, .until = now + kRemember};
    return std::nullopt;
}

Access::Verdict Access::judge(const http::Request& request, const Route& route) {
    Verdict verdict;
    if (request.peer.unix_socket) {
        if (request.peer.uid != ::geteuid() && request.peer.uid != 0) {
            verdict.refuse = http::problem(403, "this socket is for the user that runs the daemon");
            return verdict;
        }
        verdict.caller = Caller{.principal = "socket", .role = Role::admin, .local = true};
        return verdict;
    }
    if (route.open) return verdict;
    if (!request.peer.tls && !request.peer.loopback) {
        verdict.refuse = http::problem(403, "from other machines this listener takes tokens over TLS only; use https");
        return verdict;
    }
    verdict.refuse = by_token(request, verdict.caller);
    if (!verdict.refuse && !role_covers(verdict.caller.role, route.role))
        verdict.refuse = http::problem(403, "this needs the role " + std::string(text(route.role)) + "; the token has " +
                                                std::string(text(verdict.caller.role)));
    return verdict;
}

}  // namespace gf::api
