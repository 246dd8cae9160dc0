// Following a job's log over server-sent events, with reconnects that go on at the byte where the last one ended: no byte
// twice, none left out.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "cli/command.hpp"
#include "cli/failure.hpp"
#include "cli/sse.hpp"

namespace gf::cli {

struct FollowOptions {
    std::string job;
    std::string attempt;      // number; empty = from the newest on, and each one that follows
    std::int64_t offset{0};
};

/// Writes raw bytes to standard output until the job has ended, Ctrl-C was pressed, or the daemon was away for ten
/// minutes. Notes ("connection cut") go to standard error. True = the log is over; false = detached by Ctrl-C.
[[nodiscard]] Outcome<bool> follow_log(Context& context, const FollowOptions& options);

}  // namespace gf::cli
