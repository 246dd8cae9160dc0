#include "agent/url.hpp"

#include <algorithm>
#include <charconv>

// Read by hand, since a daemon's address is scheme, host, port and path and nothing else: Boost.URL would be a quarter of a
// megabyte of the program that every machine fetches.
namespace gf::agent {
namespace {

bool is_host_character(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';
}
bool is_address_character(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F') || c == ':' || c == '.';
}
bool is_path_character(char c) {
    return is_host_character(c) || std::string_view("/~%!$&'()*+,;=:@").find(c) != std::string_view::npos;
}

}  // namespace

std::string Url::authority() const {
    const std::string name = host.find(':') == std::string::npos ? host : "[" + host + "]";
    return port == (tls ? 443 : 80) ? name : name + ":" + std::to_string(port);
}

bool Url::is_loopback() const {
    if (host == "localhost" || host == "::1") return true;
    return host.starts_with("127.") && host.find_first_not_of("0123456789.") == std::string::npos;
}

Result<Url> parse_url(std::string_view text) {
    const auto refuse = [&](const char* why) { return fail(ErrorKind::invalid, std::string(why) + ": " + std::string(text)); };
    Url url;
    std::string_view rest = text;
    if (rest.starts_with("https://")) url.tls = true;
    else if (!rest.starts_with("http://")) return refuse("not an http or https URL");
    rest.remove_prefix(url.tls ? 8 : 7);
    // User, query and fragment have characters that are refused here: they have no place in this URL.
    const auto slash = std::min(rest.find('/'), rest.size());
    auto authority = rest.substr(0, slash);
    url.path = rest.substr(slash);
    if (!std::ranges::all_of(url.path, is_path_character)) return refuse("a URL with a path that is none");
    while (url.path.ends_with('/')) url.path.pop_back();
    if (authority.starts_with('[')) {
        const auto close = authority.find(']');
        if (close == std::string_view::npos) return refuse("a URL without a host");
        url.host = authority.substr(1, close - 1);
        authority.remove_prefix(close + 1);
        if (!std::ranges::all_of(url.host, is_address_character)) return refuse("a URL with a host that is none");
    } else {
        const auto colon = std::min(authority.find(':'), authority.size());
        url.host = authority.substr(0, colon);
        authority.remove_prefix(colon);
        if (!std::ranges::all_of(url.host, is_host_character)) return refuse("a URL with a host that is none");
    }
    if (url.host.empty()) return refuse("a URL without a host");
    url.port = url.tls ? 443 : 80;
    if (authority.empty()) return url;
    const auto digits = authority.substr(1);
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), url.port);
    if (authority.front() != ':' || read.ec != std::errc{} || read.ptr != digits.data() + digits.size() || url.port == 0)
        return refuse("a URL with a port that is none");
    return url;
}

}  // namespace gf::agent
