#include "agent/settings.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <string_view>

namespace gf::agent {
namespace {

std::string value_of(const std::map<std::string, std::string>& env, const std::string& name) {
    const auto found = env.find(name);
    return found == env.end() ? std::string() : found->second;
}

}  // namespace

Result<Settings> read_settings(const std::map<std::string, std::string>& env) {
    Settings settings;
    for (const auto* name : {"GPUFERRY_URL", "GPUFERRY_MACHINE", "GPUFERRY_ENROL"})
        if (value_of(env, name).empty())
            return fail(Error{.kind = ErrorKind::invalid, .message = std::string(name) + " is not set", .field = name});
    auto url = parse_url(value_of(env, "GPUFERRY_URL"));
    if (!url) {
        url.error().field = "GPUFERRY_URL";
        return fail(url.error());
    }
    settings.url = *std::move(url);
    if (!settings.url.tls && !settings.url.is_loopback())
        return fail(Error{.kind = ErrorKind::invalid,
                          .message = "GPUFERRY_URL: plain HTTP is for loopback addresses only, not " + settings.url.host,
                          .field = "GPUFERRY_URL"});
    settings.machine = value_of(env, "GPUFERRY_MACHINE");
    settings.enrol = Secret(value_of(env, "GPUFERRY_ENROL"));
    settings.pin = value_of(env, "GPUFERRY_PIN");
    std::ranges::transform(settings.pin, settings.pin.begin(),
                           [](char c) { return c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c; });
    const bool hex = settings.pin.find_first_not_of("0123456789abcdef") == std::string::npos;
    if (!settings.pin.empty() && (settings.pin.size() != 64 || !hex))
        return fail(Error{.kind = ErrorKind::invalid,
                          .message = "GPUFERRY_PIN: 64 hexadecimal digits are wanted",
                          .field = "GPUFERRY_PIN"});
    settings.workspace = value_of(env, "GPUFERRY_WORKSPACE");
    // RunPod's own words: 5 seconds between SIGTERM and SIGKILL. Elsewhere docker's default, 10 s, is probable.
    if (env.contains("RUNPOD_POD_ID")) settings.notice = Millis{5'000};
    const std::string notice = value_of(env, "GPUFERRY_NOTICE_MS");
    std::int64_t ms = 0;
    const auto read = std::from_chars(notice.data(), notice.data() + notice.size(), ms);
    if (!notice.empty() && read.ec == std::errc{} && ms > 0 && ms < 86'400'000) settings.notice = Millis{ms};
    settings.env = env;
    return settings;
}

std::map<std::string, std::string> environment_of(char** envp) {
    std::map<std::string, std::string> env;
    for (char** at = envp; at && *at; ++at) {
        const std::string_view entry = *at;
        const auto equals = entry.find('=');
        if (equals == std::string_view::npos || equals == 0) continue;
        env.emplace(entry.substr(0, equals), entry.substr(equals + 1));
    }
    return env;
}

void wipe_environment(char** envp) {
    for (char** at = envp; at && *at; ++at) {
        char* value = std::strchr(*at, '=');
        // The names stay, so that the block keeps its form; explicit_bzero, so that no optimiser finds this idle.
        if (value) ::explicit_bzero(value + 1, std::strlen(value + 1));
    }
}

bool is_withheld(const std::string& name) {
    constexpr std::array<std::string_view, 5> prefixes{"GPUFERRY_", "RUNPOD_", "CONTAINER_", "JUPYTER_", "VAST_"};
    constexpr std::array<std::string_view, 9> names{"VAST_API_KEY",      "LAMBDA_API_KEY", "VULTR_API_KEY",
                                                    "PUBLIC_KEY",        "SSH_PUBLIC_KEY", "OPEN_BUTTON_TOKEN",
                                                    "OPEN_BUTTON_PORT",  "PUBLIC_IPADDR",  "DATA_DIRECTORY"};
    return std::ranges::any_of(prefixes, [&](std::string_view p) { return name.starts_with(p); }) ||
           std::ranges::find(names, name) != names.end();
}

}  // namespace gf::agent
