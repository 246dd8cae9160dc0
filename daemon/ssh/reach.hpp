// By which way the agents of a provider's machines reach this daemon, see docs/ssh.md. Pure.
#pragma once
#include <string>
#include <string_view>

#include "config/settings.hpp"
#include "model/enum_text.hpp"
#include "providers/port.hpp"

namespace gf {

enum class Way : std::uint8_t {
    none,    // nothing is rented there: "agent_cannot_reach_daemon"
    dial,    // they dial advertise_url, or loopback where the agent runs on this machine
    tunnel,  // we go there by ssh, and they come back through it
};
GF_ENUM_NAMES(Way, {{E::none, "none"}, {E::dial, "dial"}, {E::tunnel, "tunnel"}});

/// True for what cannot be dialled from elsewhere: loopback, the private, shared and link-local ranges of RFC 1918, 6598, 3927,
/// 4193 and 4291, the unspecified address, names of one word and those below local, lan, internal, intranet, home.arpa and
/// localdomain. Other names may lead anywhere and count as public. `host` as in a URL, brackets allowed.
[[nodiscard]] bool is_private_host(std::string_view host);

/// The host in a URL, lower case, IPv6 in brackets.
[[nodiscard]] std::string host_in_url(std::string_view url);

/// `advertise_url` may be empty. `api_url` is the provider's: where that is on this machine (a simulator), so are its machines, and
/// a loopback advertise_url is the right one.
[[nodiscard]] Way way_to(ReachPolicy policy, const std::string& advertise_url, const Capabilities& provider, const std::string& api_url);

/// `agent_listen` and the port that it has, as seen from this machine: "127.0.0.1:8471", "[fd00::5]:8471".
[[nodiscard]] std::string own_gateway(const ListenAddress& agent_listen, std::uint16_t port);

}  // namespace gf
