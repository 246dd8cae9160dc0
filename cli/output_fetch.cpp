#include "cli/output_fetch.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "cli/exit_code.hpp"

namespace gf::cli {
namespace {

constexpr std::size_t kNamedMax = 10;

/// A file descriptor that closes itself.
class Fd {
 public:
    explicit Fd(int fd = -1) : fd_(fd) {}
    Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Fd& operator=(Fd&& other) noexcept {
        std::swap(fd_, other.fd_);
        return *this;
    }
    ~Fd() {
        if (fd_ >= 0) close(fd_);
    }
    [[nodiscard]] int get() const { return fd_; }

 private:
    int fd_;
};

class Sha256 {
 public:
    Sha256() { EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr); }
    void add(std::string_view bytes) { EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()); }
    std::string hex() {
        std::array<unsigned char, 32> sum{};
        EVP_DigestFinal_ex(context_.get(), sum.data(), nullptr);
        std::string text;
        for (const unsigned char byte : sum) text += fmt::format("{:02x}", byte);
        return text;
    }

 private:
    struct Free {
        void operator()(EVP_MD_CTX* c) const { EVP_MD_CTX_free(c); }
    };
    std::unique_ptr<EVP_MD_CTX, Free> context_{EVP_MD_CTX_new()};
};

std::string reason() {
    return std::strerror(errno);
}

/// Opens the folder of `path` below `root`, making what is missing; with `look` a missing one is no folder
/// (-1). Each step is taken by its own openat without following links, so that a link inside the folder
/// cannot lead the files elsewhere.
Outcome<Fd> open_parent(int root, const std::string& path, bool look = false) {
    Fd at(openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    std::string_view rest = path;
    for (auto slash = rest.find('/'); slash != std::string_view::npos; slash = rest.find('/')) {
        const std::string part(rest.substr(0, slash));
        rest.remove_prefix(slash + 1);
        if (!look && mkdirat(at.get(), part.c_str(), 0777) != 0 && errno != EEXIST)
            return failed(kExitRefused, fmt::format("cannot make the folder of {}: {}", path, reason()));
        Fd next(openat(at.get(), part.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
        if (look && next.get() < 0 && errno == ENOENT) return next;
        if (next.get() < 0)
            return failed(kExitRefused,
                          fmt::format("{} is not written: {} is a link or not a folder", path, part));
        at = std::move(next);
    }
    return at;
}

bool holds_already(int folder, const std::string& name, const OutputFile& file) {
    const Fd fd(openat(folder, name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    struct stat info{};
    if (fd.get() < 0 || fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_size != file.size)
        return false;
    Sha256 hash;
    std::array<char, 1 << 16> buffer{};
    while (true) {
        const auto got = read(fd.get(), buffer.data(), buffer.size());
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return false;
        if (got == 0) break;
        hash.add(std::string_view(buffer.data(), static_cast<std::size_t>(got)));
    }
    return hash.hex() == file.sha256;
}

std::string name_of(const OutputFile& file) {
    const auto slash = file.path.rfind('/');
    return slash == std::string::npos ? file.path : file.path.substr(slash + 1);
}

/// Which of the files are there already, looked at before anything is written. Without `force` a file, link
/// or folder of another content in a file's place is a failure that names all of them.
Outcome<std::vector<bool>> look_around(int root, const std::vector<OutputFile>& files, bool force) {
    std::vector<bool> there;
    std::string others;
    std::size_t others_count = 0;
    for (const auto& file : files) {
        auto parent = open_parent(root, file.path, true);
        if (!parent) return std::unexpected(std::move(parent).error());
        const auto name = name_of(file);
        there.push_back(parent->get() >= 0 && holds_already(parent->get(), name, file));
        struct stat info{};
        if (there.back() || parent->get() < 0 ||
            fstatat(parent->get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        if (others_count++ < kNamedMax) others += (others.empty() ? "" : ", ") + file.path;
    }
    if (others_count == 0 || force) return there;
    if (others_count > kNamedMax) others += fmt::format(" and {} more", others_count - kNamedMax);
    return failed(
        kExitRefused,
        fmt::format("already there with other content: {}; nothing was fetched (--force replaces)", others));
}

bool write_all(int fd, std::string_view bytes) {
    while (!bytes.empty()) {
        const auto wrote = write(fd, bytes.data(), bytes.size());
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0) return false;
        bytes.remove_prefix(static_cast<std::size_t>(wrote));
    }
    return true;
}

/// One file into `name` of `folder`, by way of `temporary`.
Outcome<void> fetch_one(Client& client, const OutputFile& file, int folder, const std::string& name,
                        const std::string& temporary,
                        const std::function<void(const OutputFile&, std::int64_t)>& progress) {
    const mode_t mode = file.executable ? 0777 : 0666;
    unlinkat(folder, temporary.c_str(), 0);  // left by a process of the same number that was killed
    const Fd fd(
        openat(folder, temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode));
    if (fd.get() < 0) return failed(kExitRefused, fmt::format("cannot write {}: {}", file.path, reason()));
    Sha256 hash;
    std::int64_t size = 0;
    std::string disk_error;
    Call call{.path = file.url, .total = std::chrono::milliseconds{0}};
    call.sink = [&](std::string_view bytes) {
        size += static_cast<std::int64_t>(bytes.size());
        if (size > file.size) return false;  // longer than the manifest says: no need to read on
        hash.add(bytes);
        if (!write_all(fd.get(), bytes)) {
            disk_error = reason();
            return false;
        }
        if (progress) progress(file, size);
        return true;
    };
    auto answer = client.send(call);
    if (!answer) return std::unexpected(std::move(answer).error());
    if (!disk_error.empty())
        return failed(kExitRefused, fmt::format("cannot write {}: {}", file.path, disk_error));
    if (answer->status >= 300) return std::unexpected(refusal(*answer, "GET " + file.url));
    if (answer->stopped && size <= file.size) return failed(kExitInterrupted, "interrupted");
    if (size != file.size)
        return failed(kExitRefused,
                      fmt::format("{}: {} bytes came, the manifest says {}; not kept", file.path,
                                  size > file.size ? "more" : std::to_string(size), file.size));
    if (const auto got = hash.hex(); got != file.sha256)
        return failed(kExitRefused, fmt::format("{}: SHA-256 is {}, the manifest says {}; not kept",
                                                file.path, got, file.sha256));
    if (fsync(fd.get()) != 0)
        return failed(kExitRefused, fmt::format("cannot write {}: {}", file.path, reason()));
    if (renameat(folder, temporary.c_str(), folder, name.c_str()) != 0)
        return failed(kExitRefused, fmt::format("cannot put {} in its place: {}", file.path, reason()));
    return {};
}

}  // namespace

bool safe_relative_path(std::string_view path) {
    if (path.empty() || path.size() > 4096 || path.find('\0') != std::string_view::npos) return false;
    while (true) {
        const auto slash = path.find('/');
        const auto part = path.substr(0, slash);
        if (part.empty() || part == "." || part == ".." || part.size() > 255) return false;
        if (slash == std::string_view::npos) return true;
        path.remove_prefix(slash + 1);
    }
}

Outcome<Fetched> fetch_outputs(Client& client, const std::vector<OutputFile>& files,
                               const std::string& folder, bool force,
                               const std::function<void(const OutputFile&, std::int64_t)>& progress) {
    // All names are judged before the first byte is fetched, so that a bad list leaves nothing half done.
    for (const auto& file : files)
        if (!safe_relative_path(file.path) || file.size < 0 || file.sha256.size() != 64)
            return failed(
                kExitRefused,
                fmt::format("the list of outputs has an entry that cannot be written: \"{}\"", file.path));
    if (mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST)
        return failed(kExitRefused, fmt::format("cannot make {}: {}", folder, reason()));
    const Fd root(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (root.get() < 0) return failed(kExitRefused, fmt::format("cannot open {}: {}", folder, reason()));
    const auto there = look_around(root.get(), files, force);
    if (!there) return std::unexpected(there.error());
    Fetched done;
    for (const auto& file : files) {
        const bool kept = (*there)[static_cast<std::size_t>(done.files)];
        ++done.files;
        done.bytes += file.size;
        if (kept) {
            ++done.kept;
            continue;
        }
        auto parent = open_parent(root.get(), file.path);
        if (!parent) return std::unexpected(std::move(parent).error());
        const auto name = name_of(file);
        const auto temporary = fmt::format(".gpuferry-{}-{}", getpid(), done.files);
        if (auto ok = fetch_one(client, file, parent->get(), name, temporary, progress); !ok) {
            unlinkat(parent->get(), temporary.c_str(), 0);
            return std::unexpected(std::move(ok).error());
        }
    }
    return done;
}

}  // namespace gf::cli
