#include "daemon/api/event_stream.hpp"

#include <fmt/format.h>

#include <iterator>

namespace gf::api {

void append_event(std::string& out, std::int64_t id, std::string_view name, std::string_view data) {
    auto to = std::back_inserter(out);
    fmt::format_to(to, "id: {}\n", id);
    if (!name.empty()) fmt::format_to(to, "event: {}\n", name);
    for (;;) {
        const auto end = data.find_first_of("\r\n");
        fmt::format_to(to, "data: {}\n", data.substr(0, end));
        if (end == std::string_view::npos) break;
        const bool two = data[end] == '\r' && end + 1 < data.size() && data[end + 1] == '\n';
        data.remove_prefix(end + (two ? 2 : 1));
    }
    out += '\n';
}

void Heartbeat::beat(std::string& out) {
    if (std::chrono::steady_clock::now() - last_ < std::chrono::seconds(15)) return;
    out += ":\n\n";
    wrote();
}

}  // namespace gf::api
