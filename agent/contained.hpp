// The first process of a job's container: this same program, started by the engine in the image's surroundings. It takes the
// job from the keeper over the door, starts it as PID 1 of the container's processes, passes signals to the whole group or to the
// leader as a keeper does, reaps everything, and ends the container when the keeper is gone.
#pragma once
#include <string>

namespace gf::agent {

/// `gpuferry-agent contained DOOR`. Returns the container's exit code: the job's, 128 + n for a signal.
int run_contained(const std::string& door);

/// `gpuferry-agent account USER`: prints how the image knows a user, for `read_account`. 1 if it does not.
int print_account(const std::string& user);

}  // namespace gf::agent
