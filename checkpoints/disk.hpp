// The few file operations that checkpoints depend on for their promises, in one place, so that tests can make
// the nth of them fail or stop the process there. ENOSPC and EDQUOT become `full`, ENOENT `not_found`, all
// else `io`.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "model/result.hpp"

namespace gf::checkpoints {

/// An owned descriptor; closed when it goes.
class File {
 public:
    File() = default;
    explicit File(int fd) : fd_(fd) {}
    ~File();
    File(File&& other) noexcept;
    File& operator=(File&& other) noexcept;
    [[nodiscard]] int fd() const { return fd_; }
    [[nodiscard]] bool is_open() const { return fd_ >= 0; }
    void close();

 private:
    int fd_{-1};
};

/// Blocking. The base class works on the real file system; there is one shared instance, `Disk::real()`.
class Disk {
 public:
    virtual ~Disk() = default;
    [[nodiscard]] static Disk& real();

    virtual Result<File> create(const std::filesystem::path& path);  // new file, mode 0600, must not exist
    virtual Result<void> write(File& file, std::string_view bytes,
                               const std::filesystem::path& path);  // all of them
    virtual Result<void> sync(File& file, const std::filesystem::path& path);
    virtual Result<void> sync_directory(const std::filesystem::path& path);
    virtual Result<void> rename(const std::filesystem::path& from, const std::filesystem::path& to);
    /// Swaps two names in one step. `not_yet` where the file system cannot.
    virtual Result<void> exchange(const std::filesystem::path& a, const std::filesystem::path& b);
    virtual Result<void> remove(const std::filesystem::path& path);          // a file; absent is success
    virtual Result<void> make_directory(const std::filesystem::path& path);  // one level; present is success
};

/// Removes a folder and all below it, also where its modes forbid it to us. Absent is success. Follows no
/// link.
Result<void> remove_tree(const std::filesystem::path& path);

/// Error from errno: kind as above, "what path: reason".
[[nodiscard]] Error disk_error(int error_number, std::string_view what, const std::filesystem::path& path);

}  // namespace gf::checkpoints
