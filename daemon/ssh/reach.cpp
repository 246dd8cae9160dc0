#include "daemon/ssh/reach.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "model/ascii.hpp"

namespace gf {
namespace {

struct Range {
    std::uint32_t base;
    int bits;
};
constexpr auto kPrivateV4 = std::to_array<Range>({
    {0x00000000, 8},   // "this" network
    {0x0A000000, 8},   // 10/8
    {0x64400000, 10},  // 100.64/10: carrier-grade NAT, and Tailscale's
    {0x7F000000, 8},   // loopback
    {0xA9FE0000, 16},  // link-local
    {0xAC100000, 12},  // 172.16/12
    {0xC0A80000, 16},  // 192.168/16
});

bool private_v4(std::uint32_t address) {
    return std::ranges::any_of(kPrivateV4, [address](const Range& r) { return (address ^ r.base) >> (32 - r.bits) == 0; });
}

std::optional<bool> private_address(const std::string& host) {
    in_addr four{};
    if (::inet_pton(AF_INET, host.c_str(), &four) == 1) return private_v4(ntohl(four.s_addr));
    in6_addr six{};
    if (::inet_pton(AF_INET6, host.c_str(), &six) != 1) return std::nullopt;
    if (IN6_IS_ADDR_V4MAPPED(&six)) {
        std::uint32_t inside = 0;
        std::memcpy(&inside, six.s6_addr + 12, sizeof inside);
        return private_v4(ntohl(inside));
    }
    const bool unique_local = (six.s6_addr[0] & 0xFE) == 0xFC;
    return IN6_IS_ADDR_LOOPBACK(&six) || IN6_IS_ADDR_UNSPECIFIED(&six) || IN6_IS_ADDR_LINKLOCAL(&six) || unique_local;
}

std::string without_brackets(std::string_view host) {
    if (host.starts_with('[') && host.ends_with(']')) return std::string(host.substr(1, host.size() - 2));
    return std::string(host);
}

}  // namespace

std::string host_in_url(std::string_view url) {
    if (const auto scheme = url.find("://"); scheme != std::string_view::npos) url.remove_prefix(scheme + 3);
    const auto authority = url.substr(0, url.find('/'));
    const auto end = authority.starts_with('[') ? authority.find(']') + 1 : authority.find(':');
    return ascii_lower(authority.substr(0, end));
}

bool is_private_host(std::string_view host) {
    std::string name = without_brackets(host);
    if (const auto address = private_address(name)) return *address;
    if (name.ends_with('.')) name.pop_back();
    if (name.find('.') == std::string::npos) return true;
    constexpr std::string_view kInside[] = {".local", ".lan", ".internal", ".intranet", ".home.arpa", ".localdomain", ".localhost"};
    return std::ranges::any_of(kInside, [&name](std::string_view end) { return name.ends_with(end); });
}

Way way_to(ReachPolicy policy, const std::string& advertise_url, const Capabilities& provider, const std::string& api_url) {
    if (provider.is_local) return Way::dial;
    const auto host = host_in_url(advertise_url);
    const bool same_machine = is_loopback_host(without_brackets(host)) && is_loopback_host(without_brackets(host_in_url(api_url)));
    const bool dials = !host.empty() && (policy == ReachPolicy::direct || same_machine || !is_private_host(host));
    const bool tunnel = provider.ssh && policy != ReachPolicy::direct;
    if (tunnel && (policy == ReachPolicy::ssh || !dials)) return Way::tunnel;
    return dials ? Way::dial : Way::none;
}

std::string own_gateway(const ListenAddress& agent_listen, std::uint16_t port) {
    const std::string& host = agent_listen.host;
    const std::string number = ":" + std::to_string(port);
    if (host == "0.0.0.0" || host == "::" || host == "localhost") return "127.0.0.1" + number;
    return (host.find(':') == std::string::npos ? host : "[" + host + "]") + number;
}

}  // namespace gf
