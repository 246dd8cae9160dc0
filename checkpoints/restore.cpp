#include "checkpoints/restore.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <random>
#include <system_error>
#include <vector>

#include "checkpoints/contents.hpp"

namespace gf::checkpoints {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kSuffix = 8;

std::string prefix_for(const fs::path& target) {
    return ".tmp-restore-" + target.filename().string() + "-";
}

std::string random_suffix() {
    static constexpr std::string_view kDigits = "0123456789abcdef";
    std::random_device device;
    std::string out;
    for (std::size_t i = 0; i < kSuffix; ++i) out += kDigits[device() % kDigits.size()];
    return out;
}

/// What a killed restore of the same target left. The fixed length keeps "ckpt" away from the left-overs of
/// "ckpt-2".
Result<void> remove_leftovers(const fs::path& target) {
    const std::string prefix = prefix_for(target);
    std::error_code error;
    std::vector<fs::path> found;
    for (fs::directory_iterator it{target.parent_path(), error}; !error && it != fs::directory_iterator{};
         it.increment(error)) {
        const std::string name = it->path().filename().string();
        if (name.size() == prefix.size() + kSuffix && name.starts_with(prefix)) found.push_back(it->path());
    }
    if (error) return fail(disk_error(error.value(), "cannot read folder", target.parent_path()));
    for (const fs::path& path : found)
        if (auto done = remove_tree(path); !done) return done;
    return {};
}

timespec time_of(std::int64_t ns) {
    timespec t{};
    t.tv_sec = static_cast<time_t>(ns / 1'000'000'000);
    t.tv_nsec = static_cast<long>(ns % 1'000'000'000);
    if (t.tv_nsec < 0) {
        t.tv_nsec += 1'000'000'000;
        --t.tv_sec;
    }
    return t;
}

/// A folder that goes away with this object, whatever lies under the name by then.
class Building {
 public:
    explicit Building(fs::path path) : path_(std::move(path)) {}
    Building(const Building&) = delete;
    Building& operator=(const Building&) = delete;
    ~Building() { static_cast<void>(remove_tree(path_)); }
    [[nodiscard]] const fs::path& path() const { return path_; }

 private:
    fs::path path_;
};

class Writing {
 public:
    Writing(const Manifest& m, PackSource& source, const RestoreOptions& options, Disk& disk,
            const fs::path& folder)
        : m_(m),
          contents_(m, source),
          options_(options),
          disk_(disk),
          folder_(folder),
          total_(total_bytes(m)) {}

    Result<Restored> run() {
        // Folders are open to us until all is in them; sorted by path a parent comes before its children.
        for (const DirectoryEntry& d : m_.directories)
            if (auto done = make_folder(d); !done) return fail(std::move(done).error());
        Restored out;
        for (const FileEntry* f : restore_order(m_)) {
            if (auto done = write_file(*f); !done) return fail(std::move(done).error());
            ++out.files;
            out.bytes += f->size;
        }
        for (const SymlinkEntry& s : m_.symlinks)
            if (auto done = make_link(s); !done) return fail(std::move(done).error());
        if (auto done = finish_folders(); !done) return fail(std::move(done).error());
        return out;
    }

 private:
    Result<void> make_folder(const DirectoryEntry& d) {
        const fs::path path = at(d.path);
        if (auto done = disk_.make_directory(path); !done) return done;
        if (::chmod(path.c_str(), static_cast<mode_t>(d.mode | 0700U)) != 0)
            return fail(disk_error(errno, "cannot set mode of", path));
        return own(path);
    }

    Result<void> write_file(const FileEntry& f) {
        const fs::path path = at(f.path);
        auto file = disk_.create(path);
        if (!file) return fail(std::move(file).error());
        Sha256 whole;
        bool hole_at_end = false;
        for (std::size_t i = 0; i < f.chunks.size(); ++i) {
            if (options_.stop && options_.stop()) return fail(ErrorKind::conflict, "told to stop");
            if (auto got = contents_.next(f, plain_); !got) return got;
            if (f.chunks.size() > 1)
                whole.add(plain_);  // of one chunk the two hashes are one, and it was checked
            hole_at_end = plain_.find_first_not_of('\0') == std::string::npos;
            if (hole_at_end) {
                if (::lseek(file->fd(), static_cast<off_t>(plain_.size()), SEEK_CUR) < 0)
                    return fail(disk_error(errno, "cannot seek in", path));
            } else if (auto done = disk_.write(*file, plain_, path); !done) {
                return done;
            }
            done_ += f.chunks[i].size;
            if (options_.progress) options_.progress(done_, total_);
        }
        if (hole_at_end && ::ftruncate(file->fd(), static_cast<off_t>(f.size)) != 0)
            return fail(disk_error(errno, "cannot size", path));
        if (f.chunks.size() > 1 && whole.finish() != f.sha256)
            return fail(ErrorKind::malformed, "file " + f.path + " does not have its hash");
        if (auto done = own(path); !done) return done;
        if (::fchmod(file->fd(), static_cast<mode_t>(f.mode)) != 0)
            return fail(disk_error(errno, "cannot set mode of", path));
        const timespec times[2] = {time_of(f.mtime_ns), time_of(f.mtime_ns)};
        if (::futimens(file->fd(), times) != 0) return fail(disk_error(errno, "cannot set time of", path));
        if (options_.durable) return disk_.sync(*file, path);
        return {};
    }

    Result<void> make_link(const SymlinkEntry& s) {
        const fs::path path = at(s.path);
        if (::symlink(s.target.c_str(), path.c_str()) != 0)
            return fail(disk_error(errno, "cannot create link", path));
        const timespec times[2] = {time_of(s.mtime_ns), time_of(s.mtime_ns)};
        if (::utimensat(AT_FDCWD, path.c_str(), times, AT_SYMLINK_NOFOLLOW) != 0)
            return fail(disk_error(errno, "cannot set time of", path));
        return own(path);
    }

    /// Times oldest first, as for files, since that orders the ctimes; then the modes that shut us out,
    /// deepest first.
    Result<void> finish_folders() {
        std::vector<const DirectoryEntry*> order;
        for (const DirectoryEntry& d : m_.directories) order.push_back(&d);
        std::ranges::sort(order, {}, [](const DirectoryEntry* d) {
            return std::pair{d->mtime_ns, std::string_view{d->path}};
        });
        for (const DirectoryEntry* d : order) {
            const fs::path path = at(d->path);
            const timespec times[2] = {time_of(d->mtime_ns), time_of(d->mtime_ns)};
            if (::utimensat(AT_FDCWD, path.c_str(), times, AT_SYMLINK_NOFOLLOW) != 0)
                return fail(disk_error(errno, "cannot set time of", path));
            if (options_.durable)
                if (auto done = disk_.sync_directory(path); !done) return done;
        }
        for (auto d = m_.directories.rbegin(); d != m_.directories.rend(); ++d)
            if ((d->mode & 0700U) != 0700U && ::chmod(at(d->path).c_str(), static_cast<mode_t>(d->mode)) != 0)
                return fail(disk_error(errno, "cannot set mode of", at(d->path)));
        return {};
    }

    Result<void> own(const fs::path& path) {
        if (options_.uid < 0 && options_.gid < 0) return {};
        const auto uid = options_.uid < 0 ? static_cast<uid_t>(-1) : static_cast<uid_t>(options_.uid);
        const auto gid = options_.gid < 0 ? static_cast<gid_t>(-1) : static_cast<gid_t>(options_.gid);
        if (::lchown(path.c_str(), uid, gid) != 0) return fail(disk_error(errno, "cannot give away", path));
        return {};
    }

    [[nodiscard]] fs::path at(const std::string& relative) const {
        return relative.empty() ? folder_ : folder_ / relative;
    }

    const Manifest& m_;
    Contents contents_;
    const RestoreOptions& options_;
    Disk& disk_;
    const fs::path& folder_;
    std::string plain_;
    std::int64_t done_{0};
    std::int64_t total_{0};
};

/// Afterwards `target` is the new folder and `fresh` holds what was there before, if anything.
Result<void> swap_in(Disk& disk, const fs::path& fresh, const fs::path& target) {
    struct stat st{};
    if (::lstat(target.c_str(), &st) != 0) return disk.rename(fresh, target);
    auto swapped = disk.exchange(fresh, target);
    if (swapped || swapped.error().kind != ErrorKind::not_yet) return swapped;
    const fs::path aside = target.parent_path() / (prefix_for(target) + random_suffix());
    if (auto done = disk.rename(target, aside); !done) return done;
    if (auto done = disk.rename(fresh, target); !done) {
        static_cast<void>(disk.rename(aside, target));
        return done;
    }
    return disk.rename(aside, fresh);
}

Result<void> check(const Manifest& manifest) {
    auto ok = validate_manifest(manifest);
    if (!ok) ok.error().kind = ErrorKind::malformed;
    return ok;
}

}  // namespace

Result<Restored> restore(const Manifest& manifest, PackSource& source, const fs::path& target,
                         const RestoreOptions& options) {
    if (!target.is_absolute() || !target.has_filename())
        return fail(ErrorKind::invalid,
                    "restore: the target must be absolute and without a slash at its end");
    if (auto ok = check(manifest); !ok) return fail(std::move(ok).error());
    Disk& disk = options.disk != nullptr ? *options.disk : Disk::real();
    if (auto done = remove_leftovers(target); !done) return fail(std::move(done).error());

    const Building fresh{target.parent_path() / (prefix_for(target) + random_suffix())};
    auto restored = Writing{manifest, source, options, disk, fresh.path()}.run();
    if (!restored) return restored;
    if (auto done = swap_in(disk, fresh.path(), target); !done) return fail(std::move(done).error());
    if (options.durable)
        if (auto done = disk.sync_directory(target.parent_path()); !done)
            return fail(std::move(done).error());
    // Whatever `fresh` names now is the old content; its removal is the guard's.
    return restored;
}

Result<Restored> verify_contents(const Manifest& manifest, PackSource& source) {
    if (auto ok = check(manifest); !ok) return fail(std::move(ok).error());
    Contents contents{manifest, source};
    Restored out;
    std::string plain;
    for (const FileEntry* f : restore_order(manifest)) {
        Sha256 whole;
        for (std::size_t i = 0; i < f->chunks.size(); ++i) {
            if (auto got = contents.next(*f, plain); !got) return fail(std::move(got).error());
            whole.add(plain);
        }
        if (whole.finish() != f->sha256)
            return fail(ErrorKind::malformed, "file " + f->path + " does not have its hash");
        ++out.files;
        out.bytes += f->size;
    }
    return out;
}

}  // namespace gf::checkpoints
