#include "daemon/ssh/private_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace gf::ssh {
namespace {

std::unexpected<Error> failed(const std::string& what, const std::string& path) {
    const int error = errno;
    const auto kind = error == ENOENT ? ErrorKind::not_found : error == ENOSPC || error == EDQUOT ? ErrorKind::full : ErrorKind::io;
    return fail(kind, "cannot " + what + " " + path + ": " + std::strerror(error));
}

bool write_all(int fd, std::string_view text) {
    while (!text.empty()) {
        const ssize_t n = ::write(fd, text.data(), text.size());
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        text.remove_prefix(static_cast<std::size_t>(n));
    }
    return true;
}

}  // namespace

Result<void> make_private_folder(const std::string& path) {
    std::error_code error;
    std::filesystem::create_directories(path, error);
    if (error) return fail(ErrorKind::io, "cannot make the folder " + path + ": " + error.message());
    if (::chmod(path.c_str(), 0700) != 0) return failed("make private", path);
    return {};
}

Result<void> write_private_file(const std::string& path, std::string_view text) {
    const std::string beside = path + ".new";
    const int fd = ::open(beside.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return failed("write", beside);
    const bool whole = write_all(fd, text) && ::fsync(fd) == 0;
    const int error = errno;
    ::close(fd);
    errno = error;
    if (!whole || ::rename(beside.c_str(), path.c_str()) != 0) return failed("write", path);
    return {};
}

Result<void> make_file_private(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return failed("make private", path);
    const bool done = ::fchmod(fd, 0600) == 0;
    const int error = errno;
    ::close(fd);
    errno = error;
    if (!done) return failed("make private", path);
    return {};
}

Result<std::string> read_small_file(const std::string& path) {
    constexpr std::size_t kBytesMax = 64 * 1024;
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return failed("read", path);
    std::string text(kBytesMax + 1, '\0');
    std::size_t size = 0;
    ssize_t got = 0;
    while (size < text.size()) {
        got = ::read(fd, text.data() + size, text.size() - size);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        size += static_cast<std::size_t>(got);
    }
    const int error = errno;
    ::close(fd);
    errno = error;
    if (got < 0) return failed("read", path);
    if (size > kBytesMax) return fail(ErrorKind::io, path + " is larger than 64 KiB");
    text.resize(size);
    return text;
}

}  // namespace gf::ssh
