#include "checkpoints/scan.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "checkpoints/manifest.hpp"

namespace gf::checkpoints {

namespace fs = std::filesystem;

namespace {

constexpr int kDepthMax = 128;  // one descriptor per level is held while walking
constexpr std::size_t kLeftOutMax = 100;

std::int64_t nanos(const timespec& t) {
    return static_cast<std::int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

std::string joined(const std::string& folder, const std::string& name) {
    return folder.empty() ? name : folder + "/" + name;
}

bool is_below(std::string_view path, std::string_view folder) {
    return folder.empty() || path == folder ||
           (path.starts_with(folder) && path.size() > folder.size() && path[folder.size()] == '/');
}
std::string_view base_name(std::string_view path) {
    const auto slash = path.rfind('/');
    return slash == std::string_view::npos ? path : path.substr(slash + 1);
}
std::string parent_name(std::string_view path) {
    const auto slash = path.rfind('/');
    return slash == std::string_view::npos ? std::string{} : std::string{path.substr(0, slash)};
}

bool glob(const std::string& pattern, const std::string& text) {
    return ::fnmatch(pattern.c_str(), text.c_str(), FNM_PATHNAME) == 0;
}

/// A pattern with a slash inside is held against the path from the root, any other against the last name.
bool matches(const std::string& pattern, const std::string& path) {
    if (pattern.find('/') != std::string::npos)
        return glob(pattern.starts_with("/") ? pattern.substr(1) : pattern, path);
    return glob(pattern, std::string{base_name(path)});
}
bool excluded(const ScanRules& rules, const std::string& path, bool folder) {
    return std::ranges::any_of(rules.exclude, [&](const std::string& pattern) {
        if (!pattern.ends_with('/')) return !pattern.empty() && matches(pattern, path);
        return folder && pattern.size() > 1 && matches(pattern.substr(0, pattern.size() - 1), path);
    });
}

/// The digits at {n} if `name` matches the pattern, which is otherwise plain text.
std::optional<std::string> number_in(const std::string& pattern, std::string_view name) {
    const auto at = pattern.find("{n}");
    if (at == std::string::npos) return std::nullopt;
    const std::string_view head = std::string_view{pattern}.substr(0, at);
    const std::string_view tail = std::string_view{pattern}.substr(at + 3);
    if (name.size() <= head.size() + tail.size() || !name.starts_with(head) || !name.ends_with(tail))
        return std::nullopt;
    const auto digits = name.substr(head.size(), name.size() - head.size() - tail.size());
    if (!std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; })) return std::nullopt;
    return std::string{digits};
}

/// Walks the tree and keeps all entries that `exclude` and `only` let through.
class Walk {
 public:
    Walk(const fs::path& root, const File& root_file, const ScanRules& rules)
        : root_(root), root_file_(root_file), rules_(rules) {}
    Scan scan;

    /// `path` is the folder's name in the scan, `source` where it is (another place below a followed link).
    Result<void> folder(int fd, const std::string& path, const std::string& source, int depth) {
        const std::unique_ptr<DIR, int (*)(DIR*)> dir{::fdopendir(fd), ::closedir};
        if (!dir) {
            const int error = errno;
            ::close(fd);
            return fail(disk_error(error, "cannot read folder", root_ / path));
        }
        if (depth > kDepthMax)
            return fail(ErrorKind::invalid,
                        "folders are nested more than 128 deep at " + (root_ / path).string());
        while (true) {
            errno = 0;
            const dirent* found = ::readdir(dir.get());
            if (found == nullptr) {
                if (errno == 0 || errno == ENOENT) return {};
                return fail(disk_error(errno, "cannot read folder", root_ / path));
            }
            const std::string name = found->d_name;
            if (name == "." || name == "..") continue;
            if (auto done = entry(::dirfd(dir.get()), path, source, name, depth); !done) return done;
        }
    }

 private:
    Result<void> entry(int folder_fd, const std::string& folder_path, const std::string& folder_source,
                       const std::string& name, int depth) {
        const std::string path = joined(folder_path, name);
        std::string source = joined(folder_source, name);
        struct stat st{};
        if (::fstatat(folder_fd, name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0) {
            if (errno != ENOENT) return fail(disk_error(errno, "cannot look at", root_ / path));
            scan.moved = true;
            return {};
        }
        const Wanted how = wanted(path);
        if (how == Wanted::no) return {};
        const bool followed = S_ISLNK(st.st_mode) && rules_.follow_links && follow(source, st);
        const bool is_folder = S_ISDIR(st.st_mode);
        if ((how == Wanted::on_the_way && !is_folder) || excluded(rules_, path, is_folder)) return {};
        if (path.size() > kPathTakenMax)
            return fail(ErrorKind::invalid, "a path of " + std::to_string(path.size()) + " bytes (at most " +
                                                std::to_string(kPathTakenMax) + ") cannot be restored: " +
                                                path.substr(0, 200) + "…");
        ScannedEntry e{.path = path,
                       .type = is_folder             ? EntryType::directory
                               : S_ISLNK(st.st_mode) ? EntryType::symlink
                                                     : EntryType::file,
                       .partial = how == Wanted::on_the_way,
                       .mode = static_cast<std::uint32_t>(st.st_mode) & 0777U,
                       .inode = static_cast<std::uint64_t>(st.st_ino),
                       .size = S_ISREG(st.st_mode) ? static_cast<std::int64_t>(st.st_size) : 0,
                       .mtime_ns = nanos(st.st_mtim),
                       .ctime_ns = nanos(st.st_ctim),
                       .target = {},
                       .source = source == path ? std::string{} : source};
        if (S_ISLNK(st.st_mode)) {
            std::array<char, PATH_MAX> target{};
            const ssize_t n = ::readlinkat(folder_fd, name.c_str(), target.data(), target.size());
            if (n <= 0) {
                scan.moved = true;
                return {};
            }
            e.target.assign(target.data(), static_cast<std::size_t>(n));
            if (rules_.follow_links) scan.dead_links.push_back(path);
        } else if (!S_ISREG(st.st_mode) && !is_folder) {
            ++scan.special_files;
            return {};
        }
        if (scan.entries.size() >= kEntriesMax)
            return fail(ErrorKind::invalid, "more than 1000000 files below " + root_.string());
        scan.entries.push_back(std::move(e));
        if (!is_folder) return {};
        int fd = -1;
        if (followed) {
            auto opened = open_below(root_file_, source);
            if (!opened && opened.error().kind != ErrorKind::not_found) return fail(std::move(opened).error());
            if (opened) fd = ::fcntl(opened->fd(), F_DUPFD_CLOEXEC, 0);
            else errno = ENOENT;
        } else {
            fd = ::openat(folder_fd, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        }
        if (fd < 0) {
            if (errno != ENOENT && errno != ENOTDIR && errno != ELOOP)
                return fail(disk_error(errno, "cannot open folder", root_ / path));
            scan.moved = true;
            return {};
        }
        around_.emplace_back(st.st_dev, st.st_ino);
        auto done = folder(fd, path, source, depth + 1);
        around_.pop_back();
        return done;
    }

    /// Where the link at `source` leads, with everything on the way resolved. False = it stays a link: it leads out of the
    /// root or to nothing, or to a folder that the walk is in, which would never end.
    bool follow(std::string& source, struct stat& st) const {
        std::error_code error;
        const fs::path root = fs::canonical(root_, error);
        if (error) return false;
        const fs::path target = fs::canonical(root_ / source, error);
        if (error) return false;
        const fs::path inside = target.lexically_relative(root);
        if (inside.empty() || inside == "." || *inside.begin() == "..") return false;
        struct stat found{};
        if (::lstat(target.c_str(), &found) != 0 || S_ISLNK(found.st_mode)) return false;
        if (std::ranges::find(around_, std::pair{found.st_dev, found.st_ino}) != around_.end()) return false;
        source = inside.string();
        st = found;
        return true;
    }

    enum class Wanted : std::uint8_t { no, on_the_way, yes };
    [[nodiscard]] Wanted wanted(const std::string& path) const {
        if (rules_.only.empty()) return Wanted::yes;
        Wanted how = Wanted::no;
        for (const std::string& only : rules_.only) {
            if (is_below(path, only)) return Wanted::yes;
            if (is_below(only, path)) how = Wanted::on_the_way;
        }
        return how;
    }

    const fs::path& root_;
    const File& root_file_;
    const ScanRules& rules_;
    std::vector<std::pair<dev_t, ino_t>> around_;  // the folders that the walk is in, below the root
};

void leave_out(Scan& scan, const std::string& what) {
    if (scan.left_out.size() < kLeftOutMax) scan.left_out.push_back(what);
}

/// Removes whole folders and says so.
void drop_folders(Scan& scan, const std::set<std::string>& folders, std::string_view why) {
    if (folders.empty()) return;
    const auto dropped = [&](const std::string& path) {
        for (std::string at = path; !at.empty(); at = parent_name(at))
            if (folders.contains(at)) return true;
        return false;
    };
    for (const std::string& f : folders) leave_out(scan, f + "/: " + std::string{why});
    std::erase_if(scan.entries, [&](const ScannedEntry& e) { return dropped(e.path); });
}

std::set<std::string> folders_with(const Scan& scan, const std::string& name) {
    std::set<std::string> out;
    for (const ScannedEntry& e : scan.entries)
        if (!e.path.empty() && base_name(e.path) == name) out.insert(parent_name(e.path));
    return out;
}

void obey_incomplete(Scan& scan, const std::string& name) {
    std::set<std::string> folders = folders_with(scan, name);
    if (folders.erase("") > 0) {
        scan.complete = false;
        leave_out(scan, name + " says that the folder is not complete");
    }
    drop_folders(scan, folders, name + " says that it is not complete");
}

void obey_marker(Scan& scan, const ScanRules& rules) {
    const std::set<std::string> units = folders_with(scan, rules.marker);
    if (units.empty()) {
        scan.complete = false;
        leave_out(scan, "no folder has " + rules.marker + " yet");
        return;
    }
    std::set<std::string> without;
    std::set<std::string> beside;  // folders whose children are units
    for (const std::string& u : units)
        if (!u.empty()) beside.insert(parent_name(u));
    const auto named = [&](const std::string& path) {
        return std::ranges::any_of(rules.unit, [&](const std::string& p) {
            return p.ends_with('/') && matches(p.substr(0, p.size() - 1), path);
        });
    };
    const bool names_given =
        std::ranges::any_of(rules.unit, [](const std::string& p) { return p.ends_with('/'); });
    for (const ScannedEntry& e : scan.entries) {
        if (e.type != EntryType::directory || e.path.empty() || units.contains(e.path)) continue;
        // A folder on the way to a deeper unit is no unit itself.
        const auto deeper = units.upper_bound(e.path + "/");
        if (deeper != units.end() && is_below(*deeper, e.path)) continue;
        if (std::ranges::any_of(units, [&](const std::string& u) { return is_below(e.path, u); })) continue;
        if (names_given ? named(e.path) : beside.contains(parent_name(e.path))) without.insert(e.path);
    }
    drop_folders(scan, without, "has no " + rules.marker + " yet");
    scan.units.assign(units.begin(), units.end());
    for (ScannedEntry& e : scan.entries) {
        const bool inside =
            std::ranges::any_of(scan.units, [&](const std::string& u) { return is_below(e.path, u); });
        if (e.type == EntryType::directory && !inside) e.partial = true;
    }
}

void obey_sets(Scan& scan, const ScanRules& rules) {
    std::vector<std::string> patterns;
    for (const std::string& p : rules.unit)
        if (!p.ends_with('/') && p.find("{n}") != std::string::npos) patterns.push_back(p);
    if (patterns.empty()) return;
    std::map<std::string, std::set<std::size_t>> have;  // "folder/n" -> patterns that have a file
    const auto set_of = [&](const ScannedEntry& e) -> std::optional<std::pair<std::string, std::size_t>> {
        if (e.type == EntryType::directory) return std::nullopt;
        for (std::size_t i = 0; i < patterns.size(); ++i)
            if (const auto n = number_in(patterns[i], base_name(e.path)))
                return std::pair{joined(parent_name(e.path), *n), i};
        return std::nullopt;
    };
    for (const ScannedEntry& e : scan.entries)
        if (const auto s = set_of(e)) have[s->first].insert(s->second);
    for (const auto& [set, members] : have)
        if (members.size() < patterns.size()) leave_out(scan, "set " + set + ": a member is missing");
    std::erase_if(scan.entries, [&](const ScannedEntry& e) {
        const auto s = set_of(e);
        return s && have[s->first].size() < patterns.size();
    });
}

Result<std::vector<std::string>> cleaned(const std::vector<std::string>& only) {
    std::vector<std::string> out;
    for (const std::string& text : only) {
        std::string path = fs::path{text}.lexically_normal().string();
        while (path.size() > 1 && path.ends_with('/')) path.pop_back();
        if (path == ".") return std::vector<std::string>{};
        if (path.empty() || path.starts_with('/') || path == ".." || path.starts_with("../"))
            return fail(ErrorKind::invalid, "\"" + text + "\" does not lie below the folder");
        out.push_back(path);
    }
    return out;
}

}  // namespace

Result<Scan> scan_folder(const fs::path& root, const ScanRules& rules) {
    ScanRules effective = rules;
    auto only = cleaned(rules.only);
    if (!only) return fail(std::move(only).error());
    effective.only = *std::move(only);

    const int fd = ::open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return fail(disk_error(errno, "cannot open folder", root));
    File owned{fd};
    struct stat st{};
    if (::fstat(fd, &st) != 0) return fail(disk_error(errno, "cannot look at", root));

    Walk walk{root, owned, effective};
    walk.scan.entries.push_back({.path = "",
                                 .type = EntryType::directory,
                                 .partial = !effective.only.empty(),
                                 .mode = static_cast<std::uint32_t>(st.st_mode) & 0777U,
                                 .inode = static_cast<std::uint64_t>(st.st_ino),
                                 .size = 0,
                                 .mtime_ns = nanos(st.st_mtim),
                                 .ctime_ns = nanos(st.st_ctim),
                                 .target = {},
                                 .source = {}});
    const int walked = ::dup(fd);
    if (walked < 0) return fail(disk_error(errno, "cannot open folder", root));
    if (auto done = walk.folder(walked, "", "", 0); !done) return fail(std::move(done).error());

    Scan scan = std::move(walk.scan);
    std::ranges::sort(scan.entries, {}, &ScannedEntry::path);
    for (const std::string& path : effective.only) {
        const bool found =
            std::ranges::any_of(scan.entries, [&](const ScannedEntry& e) { return e.path == path; });
        if (!found) return fail(ErrorKind::not_found, (root / path).string() + " is not there");
        if (std::ranges::find(scan.dead_links, path) != scan.dead_links.end())
            return fail(ErrorKind::invalid,
                        "\"" + path + "\" is a link to nothing, or out of " + root.string());
    }
    if (!rules.incomplete.empty()) obey_incomplete(scan, rules.incomplete);
    if (!rules.marker.empty() && scan.complete) obey_marker(scan, rules);
    obey_sets(scan, rules);
    return scan;
}

bool unchanged(const Scan& before, const Scan& after) {
    if (before.moved || after.moved || before.complete != after.complete) return false;
    const auto same = [](const ScannedEntry& a, const ScannedEntry& b) {
        if (a.type == EntryType::directory && b.type == EntryType::directory && (a.partial || b.partial))
            return a.path == b.path && a.mode == b.mode && a.inode == b.inode;
        return a == b;
    };
    auto old = before.entries.begin();
    for (const ScannedEntry& now : after.entries) {
        if (old != before.entries.end() && same(*old, now)) {
            ++old;
            continue;
        }
        if (old != before.entries.end() && old->path <= now.path) return false;  // changed, or gone
        const bool in_unit =
            std::ranges::any_of(before.units, [&](const std::string& u) { return is_below(now.path, u); });
        if (before.units.empty() || in_unit) return false;
    }
    return old == before.entries.end();
}

Result<File> open_below(const File& root, const std::string& path) {
    File at;
    int folder = root.fd();
    std::size_t start = 0;
    while (true) {
        const std::size_t slash = path.find('/', start);
        const std::string part = path.substr(start, slash == std::string::npos ? slash : slash - start);
        const int flags = slash == std::string::npos ? O_RDONLY | O_NONBLOCK : O_RDONLY | O_DIRECTORY;
        File next{::openat(folder, part.c_str(), flags | O_NOFOLLOW | O_CLOEXEC)};
        if (!next.is_open())
            return fail(disk_error(errno == ELOOP || errno == ENOTDIR ? ENOENT : errno, "cannot open", path));
        at = std::move(next);
        folder = at.fd();
        if (slash == std::string::npos) return at;
        start = slash + 1;
    }
}

}  // namespace gf::checkpoints
