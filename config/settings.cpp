#include "config/settings.hpp"

#include <algorithm>
#include <array>

namespace gf {
namespace {

constexpr std::string_view kRunpodUrl = "https://api.runpod.io/v2";
constexpr std::string_view kVastaiUrl = "https://console.vast.ai";
constexpr std::string_view kLambdaUrl = "https://cloud.lambda.ai/api/v1";
constexpr std::string_view kVultrUrl = "https://api.vultr.com/v2";

Secret key_from(const GetEnv& env, std::string_view name) {
    return Secret(env(name).value_or(""));
}

/// Four decimal numbers of 0 to 255; the first one, or nothing.
std::optional<int> first_of_ipv4(std::string_view host) {
    int first = 0;
    for (int part = 0; part < 4; ++part) {
        std::size_t digits = 0;
        int value = 0;
        while (digits < host.size() && digits < 4 && host[digits] >= '0' && host[digits] <= '9')
            value = value * 10 + (host[digits++] - '0');
        if (digits == 0 || value > 255) return std::nullopt;
        host.remove_prefix(digits);
        if (part == 0) first = value;
        if (part == 3) break;
        if (!host.starts_with('.')) return std::nullopt;
        host.remove_prefix(1);
    }
    if (!host.empty()) return std::nullopt;
    return first;
}

}  // namespace

std::string text(const ListenAddress& address) {
    const bool bracketed = address.host.find(':') != std::string::npos;
    return (bracketed ? "[" + address.host + "]" : address.host) + ":" + std::to_string(address.port);
}

std::optional<ListenAddress> parse_listen_address(std::string_view s) {
    const auto colon = s.rfind(':');
    if (colon == std::string_view::npos || colon == 0) return std::nullopt;
    std::string_view host = s.substr(0, colon);
    const std::string_view port = s.substr(colon + 1);
    if (host.starts_with('[') && host.ends_with(']') && host.size() > 2)
        host = host.substr(1, host.size() - 2);
    else if (host.find(':') != std::string_view::npos)
        return std::nullopt;
    const bool host_good = std::ranges::all_of(host, [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
               c == '-' || c == ':';
    });
    if (!host_good || port.empty() || port.size() > 5) return std::nullopt;
    int number = 0;
    for (const char c : port) {
        if (c < '0' || c > '9') return std::nullopt;
        number = number * 10 + (c - '0');
    }
    if (number > 65'535) return std::nullopt;
    return ListenAddress{std::string(host), static_cast<std::uint16_t>(number)};
}

bool is_loopback_host(std::string_view host) {
    if (host.starts_with('[') && host.ends_with(']') && host.size() > 2)
        host = host.substr(1, host.size() - 2);
    return host == "localhost" || host == "::1" || first_of_ipv4(host) == 127;
}

std::string default_data_dir(const GetEnv& env, bool is_root) {
    if (is_root) return "/var/lib/gpuferry";
    // A relative XDG path is to be ignored, says its specification.
    if (const auto xdg = env("XDG_DATA_HOME"); xdg && xdg->starts_with('/')) return *xdg + "/gpuferry";
    if (const auto home = env("HOME"); home && home->starts_with('/'))
        return *home + "/.local/share/gpuferry";
    return {};
}

Settings default_settings(const GetEnv& env, bool is_root) {
    Settings settings;
    settings.data_dir = default_data_dir(env, is_root);
    auto& p = settings.providers;
    p.runpod.api_url = kRunpodUrl;
    p.vastai.api_url = kVastaiUrl;
    p.lambda.api_url = kLambdaUrl;
    p.vultr.api_url = kVultrUrl;
    p.runpod.api_key = key_from(env, "RUNPOD_API_KEY");
    p.vastai.api_key = key_from(env, "VAST_API_KEY");
    p.lambda.api_key = key_from(env, "LAMBDA_API_KEY");
    p.vultr.api_key = key_from(env, "VULTR_API_KEY");
    return settings;
}

}  // namespace gf
