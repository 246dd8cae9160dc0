// How ssh is called: every option is named, so that neither the user's nor the system's configuration, known hosts, keys or
// agent are ever read or written. Pure. Nothing secret stands in an argument: keys are files, the rest travels over streams.
#pragma once
#include <string>
#include <vector>

#include "providers/port.hpp"

namespace gf::ssh {

/// What the calls for one machine have in common.
struct Machine {
    std::string program;       // ssh
    std::string id;            // the name under which its host key is known: the machine's id, never its address
    SshEndpoint to;
    std::string identity;      // file: our private key
    std::string known_hosts;   // file: this machine's host key and no other
    bool first_meeting{false}; // the key that it shows is written there; else only a key that is there is taken
    bool key_is_ours{false};   // we have made its host key, which is an ed25519 one
    std::string control;       // path of the socket over which further calls share the connection
};

/// Nothing if `to` can be called; else why not. A provider's words end up in a command line: a host is a name or an address, a
/// user is a plain word, and neither begins with a dash.
[[nodiscard]] std::string unusable(const SshEndpoint& to);

/// The one process that holds the connection. It runs no command and asks for nothing. Ends by itself when the connection does.
[[nodiscard]] std::vector<std::string> master_command(const Machine& machine);
/// Asks the master for a listener on the machine's 127.0.0.1:`port` that leads to `target` as seen from here. Port 0 = the
/// machine chooses; it is printed then.
[[nodiscard]] std::vector<std::string> forward_command(const Machine& machine, int port, const std::string& target);
/// Runs `command` by the login shell over the master's connection, and never over one of its own.
[[nodiscard]] std::vector<std::string> remote_command(const Machine& machine, const std::string& command);

}  // namespace gf::ssh
