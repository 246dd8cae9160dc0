#include "cli/code_folder.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "cli/exit_code.hpp"
#include "cli/ignore_rules.hpp"
#include "cli/tar_writer.hpp"
#include "model/bytes.hpp"

extern char** environ;

namespace gf::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kDepthMax = 64;
constexpr std::size_t kFilesMax = 500'000;
constexpr std::size_t kNotesMax = 10;
constexpr std::size_t kListingBytesMax = 256 << 20;
constexpr std::size_t kIgnoreFileBytesMax = 1 << 20;

void note(std::vector<std::string>& notes, std::string text) {
    if (notes.size() < kNotesMax)
        notes.push_back(std::move(text));
    else if (notes.size() == kNotesMax)
        notes.emplace_back("further files were left out");
}

/// Runs git without a shell and answers its standard output; nothing if git is not there or says no.
std::optional<std::string> run_git(std::vector<std::string> arguments) {
    std::array<int, 2> pipe_ends{};
    if (pipe2(pipe_ends.data(), O_CLOEXEC) != 0) return std::nullopt;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], 1);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    std::vector<char*> argv;
    arguments.insert(arguments.begin(), "git");
    for (auto& a : arguments) argv.push_back(a.data());
    argv.push_back(nullptr);
    // Inside a git hook GIT_DIR and its kind point at another repository than the folder's own.
    std::vector<char*> variables;
    for (char** v = environ; *v != nullptr; ++v)
        if (std::strncmp(*v, "GIT_", 4) != 0) variables.push_back(*v);
    variables.push_back(nullptr);
    pid_t pid = -1;
    const int spawned = posix_spawnp(&pid, "git", &actions, nullptr, argv.data(), variables.data());
    posix_spawn_file_actions_destroy(&actions);
    close(pipe_ends[1]);
    std::string out;
    if (spawned == 0) {
        std::array<char, 65536> buffer{};
        while (out.size() < kListingBytesMax) {
            const auto got = read(pipe_ends[0], buffer.data(), buffer.size());
            if (got < 0 && errno == EINTR) continue;
            if (got <= 0) break;
            out.append(buffer.data(), static_cast<std::size_t>(got));
        }
    }
    close(pipe_ends[0]);
    if (spawned != 0) return std::nullopt;
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return std::nullopt;
    return out;
}

/// Adds what git lists in `root/below`; submodules and nested repositories are listed by git itself in turn.
bool list_by_git(const std::string& root, const std::string& below, int depth,
                 std::vector<std::string>& paths) {
    const auto folder = below.empty() ? root : root + "/" + below;
    const auto listed = run_git({"-C", folder, "ls-files", "-co", "--exclude-standard", "-z"});
    if (!listed) return false;
    std::string_view rest = *listed;
    while (!rest.empty() && paths.size() <= kFilesMax) {
        const auto end = rest.find('\0');
        std::string name(rest.substr(0, end));
        rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
        while (name.ends_with('/')) name.pop_back();
        if (name.empty()) continue;
        const auto path = below.empty() ? name : below + "/" + name;
        struct stat info{};
        if (lstat((root + "/" + path).c_str(), &info) != 0) continue;  // deleted but still in the index
        if (S_ISDIR(info.st_mode)) {
            if (depth < kDepthMax) list_by_git(root, path, depth + 1, paths);
        } else {
            paths.push_back(path);
        }
    }
    return true;
}

std::string read_ignore_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::string text(kIgnoreFileBytesMax, '\0');
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0)));
    return text;
}

Outcome<void> walk(const std::string& root, const std::string& below, int depth, IgnoreRules& rules,
                   std::vector<std::string>& paths) {
    const auto folder = below.empty() ? root : root + "/" + below;
    if (depth > kDepthMax)
        return failed(kExitRefused, fmt::format("{} is more than {} folders deep", folder, kDepthMax));
    std::error_code error;
    std::vector<std::string> names;
    for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
        names.push_back(it->path().filename().string());
    if (error) return failed(kExitRefused, fmt::format("cannot read {}: {}", folder, error.message()));
    std::sort(names.begin(), names.end());
    if (std::binary_search(names.begin(), names.end(), ".gitignore"))
        rules.add(below, read_ignore_file(folder + "/.gitignore"));
    for (const auto& name : names) {
        if (name == ".git") continue;
        const auto path = below.empty() ? name : below + "/" + name;
        struct stat info{};
        if (lstat((root + "/" + path).c_str(), &info) != 0) continue;
        const bool is_directory = S_ISDIR(info.st_mode);
        if (rules.ignored(path, is_directory)) continue;
        if (is_directory) {
            if (auto ok = walk(root, path, depth + 1, rules, paths); !ok) return ok;
        } else {
            paths.push_back(path);
        }
        if (paths.size() > kFilesMax)
            return failed(kExitRefused, fmt::format("{} holds more than {} files", root, kFilesMax));
    }
    return {};
}

/// Whether a link that lies at `path` leads out of the folder. Judged by its text: the target need not exist
/// here.
bool leads_out(const std::string& path, const std::string& target) {
    if (target.empty() || target.front() == '/') return true;
    int depth = static_cast<int>(std::count(path.begin(), path.end(), '/'));
    std::stringstream parts(target);
    for (std::string part; std::getline(parts, part, '/');) {
        if (part == "..")
            --depth;
        else if (!part.empty() && part != ".")
            ++depth;
        if (depth < 0) return true;
    }
    return false;
}

struct Item {
    TarEntry entry;
    std::string path;  // on disk
};

/// What is sent: files and links that stay inside; everything else is noted.
std::vector<Item> items_of(const std::string& root, CodeListing& listing) {
    std::vector<Item> items;
    for (const auto& name : listing.paths) {
        Item item{.entry = {.name = name}, .path = root + "/" + name};
        struct stat info{};
        if (lstat(item.path.c_str(), &info) != 0) continue;
        item.entry.mtime_s = info.st_mtim.tv_sec;
        if (S_ISREG(info.st_mode)) {
            item.entry.size = info.st_size;
            item.entry.executable = (info.st_mode & S_IXUSR) != 0;
        } else if (S_ISLNK(info.st_mode)) {
            std::error_code error;
            item.entry.kind = TarKind::link;
            item.entry.target = fs::read_symlink(item.path, error).string();
            if (error || leads_out(name, item.entry.target)) {
                note(listing.notes, fmt::format("left out {}: the link leads out of the folder ({})", name,
                                                item.entry.target));
                continue;
            }
        } else {
            note(listing.notes, fmt::format("left out {}: neither a file nor a link", name));
            continue;
        }
        items.push_back(std::move(item));
    }
    return items;
}

Outcome<void> size_check(const std::vector<Item>& items, const std::string& root) {
    std::int64_t total = 0;
    for (const auto& item : items) total += item.entry.size + 1024;
    if (total <= kCodeBytesMax) return {};
    std::vector<const Item*> largest;
    for (const auto& item : items) largest.push_back(&item);
    const auto count = std::min<std::size_t>(3, largest.size());
    std::partial_sort(largest.begin(), largest.begin() + static_cast<std::ptrdiff_t>(count), largest.end(),
                      [](const Item* a, const Item* b) { return a->entry.size > b->entry.size; });
    std::string names;
    for (std::size_t i = 0; i < count; ++i)
        names += fmt::format("\n  {}  {}", bytes_text(Bytes{largest[i]->entry.size}), largest[i]->entry.name);
    return failed(kExitRefused,
                  fmt::format("the code folder {} has {}, the limit is 4 GiB ({} bytes); put data into "
                              ".gitignore and send it another way. The largest files:{}",
                              root, bytes_text(Bytes{total}), kCodeBytesMax, names));
}

Outcome<void> add_file(TarWriter& tar, const Item& item, const std::atomic<bool>* interrupted) {
    const int fd = open(item.path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return failed(kExitRefused, fmt::format("cannot read {}: {}", item.path, std::strerror(errno)));
    std::array<char, 1 << 16> buffer{};
    std::int64_t left = item.entry.size;
    Outcome<void> result;
    while (left > 0 && result) {
        if (interrupted != nullptr && *interrupted) {
            result = failed(kExitInterrupted, "interrupted; nothing was handed in");
            break;
        }
        const auto want =
            static_cast<std::size_t>(std::min<std::int64_t>(left, static_cast<std::int64_t>(buffer.size())));
        const auto got = read(fd, buffer.data(), want);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) {
            result = failed(kExitRefused,
                            fmt::format("{} became shorter while it was read; try again", item.path));
            break;
        }
        left -= got;
        result = tar.data(std::string_view(buffer.data(), static_cast<std::size_t>(got)));
    }
    close(fd);
    return result;
}

}  // namespace

Outcome<CodeListing> list_code(const std::string& folder) {
    struct stat info{};
    if (stat(folder.c_str(), &info) != 0)
        return failed(kExitRefused,
                      fmt::format("code: cannot read the folder {}: {}", folder, std::strerror(errno)));
    if (!S_ISDIR(info.st_mode)) return failed(kExitRefused, fmt::format("code: {} is not a folder", folder));
    CodeListing listing;
    const auto inside = run_git({"-C", folder, "rev-parse", "--is-inside-work-tree"});
    if (inside && inside->starts_with("true")) listing.by_git = list_by_git(folder, "", 0, listing.paths);
    // A folder that the repository around it ignores as a whole lists as empty, yet it was named on purpose.
    if (!listing.by_git || listing.paths.empty()) {
        listing.by_git = false;
        listing.paths.clear();
        IgnoreRules rules;
        if (auto ok = walk(folder, "", 0, rules, listing.paths); !ok) return std::unexpected(ok.error());
    }
    if (listing.paths.size() > kFilesMax)
        return failed(kExitRefused, fmt::format("{} holds more than {} files", folder, kFilesMax));
    std::sort(listing.paths.begin(), listing.paths.end());
    listing.paths.erase(std::unique(listing.paths.begin(), listing.paths.end()), listing.paths.end());
    return listing;
}

Outcome<CodePack> pack_code(const std::string& folder, const std::string& tar_path,
                            const std::atomic<bool>* interrupted) {
    auto listing = list_code(folder);
    if (!listing) return std::unexpected(std::move(listing).error());
    const auto items = items_of(folder, *listing);
    if (items.empty()) return failed(kExitRefused, fmt::format("code: nothing to send in {}", folder));
    if (auto ok = size_check(items, folder); !ok) return std::unexpected(ok.error());
    auto tar = TarWriter::create(tar_path);
    if (!tar) return std::unexpected(std::move(tar).error());
    for (const auto& item : items) {
        if (auto ok = tar->begin(item.entry); !ok) return std::unexpected(ok.error());
        if (item.entry.kind != TarKind::file) continue;
        if (auto ok = add_file(*tar, item, interrupted); !ok) return std::unexpected(ok.error());
    }
    if (interrupted != nullptr && *interrupted)
        return failed(kExitInterrupted, "interrupted; nothing was handed in");
    auto sha256 = tar->finish();
    if (!sha256) return std::unexpected(std::move(sha256).error());
    return CodePack{.sha256 = *std::move(sha256),
                    .bytes = tar->bytes(),
                    .files = static_cast<int>(items.size()),
                    .notes = std::move(listing->notes)};
}

}  // namespace gf::cli
