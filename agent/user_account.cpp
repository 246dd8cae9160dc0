#include "agent/user_account.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

namespace gf::agent {
namespace {

std::vector<std::string_view> split(std::string_view text, char by) {
    std::vector<std::string_view> parts;
    while (true) {
        const auto at = text.find(by);
        parts.push_back(text.substr(0, at));
        if (at == std::string_view::npos) return parts;
        text.remove_prefix(at + 1);
    }
}

std::optional<unsigned> number(std::string_view text) {
    unsigned value = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || read.ec != std::errc{} || read.ptr != text.data() + text.size()) return std::nullopt;
    return value;
}

}  // namespace

Result<UserAccount> find_user(std::string_view spec, std::string_view passwd, std::string_view group) {
    const auto colon = spec.find(':');
    const auto user = spec.substr(0, colon);
    UserAccount account;
    bool found = false;
    for (const auto line : split(passwd, '\n')) {
        const auto fields = split(line, ':');
        if (fields.size() < 6 || (fields[0] != user && fields[2] != user)) continue;
        const auto uid = number(fields[2]);
        const auto gid = number(fields[3]);
        if (!uid || !gid) continue;
        account.uid = *uid;
        account.gid = *gid;
        account.name = fields[0];
        account.home = fields[5];
        found = true;
        break;
    }
    if (!found) {
        const auto uid = number(user);
        if (!uid) return fail(ErrorKind::not_found, "no user " + std::string(user) + " in this image");
        account.uid = account.gid = *uid;
    }
    if (colon != std::string_view::npos) {
        const auto wanted = spec.substr(colon + 1);
        auto gid = number(wanted);
        for (const auto line : split(group, '\n')) {
            const auto fields = split(line, ':');
            if (fields.size() >= 3 && fields[0] == wanted) gid = number(fields[2]);
        }
        if (!gid) return fail(ErrorKind::not_found, "no group " + std::string(wanted) + " in this image");
        account.gid = *gid;
    }
    account.groups.push_back(account.gid);
    for (const auto line : split(group, '\n')) {
        const auto fields = split(line, ':');
        if (fields.size() < 4 || account.name.empty()) continue;
        const auto members = split(fields[3], ',');
        const auto gid = number(fields[2]);
        if (gid && *gid != account.gid && std::ranges::find(members, std::string_view(account.name)) != members.end())
            account.groups.push_back(*gid);
    }
    return account;
}

}  // namespace gf::agent
