// A machine that is a container has no sshd unless its image brings one and starts it; our entrypoint
// replaces what the image would start. These lines make up for it where a tunnel is wanted
// (LaunchRequest::ssh). Pure. The host key is the container's own: one that travelled in a create call could
// be read back by everybody who may read the account.
#pragma once
#include <string>

#include "providers/port.hpp"

namespace gf {

/// One line of an OpenSSH public key that can stand within single quotes and in an environment variable.
[[nodiscard]] bool is_plain_public_key(const std::string& key);

/// `script` with lines around it (POSIX sh, at most 900 bytes and the key): before it the key is allowed to
/// log in as root and sshd is started in the background, installed by apt-get where it is missing; after it
/// the container stays up, so that whoever logs in finds it. `key` must be plain.
[[nodiscard]] std::string with_sshd(const std::string& key, const std::string& script);

}  // namespace gf
