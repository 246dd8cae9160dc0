#include "daemon/ssh/command_line.hpp"

#include <algorithm>
#include <string_view>

namespace gf::ssh {
namespace {

bool is_letter_or_digit(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool made_of(std::string_view text, std::string_view more) {
    return !text.empty() && text.size() <= 253 && (is_letter_or_digit(text.front()) || text.front() == ':' || text.front() == '_') &&
           std::ranges::all_of(text, [more](char c) { return is_letter_or_digit(c) || more.find(c) != std::string_view::npos; });
}

/// ssh expands %h and the like in the values of some options.
std::string unexpanded(std::string_view path) {
    std::string out;
    for (const char c : path) out += c == '%' ? std::string("%%") : std::string(1, c);
    return out;
}

std::vector<std::string> common(const Machine& m) {
    std::vector<std::string> out{m.program, "-F", "none", "-T", "-p", std::to_string(m.to.port), "-l", m.to.user};
    const auto option = [&out](std::string_view name, std::string_view value) {
        out.emplace_back("-o");
        out.push_back(std::string(name) + "=" + std::string(value));
    };
    option("BatchMode", "yes");
    option("LogLevel", "ERROR");
    // Who we are.
    option("IdentityFile", "\"" + unexpanded(m.identity) + "\"");
    option("IdentitiesOnly", "yes");
    option("IdentityAgent", "none");
    option("AddKeysToAgent", "no");
    option("PreferredAuthentications", "publickey");
    option("PubkeyAuthentication", "yes");
    // Who it is. Providers give the same host and port to one machine after the other, so the address says nothing.
    option("HostKeyAlias", m.id);
    option("UserKnownHostsFile", "\"" + unexpanded(m.known_hosts) + "\"");
    option("GlobalKnownHostsFile", "/dev/null");
    option("StrictHostKeyChecking", m.first_meeting ? "accept-new" : "yes");
    if (m.key_is_ours) option("HostKeyAlgorithms", "ssh-ed25519");
    option("CheckHostIP", "no");
    option("UpdateHostKeys", "no");
    option("HashKnownHosts", "no");
    option("VerifyHostKeyDNS", "no");
    // Nothing else goes through.
    option("ForwardAgent", "no");
    option("ForwardX11", "no");
    option("Tunnel", "no");
    option("PermitLocalCommand", "no");
    option("CanonicalizeHostname", "no");
    option("EscapeChar", "none");
    option("ControlPath", "\"" + unexpanded(m.control) + "\"");
    return out;
}

std::vector<std::string> over_master(const Machine& m) {
    auto out = common(m);
    // Without a master ssh would connect by itself. With this it cannot.
    out.insert(out.end(), {"-o", "ControlMaster=no", "-o", "ProxyCommand=false"});
    return out;
}

}  // namespace

std::string unusable(const SshEndpoint& to) {
    if (!made_of(to.host, ".-:_")) return "\"" + to.host.substr(0, 64) + "\" is no host name and no address";
    if (to.port < 1 || to.port > 65535) return "port " + std::to_string(to.port) + " is none";
    if (!made_of(to.user, ".-_") || to.user.front() == ':' || to.user.size() > 64) return "the login name is not a plain word";
    return {};
}

std::vector<std::string> master_command(const Machine& m) {
    auto out = common(m);
    // A connection that is cut without a word is noticed after 15 s three times over.
    out.insert(out.end(), {"-N", "-o", "ControlMaster=yes", "-o", "ControlPersist=no", "-o", "ConnectTimeout=15", "-o",
                           "ConnectionAttempts=1", "-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=3", "-o",
                           "TCPKeepAlive=yes", "-o", "ExitOnForwardFailure=yes", "--", m.to.host});
    return out;
}

std::vector<std::string> forward_command(const Machine& m, int port, const std::string& target) {
    auto out = over_master(m);
    out.insert(out.end(), {"-O", "forward", "-R", "127.0.0.1:" + std::to_string(port) + ":" + target, "--", m.to.host});
    return out;
}

std::vector<std::string> remote_command(const Machine& m, const std::string& command) {
    auto out = over_master(m);
    out.insert(out.end(), {"--", m.to.host, command});
    return out;
}

}  // namespace gf::ssh
