#include "cli/endpoint.hpp"

#include <fmt/core.h>

#include <array>
#include <fstream>
#include <optional>
#include <string_view>

#include "cli/exit_code.hpp"
#include "config/settings.hpp"

namespace gf::cli {
namespace {

constexpr std::size_t kTokenBytesMax = 4096;
constexpr std::size_t kSocketPathMax = 107;  // sockaddr_un.sun_path holds 108 with its NUL

std::string variable_or_empty(const Environment& env, const char* name) {
    return env.variable ? env.variable(name).value_or("") : std::string{};
}

/// The token goes into a header line, so a line break inside would let it add headers of its own.
Outcome<Secret> checked_token(std::string text, const std::string& from) {
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' '))
        text.pop_back();
    while (!text.empty() && (text.front() == ' ' || text.front() == '\n')) text.erase(0, 1);
    if (text.empty()) return failed(kExitUsage, fmt::format("{} holds no token", from));
    if (text.size() > kTokenBytesMax)
        return failed(kExitUsage, fmt::format("{} is too long for a token", from));
    for (const char c : text)
        if (c <= ' ' || c > '~')
            return failed(kExitUsage, fmt::format("{} holds characters that no token has", from));
    return Secret{std::move(text)};
}

Outcome<Secret> token_from_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) return failed(kExitUsage, fmt::format("cannot read the token file {}", path));
    std::string text(kTokenBytesMax + 2, '\0');
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(file.gcount()));
    return checked_token(std::move(text), path);
}

Outcome<Secret> find_token(const EndpointChoice& choice, const Environment& env) {
    const std::string_view source = choice.token_source;
    if (source.starts_with("env:")) {
        const std::string name(source.substr(4));
        return checked_token(variable_or_empty(env, name.c_str()), "environment variable " + name);
    }
    if (source.starts_with("file:")) return token_from_file(std::string(source.substr(5)));
    if (!source.empty())
        return failed(
            kExitUsage,
            "--token takes env:NAME or file:PATH, not the token itself: a command line can be read by every "
            "user of this machine");
    if (auto token = variable_or_empty(env, "GPUFERRY_TOKEN"); !token.empty())
        return checked_token(std::move(token), "GPUFERRY_TOKEN");
    if (const auto path = variable_or_empty(env, "GPUFERRY_TOKEN_FILE"); !path.empty())
        return token_from_file(path);
    return Secret{};
}

std::string host_of(std::string_view url) {
    const auto after_scheme = url.substr(url.find("://") + 3);
    auto authority = after_scheme.substr(0, after_scheme.find('/'));
    if (authority.starts_with('[')) return std::string(authority.substr(1, authority.find(']') - 1));
    return std::string(authority.substr(0, authority.find(':')));
}

std::optional<Failure> set_url(Endpoint& endpoint, std::string url) {
    if (url.starts_with("unix:")) {
        std::string path = url.substr(5);
        if (path.starts_with("//")) path.erase(0, 2);
        if (path.empty() || path.size() > kSocketPathMax)
            return Failure{
                .exit_code = kExitUsage,
                .text = fmt::format("the path of a unix socket has 1 to {} bytes: {}", kSocketPathMax, path)};
        endpoint.socket = path;
        endpoint.base_url = "http://gpuferry";  // the name is not looked up; it only fills the Host header
        endpoint.shown = path;
        return std::nullopt;
    }
    if (!url.starts_with("http://") && !url.starts_with("https://"))
        return Failure{
            .exit_code = kExitUsage,
            .text = fmt::format("not a daemon's address: {} (http://…, https://… or unix:/path)", url)};
    if (const auto at = url.find('@', url.find("://")); at != std::string::npos)
        return Failure{.exit_code = kExitUsage,
                       .text = "an address has no user or password in it; use a token"};
    if (host_of(url).empty())
        return Failure{.exit_code = kExitUsage, .text = fmt::format("no host in the address {}", url)};
    while (url.ends_with('/')) url.pop_back();
    endpoint.loopback = is_loopback_host(host_of(url));
    endpoint.base_url = url;
    endpoint.shown = std::move(url);
    return std::nullopt;
}

}  // namespace

std::string default_data_dir(const Environment& env) {
    if (env.uid == 0) return "/var/lib/gpuferry";
    if (const auto xdg = variable_or_empty(env, "XDG_DATA_HOME"); xdg.starts_with('/'))
        return xdg + "/gpuferry";
    return variable_or_empty(env, "HOME") + "/.local/share/gpuferry";
}

Outcome<Endpoint> find_endpoint(const EndpointChoice& choice, const Environment& env) {
    Endpoint endpoint;
    auto url = choice.url.empty() ? variable_or_empty(env, "GPUFERRY_URL") : choice.url;
    if (url.empty()) url = "unix:" + default_data_dir(env) + "/gpuferry.sock";
    if (auto bad = set_url(endpoint, std::move(url))) return std::unexpected(*std::move(bad));
    auto token = find_token(choice, env);
    if (!token) return std::unexpected(std::move(token).error());
    endpoint.token = *std::move(token);
    endpoint.ca_file = choice.ca_file.empty() ? variable_or_empty(env, "GPUFERRY_CA") : choice.ca_file;
    if (!endpoint.token.empty() && endpoint.base_url.starts_with("http://") && endpoint.socket.empty() &&
        !endpoint.loopback)
        endpoint.warning = fmt::format("the token travels unencrypted to {}; use https://", endpoint.shown);
    return endpoint;
}

}  // namespace gf::cli
