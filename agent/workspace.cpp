#include "agent/workspace.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

namespace gf::agent {
namespace {

constexpr std::string_view kJobPrefix = "job_";
constexpr std::size_t kJobName = 30;  // prefix and 26 characters: only folders of that form are ever removed

std::string value_of(const std::map<std::string, std::string>& env, const std::string& name) {
    const auto found = env.find(name);
    return found == env.end() ? std::string() : found->second;
}

bool make_folder(const std::string& path, mode_t mode) {
    if (::mkdir(path.c_str(), mode) == 0) return ::chmod(path.c_str(), mode) == 0;
    struct stat st{};
    return errno == EEXIST && ::stat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode);
}

bool can_write(const std::string& folder) {
    const std::string probe = folder + "/.gpuferry-probe-" + std::to_string(::getpid());
    const Descriptor file(::open(probe.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file) return false;
    const bool wrote = ::write(file.get(), "x", 1) == 1;
    ::unlink(probe.c_str());
    return wrote;
}

bool remove_entries(int folder);

bool remove_entry(int parent, const char* name) {
    if (::unlinkat(parent, name, 0) == 0 || errno == ENOENT) return true;
    const Descriptor inner(::openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!inner) {
        // A job may leave a folder without rights for its owner; root does not care, others give themselves the rights.
        ::fchmodat(parent, name, 0700, 0);
        const Descriptor again(::openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        if (!again || !remove_entries(again.get())) return false;
    } else {
        ::fchmod(inner.get(), 0700);
        if (!remove_entries(inner.get())) return false;
    }
    return ::unlinkat(parent, name, AT_REMOVEDIR) == 0;
}

bool remove_entries(int folder) {
    const int copy = ::fcntl(folder, F_DUPFD_CLOEXEC, 0);
    DIR* list = copy < 0 ? nullptr : ::fdopendir(copy);
    if (!list) return false;
    bool all = true;
    while (const dirent* entry = ::readdir(list)) {
        const std::string_view name = entry->d_name;
        if (name != "." && name != "..") all = remove_entry(folder, entry->d_name) && all;
    }
    ::closedir(list);
    return all;
}

}  // namespace

Workspace Workspace::choose(const std::string& wanted, const std::map<std::string, std::string>& env,
                            const std::string& machine) {
    std::vector<std::string> candidates;
    if (!wanted.empty()) {
        candidates.push_back(wanted);
    } else {
        candidates.push_back("/workspace");
        const std::string home = value_of(env, "HOME");
        if (home.starts_with('/')) candidates.push_back((home == "/" ? "" : home) + "/gpuferry-" + machine);
        candidates.push_back("/tmp/gpuferry-" + machine);
        candidates.push_back("/var/tmp/gpuferry-" + machine);
    }
    for (const auto& base : candidates) {
        Workspace workspace;
        if (!make_folder(base, 0755) || !can_write(base)) continue;
        workspace.lock_.reset(::open((base + "/.gpuferry.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
        if (!workspace.lock_ || ::flock(workspace.lock_.get(), LOCK_EX | LOCK_NB) != 0) continue;
        // 0711: a job under another user reaches the socket by its name and sees nothing else.
        if (!make_folder(base + "/.gpuferry", 0711)) continue;
        workspace.base_ = base;
        return workspace;
    }
    return {};
}

std::vector<std::string> Workspace::left_over(const std::string& job) const {
    std::vector<std::string> names;
    DIR* list = ::opendir(base_.c_str());
    if (!list) return names;
    while (const dirent* entry = ::readdir(list)) {
        const std::string_view name = entry->d_name;
        if (name == job || (name.size() == kJobName && name.starts_with(kJobPrefix))) names.emplace_back(name);
    }
    ::closedir(list);
    return names;
}

Result<std::string> Workspace::prepare(const std::string& job, const std::vector<std::string>& inside) const {
    const Descriptor base(::open(base_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!base) return fail(system_error("open", base_));
    bool clean = true;
    for (const auto& name : left_over(job)) clean = remove_entry(base.get(), name.c_str()) && clean;
    if (!clean) return fail(ErrorKind::io, "the workspace " + base_ + " cannot be cleaned of a former attempt");
    for (const auto& name : inside) {
        const std::string path = private_folder() + "/" + name;
        if (!remove_tree(path) || ::mkdir(path.c_str(), 0700) != 0) return fail(system_error("make", path));
    }
    const std::string folder = job_folder(job);
    if (::mkdir(folder.c_str(), 0755) != 0) return fail(system_error("make", folder));
    return folder;
}

bool is_safe_relative(std::string_view path) {
    if (path.empty() || path.front() == '/' || path.find('\0') != std::string_view::npos) return false;
    while (!path.empty()) {
        const auto end = std::min(path.find('/'), path.size());
        if (path.substr(0, end) == "..") return false;
        path.remove_prefix(std::min(end + 1, path.size()));
    }
    return true;
}

std::string normal_relative(std::string_view path) {
    std::string out;
    while (!path.empty()) {
        const auto end = std::min(path.find('/'), path.size());
        const auto part = path.substr(0, end);
        path.remove_prefix(std::min(end + 1, path.size()));
        if (part.empty() || part == ".") continue;
        if (!out.empty()) out += '/';
        out += part;
    }
    return out;
}

std::string below(const std::string& folder, std::string_view path) {
    const auto normal = normal_relative(path);
    return normal.empty() ? folder : folder + "/" + normal;
}

bool remove_tree(const std::string& path) { return remove_entry(AT_FDCWD, path.c_str()); }

Result<void> move_missing(const std::string& from, const std::string& to) {
    DIR* list = ::opendir(from.c_str());
    if (!list) return fail(system_error("open", from));
    std::vector<std::string> names;
    while (const dirent* entry = ::readdir(list)) {
        const std::string_view name = entry->d_name;
        if (name != "." && name != "..") names.emplace_back(name);
    }
    ::closedir(list);
    for (const auto& name : names) {
        const std::string source = from + "/" + name;
        const std::string target = to + "/" + name;
        struct stat there{}, mine{};
        if (::lstat(target.c_str(), &there) != 0) {
            if (::rename(source.c_str(), target.c_str()) != 0) return fail(system_error("move", source));
        } else if (S_ISDIR(there.st_mode) && ::lstat(source.c_str(), &mine) == 0 && S_ISDIR(mine.st_mode)) {
            if (auto moved = move_missing(source, target); !moved) return moved;
        }
    }
    return {};
}

Result<void> can_reach(const std::string& folder, const UserAccount& account) {
    for (auto slash = folder.rfind('/'); slash != std::string::npos && slash > 0; slash = folder.rfind('/', slash - 1)) {
        const std::string above = folder.substr(0, slash);
        struct stat st{};
        if (::stat(above.c_str(), &st) != 0) return fail(system_error("stat", above));
        const bool in_group = st.st_gid == account.gid || std::ranges::find(account.groups, st.st_gid) != account.groups.end();
        const mode_t needed = st.st_uid == account.uid ? S_IXUSR : in_group ? S_IXGRP : S_IXOTH;
        if (account.uid == 0 || (st.st_mode & needed) != 0) continue;
        return fail(ErrorKind::invalid, "user " + (account.name.empty() ? std::to_string(account.uid) : account.name) +
                                            " cannot reach the job's folder: " + above + " is closed to others on this machine");
    }
    return {};
}

Result<void> give_tree(const std::string& path, unsigned uid, unsigned gid) {
    struct stat st{};
    if (::lstat(path.c_str(), &st) != 0) return fail(system_error("stat", path));
    const bool theirs = st.st_uid == uid && st.st_gid == gid;
    if (!theirs && ::lchown(path.c_str(), uid, gid) != 0) return fail(system_error("give to the user", path));
    DIR* list = nullptr;
    {
        Descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        if (!folder) return {};  // a file or a link
        list = ::fdopendir(folder.get());
        if (list) folder.release();
    }
    if (!list) return {};
    while (const dirent* entry = ::readdir(list)) {
        const std::string_view name = entry->d_name;
        if (name == "." || name == "..") continue;
        auto given = give_tree(path + "/" + entry->d_name, uid, gid);
        if (!given) {
            ::closedir(list);
            return given;
        }
    }
    ::closedir(list);
    return {};
}

}  // namespace gf::agent
