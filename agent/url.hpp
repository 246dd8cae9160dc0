// The daemon's address as the agent uses it.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "model/result.hpp"

namespace gf::agent {

struct Url {
    bool tls{false};
    std::string host;        // without the brackets of an IPv6 address
    std::uint16_t port{0};
    std::string path;        // without a slash at the end; "" or "/prefix"

    /// For the Host header: the port only where it is not the scheme's own.
    [[nodiscard]] std::string authority() const;
    /// True for localhost, 127.0.0.0/8 and ::1, by their text: a name that merely resolves to them is not.
    [[nodiscard]] bool is_loopback() const;
};

/// Errors: `invalid`: not http or https, no host, a query or fragment, user info.
Result<Url> parse_url(std::string_view text);

}  // namespace gf::agent
