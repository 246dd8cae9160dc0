#include "daemon/http/problem.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace gf::http {

std::string_view status_title(int status) {
    switch (status) {
        case 400: return "Bad Request";
        case 401: return "Unauthorized";
        case 403: return "Forbidden";
        case 404: return "Not Found";
        case 405: return "Method Not Allowed";
        case 408: return "Request Timeout";
        case 409: return "Conflict";
        case 411: return "Length Required";
        case 413: return "Content Too Large";
        case 415: return "Unsupported Media Type";
        case 416: return "Range Not Satisfiable";
        case 417: return "Expectation Failed";
        case 421: return "Misdirected Request";
        case 422: return "Unprocessable Content";
        case 426: return "Upgrade Required";
        case 429: return "Too Many Requests";
        case 431: return "Request Header Fields Too Large";
        case 500: return "Internal Server Error";
        case 501: return "Not Implemented";
        case 503: return "Service Unavailable";
        case 507: return "Insufficient Storage";
        default: return status < 400 ? "OK" : "Error";
    }
}

Response problem(int status, std::string_view detail, const std::vector<FieldError>& errors) {
    nlohmann::ordered_json body;
    body["type"] = "about:blank";
    body["title"] = status_title(status);
    body["status"] = status;
    body["detail"] = detail;
    if (!errors.empty()) {
        auto& list = body["errors"] = nlohmann::ordered_json::array();
        for (const auto& e : errors) {
            nlohmann::ordered_json entry;
            entry["field"] = e.field;
            if (e.line > 0) entry["line"] = e.line;
            if (e.column > 0) entry["column"] = e.column;
            entry["message"] = e.message;
            if (!e.range.empty()) entry["range"] = e.range;
            list.push_back(std::move(entry));
        }
    }
    // Texts of ours may quote what a client sent, which need not be UTF-8.
    Response response;
    response.status = status;
    response.content_type = "application/problem+json";
    response.body = body.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
    return response;
}

int status_of(ErrorKind kind) {
    switch (kind) {
        case ErrorKind::invalid: return 422;
        case ErrorKind::not_found: return 404;
        case ErrorKind::conflict: return 409;
        case ErrorKind::forbidden: return 403;
        case ErrorKind::not_yet: return 501;
        case ErrorKind::busy: return 503;
        case ErrorKind::full: return 507;
        case ErrorKind::io: return 500;
        case ErrorKind::malformed: return 400;
        case ErrorKind::no_capacity:
        case ErrorKind::refused:
        case ErrorKind::auth:
        case ErrorKind::no_money:
        case ErrorKind::quota:
        case ErrorKind::rate_limited:
        case ErrorKind::api_retired:
        case ErrorKind::unavailable:
        case ErrorKind::unknown_outcome: return 503;
    }
    return 500;
}

Response problem(const Error& error) {
    const auto status = status_of(error.kind);
    std::vector<FieldError> errors;
    if (!error.field.empty())
        errors.push_back({.field = error.field, .line = error.line, .column = error.column, .message = error.message, .range = {}});
    auto response = problem(status, error.message, errors);
    if (status == 503 || status == 507) {
        const auto wait = error.retry_after.value_or(status == 507 ? Millis{Seconds{30}} : Millis{Seconds{1}});
        const auto seconds = std::max<std::int64_t>(1, (wait.count() + 999) / 1000);
        response.headers.emplace_back("Retry-After", std::to_string(seconds));
    }
    return response;
}

Response json(int status, std::string body) {
    Response response;
    response.status = status;
    response.body = std::move(body);
    return response;
}

}  // namespace gf::http
