#include "daemon/http/files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>

#include "daemon/http/digest.hpp"
#include "daemon/http/problem.hpp"

namespace gf::http {
namespace {

constexpr std::int64_t kPiece = 256 * 1024;

class FileRange final : public BodyStream {
 public:
    FileRange(File file, std::int64_t from, std::int64_t to) : file_(std::move(file)), at_(from), to_(to) {}

    State next(std::string& out) override {
        if (at_ >= to_) return State::end;
        const auto want = static_cast<std::size_t>(std::min(kPiece, to_ - at_));
        const auto before = out.size();
        out.resize(before + want);
        const auto got = ::pread(file_.fd(), out.data() + before, want, at_);
        out.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
        if (got <= 0) return State::broken;  // an error, or the file was cut while it was sent
        at_ += got;
        return at_ >= to_ ? State::end : State::more;
    }
    [[nodiscard]] bool blocking() const override { return true; }

 private:
    File file_;
    std::int64_t at_;
    std::int64_t to_;
};

}  // namespace

Result<File> open_file(const std::string& path) {
    File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file.is_open()) return fail(checkpoints::disk_error(errno, "open", path));
    return file;
}

Result<std::int64_t> file_size(const File& file) {
    struct stat info {};
    if (::fstat(file.fd(), &info) != 0) return fail(checkpoints::disk_error(errno, "stat", "an open file"));
    return static_cast<std::int64_t>(info.st_size);
}

Result<void> make_folders(const std::string& path) {
    const std::filesystem::path whole(path);
    std::filesystem::path part;
    for (const auto& name : whole) {
        part /= name;
        if (::mkdir(part.c_str(), 0700) == 0 || errno == EEXIST) continue;
        const auto why = errno;
        if (std::error_code ignored; std::filesystem::is_directory(part, ignored)) continue;  // EROFS, EACCES on "/"
        return fail(checkpoints::disk_error(why, "make folder", part));
    }
    return {};
}

std::unique_ptr<BodyStream> file_range(File file, std::int64_t from, std::int64_t to) {
    return std::make_unique<FileRange>(std::move(file), from, to);
}

ByteRange parse_range(std::string_view header, std::int64_t size) {
    const ByteRange whole{.from = 0, .to = size};
    constexpr std::string_view unit = "bytes=";
    if (!header.starts_with(unit)) return whole;
    header.remove_prefix(unit.size());
    const auto dash = header.find('-');
    if (dash == std::string_view::npos || header.find(',') != std::string_view::npos) return whole;
    const auto number = [](std::string_view text) -> std::optional<std::int64_t> {
        std::int64_t value = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (error != std::errc{} || end != text.data() + text.size() || text.starts_with('-')) return std::nullopt;
        return value;
    };
    const auto first = header.substr(0, dash);
    const auto last = header.substr(dash + 1);
    if (first.empty()) {  // the last N bytes
        const auto count = number(last);
        if (!count) return whole;
        if (*count == 0 || size == 0) return {.unsatisfiable = true};
        return {.from = std::max<std::int64_t>(0, size - *count), .to = size, .partial = true};
    }
    const auto from = number(first);
    if (!from) return whole;
    std::int64_t to = size;
    if (!last.empty()) {
        const auto end = number(last);
        if (!end || *end < *from) return whole;
        to = *end >= size ? size : *end + 1;
    }
    if (*from >= size) return {.unsatisfiable = true};
    return {.from = *from, .to = to, .partial = true};
}

Response file_response(File file, std::int64_t size, std::string_view range_header, std::string content_type) {
    const auto range = parse_range(range_header, size);
    if (range.unsatisfiable) {
        auto refused = problem(416, "the range is outside of the " + std::to_string(size) + " bytes");
        refused.headers.emplace_back("Content-Range", "bytes */" + std::to_string(size));
        return refused;
    }
    Response response;
    response.status = range.partial ? 206 : 200;
    response.content_type = std::move(content_type);
    response.headers.emplace_back("Accept-Ranges", "bytes");
    if (range.partial)
        response.headers.emplace_back("Content-Range", "bytes " + std::to_string(range.from) + "-" +
                                                           std::to_string(range.to - 1) + "/" + std::to_string(size));
    response.stream_length = range.to - range.from;
    response.stream = file_range(std::move(file), range.from, range.to);
    return response;
}

FileUpload::FileUpload(std::string final_path, std::string sha256)
    : final_path_(std::move(final_path)), sha256_(std::move(sha256)) {
    // The random part keeps two uploads of one blob apart; the first to finish wins, the other replaces it by the same.
    temporary_ = final_path_ + std::string(kUnfinished) + random_hex(8);
}

FileUpload::~FileUpload() {
    if (file_.is_open()) ::unlink(temporary_.c_str());
}

Result<void> FileUpload::write(std::string_view piece) {
    auto& disk = checkpoints::Disk::real();
    if (!file_.is_open()) {
        auto made = disk.create(temporary_);
        if (!made) return fail(std::move(made).error());
        file_ = *std::move(made);
    }
    hash_.add(piece);
    size_ += static_cast<std::int64_t>(piece.size());
    return disk.write(file_, piece, temporary_);
}

Result<void> FileUpload::finish() {
    if (!file_.is_open()) {  // an empty body: the file of no bytes has a hash as well
        if (auto made = write({}); !made) return made;
    }
    const auto got = hash_.finish().hex();
    if (got != sha256_)
        return fail(ErrorKind::invalid, "the " + std::to_string(size_) + " bytes that came have the SHA-256 " + got +
                                            ", not " + sha256_);
    auto& disk = checkpoints::Disk::real();
    if (auto synced = disk.sync(file_, temporary_); !synced) return synced;
    if (auto renamed = disk.rename(temporary_, final_path_); !renamed) return renamed;
    file_ = File{};
    return disk.sync_directory(std::filesystem::path(final_path_).parent_path());
}

}  // namespace gf::http
