#include "agent/url.hpp"

#include <boost/url/parse.hpp>
#include <boost/url/url_view.hpp>
#include <charconv>

namespace gf::agent {

std::string Url::authority() const {
    const std::string name = host.find(':') == std::string::npos ? host : "[" + host + "]";
    return port == (tls ? 443 : 80) ? name : name + ":" + std::to_string(port);
}

bool Url::is_loopback() const {
    if (host == "localhost" || host == "::1") return true;
    return host.starts_with("127.") && host.find_first_not_of("0123456789.") == std::string::npos;
}

Result<Url> parse_url(std::string_view text) {
    const auto parsed = boost::urls::parse_uri(boost::core::string_view(text.data(), text.size()));
    if (!parsed) return fail(ErrorKind::invalid, "not a URL: " + std::string(text));
    const auto& view = *parsed;
    Url url;
    if (view.scheme() == "https") url.tls = true;
    else if (view.scheme() != "http") return fail(ErrorKind::invalid, "not an http or https URL: " + std::string(text));
    if (view.has_userinfo() || view.has_query() || view.has_fragment())
        return fail(ErrorKind::invalid, "user, query and fragment have no place in this URL: " + std::string(text));
    url.host = view.host_type() == boost::urls::host_type::ipv6 ? std::string(view.host_ipv6_address().to_string())
                                                                : view.host_address();
    if (url.host.empty()) return fail(ErrorKind::invalid, "a URL without a host: " + std::string(text));
    url.port = url.tls ? 443 : 80;
    if (view.has_port() && !view.port().empty()) {
        // By hand: the library's own number is cut to 16 bits without a word.
        const std::string digits(view.port());
        const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), url.port);
        if (read.ec != std::errc{} || url.port == 0) return fail(ErrorKind::invalid, "a URL with a port that is none: " + std::string(text));
    }
    url.path = view.encoded_path();
    while (!url.path.empty() && url.path.back() == '/') url.path.pop_back();
    return url;
}

}  // namespace gf::agent
