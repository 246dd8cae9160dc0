// HTTP without a library in sight: what the faces read and answer. The server is http_server.hpp.
#pragma once
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gf::sim {

struct HttpRequest {
    std::string method;
    std::string target;                 // as sent
    std::string path;                   // without the query, still percent-encoded
    std::vector<std::string> segments;  // of the path, decoded; a trailing slash leaves an empty last one
    std::vector<std::pair<std::string, std::string>> query;  // decoded
    std::map<std::string, std::string> headers;              // names in lower case
    std::string body;
    bool too_large{false};  // the body was over the server's limit and is not here
    std::string peer;

    [[nodiscard]] std::string header(const std::string& lower_name) const;
    [[nodiscard]] std::optional<std::string> query_value(std::string_view name) const;
    /// The token of "Authorization: Bearer ..."; nothing without such a header.
    [[nodiscard]] std::optional<std::string> bearer() const;
};

struct HttpResponse {
    int status{200};
    std::string type{"application/json"};
    std::string body;
    std::vector<std::pair<std::string, std::string>> headers;
    bool cut{false};  // close the connection instead of answering
};

using HttpHandler = std::function<HttpResponse(const HttpRequest&)>;

[[nodiscard]] HttpResponse json_response(int status, const nlohmann::json& body);
/// Splits a target into path, segments and query.
void parse_target(HttpRequest& request);
[[nodiscard]] std::string percent_decoded(std::string_view text, bool plus_is_space);
/// Strict base64 with its padding, white space left out; nothing for any other text.
[[nodiscard]] std::optional<std::string> base64_decoded(std::string_view text);
[[nodiscard]] std::string base64_encoded(std::string_view bytes);
[[nodiscard]] std::string_view reason_phrase(int status);

}  // namespace gf::sim
