#include "agent/spool.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>

namespace gf::agent {
namespace {

constexpr std::string_view kSuffix = ".seg";

std::string segment_path(const std::string& folder, std::int64_t start) {
    char name[40];
    std::snprintf(name, sizeof name, "/%020lld.seg", static_cast<long long>(start));
    return folder + name;
}

}  // namespace

SpoolLimits spool_limits(std::int64_t log_bytes_max) {
    const std::int64_t all = std::max<std::int64_t>(log_bytes_max, 4096);
    const std::int64_t tail = std::min<std::int64_t>(all / 4, 64 << 20);
    return {.head_max = all - tail,
            .tail_max = tail,
            .segment_max = std::clamp<std::int64_t>(tail / 8, 1024, 4 << 20)};
}

void SpoolWriter::append(std::string_view bytes) {
    while (!bytes.empty()) {
        if (!segment_) open_segment();
        std::int64_t room = limits_.segment_max - segment_size_;
        if (segment_start_ < limits_.head_max)
            room = std::min(room, limits_.head_max - segment_start_ - segment_size_);
        const auto want = static_cast<std::size_t>(std::min<std::int64_t>(room, static_cast<std::int64_t>(bytes.size())));
        std::int64_t put = -1;
        if (segment_) {
            do put = ::write(segment_.get(), bytes.data(), want);
            while (put < 0 && errno == EINTR);
        }
        if (put < 0) {
            // The disk is full or gone. The job must not hang on its own output, so these bytes become a hole and the
            // next ones are tried in a segment of their own.
            if (segment_ && segment_size_ == 0) {
                // Else every line of a job on a full disk would leave a file without a byte.
                ::unlink(segment_path(folder_, segment_start_).c_str());
                segment_.reset();
            }
            close_segment();
            size_ += static_cast<std::int64_t>(bytes.size());
            return;
        }
        size_ += put;
        segment_size_ += put;
        bytes.remove_prefix(static_cast<std::size_t>(put));
        if (segment_size_ >= limits_.segment_max || segment_start_ + segment_size_ == limits_.head_max) close_segment();
    }
}

void SpoolWriter::sync() {
    if (segment_) ::fdatasync(segment_.get());
}

void SpoolWriter::open_segment() {
    segment_start_ = size_;
    segment_size_ = 0;
    const auto path = segment_path(folder_, size_);
    segment_.reset(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
}

void SpoolWriter::close_segment() {
    if (segment_ && segment_start_ >= limits_.head_max) {
        tail_[segment_start_] = segment_size_;
        tail_bytes_ += segment_size_;
    }
    segment_.reset();
    drop_old_tail();
}

void SpoolWriter::drop_old_tail() {
    // Room for the segment that comes next counts too. The newest closed one stays whatever its size, so that the tail is
    // never empty.
    while (tail_bytes_ > limits_.tail_max - limits_.segment_max && tail_.size() > 1) {
        const auto oldest = tail_.begin();
        ::unlink(segment_path(folder_, oldest->first).c_str());
        tail_bytes_ -= oldest->second;
        tail_.erase(oldest);
    }
}

std::map<std::int64_t, std::int64_t> SpoolReader::segments() const {
    std::map<std::int64_t, std::int64_t> found;
    DIR* folder = ::opendir(folder_.c_str());
    if (!folder) return found;
    while (const dirent* entry = ::readdir(folder)) {
        const std::string_view name = entry->d_name;
        if (!name.ends_with(kSuffix)) continue;
        std::int64_t start = 0;
        const auto digits = name.substr(0, name.size() - kSuffix.size());
        if (std::from_chars(digits.data(), digits.data() + digits.size(), start).ec != std::errc{}) continue;
        struct stat st{};
        if (::stat((folder_ + "/" + entry->d_name).c_str(), &st) == 0) found[start] = st.st_size;
    }
    ::closedir(folder);
    return found;
}

std::optional<SpoolPiece> SpoolReader::read(std::int64_t from, std::size_t most) const {
    for (const auto& [start, size] : segments()) {
        if (start + size <= from) continue;
        SpoolPiece piece{.offset = std::max(from, start), .bytes = {}};
        const Descriptor file(::open(segment_path(folder_, start).c_str(), O_RDONLY | O_CLOEXEC));
        if (!file) continue;  // dropped by the quota since the folder was read: the next one is the first now
        piece.bytes.resize(std::min(most, static_cast<std::size_t>(start + size - piece.offset)));
        const auto got = ::pread(file.get(), piece.bytes.data(), piece.bytes.size(), piece.offset - start);
        if (got <= 0) continue;
        piece.bytes.resize(static_cast<std::size_t>(got));
        return piece;
    }
    return std::nullopt;
}

std::int64_t SpoolReader::end() const {
    const auto found = segments();
    return found.empty() ? 0 : found.rbegin()->first + found.rbegin()->second;
}

void SpoolReader::discard_before(std::int64_t offset) const {
    const auto found = segments();
    if (found.size() <= 2) return;
    auto left = found.size();
    for (const auto& [start, size] : found) {
        if (left <= 2 || start + size > offset) return;
        ::unlink(segment_path(folder_, start).c_str());
        --left;
    }
}

std::string SpoolReader::last_bytes(std::size_t most) const {
    std::string out;
    std::int64_t at = std::max<std::int64_t>(0, end() - static_cast<std::int64_t>(most));
    while (out.size() < most) {
        auto piece = read(at, most - out.size());
        if (!piece) break;
        at = piece->offset + static_cast<std::int64_t>(piece->bytes.size());
        out += piece->bytes;
    }
    return out;
}

}  // namespace gf::agent
