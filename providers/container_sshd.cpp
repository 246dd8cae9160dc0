#include "providers/container_sshd.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace gf {

bool is_plain_public_key(const std::string& key) {
    return (key.starts_with("ssh-") || key.starts_with("ecdsa-") || key.starts_with("sk-")) &&
           key.size() <= 1'000 && key.find(' ') != std::string::npos && std::ranges::all_of(key, [](char c) {
               return c >= ' ' && c <= '~' && c != '\'' && c != '"' && c != '\\';
           });
}

std::string with_sshd(const std::string& key, const std::string& script) {
    // The blank line guards against a last line without an end. Vast.ai logs people into tmux unless told
    // otherwise.
    constexpr std::string_view before =
        "PATH=$PATH:/usr/sbin:/sbin; export PATH\n"
        "(umask 077; mkdir -p ~/.ssh; printf '\\n%s\\n' '{}' >>~/.ssh/authorized_keys; : >~/.no_auto_tmux)\n"
        "( command -v sshd || {{ apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y "
        "--no-install-recommends "
        "openssh-server; }}\n"
        "mkdir -p /run/sshd; ssh-keygen -A\n"
        "exec \"$(command -v sshd)\" -o PasswordAuthentication=no -o PermitRootLogin=prohibit-password ) "
        "</dev/null "
        ">/dev/null 2>&1 &\n";
    // In a subshell: it may exec.
    return fmt::format(fmt::runtime(before), key) + "(\n" + script + "\n)\nexec sleep 2147483647\n";
}

}  // namespace gf
