// What ssh says when it ends, in the words that the daemon acts on. Pure. OpenSSH has no codes: 255 is every failure, and the
// text says which; the texts are those of 7.9 to 9.9 in the C locale (ssh.c, sshconnect.c, packet.c, clientloop.c, mux.c).
#pragma once
#include <string>
#include <string_view>

#include "model/enum_text.hpp"

namespace gf::ssh {

enum class Refusal : std::uint8_t {
    sshd_not_up,        // nobody answers there yet, or any more
    login_refused,      // it answers and does not take our key: at boot that passes
    host_key,           // it shows another host key than the one that is known
    forward_refused,    // no listener on the machine
    connection_lost,    // it was there
    ssh_failed,         // everything else
};

/// `was_up`: the connection had been established.
[[nodiscard]] Refusal refusal_of(std::string_view said, bool was_up);
/// The last line that says something, at most 200 bytes of printable ASCII; for people.
[[nodiscard]] std::string last_words(std::string_view said);

}  // namespace gf::ssh

namespace gf {

GF_ENUM_NAMES(ssh::Refusal, {{E::sshd_not_up, "sshd_not_up"},
                             {E::login_refused, "login_refused"},
                             {E::host_key, "host_key"},
                             {E::forward_refused, "forward_refused"},
                             {E::connection_lost, "connection_lost"},
                             {E::ssh_failed, "ssh_failed"}});

}  // namespace gf
