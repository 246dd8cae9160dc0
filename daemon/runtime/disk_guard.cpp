#include "daemon/runtime/disk_guard.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace gf {

DiskGuard::DiskGuard(std::string dir) : dir_(std::move(dir)), path_(dir_ + "/ballast") { restore_ballast(); }

std::int64_t DiskGuard::free_bytes() const {
    struct statvfs info {};
    if (::statvfs(dir_.c_str(), &info) != 0) return 0;
    return static_cast<std::int64_t>(info.f_bavail) * static_cast<std::int64_t>(info.f_frsize);
}

bool DiskGuard::accepts_work() const { return free_bytes() >= 2 * kBallast; }

bool DiskGuard::drop_ballast() { return ::unlink(path_.c_str()) == 0; }

void DiskGuard::restore_ballast() {
    struct stat info {};
    if (::stat(path_.c_str(), &info) == 0 && info.st_size == kBallast) return;
    if (free_bytes() < 4 * kBallast) return;
    const int fd = ::open(path_.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0) return;
    if (::posix_fallocate(fd, 0, kBallast) != 0) ::unlink(path_.c_str());
    ::close(fd);
}

}  // namespace gf
