#include "daemon/ssh/refusal.hpp"

#include <algorithm>
#include <array>

#include "model/ascii.hpp"

namespace gf::ssh {
namespace {

struct Saying {
    std::string_view part;  // lower case
    Refusal means;
};

// The first that is found counts: a changed host key is told with many words, some of which could be others'.
constexpr auto kSayings = std::to_array<Saying>({
    {"host key verification failed", Refusal::host_key},
    {"remote host identification has changed", Refusal::host_key},
    {"no matching host key type found", Refusal::host_key},
    {"host key is known for", Refusal::host_key},  // "No ED25519 host key is known for … and you have requested strict checking."
    {"forwarding failed", Refusal::forward_refused},
    {"forwarding request failed", Refusal::forward_refused},
    {"administratively prohibited", Refusal::forward_refused},
    {"permission denied", Refusal::login_refused},
    {"too many authentication failures", Refusal::login_refused},
    {"connection refused", Refusal::sshd_not_up},
    {"connection timed out", Refusal::sshd_not_up},
    {"operation timed out", Refusal::sshd_not_up},
    {"no route to host", Refusal::sshd_not_up},
    {"network is unreachable", Refusal::sshd_not_up},
    {"could not resolve hostname", Refusal::sshd_not_up},
    {"kex_exchange_identification", Refusal::sshd_not_up},
    {"banner exchange", Refusal::sshd_not_up},
    {"connection closed by", Refusal::sshd_not_up},
    {"connection reset by", Refusal::sshd_not_up},
    {"broken pipe", Refusal::connection_lost},
    {"not responding", Refusal::connection_lost},
});

}  // namespace

Refusal refusal_of(std::string_view said, bool was_up) {
    const std::string text = ascii_lower(said);
    for (const auto& saying : kSayings)
        if (text.find(saying.part) != std::string::npos)
            return was_up && saying.means == Refusal::sshd_not_up ? Refusal::connection_lost : saying.means;
    return was_up ? Refusal::connection_lost : Refusal::ssh_failed;
}

std::string last_words(std::string_view said) {
    constexpr std::size_t kBytesMax = 200;
    std::string last;
    for (std::size_t at = 0; at < said.size();) {
        const auto end = std::min(said.find('\n', at), said.size());
        std::string line;
        for (const char c : said.substr(at, end - at))
            if (c >= ' ' && c < '\x7F') line.push_back(c);
        if (line.find_first_not_of(' ') != std::string::npos) last = line;
        at = end + 1;
    }
    return last.substr(0, kBytesMax);
}

}  // namespace gf::ssh
