// The last step from a fork to a job's command: session, signals, output, folder, user, exec. For the keeper and, in a
// container, for the first process there.
#pragma once
#include <string>
#include <vector>

#include "agent/job_order.hpp"

namespace gf::agent {

struct ProcessStart {
    std::vector<std::string> argv;  // a program without a slash is looked for in the caller's PATH
    std::vector<std::string> env;   // NAME=value, complete
    std::string folder;
    bool drop_user{false};
    unsigned uid{0};
    unsigned gid{0};
    std::vector<unsigned> groups{};
};
/// The job's own command.
[[nodiscard]] ProcessStart job_start(const JobOrder& order);
/// The engine's client that runs the job's container.
[[nodiscard]] ProcessStart client_start(const JobOrder& order);

/// What `report` begins with when the program itself could not be executed: in a container that is the image's fault.
inline constexpr const char* kCannotStart = "start ";

/// In a child: becomes the command, or writes "what: why" to `report` (closed by a successful exec) and exits 127.
[[noreturn]] void become(const ProcessStart& start, int output, int report);

}  // namespace gf::agent
