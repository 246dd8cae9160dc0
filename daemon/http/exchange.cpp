#include "daemon/http/exchange.hpp"

namespace gf::http {

std::string_view text(Method m) {
    switch (m) {
        case Method::get: return "GET";
        case Method::head: return "HEAD";
        case Method::post: return "POST";
        case Method::put: return "PUT";
        case Method::delete_: return "DELETE";
        case Method::other: return "other";
    }
    return "other";
}

std::string_view Request::header(std::string_view lower_case_name) const {
    for (const auto& [name, value] : headers)
        if (name == lower_case_name) return value;
    return {};
}

const std::string* Request::query_value(std::string_view key) const {
    for (const auto& [name, value] : query)
        if (name == key) return &value;
    return nullptr;
}

}  // namespace gf::http
