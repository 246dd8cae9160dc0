// The daemon's folder: made private, held by one process, with what identifies this installation.
#pragma once
#include <string>

#include "model/result.hpp"
#include "model/secret.hpp"

namespace gf {

class DataDir {
 public:
    /// Creates `path` (0700) if it is missing and takes its lock. Errors: `conflict` when another daemon holds it, `io`.
    static Result<DataDir> open(const std::string& path);
    DataDir(DataDir&& other) noexcept;
    DataDir& operator=(DataDir&&) = delete;
    ~DataDir();

    [[nodiscard]] const std::string& path() const { return path_; }
    /// 8 characters of [a-z0-9], kept in `install_id`; `wanted` other than "auto" is written there and wins.
    Result<std::string> install_id(const std::string& wanted);
    /// 256 random bits as hex, kept in `install_key` (0600): enrol tokens are derived from it.
    Result<Secret> install_key();

 private:
    DataDir(std::string path, int lock) : path_(std::move(path)), lock_(lock) {}
    std::string path_;
    int lock_{-1};
};

/// A configuration or a table as a whole, up to 64 MiB. Errors: `io` with the reason, without the path.
Result<std::string> read_whole_file(const std::string& path);

/// `bytes` bytes of the kernel's randomness as lower-case hex.
[[nodiscard]] std::string random_hex(std::size_t bytes);

}  // namespace gf
