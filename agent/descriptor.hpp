// An owned file descriptor, and reading whole small files such as those of /proc.
#pragma once
#include <string>
#include <string_view>

#include "model/result.hpp"

namespace gf::agent {

class Descriptor {
 public:
    Descriptor() = default;
    explicit Descriptor(int fd) : fd_(fd) {}
    ~Descriptor() { reset(); }
    Descriptor(Descriptor&& other) noexcept : fd_(other.release()) {}
    Descriptor& operator=(Descriptor&& other) noexcept {
        if (this != &other) reset(other.release());
        return *this;
    }
    [[nodiscard]] int get() const { return fd_; }
    [[nodiscard]] explicit operator bool() const { return fd_ >= 0; }
    int release() {
        const int fd = fd_;
        fd_ = -1;
        return fd;
    }
    void reset(int fd = -1);

 private:
    int fd_{-1};
};

/// The file's bytes, at most `limit` of them; empty if it cannot be read. For /proc and small files of our own.
[[nodiscard]] std::string read_small_file(const std::string& path, std::size_t limit = 1 << 20);
/// Writes beside and renames, so that a killed agent leaves the old file or the new one. Errors: `io`, `full`.
Result<void> replace_file(const std::string& path, std::string_view bytes, unsigned mode = 0600);
/// "what path: reason" from errno; ENOSPC and EDQUOT are `full`, ENOENT `not_found`.
[[nodiscard]] Error system_error(std::string_view what, std::string_view path);

}  // namespace gf::agent
