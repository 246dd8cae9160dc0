#include "daemon/data_dir.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

namespace gf {
namespace {

std::string errno_text() { return std::strerror(errno); }

/// Written beside and renamed, so that a crash leaves the old file or the new one.
Result<void> write_private(const std::string& path, const std::string& text) {
    const std::string beside = path + ".new";
    const int fd = ::open(beside.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0) return fail(ErrorKind::io, "cannot write " + beside + ": " + errno_text());
    const bool whole = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) && ::fsync(fd) == 0;
    ::close(fd);
    if (!whole || ::rename(beside.c_str(), path.c_str()) != 0)
        return fail(ErrorKind::io, "cannot write " + path + ": " + errno_text());
    return {};
}

std::string read_line(const std::string& path) {
    std::ifstream in(path);
    std::string line;
    std::getline(in, line);
    return line;
}

bool is_install_id(const std::string& id) {
    return id.size() == 8 && std::ranges::all_of(id, [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); });
}

}  // namespace

std::string random_hex(std::size_t bytes) {
    std::string out;
    while (out.size() < bytes * 2) {
        unsigned char chunk[32];
        const ssize_t got = ::getrandom(chunk, std::min(sizeof chunk, bytes - out.size() / 2), 0);
        if (got < 0) {
            GF_ASSERT(errno == EINTR);
            continue;
        }
        for (ssize_t i = 0; i < got; ++i) {
            constexpr char digits[] = "0123456789abcdef";
            out.push_back(digits[chunk[i] >> 4]);
            out.push_back(digits[chunk[i] & 15]);
        }
    }
    return out;
}

Result<std::string> read_whole_file(const std::string& path) {
    constexpr std::size_t kBytesMax = 64 << 20;
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return fail(ErrorKind::io, "cannot be read: " + errno_text());
    std::string text;
    char piece[64 * 1024];
    ssize_t got = 0;
    while (text.size() <= kBytesMax) {
        got = ::read(fd, piece, sizeof piece);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        text.append(piece, static_cast<std::size_t>(got));
    }
    const auto why = got < 0 ? errno_text() : std::string();
    ::close(fd);
    if (got < 0) return fail(ErrorKind::io, "cannot be read: " + why);
    if (text.size() > kBytesMax) return fail(ErrorKind::io, "is larger than 64 MiB");
    return text;
}

Result<DataDir> DataDir::open(const std::string& path) {
    std::error_code failed;
    const bool made = std::filesystem::create_directories(path, failed);
    if (failed) return fail(ErrorKind::io, "cannot create the data folder " + path + ": " + failed.message());
    if (made) ::chmod(path.c_str(), 0700);
    const std::string lock_path = path + "/lock";
    const int fd = ::open(lock_path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0) return fail(ErrorKind::io, "cannot open " + lock_path + ": " + errno_text());
    if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
        const std::string holder = read_line(lock_path);
        ::close(fd);
        return fail(ErrorKind::conflict, "another gpuferryd (process " + holder + ") already works in " + path);
    }
    const std::string pid = std::to_string(::getpid()) + "\n";
    if (::ftruncate(fd, 0) != 0 || ::write(fd, pid.data(), pid.size()) < 0) {
        ::close(fd);
        return fail(ErrorKind::io, "cannot write " + lock_path + ": " + errno_text());
    }
    return DataDir(path, fd);
}

DataDir::DataDir(DataDir&& other) noexcept : path_(std::move(other.path_)), lock_(std::exchange(other.lock_, -1)) {}

DataDir::~DataDir() {
    if (lock_ >= 0) ::close(lock_);
}

Result<std::string> DataDir::install_id(const std::string& wanted) {
    const std::string path = path_ + "/install_id";
    const std::string stored = read_line(path);
    if (wanted != "auto" && !wanted.empty()) {
        if (stored != wanted)
            if (auto written = write_private(path, wanted + "\n"); !written) return fail(std::move(written).error());
        return wanted;
    }
    if (is_install_id(stored)) return stored;
    if (!stored.empty()) return fail(ErrorKind::io, path + " must hold 8 characters of a-z and 0-9");
    const std::string made = random_hex(4);
    if (auto written = write_private(path, made + "\n"); !written) return fail(std::move(written).error());
    return made;
}

Result<Secret> DataDir::install_key() {
    const std::string path = path_ + "/install_key";
    const std::string stored = read_line(path);
    if (stored.size() == 64) return Secret{stored};
    if (!stored.empty()) return fail(ErrorKind::io, path + " must hold 64 hex characters");
    const std::string made = random_hex(32);
    if (auto written = write_private(path, made + "\n"); !written) return fail(std::move(written).error());
    return Secret{made};
}

}  // namespace gf
