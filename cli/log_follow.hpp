// Following a job's log over server-sent events, with reconnects that go on at the byte where the last one
// ended: no byte twice, none left out.
//
// The stream (`?follow=1&format=json`) carries text, in which bytes that are no UTF-8 are replaced. A message
// whose text may have been changed so is fetched again as raw bytes, so that what goes to standard output is
// what the job wrote.
#pragma once
#include <cstdint>
#include <string>

#include "cli/command.hpp"
#include "cli/failure.hpp"

namespace gf::cli {

struct FollowOptions {
    std::string job;
    std::string attempt;     // number; empty = all of the job, one after the other
    std::int64_t offset{0};  // byte to start at
};

/// Writes raw bytes to standard output, or with --json one object {"attempt", "offset", "text"} a line, until
/// the log is over, Ctrl-C was pressed, or the daemon was away for ten minutes. Notes ("connection cut") go
/// to standard error. True = the log is over; false = detached by Ctrl-C.
[[nodiscard]] Outcome<bool> follow_log(Context& context, const FollowOptions& options);

}  // namespace gf::cli
