#include "agent/descriptor.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace gf::agent {

void Descriptor::reset(int fd) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
}

std::string read_small_file(const std::string& path, std::size_t limit) {
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    std::string out;
    if (!file) return out;
    char buffer[8192];
    while (out.size() < limit) {
        const auto got = ::read(file.get(), buffer, sizeof buffer);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        out.append(buffer, static_cast<std::size_t>(got));
    }
    if (out.size() > limit) out.resize(limit);
    return out;
}

Error system_error(std::string_view what, std::string_view path) {
    const int number = errno;
    ErrorKind kind = ErrorKind::io;
    if (number == ENOSPC || number == EDQUOT) kind = ErrorKind::full;
    if (number == ENOENT) kind = ErrorKind::not_found;
    return Error{.kind = kind,
                 .message = std::string(what) + " " + std::string(path) + ": " + std::strerror(number)};
}

Result<void> replace_file(const std::string& path, std::string_view bytes, unsigned mode) {
    const std::string beside = path + ".new";
    {
        Descriptor file(::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode));
        if (!file) return fail(system_error("create", beside));
        while (!bytes.empty()) {
            const auto put = ::write(file.get(), bytes.data(), bytes.size());
            if (put < 0 && errno == EINTR) continue;
            if (put < 0) {
                const Error error = system_error("write", beside);
                ::unlink(beside.c_str());
                return fail(error);
            }
            bytes.remove_prefix(static_cast<std::size_t>(put));
        }
    }
    if (std::rename(beside.c_str(), path.c_str()) != 0) return fail(system_error("rename", path));
    return {};
}

}  // namespace gf::agent
