#include "checkpoints/disk.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

namespace gf::checkpoints {

namespace fs = std::filesystem;

File::~File() {
    close();
}
File::File(File&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
File& File::operator=(File&& other) noexcept {
    if (this != &other) {
        close();
        fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
}
void File::close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

Error disk_error(int error_number, std::string_view what, const fs::path& path) {
    ErrorKind kind = ErrorKind::io;
    if (error_number == ENOSPC || error_number == EDQUOT) kind = ErrorKind::full;
    if (error_number == ENOENT) kind = ErrorKind::not_found;
    std::string message{what};
    message += ' ';
    message += path.string();
    message += ": ";
    message += std::generic_category().message(error_number);
    return Error{.kind = kind, .message = std::move(message)};
}

Disk& Disk::real() {
    static Disk disk;
    return disk;
}

Result<File> Disk::create(const fs::path& path) {
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return fail(disk_error(errno, "cannot create", path));
    return File{fd};
}

Result<void> Disk::write(File& file, std::string_view bytes, const fs::path& path) {
    while (!bytes.empty()) {
        const ssize_t n = ::write(file.fd(), bytes.data(), bytes.size());
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail(disk_error(errno, "cannot write", path));
        bytes.remove_prefix(static_cast<std::size_t>(n));
    }
    return {};
}

Result<void> Disk::sync(File& file, const fs::path& path) {
    if (::fsync(file.fd()) != 0) return fail(disk_error(errno, "cannot sync", path));
    return {};
}

Result<void> Disk::sync_directory(const fs::path& path) {
    const File dir{::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    if (!dir.is_open()) return fail(disk_error(errno, "cannot open folder", path));
    // Some network file systems refuse fsync on a directory; there the rename is as durable as it gets.
    if (::fsync(dir.fd()) != 0 && errno != EINVAL) return fail(disk_error(errno, "cannot sync folder", path));
    return {};
}

Result<void> Disk::rename(const fs::path& from, const fs::path& to) {
    if (::rename(from.c_str(), to.c_str()) != 0) return fail(disk_error(errno, "cannot rename to", to));
    return {};
}

Result<void> Disk::exchange(const fs::path& a, const fs::path& b) {
    if (::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0) return {};
    const int error = errno;
    if (error == EINVAL || error == ENOSYS || error == EOPNOTSUPP)
        return fail(ErrorKind::not_yet, "this file system cannot swap two names");
    return fail(disk_error(error, "cannot swap in", b));
}

Result<void> Disk::remove(const fs::path& path) {
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) return fail(disk_error(errno, "cannot remove", path));
    return {};
}

Result<void> Disk::make_directory(const fs::path& path) {
    if (::mkdir(path.c_str(), 0700) == 0) return {};
    const int error = errno;
    struct stat st{};
    if (error == EEXIST && ::stat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode)) return {};
    return fail(disk_error(error, "cannot create folder", path));
}

Result<void> remove_tree(const fs::path& path) {
    std::error_code error;
    fs::remove_all(path, error);
    if (!error) return {};
    // A restored folder may lack our own write bit. Give the folders back to us and try once more.
    std::error_code ignored;
    const auto open_up = [&](const fs::path& folder) {
        fs::permissions(folder, fs::perms::owner_all, fs::perm_options::add | fs::perm_options::nofollow,
                        ignored);
        if (ignored) fs::permissions(folder, fs::perms::owner_all, fs::perm_options::add, ignored);
    };
    if (fs::is_directory(fs::symlink_status(path, ignored))) open_up(path);
    for (auto it =
             fs::recursive_directory_iterator(path, fs::directory_options::skip_permission_denied, ignored);
         !ignored && it != fs::recursive_directory_iterator(); it.increment(ignored)) {
        // The iterator goes down after this, so the folder opens up just before it is entered.
        if (fs::is_directory(it->symlink_status(ignored))) open_up(it->path());
    }
    error.clear();
    fs::remove_all(path, error);
    if (error) return fail(disk_error(error.value(), "cannot remove", path));
    return {};
}

}  // namespace gf::checkpoints
