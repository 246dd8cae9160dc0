#include "simulator/http.hpp"

#include <cctype>
#include <nlohmann/json.hpp>

namespace gf::sim {

namespace {

int hex_value(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    const auto lower = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

}  // namespace

std::string percent_decoded(std::string_view text, bool plus_is_space) {
    std::string result;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '%' && i + 2 < text.size() && hex_value(text[i + 1]) >= 0 &&
            hex_value(text[i + 2]) >= 0) {
            result += static_cast<char>(hex_value(text[i + 1]) * 16 + hex_value(text[i + 2]));
            i += 2;
        } else {
            result += plus_is_space && text[i] == '+' ? ' ' : text[i];
        }
    }
    return result;
}

namespace {
constexpr std::string_view kBase64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
}  // namespace

std::optional<std::string> base64_decoded(std::string_view text) {
    std::string compact;
    for (const char c : text) {
        if (c != '\n' && c != '\r' && c != ' ') compact += c;
    }
    if (compact.size() % 4 != 0) return std::nullopt;
    std::string result;
    for (std::size_t i = 0; i < compact.size(); i += 4) {
        unsigned bits = 0;
        int padding = 0;
        for (std::size_t j = 0; j < 4; ++j) {
            const char c = compact[i + j];
            const auto value = kBase64.find(c);
            if (c == '=' && i + 4 == compact.size() && j >= 2) {
                ++padding;
            } else if (value == std::string_view::npos || padding > 0) {
                return std::nullopt;
            }
            bits = bits << 6U | (c == '=' ? 0U : static_cast<unsigned>(value));
        }
        result += static_cast<char>(bits >> 16U & 0xffU);
        if (padding < 2) result += static_cast<char>(bits >> 8U & 0xffU);
        if (padding < 1) result += static_cast<char>(bits & 0xffU);
    }
    return result;
}

std::string base64_encoded(std::string_view bytes) {
    std::string result;
    for (std::size_t i = 0; i < bytes.size(); i += 3) {
        unsigned bits = 0;
        for (std::size_t j = 0; j < 3; ++j)
            bits = bits << 8U | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0U);
        for (std::size_t j = 0; j < 4; ++j)
            result += i + j > bytes.size() ? '=' : kBase64[bits >> (18U - 6U * j) & 0x3fU];
    }
    return result;
}

void parse_target(HttpRequest& request) {
    const auto mark = request.target.find('?');
    request.path = request.target.substr(0, mark);
    std::string_view path = request.path;
    while (!path.empty()) {
        path.remove_prefix(1);  // the slash
        const auto end = std::min(path.find('/'), path.size());
        request.segments.push_back(percent_decoded(path.substr(0, end), false));
        path.remove_prefix(end);
    }
    if (mark == std::string::npos) return;
    std::string_view query = std::string_view{request.target}.substr(mark + 1);
    while (!query.empty()) {
        const auto end = std::min(query.find('&'), query.size());
        const auto pair = query.substr(0, end);
        const auto equals = std::min(pair.find('='), pair.size());
        const auto value = equals < pair.size() ? pair.substr(equals + 1) : std::string_view{};
        if (!pair.empty()) {
            request.query.emplace_back(percent_decoded(pair.substr(0, equals), true),
                                       percent_decoded(value, true));
        }
        query.remove_prefix(std::min(end + 1, query.size()));
    }
}

std::string HttpRequest::header(const std::string& lower_name) const {
    const auto it = headers.find(lower_name);
    return it == headers.end() ? std::string{} : it->second;
}

std::optional<std::string> HttpRequest::query_value(std::string_view name) const {
    for (const auto& [key, value] : query) {
        if (key == name) return value;
    }
    return std::nullopt;
}

std::optional<std::string> HttpRequest::bearer() const {
    const auto value = header("authorization");
    constexpr std::string_view kScheme = "Bearer ";
    if (!value.starts_with(kScheme)) return std::nullopt;
    return value.substr(kScheme.size());
}

HttpResponse json_response(int status, const nlohmann::json& body) {
    return {.status = status,
            .type = "application/json",
            .body = body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace),
            .headers = {},
            .cut = false};
}

std::string_view reason_phrase(int status) {
    switch (status) {
        case 200:
            return "OK";
        case 201:
            return "Created";
        case 202:
            return "Accepted";
        case 204:
            return "No Content";
        case 400:
            return "Bad Request";
        case 401:
            return "Unauthorized";
        case 402:
            return "Payment Required";
        case 403:
            return "Forbidden";
        case 404:
            return "Not Found";
        case 405:
            return "Method Not Allowed";
        case 409:
            return "Conflict";
        case 410:
            return "Gone";
        case 411:
            return "Length Required";
        case 413:
            return "Payload Too Large";
        case 422:
            return "Unprocessable Entity";
        case 429:
            return "Too Many Requests";
        case 500:
            return "Internal Server Error";
        case 502:
            return "Bad Gateway";
        case 503:
            return "Service Unavailable";
        case 504:
            return "Gateway Timeout";
        default:
            return "Status";
    }
}

}  // namespace gf::sim
