#include "agent/url.hpp"

#include <boost/url/parse.hpp>
#include <boost/url/url_view.hpp>

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
    url.port = view.has_port() && view.port_number() != 0 ? view.port_number() : (url.tls ? 443 : 80);
    url.path = view.encoded_path();
    while (!url.path.empty() && url.path.back() == '/') url.path.pop_back();
    return url;
}

}  // namespace gf::agent
