// The files of this process's control group: v2 or v1, seen from the host or from inside of a container, where the group
// is mounted as if it were the root whatever /proc says.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gf::agent {

/// The text of a file of our group; `controller` is "" for v2, else the v1 name ("memory", "cpu"). Empty if there is none.
[[nodiscard]] std::string cgroup_file(std::string_view controller, std::string_view file);
/// The number that a file holds; nothing for "max" and the like.
[[nodiscard]] std::optional<std::int64_t> cgroup_number(std::string_view controller, std::string_view file);
/// The number after `key` in a text of lines "key number".
[[nodiscard]] std::optional<std::int64_t> number_after(std::string_view text, std::string_view key);

}  // namespace gf::agent
