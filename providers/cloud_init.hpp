// The start hook of machines that boot with cloud-init: one `user_data` text that begins with "#!/bin/sh" and
// does, as root, once per instance, what a container's start command does elsewhere. Pure.
//
// What it does on the machine, in this order; each step is harmless when it is done twice:
//   1. sshd gets the host key of SshSetup and shows no other, so that our first connection knows whom it
//   talks to;
//   2. our public key may log in as root and, where that is another, as the image's own user;
//   3. GPUFERRY_* and the start script go into /etc/gpuferry, which only root may enter;
//   4. the start script runs in the background as root with HOME set: cloud-init ends at once, and its end
//   does not end the script. Where there is systemd it is the unit "gpuferry-machine", enabled, so that it
//   runs again when the machine boots again; else it has a session of its own, for this boot.
// Nothing that it writes is readable for anybody but root, except sshd's public half and the unit, which
// holds nothing but a path. The user_data itself is kept by cloud-init in a file of root's, and every process
// of the machine can ask the metadata service for it: what stands in it is the machine's own narrow session
// and nothing else (DESIGN, P8).
#pragma once
#include <string>

#include "providers/port.hpp"

namespace gf {

struct CloudInitOptions {
    std::string login{"root"};  // the image's own user: [a-z0-9_-]
};

/// Of `request` only `env`, `start_script` and `ssh` are used; without `ssh` the first two steps are left
/// out, without a `start_script` the last two. Names of variables that a shell does not take are left out
/// too. Paths on the machine begin with $GPUFERRY_ROOT, which is empty there and a folder in tests.
[[nodiscard]] std::string cloud_init_script(const LaunchRequest& request, const CloudInitOptions& options);

}  // namespace gf
