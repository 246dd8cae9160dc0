#include "checkpoints/file_store.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <system_error>

#include "checkpoints/pack.hpp"
#include "checkpoints/seal.hpp"
#include "checkpoints/store_checks.hpp"
#include "model/id.hpp"

namespace gf::checkpoints {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kTemporary = ".tmp-";
constexpr std::size_t kSealBytesMax = 4096;

/// A name of its own per process run; what an earlier run left was swept at open.
std::string temporary_name() {
    static std::atomic<unsigned long> counter{0};
    return std::string{kTemporary} + std::to_string(::getpid()) + "-" + std::to_string(++counter);
}

bool is_job(const JobId& job) {
    return job.get().starts_with("job_") && id_body(job.get()).size() == 26;
}
bool is_task(std::string_view task) {
    return task.starts_with("tsk_") && id_body(task).size() == 26;
}

std::string attempt_folder(int attempt) {
    return "a" + std::to_string(attempt);
}
std::string pack_name(const Digest& id) {
    return id.hex() + ".pack";
}
std::string manifest_name(const Digest& digest) {
    return digest.hex() + ".json";
}
std::string seal_name(const Seal& s) {
    char digits[24];
    std::snprintf(digits, sizeof digits, "%012lld", static_cast<long long>(s.generation));
    return s.task + "." + digits + ".json";
}

/// Names in a folder that may not exist, sorted, without those being written.
Result<std::vector<std::string>> names_in(const fs::path& folder) {
    std::vector<std::string> names;
    std::error_code error;
    for (fs::directory_iterator it{folder, error}; !error && it != fs::directory_iterator{};
         it.increment(error)) {
        std::string name = it->path().filename().string();
        if (!name.starts_with(kTemporary)) names.push_back(std::move(name));
    }
    if (error && error != std::errc::no_such_file_or_directory)
        return fail(disk_error(error.value(), "cannot read folder", folder));
    std::ranges::sort(names);
    return names;
}

/// "a12" -> 12.
std::optional<int> attempt_of(std::string_view name) {
    int attempt = 0;
    if (!name.starts_with('a')) return std::nullopt;
    const auto [end, error] = std::from_chars(name.data() + 1, name.data() + name.size(), attempt);
    if (error != std::errc{} || end != name.data() + name.size() || attempt < 1 ||
        attempt_folder(attempt) != name)
        return std::nullopt;
    return attempt;
}

Result<void> read_at(int fd, std::int64_t offset, std::int64_t length, std::string& out,
                     const fs::path& path) {
    out.resize(static_cast<std::size_t>(length));
    std::int64_t have = 0;
    while (have < length) {
        const ssize_t n = ::pread(fd, out.data() + have, static_cast<std::size_t>(length - have),
                                  static_cast<off_t>(offset + have));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail(disk_error(errno, "cannot read", path));
        if (n == 0)
            return fail(ErrorKind::invalid,
                        path.string() + " ends before byte " + std::to_string(offset + length));
        have += n;
    }
    return {};
}

Result<std::string> read_small(const fs::path& path, std::size_t most) {
    const File file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW)};
    if (!file.is_open()) return fail(disk_error(errno, "cannot open", path));
    struct stat st{};
    if (::fstat(file.fd(), &st) != 0) return fail(disk_error(errno, "cannot look at", path));
    if (!S_ISREG(st.st_mode) || static_cast<std::size_t>(st.st_size) > most)
        return fail(ErrorKind::malformed, path.string() + " is too large");
    std::string out;
    if (auto got = read_at(file.fd(), 0, st.st_size, out, path); !got) return fail(std::move(got).error());
    return out;
}

class FilePackWriter final : public PackWriter {
 public:
    FilePackWriter(Disk& disk, fs::path folder, Digest id, File file, fs::path temporary)
        : disk_(disk),
          folder_(std::move(folder)),
          id_(id),
          file_(std::move(file)),
          temporary_(std::move(temporary)) {}
    FilePackWriter(const FilePackWriter&) = delete;
    FilePackWriter& operator=(const FilePackWriter&) = delete;
    ~FilePackWriter() override {
        file_.close();
        if (!temporary_.empty()) static_cast<void>(disk_.remove(temporary_));
    }

    Result<void> append(std::string_view bytes) override {
        if (size_ + static_cast<std::int64_t>(bytes.size()) > kPackBytesMax)
            return fail(ErrorKind::invalid, "pack " + id_.hex() + " is larger than 64 MiB");
        if (auto done = disk_.write(file_, bytes, temporary_); !done) return done;
        hash_.add(bytes);
        size_ += static_cast<std::int64_t>(bytes.size());
        return {};
    }

    Result<bool> commit() override {
        if (temporary_.empty())
            return fail(ErrorKind::invalid, "pack " + id_.hex() + " was committed before");
        if (hash_.finish() != id_)
            return fail(ErrorKind::invalid,
                        "pack " + id_.hex() + ": the bytes received have another SHA-256");
        if (auto ok = looks_like_pack(); !ok) return fail(std::move(ok).error());
        if (auto done = disk_.sync(file_, temporary_); !done) return fail(std::move(done).error());
        const fs::path final_path = folder_ / pack_name(id_);
        std::error_code error;
        const bool was_there = fs::exists(final_path, error);
        if (auto done = disk_.rename(temporary_, final_path); !done) return fail(std::move(done).error());
        temporary_.clear();
        if (auto done = disk_.sync_directory(folder_); !done) return fail(std::move(done).error());
        return !was_there;
    }

 private:
    Result<void> looks_like_pack() {
        const File in{::open(temporary_.c_str(), O_RDONLY | O_CLOEXEC)};
        if (!in.is_open()) return fail(disk_error(errno, "cannot open", temporary_));
        auto index = read_pack_index(size_, [&](std::int64_t offset, std::int64_t length, std::string& out) {
            return read_at(in.fd(), offset, length, out, temporary_);
        });
        if (index) return {};
        Error error = std::move(index).error();
        if (error.kind == ErrorKind::malformed)
            error = {.kind = ErrorKind::invalid,
                     .message = "pack " + id_.hex() + " is not a pack: " + error.message};
        return fail(std::move(error));
    }

    Disk& disk_;
    fs::path folder_;
    Digest id_;
    File file_;
    fs::path temporary_;
    Sha256 hash_;
    std::int64_t size_{0};
};

}  // namespace

Result<std::unique_ptr<FileStore>> FileStore::open(fs::path root, Disk* disk) {
    Disk& used = disk != nullptr ? *disk : Disk::real();
    if (!root.is_absolute())
        return fail(ErrorKind::invalid, "the checkpoint store's folder must be absolute: " + root.string());
    if (auto done = used.make_directory(root); !done) return fail(std::move(done).error());
    std::unique_ptr<FileStore> store{new FileStore{std::move(root), used}};
    if (auto done = store->sweep(); !done) return fail(std::move(done).error());
    return store;
}

Result<void> FileStore::sweep() {
    std::error_code error;
    std::vector<fs::path> stale;
    const auto look = [&](const fs::path& folder, std::vector<fs::path>* below) {
        for (fs::directory_iterator it{folder, error}; !error && it != fs::directory_iterator{};
             it.increment(error)) {
            if (it->path().filename().string().starts_with(kTemporary))
                stale.push_back(it->path());
            else if (below != nullptr && it->is_directory(error))
                below->push_back(it->path());
        }
    };
    std::vector<fs::path> jobs;
    look(root_, &jobs);
    for (const fs::path& job : jobs) {
        std::vector<fs::path> folders;
        look(job, &folders);
        for (const fs::path& folder : folders) look(folder, nullptr);
    }
    if (error) return fail(disk_error(error.value(), "cannot read folders of", root_));
    for (const fs::path& path : stale)
        if (auto done = remove_tree(path); !done) return done;
    return {};
}

Result<fs::path> FileStore::folder_of(const JobId& job, const std::string& name) {
    if (!is_job(job)) return fail(ErrorKind::invalid, "not a job id");
    return root_ / job.get() / name;
}

Result<void> FileStore::make_durable_folder(const fs::path& parent, const std::string& name) {
    std::error_code error;
    if (fs::is_directory(parent / name, error)) return {};
    if (auto done = disk_.make_directory(parent / name); !done) return done;
    return disk_.sync_directory(parent);
}

Result<fs::path> FileStore::make_folder(const JobId& job, const std::string& name) {
    auto folder = folder_of(job, name);
    if (!folder) return folder;
    if (auto done = make_durable_folder(root_, job.get()); !done) return fail(std::move(done).error());
    if (auto done = make_durable_folder(root_ / job.get(), name); !done) return fail(std::move(done).error());
    return folder;
}

Result<void> FileStore::write_durably(const fs::path& folder, const std::string& name,
                                      std::string_view bytes) {
    const fs::path temporary = folder / temporary_name();
    auto written = [&]() -> Result<void> {
        auto file = disk_.create(temporary);
        if (!file) return fail(std::move(file).error());
        if (auto done = disk_.write(*file, bytes, temporary); !done) return done;
        if (auto done = disk_.sync(*file, temporary); !done) return done;
        return disk_.rename(temporary, folder / name);
    }();
    if (!written) {
        static_cast<void>(disk_.remove(temporary));
        return written;
    }
    return disk_.sync_directory(folder);
}

Result<void> FileStore::move_durably(const fs::path& from, const fs::path& to) {
    if (auto done = disk_.rename(from, to); !done) return done;
    if (auto done = disk_.sync_directory(to.parent_path()); !done) return done;
    return disk_.sync_directory(from.parent_path());
}

Result<std::unique_ptr<PackWriter>> FileStore::begin_pack(const JobId& job, int attempt, const Digest& id) {
    if (attempt < 1) return fail(ErrorKind::invalid, "attempt must be 1 or more");
    auto folder = make_folder(job, attempt_folder(attempt));
    if (!folder) return fail(std::move(folder).error());
    fs::path temporary = *folder / temporary_name();
    auto file = disk_.create(temporary);
    if (!file) return fail(std::move(file).error());
    return std::make_unique<FilePackWriter>(disk_, *std::move(folder), id, *std::move(file),
                                            std::move(temporary));
}

Result<fs::path> FileStore::pack_path(const JobId& job, const PackKey& pack) {
    if (pack.attempt < 1) return fail(ErrorKind::invalid, "attempt must be 1 or more");
    auto folder = folder_of(job, attempt_folder(pack.attempt));
    if (!folder) return folder;
    fs::path path = *folder / pack_name(pack.id);
    struct stat st{};
    if (::lstat(path.c_str(), &st) != 0) return fail(disk_error(errno, "no pack at", path));
    if (!S_ISREG(st.st_mode)) return fail(ErrorKind::io, path.string() + " is not a file");
    return path;
}

Result<std::int64_t> FileStore::pack_size(const JobId& job, const PackKey& pack) {
    auto path = pack_path(job, pack);
    if (!path) return fail(std::move(path).error());
    struct stat st{};
    if (::lstat(path->c_str(), &st) != 0) return fail(disk_error(errno, "no pack at", *path));
    return st.st_size;
}

Result<void> FileStore::read_pack(const JobId& job, const PackKey& pack, std::int64_t offset,
                                  std::int64_t length, std::string& out) {
    auto path = pack_path(job, pack);
    if (!path) return fail(std::move(path).error());
    if (offset < 0 || length < 0 || length > kPackBytesMax || offset > kPackBytesMax)
        return fail(ErrorKind::invalid, "no such range in pack " + pack.id.hex());
    const File file{::open(path->c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW)};
    if (!file.is_open()) return fail(disk_error(errno, "cannot open", *path));
    struct stat st{};
    if (::fstat(file.fd(), &st) != 0) return fail(disk_error(errno, "cannot look at", *path));
    if (offset + length > st.st_size)
        return fail(ErrorKind::invalid,
                    "pack " + pack.id.hex() + " ends at byte " + std::to_string(st.st_size));
    return read_at(file.fd(), offset, length, out, *path);
}

Result<StoredManifest> FileStore::put_manifest(const JobId& job, const TaskId& task, int attempt,
                                               std::string_view bytes) {
    if (!is_job(job)) return fail(ErrorKind::invalid, "not a job id");
    auto manifest = decode_manifest(bytes);
    if (!manifest) return fail(std::move(manifest).error());
    if (manifest->job != job.get() || manifest->task != task.get() || manifest->attempt != attempt)
        return fail(ErrorKind::invalid, "manifest: it is of attempt " + std::to_string(manifest->attempt) +
                                            " of another task or attempt");
    if (auto ok = check_packs(*this, job, *manifest); !ok) {
        Error error = std::move(ok).error();
        if (error.kind == ErrorKind::malformed)
            error = {.kind = ErrorKind::invalid, .message = "manifest: " + error.message};
        return fail(std::move(error));
    }
    const StoredManifest out{.digest = manifest_digest(bytes),
                             .step = manifest->step,
                             .bytes = total_bytes(*manifest),
                             .files = static_cast<std::int64_t>(manifest->files.size())};
    auto folder = make_folder(job, "manifests");
    if (!folder) return fail(std::move(folder).error());
    if (auto done = write_durably(*folder, manifest_name(out.digest), bytes); !done)
        return fail(std::move(done).error());
    return out;
}

Result<std::string> FileStore::read_manifest(const JobId& job, const std::string& name,
                                             const Digest& digest) {
    auto folder = folder_of(job, name);
    if (!folder) return fail(std::move(folder).error());
    return read_small(*folder / manifest_name(digest), kManifestBytesMax);
}

Result<std::string> FileStore::get_manifest(const JobId& job, const Digest& digest) {
    auto bytes = read_manifest(job, "manifests", digest);
    if (!bytes) return bytes;
    if (manifest_digest(*bytes) != digest)
        return fail(ErrorKind::malformed,
                    "manifest " + digest.hex() + " has other content than its name says");
    if (auto good = decode_manifest(*bytes); !good)
        return fail(ErrorKind::malformed, "manifest " + digest.hex() + ": " + good.error().message);
    return bytes;
}

Result<std::string> FileStore::get_quarantined(const JobId& job, const Digest& digest) {
    return read_manifest(job, "quarantine", digest);
}

Result<std::vector<Digest>> FileStore::list_named(const JobId& job, const std::string& name) {
    auto folder = folder_of(job, name);
    if (!folder) return fail(std::move(folder).error());
    auto names = names_in(*folder);
    if (!names) return fail(std::move(names).error());
    std::vector<Digest> out;
    for (const std::string& n : *names)
        if (n.ends_with(".json"))
            if (const auto digest = Digest::from_hex(std::string_view{n}.substr(0, n.size() - 5)))
                out.push_back(*digest);
    return out;
}
Result<std::vector<Digest>> FileStore::list_manifests(const JobId& job) {
    return list_named(job, "manifests");
}
Result<std::vector<Digest>> FileStore::list_quarantined(const JobId& job) {
    return list_named(job, "quarantine");
}

Result<std::vector<StoredPack>> FileStore::list_packs(const JobId& job) {
    if (!is_job(job)) return fail(ErrorKind::invalid, "not a job id");
    auto folders = names_in(root_ / job.get());
    if (!folders) return fail(std::move(folders).error());
    std::vector<StoredPack> out;
    for (const std::string& folder : *folders) {
        const auto attempt = attempt_of(folder);
        if (!attempt) continue;
        const fs::path path = root_ / job.get() / folder;
        auto names = names_in(path);
        if (!names) return fail(std::move(names).error());
        for (const std::string& name : *names) {
            if (!name.ends_with(".pack")) continue;
            const auto id = Digest::from_hex(std::string_view{name}.substr(0, name.size() - 5));
            struct stat st{};
            if (!id || ::lstat((path / name).c_str(), &st) != 0) continue;
            const std::int64_t ms =
                static_cast<std::int64_t>(st.st_mtim.tv_sec) * 1000 + st.st_mtim.tv_nsec / 1'000'000;
            out.push_back(
                {.key = {.attempt = *attempt, .id = *id}, .size = st.st_size, .stored_at = instant_of(ms)});
        }
    }
    std::ranges::sort(out, {}, &StoredPack::key);
    return out;
}

Result<void> FileStore::put_seal(const JobId& job, const Seal& seal) {
    if (!is_task(seal.task) || seal.generation < 1)
        return fail(ErrorKind::invalid, "not a seal: task or generation is out of range");
    auto folder = make_folder(job, "seals");
    if (!folder) return fail(std::move(folder).error());
    return write_durably(*folder, seal_name(seal), encode_seal(seal));
}

Result<std::vector<Seal>> FileStore::list_seals(const JobId& job) {
    auto folder = folder_of(job, "seals");
    if (!folder) return fail(std::move(folder).error());
    auto names = names_in(*folder);
    if (!names) return fail(std::move(names).error());
    std::vector<Seal> out;
    for (const std::string& name : *names) {
        auto text = read_small(*folder / name, kSealBytesMax);
        if (!text) continue;
        auto seal = decode_seal(*text);
        if (seal && seal_name(*seal) == name) out.push_back(*std::move(seal));
    }
    return out;
}

Result<void> FileStore::quarantine(const JobId& job, const Digest& digest, std::string_view why) {
    auto folder = make_folder(job, "quarantine");
    if (!folder) return fail(std::move(folder).error());
    auto seals = list_seals(job);
    if (!seals) return fail(std::move(seals).error());
    // The reason first, the manifest last: a crash in between leaves something to be done again, never a
    // loss.
    if (auto done = write_durably(*folder, digest.hex() + ".why", why); !done) return done;
    for (const Seal& s : *seals) {
        if (s.manifest != digest) continue;
        auto from = folder_of(job, "seals");
        if (auto done = move_durably(*from / seal_name(s), *folder / (seal_name(s) + ".seal")); !done)
            return done;
    }
    auto from = folder_of(job, "manifests");
    auto moved = move_durably(*from / manifest_name(digest), *folder / manifest_name(digest));
    if (!moved && moved.error().kind == ErrorKind::not_found) return {};
    return moved;
}

Result<void> FileStore::remove_manifest(const JobId& job, const Digest& digest) {
    auto folder = folder_of(job, "manifests");
    if (!folder) return fail(std::move(folder).error());
    auto seals = list_seals(job);
    if (!seals) return fail(std::move(seals).error());
    for (const Seal& s : *seals)
        if (s.manifest == digest)
            if (auto done = disk_.remove(root_ / job.get() / "seals" / seal_name(s)); !done) return done;
    return disk_.remove(*folder / manifest_name(digest));
}

Result<void> FileStore::remove_pack(const JobId& job, const PackKey& pack) {
    if (pack.attempt < 1) return fail(ErrorKind::invalid, "attempt must be 1 or more");
    auto folder = folder_of(job, attempt_folder(pack.attempt));
    if (!folder) return fail(std::move(folder).error());
    return disk_.remove(*folder / pack_name(pack.id));
}

Result<void> FileStore::remove_job(const JobId& job) {
    if (!is_job(job)) return fail(ErrorKind::invalid, "not a job id");
    // Out of sight in one step, so that a crash leaves no job of which a part is missing.
    const fs::path aside = root_ / temporary_name();
    auto moved = move_durably(root_ / job.get(), aside);
    if (!moved && moved.error().kind == ErrorKind::not_found) return {};
    if (!moved) return moved;
    return remove_tree(aside);
}

}  // namespace gf::checkpoints
