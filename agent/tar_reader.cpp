#include "agent/tar_reader.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <optional>
#include <vector>

namespace gf::agent {
namespace {

constexpr std::size_t kBlock = 512;
constexpr std::size_t kMetaMax = 1 << 20;  // a pax header or a long name beyond this is no honest one
constexpr std::string_view kZstdMagic = "\x28\xB5\x2F\xFD";

Error refused(std::string message) { return Error{.kind = ErrorKind::invalid, .message = "code archive: " + std::move(message)}; }

std::string_view text_field(std::string_view block, std::size_t at, std::size_t size) {
    const auto field = block.substr(at, size);
    return field.substr(0, std::min(field.find('\0'), field.size()));
}

/// Octal text, or GNU's base 256 for what does not fit.
std::optional<std::int64_t> number_field(std::string_view block, std::size_t at, std::size_t size) {
    const auto field = block.substr(at, size);
    if ((static_cast<unsigned char>(field[0]) & 0x80U) != 0) {
        std::int64_t value = static_cast<unsigned char>(field[0]) & 0x3FU;
        for (const char c : field.substr(1)) {
            if (value > (INT64_MAX >> 8)) return std::nullopt;
            value = (value << 8) | static_cast<unsigned char>(c);
        }
        return value;
    }
    std::int64_t value = 0;
    bool any = false;
    for (const char c : field) {
        if (c == '\0' || (c == ' ' && any)) break;
        if (c == ' ') continue;
        if (c < '0' || c > '7') return std::nullopt;
        value = value * 8 + (c - '0');
        any = true;
    }
    return value;
}

std::optional<std::vector<std::string_view>> safe_parts(std::string_view path) {
    if (path.empty() || path.front() == '/') return std::nullopt;
    std::vector<std::string_view> parts;
    while (!path.empty()) {
        const auto end = std::min(path.find('/'), path.size());
        const auto part = path.substr(0, end);
        path.remove_prefix(std::min(end + 1, path.size()));
        if (part.empty() || part == ".") continue;
        if (part == ".." || part.size() > 255) return std::nullopt;
        parts.push_back(part);
    }
    return parts;
}

/// Does a link at `path` with this target stay below the root? Judged by the text: since nothing is ever written through a
/// link, that is enough for us, and it keeps the job's own tools from being led outside by a foreign archive.
bool link_stays_inside(std::string_view path, std::string_view target) {
    if (target.empty() || target.front() == '/') return false;
    auto depth = static_cast<std::int64_t>(std::ranges::count(path, '/'));
    while (!target.empty()) {
        const auto end = std::min(target.find('/'), target.size());
        const auto part = target.substr(0, end);
        target.remove_prefix(std::min(end + 1, target.size()));
        if (part == "..") {
            if (--depth < 0) return false;
        } else if (!part.empty() && part != ".") {
            ++depth;
        }
    }
    return true;
}

std::string normal_path(const std::vector<std::string_view>& parts) {
    std::string out;
    for (const auto part : parts) {
        if (!out.empty()) out += '/';
        out += part;
    }
    return out;
}

}  // namespace

struct TarReader::Header {
    char type{'0'};
    std::string path;  // normal form
    std::string link;
    mode_t mode{0644};
    std::int64_t size{0};
    std::int64_t mtime{0};
};

class TarReader::Inflate {
 public:
    Inflate() : context_(ZSTD_createDCtx()) { ZSTD_DCtx_setParameter(context_, ZSTD_d_windowLogMax, 27); }
    ~Inflate() { ZSTD_freeDCtx(context_); }
    Inflate(const Inflate&) = delete;
    Inflate& operator=(const Inflate&) = delete;
    template <class Take>
    Result<void> feed(std::string_view bytes, Take take) {
        std::string out(ZSTD_DStreamOutSize(), '\0');
        ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
        while (true) {
            ZSTD_outBuffer to{out.data(), out.size(), 0};
            const auto left = ZSTD_decompressStream(context_, &to, &in);
            if (ZSTD_isError(left) != 0) return fail(refused(std::string("zstd: ") + ZSTD_getErrorName(left)));
            whole_ = left == 0;
            auto taken = take(std::string_view(out.data(), to.pos));
            if (!taken) return taken;
            if (in.pos == in.size && to.pos < to.size) return {};
        }
    }
    [[nodiscard]] bool whole() const { return whole_; }

 private:
    ZSTD_DCtx* context_;
    bool whole_{false};
};

TarReader::TarReader(const std::string& folder, TarLimits limits)
    : root_path_(folder), root_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)), limits_(limits) {}
TarReader::~TarReader() = default;

Result<void> TarReader::feed(std::string_view bytes) {
    if (!root_) return fail(ErrorKind::io, "code archive: cannot open " + root_path_);
    if (!probed_) {
        probe_ += bytes;
        if (probe_.size() < kZstdMagic.size()) return {};
        probed_ = true;
        if (std::string_view(probe_).starts_with(kZstdMagic)) inflate_ = std::make_unique<Inflate>();
        const std::string first = std::move(probe_);
        return feed(first);
    }
    if (inflate_) return inflate_->feed(bytes, [this](std::string_view plain) { return feed_plain(plain); });
    return feed_plain(bytes);
}

Result<void> TarReader::feed_plain(std::string_view bytes) {
    while (!bytes.empty()) {
        if (ended_) return {};  // whatever follows the end marker is padding
        if (data_left_ > 0) {
            const auto now = bytes.substr(0, static_cast<std::size_t>(std::min<std::int64_t>(
                                                 data_left_, static_cast<std::int64_t>(bytes.size()))));
            auto taken = take_data(now);
            if (!taken) return taken;
            bytes.remove_prefix(now.size());
            data_left_ -= static_cast<std::int64_t>(now.size());
            if (data_left_ == 0) {
                auto done = end_entry();
                if (!done) return done;
            }
            continue;
        }
        if (padding_left_ > 0) {
            const auto skip = std::min<std::int64_t>(padding_left_, static_cast<std::int64_t>(bytes.size()));
            bytes.remove_prefix(static_cast<std::size_t>(skip));
            padding_left_ -= skip;
            continue;
        }
        const auto need = std::min(kBlock - block_.size(), bytes.size());
        block_.append(bytes.substr(0, need));
        bytes.remove_prefix(need);
        if (block_.size() < kBlock) return {};
        const std::string block = std::move(block_);
        block_.clear();
        auto taken = take_header(block);
        if (!taken) return taken;
    }
    return {};
}

Result<void> TarReader::take_header(std::string_view block) {
    if (block.find_first_not_of('\0') == std::string_view::npos) {
        ended_ = true;
        return {};
    }
    const auto stated = number_field(block, 148, 8);
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < kBlock; ++i)
        sum += i >= 148 && i < 156 ? ' ' : static_cast<std::int64_t>(static_cast<unsigned char>(block[i]));
    if (!stated || *stated != sum) return fail(refused("a header does not add up; not a tar, or damaged"));
    const auto size = number_field(block, 124, 12);
    const auto mode = number_field(block, 100, 8);
    const auto mtime = number_field(block, 136, 12);
    if (!size || *size < 0 || !mode) return fail(refused("a header with a size that is none"));
    if (++entries_ > limits_.entries_max) return fail(refused("more than " + std::to_string(limits_.entries_max) + " entries"));

    entry_ = std::make_unique<Header>();
    entry_->type = block[156] == '\0' ? '0' : block[156];
    entry_->mode = static_cast<mode_t>(*mode & 0777);
    entry_->size = *size;
    entry_->mtime = mtime.value_or(0);
    const bool is_meta = entry_->type == 'x' || entry_->type == 'g' || entry_->type == 'L' || entry_->type == 'K';
    if (is_meta) {
        if (*size > static_cast<std::int64_t>(kMetaMax)) return fail(refused("an extended header of " + std::to_string(*size) + " bytes"));
        meta_.clear();
    } else {
        std::string path = std::move(long_name_);
        if (path.empty()) {
            const bool ustar = block.substr(257, 5) == "ustar";
            const auto prefix = ustar && block[262] == '\0' ? text_field(block, 345, 155) : std::string_view();
            path = prefix.empty() ? std::string(text_field(block, 0, 100))
                                  : std::string(prefix) + "/" + std::string(text_field(block, 0, 100));
        }
        entry_->link = long_link_.empty() ? std::string(text_field(block, 157, 100)) : std::move(long_link_);
        if (pax_size_ >= 0) entry_->size = pax_size_;
        if (pax_mtime_ >= 0) entry_->mtime = pax_mtime_;
        long_name_.clear();
        long_link_.clear();
        pax_size_ = pax_mtime_ = -1;
        const auto parts = safe_parts(path);
        if (!parts) return fail(refused("path leaves the folder: " + path));
        if (entry_->type == '0' && path.ends_with('/')) entry_->type = '5';  // the oldest form of a folder
        entry_->path = normal_path(*parts);
        auto begun = begin_entry();
        if (!begun) return begun;
    }
    data_left_ = entry_->size;
    padding_left_ = (static_cast<std::int64_t>(kBlock) - entry_->size % static_cast<std::int64_t>(kBlock)) %
                    static_cast<std::int64_t>(kBlock);
    return data_left_ == 0 ? end_entry() : Result<void>{};
}

Result<Descriptor> TarReader::parent_of(std::string_view path, std::string& name) {
    Descriptor at(::fcntl(root_.get(), F_DUPFD_CLOEXEC, 0));
    while (true) {
        const auto slash = path.find('/');
        if (slash == std::string_view::npos) {
            name = path;
            return at;
        }
        const std::string part(path.substr(0, slash));
        path.remove_prefix(slash + 1);
        if (::mkdirat(at.get(), part.c_str(), 0755) != 0 && errno != EEXIST) return fail(system_error("make folder", part));
        Descriptor next(::openat(at.get(), part.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        if (!next) return fail(refused("a path goes through something that is no folder: " + part));
        at = std::move(next);
    }
}

Result<void> TarReader::begin_entry() {
    Header& e = *entry_;
    const bool has_data = e.type == '0' || e.type == '7';
    if (!has_data && e.size != 0 && e.type != '5' && e.type != '2' && e.type != '1')
        return fail(refused(std::string("an entry of type '") + e.type + "' cannot be unpacked: " + e.path));
    if (!has_data) e.size = 0;
    if (e.path.empty()) {
        if (e.type != '5') return fail(refused("an entry without a name"));
        return {};  // "./": the folder itself
    }
    std::string name;
    auto parent = parent_of(e.path, name);
    if (!parent) return fail(parent.error());
    switch (e.type) {
        case '0':
        case '7': {
            bytes_ += e.size;
            if (bytes_ > limits_.bytes_max) return fail(refused("more than " + std::to_string(limits_.bytes_max) + " bytes"));
            // A later entry of the same name is the newer one (tar -r); what it replaces is only unlinked, never opened.
            ::unlinkat(parent->get(), name.c_str(), 0);
            file_.reset(::openat(parent->get(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
            if (!file_) return fail(system_error("create", e.path));
            return {};
        }
        case '5': {
            if (::mkdirat(parent->get(), name.c_str(), 0755) != 0) {
                if (errno != EEXIST) return fail(system_error("make folder", e.path));
                struct stat st{};
                if (::fstatat(parent->get(), name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISDIR(st.st_mode))
                    return fail(refused("a folder takes the place of something else: " + e.path));
            }
            // Always with all rights for the owner: files that come later must fit in.
            ::fchmodat(parent->get(), name.c_str(), e.mode | 0700, 0);
            return {};
        }
        case '2':
            if (!link_stays_inside(e.path, e.link)) return fail(refused("link leaves the folder: " + e.path + " -> " + e.link));
            ::unlinkat(parent->get(), name.c_str(), 0);
            if (::symlinkat(e.link.c_str(), parent->get(), name.c_str()) != 0) return fail(system_error("make link", e.path));
            return {};
        case '1': {
            const auto parts = safe_parts(e.link);
            if (!parts || parts->empty()) return fail(refused("link leaves the folder: " + e.path + " -> " + e.link));
            std::string target_name;
            auto target = parent_of(normal_path(*parts), target_name);
            if (!target) return fail(target.error());
            struct stat st{};
            if (::fstatat(target->get(), target_name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode))
                return fail(refused("a hard link to what is no file: " + e.path + " -> " + e.link));
            ::unlinkat(parent->get(), name.c_str(), 0);
            if (::linkat(target->get(), target_name.c_str(), parent->get(), name.c_str(), 0) != 0)
                return fail(system_error("make link", e.path));
            return {};
        }
        default: return fail(refused(std::string("an entry of type '") + e.type + "' cannot be unpacked: " + e.path));
    }
}

Result<void> TarReader::take_data(std::string_view bytes) {
    if (!file_) {
        meta_ += bytes;
        return {};
    }
    while (!bytes.empty()) {
        const auto put = ::write(file_.get(), bytes.data(), bytes.size());
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return fail(system_error("write", entry_->path));
        bytes.remove_prefix(static_cast<std::size_t>(put));
    }
    return {};
}

Result<void> TarReader::end_entry() {
    const Header& e = *entry_;
    if (file_) {
        ::fchmod(file_.get(), e.mode);
        const timespec times[2] = {{.tv_sec = e.mtime, .tv_nsec = 0}, {.tv_sec = e.mtime, .tv_nsec = 0}};
        ::futimens(file_.get(), times);
        file_.reset();
        ++files_;
        return {};
    }
    if (e.type == 'L') long_name_ = meta_.substr(0, meta_.find('\0'));
    if (e.type == 'K') long_link_ = meta_.substr(0, meta_.find('\0'));
    if (e.type == 'x') return read_pax(meta_);
    return {};
}

Result<void> TarReader::read_pax(std::string_view text) {
    while (!text.empty()) {
        std::size_t length = 0;
        const auto read = std::from_chars(text.data(), text.data() + text.size(), length);
        if (read.ec != std::errc{} || read.ptr == text.data() + text.size() || *read.ptr != ' ' || length > text.size())
            return fail(refused("a broken extended header"));
        const auto digits = static_cast<std::size_t>(read.ptr - text.data());
        if (length < digits + 3) return fail(refused("a broken extended header"));
        const auto record = text.substr(digits + 1, length - digits - 2);
        text.remove_prefix(length);
        const auto equals = record.find('=');
        if (equals == std::string_view::npos) return fail(refused("a broken extended header"));
        const auto key = record.substr(0, equals);
        const auto value = record.substr(equals + 1);
        if (value.find('\0') != std::string_view::npos) return fail(refused("a name with a NUL in it"));
        if (key == "path") long_name_ = value;
        if (key == "linkpath") long_link_ = value;
        if (key == "size" && (std::from_chars(value.data(), value.data() + value.size(), pax_size_).ec != std::errc{} || pax_size_ < 0))
            return fail(refused("a broken size in an extended header"));
        if (key == "mtime") std::from_chars(value.data(), value.data() + value.size(), pax_mtime_);
        if (key.starts_with("GNU.sparse")) return fail(refused("sparse files are not supported"));
    }
    return {};
}

Result<void> TarReader::finish() {
    if (!probed_ && !probe_.empty()) return fail(refused("not a tar"));
    if (inflate_ && !inflate_->whole()) return fail(refused("it is cut short"));
    if (data_left_ > 0 || padding_left_ > 0 || !block_.empty()) return fail(refused("it is cut short"));
    return {};
}

}  // namespace gf::agent
