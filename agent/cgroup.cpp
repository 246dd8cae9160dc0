#include "agent/cgroup.hpp"

#include <algorithm>
#include <charconv>

#include "agent/descriptor.hpp"

namespace gf::agent {
namespace {

constexpr std::string_view kMount = "/sys/fs/cgroup";

template <class Visit>
void each_line(std::string_view text, Visit visit) {
    while (!text.empty()) {
        const auto end = std::min(text.find('\n'), text.size());
        visit(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
}

/// The path of our group in /proc/self/cgroup, lines "number:controllers:path".
std::string own_path(std::string_view controller) {
    std::string found;
    each_line(read_small_file("/proc/self/cgroup"), [&](std::string_view line) {
        const auto first = line.find(':');
        const auto second = first == std::string_view::npos ? first : line.find(':', first + 1);
        if (second == std::string_view::npos) return;
        auto controllers = line.substr(first + 1, second - first - 1);
        bool mine = controllers == controller;
        while (!controllers.empty() && !mine) {
            const auto comma = std::min(controllers.find(','), controllers.size());
            mine = controllers.substr(0, comma) == controller;
            controllers.remove_prefix(std::min(comma + 1, controllers.size()));
        }
        if (mine) found = line.substr(second + 1);
    });
    return found;
}

}  // namespace

std::string cgroup_file(std::string_view controller, std::string_view file) {
    const std::string mount = std::string(kMount) + (controller.empty() ? "" : "/") + std::string(controller);
    const std::string own = own_path(controller);
    const std::string inside = own.empty() || own == "/" ? std::string() : read_small_file(mount + own + "/" + std::string(file));
    return inside.empty() ? read_small_file(mount + "/" + std::string(file)) : inside;
}

std::optional<std::int64_t> cgroup_number(std::string_view controller, std::string_view file) {
    const std::string text = cgroup_file(controller, file);
    std::int64_t value = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || read.ec != std::errc{}) return std::nullopt;
    return value;
}

std::optional<std::int64_t> number_after(std::string_view text, std::string_view key) {
    std::optional<std::int64_t> found;
    each_line(text, [&](std::string_view line) {
        if (!line.starts_with(key) || line.size() <= key.size() || line[key.size()] != ' ') return;
        std::int64_t value = 0;
        if (std::from_chars(line.data() + key.size() + 1, line.data() + line.size(), value).ec == std::errc{}) found = value;
    });
    return found;
}

}  // namespace gf::agent
