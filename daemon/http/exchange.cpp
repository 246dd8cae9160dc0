#include "daemon/http/exchange.hpp"

#include <fmt/core.h>

#include <array>
#include <chrono>

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

std::string http_date(Instant at) {
    static constexpr std::array<std::string_view, 7> days{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static constexpr std::array<std::string_view, 12> months{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                             "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    const auto day = std::chrono::floor<std::chrono::days>(at);
    const std::chrono::year_month_day date(day);
    const std::chrono::hh_mm_ss time(std::chrono::floor<std::chrono::seconds>(at - day));
    return fmt::format("{}, {:02} {} {:04} {:02}:{:02}:{:02} GMT", days[std::chrono::weekday(day).c_encoding()],
                       static_cast<unsigned>(date.day()), months[static_cast<unsigned>(date.month()) - 1],
                       static_cast<int>(date.year()), time.hours().count(), time.minutes().count(), time.seconds().count());
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
