// The command line as a function: parses the arguments, finds the daemon, runs the command.
#pragma once
#include <string>
#include <vector>

#include "cli/environment.hpp"

namespace gf::cli {

/// `arguments` without the program's name. Answers the exit status of exit_code.hpp, or the job's with submit
/// --wait. Never throws.
int run(std::vector<std::string> arguments, Environment& env);

}  // namespace gf::cli
