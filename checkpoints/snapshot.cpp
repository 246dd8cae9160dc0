#include "checkpoints/snapshot.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <memory>
#include <optional>
#include <thread>
#include <unordered_map>

#include "checkpoints/pack.hpp"
#include "checkpoints/scan.hpp"

namespace gf::checkpoints {

namespace fs = std::filesystem;

namespace {

// A chunk of an old pack is stored again when the previous generation used less than this share of that pack.
// Otherwise one long-lived chunk would keep 64 MiB alive for ever; one generation later the old pack can go.
// Small packs waste nothing worth the traffic.
constexpr std::int64_t kUsedPercentMin = 30;
constexpr std::int64_t kSmallPack = kChunkBytes;
// A file whose times are younger than this when it was read may be written again without a new time (the
// kernel's file clock ticks every few milliseconds, some network file systems count whole seconds), so
// SnapshotMemory does not trust it.
constexpr std::int64_t kSettledNs = 2'000'000'000;

constexpr std::string_view kWriting = ".tmp-pack";

struct DigestHash {
    std::size_t operator()(const Digest& d) const {
        std::size_t value = 0;
        std::memcpy(&value, d.bytes.data(), sizeof value);
        return value;
    }
};

/// Where a chunk is: a pack and its record there.
struct Place {
    const PackEntry* pack{nullptr};  // null = in a pack of this snapshot
    std::size_t new_pack{0};
    PackedChunk chunk;
};

Error moved(const std::string& what) {
    return Error{.kind = ErrorKind::conflict, .message = what + " while it was read; try again"};
}

/// The packs of one snapshot in its spool folder. Removes what it wrote, and the folder if nothing else is in
/// it, unless kept.
class Spool {
 public:
    Spool(fs::path folder, Disk& disk) : folder_(std::move(folder)), disk_(disk) {}
    Spool(const Spool&) = delete;
    Spool& operator=(const Spool&) = delete;
    ~Spool() {
        file_.close();
        if (kept_) return;
        std::error_code ignored;
        for (const SpooledPack& p : spooled) fs::remove(p.file, ignored);
        fs::remove(writing_, ignored);
        fs::remove(folder_, ignored);
    }
    std::vector<PackEntry> packs;
    std::vector<SpooledPack> spooled;

    /// Which pack the chunk went to. The record's offset is known once the pack is finished.
    Result<std::size_t> add(const ChunkRef& chunk, std::string_view stored, bool zstd) {
        if (builder_ && !builder_->fits(static_cast<std::int64_t>(stored.size())))
            if (auto done = finish_pack(); !done) return fail(std::move(done).error());
        if (!builder_)
            if (auto done = start_pack(); !done) return fail(std::move(done).error());
        if (auto done = builder_->add(chunk, stored, zstd); !done) return fail(std::move(done).error());
        return packs.size();
    }
    Result<void> finish_pack() {
        if (!builder_) return {};
        auto entry = builder_->finish();
        builder_.reset();
        file_.close();
        if (!entry) return fail(std::move(entry).error());
        const fs::path final_path = folder_ / (entry->id.hex() + ".pack");
        if (auto done = disk_.rename(writing_, final_path); !done) return done;
        spooled.push_back({.id = entry->id, .size = entry->size, .file = final_path});
        packs.push_back(*std::move(entry));
        return {};
    }
    void keep() { kept_ = true; }

 private:
    Result<void> start_pack() {
        auto file = disk_.create(writing_);
        if (!file) return fail(std::move(file).error());
        file_ = *std::move(file);
        builder_.emplace([this](std::string_view bytes) { return disk_.write(file_, bytes, writing_); });
        return {};
    }

    fs::path folder_;
    Disk& disk_;
    fs::path writing_{folder_ / kWriting};
    File file_;
    std::optional<PackBuilder> builder_;
    bool kept_{false};
};

class Taking {
 public:
    Taking(const SnapshotRequest& request, Disk& disk)
        : request_(request),
          spool_(request.spool, disk),
          buffer_(static_cast<std::size_t>(kChunkBytes), '\0') {
        learn_previous();
    }

    Result<Snapshot> run(const Scan& scan, const ScanRules& rules) {
        root_ = File{::open(request_.root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
        if (!root_.is_open()) return fail(disk_error(errno, "cannot open folder", request_.root));

        // Oldest first, as they will be restored: a restore then reads its packs from front to end.
        std::vector<const ScannedEntry*> files;
        for (const ScannedEntry& e : scan.entries)
            if (e.type == EntryType::file) files.push_back(&e);
        std::ranges::sort(files, {}, [](const ScannedEntry* e) {
            return std::pair{e->mtime_ns, std::string_view{e->path}};
        });
        for (const ScannedEntry* e : files)
            if (auto done = take_file(*e); !done) return fail(std::move(done).error());
        if (auto done = spool_.finish_pack(); !done) return fail(std::move(done).error());

        auto again = scan_folder(request_.root, rules);
        if (!again)
            return fail(again.error().kind == ErrorKind::not_found ? moved("the folder vanished")
                                                                   : std::move(again).error());
        if (!unchanged(scan, *again)) return fail(moved("the folder changed"));
        return result(scan);
    }

 private:
    void learn_previous() {
        const Manifest* previous = request_.previous;
        if (previous == nullptr || previous->job != request_.job || previous->task != request_.task) return;
        for (const PackEntry& p : previous->packs) {
            std::int64_t used = 0;
            for (const PackedChunk& c : p.chunks) used += c.stored_size;
            if (p.attempt > request_.attempt ||
                (p.size > kSmallPack && used * 100 < p.size * kUsedPercentMin))
                continue;
            for (const PackedChunk& c : p.chunks) known_.emplace(c.sha256, Place{.pack = &p, .chunk = c});
        }
    }

    Result<void> take_file(const ScannedEntry& e) {
        if (const FileEntry* seen = remembered(e)) {
            manifest_.files.push_back(*seen);
            manifest_.files.back().mode = e.mode;
            return {};
        }
        auto file = open_below(root_, e.source.empty() ? e.path : e.source);
        if (!file) {
            if (file.error().kind == ErrorKind::not_found) return fail(moved(e.path + " vanished"));
            return fail(std::move(file).error());
        }
        if (!is_still(*file, e)) return fail(moved(e.path + " changed"));
        FileEntry entry{.path = e.path,
                        .mode = e.mode,
                        .mtime_ns = e.mtime_ns,
                        .size = e.size,
                        .sha256 = {},
                        .chunks = {}};
        Sha256 whole;
        for (std::int64_t at = 0; at < e.size;) {
            if (request_.wait && !request_.wait(Millis{0})) return fail(ErrorKind::conflict, "told to stop");
            const std::int64_t wanted = std::min(kChunkBytes, e.size - at);
            auto got = read(*file, wanted, e.path);
            if (!got) return fail(std::move(got).error());
            if (*got != wanted) return fail(moved(e.path + " became shorter"));
            const std::string_view plain =
                std::string_view{buffer_}.substr(0, static_cast<std::size_t>(wanted));
            if (e.size > kChunkBytes) whole.add(plain);  // of one chunk the two hashes are one
            auto chunk = take_chunk(plain);
            if (!chunk) return fail(std::move(chunk).error());
            entry.chunks.push_back(*chunk);
            at += wanted;
        }
        if (!is_still(*file, e)) return fail(moved(e.path + " changed"));
        entry.sha256 = entry.chunks.size() == 1 ? entry.chunks.front().sha256 : whole.finish();
        bytes_read_ += e.size;
        manifest_.files.push_back(std::move(entry));
        return {};
    }

    /// The entry of a file that did not change since the last snapshot, if all its chunks are stored.
    const FileEntry* remembered(const ScannedEntry& e) const {
        if (request_.memory == nullptr) return nullptr;
        const auto at = request_.memory->files.find(e.path);
        if (at == request_.memory->files.end()) return nullptr;
        const SnapshotMemory::Seen& seen = at->second;
        if (seen.inode != e.inode || seen.size != e.size || seen.mtime_ns != e.mtime_ns ||
            seen.ctime_ns != e.ctime_ns)
            return nullptr;
        const bool stored = std::ranges::all_of(seen.entry.chunks,
                                                [&](const ChunkRef& c) { return known_.contains(c.sha256); });
        return stored ? &seen.entry : nullptr;
    }

    static bool is_still(const File& file, const ScannedEntry& e) {
        struct stat st{};
        if (::fstat(file.fd(), &st) != 0) return false;
        const auto nanos = [](const timespec& t) {
            return static_cast<std::int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
        };
        return S_ISREG(st.st_mode) && static_cast<std::uint64_t>(st.st_ino) == e.inode &&
               st.st_size == e.size && nanos(st.st_mtim) == e.mtime_ns && nanos(st.st_ctim) == e.ctime_ns;
    }

    Result<std::int64_t> read(const File& file, std::int64_t wanted, const std::string& path) {
        std::int64_t have = 0;
        while (have < wanted) {
            const ssize_t n =
                ::read(file.fd(), buffer_.data() + have, static_cast<std::size_t>(wanted - have));
            if (n < 0 && errno == EINTR) continue;
            // A read never meets a full disk; whatever this is, it is a file that cannot be read.
            if (n < 0)
                return fail(ErrorKind::io, disk_error(errno, "cannot read", request_.root / path).message);
            if (n == 0) break;
            have += n;
        }
        return have;
    }

    Result<ChunkRef> take_chunk(std::string_view plain) {
        const ChunkRef chunk{.sha256 = sha256(plain), .size = static_cast<std::int64_t>(plain.size())};
        if (known_.contains(chunk.sha256)) return chunk;
        const bool zstd = codec_.compress(plain, packed_);
        auto pack = spool_.add(chunk, zstd ? std::string_view{packed_} : plain, zstd);
        if (!pack) return fail(std::move(pack).error());
        known_.emplace(chunk.sha256, Place{.pack = nullptr, .new_pack = *pack, .chunk = {}});
        bytes_new_ += chunk.size;
        return chunk;
    }

    /// The packs that the files need, each with exactly the chunks that they use.
    void list_packs() {
        std::unordered_map<Digest, bool, DigestHash> used;
        for (const FileEntry& f : manifest_.files)
            for (const ChunkRef& c : f.chunks) used.emplace(c.sha256, true);
        std::map<std::pair<int, Digest>, PackEntry> packs;
        for (PackEntry p : spool_.packs) {
            p.attempt = request_.attempt;
            packs.emplace(std::pair{p.attempt, p.id}, std::move(p));
        }
        for (const auto& [digest, unused] : used) {
            const Place& place = known_.at(digest);
            if (place.pack == nullptr) continue;
            PackEntry& p = packs[{place.pack->attempt, place.pack->id}];
            p.id = place.pack->id;
            p.size = place.pack->size;
            p.attempt = place.pack->attempt;
            p.chunks.push_back(place.chunk);
        }
        for (auto& [key, p] : packs) {
            std::ranges::sort(p.chunks, {}, &PackedChunk::offset);
            manifest_.packs.push_back(std::move(p));
        }
    }

    Result<Snapshot> result(const Scan& scan) {
        manifest_.kind = request_.kind;
        manifest_.job = request_.job;
        manifest_.task = request_.task;
        manifest_.attempt = request_.attempt;
        manifest_.step = request_.step;
        manifest_.created_at_ms = unix_millis(request_.now);
        for (const ScannedEntry& e : scan.entries) {
            if (e.type == EntryType::directory)
                manifest_.directories.push_back({.path = e.path, .mode = e.mode, .mtime_ns = e.mtime_ns});
            if (e.type == EntryType::symlink)
                manifest_.symlinks.push_back({.path = e.path, .target = e.target, .mtime_ns = e.mtime_ns});
        }
        std::ranges::sort(manifest_.files, {}, &FileEntry::path);
        list_packs();
        auto encoded = encode_manifest(manifest_);
        if (!encoded) return fail(std::move(encoded).error());
        remember(scan);
        spool_.keep();
        Snapshot out;
        out.digest = manifest_digest(*encoded);
        out.encoded = *std::move(encoded);
        out.packs = std::move(spool_.spooled);
        out.same_as_previous = same_as_previous();
        out.manifest = std::move(manifest_);
        out.bytes_read = bytes_read_;
        out.bytes_new = bytes_new_;
        out.special_files = scan.special_files;
        out.dead_links = scan.dead_links;
        out.left_out = scan.left_out;
        return out;
    }

    void remember(const Scan& scan) {
        if (request_.memory == nullptr) return;
        timespec clock{};
        ::clock_gettime(CLOCK_REALTIME, &clock);
        const std::int64_t now = static_cast<std::int64_t>(clock.tv_sec) * 1'000'000'000 + clock.tv_nsec;
        std::map<std::string, SnapshotMemory::Seen> files;
        for (const ScannedEntry& e : scan.entries) {
            if (e.type != EntryType::file || std::max(e.mtime_ns, e.ctime_ns) > now - kSettledNs) continue;
            const auto entry = std::ranges::lower_bound(manifest_.files, e.path, {}, &FileEntry::path);
            files.emplace(e.path, SnapshotMemory::Seen{.inode = e.inode,
                                                       .size = e.size,
                                                       .mtime_ns = e.mtime_ns,
                                                       .ctime_ns = e.ctime_ns,
                                                       .entry = *entry});
        }
        request_.memory->files = std::move(files);
    }

    [[nodiscard]] bool same_as_previous() const {
        const Manifest* previous = request_.previous;
        if (previous == nullptr || previous->kind != manifest_.kind || previous->task != manifest_.task)
            return false;
        const auto same_folder = [](const DirectoryEntry& a, const DirectoryEntry& b) {
            return a.path == b.path && a.mode == b.mode;
        };
        return previous->files == manifest_.files && previous->symlinks == manifest_.symlinks &&
               std::ranges::equal(previous->directories, manifest_.directories, same_folder);
    }

    const SnapshotRequest& request_;
    Spool spool_;
    File root_;
    ChunkCodec codec_;
    std::string buffer_;
    std::string packed_;
    std::unordered_map<Digest, Place, DigestHash> known_;
    Manifest manifest_;
    std::int64_t bytes_read_{0};
    std::int64_t bytes_new_{0};
};

Result<void> check_request(const SnapshotRequest& r) {
    const auto bad = [](const std::string& why) { return fail(ErrorKind::invalid, "snapshot: " + why); };
    if (!r.root.is_absolute() || !r.spool.is_absolute()) return bad("root and spool must be absolute");
    std::error_code error;
    const fs::path root = fs::weakly_canonical(r.root, error);
    const fs::path spool = fs::weakly_canonical(r.spool, error);
    if (error) return bad("cannot resolve root and spool: " + error.message());
    const bool all = r.only.empty() ||
                     std::ranges::any_of(r.only, [](const std::string& o) { return o == "." || o == "./"; });
    std::vector<fs::path> taken;
    if (all)
        taken.push_back(root);
    else
        for (const std::string& o : r.only) taken.push_back((root / o).lexically_normal());
    for (const fs::path& t : taken) {
        const fs::path relative = spool.lexically_relative(t);
        if (!relative.empty() && *relative.begin() != "..")
            return bad("the spool lies in the folder that is to be taken");
    }
    if (r.attempt < 1) return bad("attempt must be 1 or more");
    return {};
}

bool has_content(const Scan& scan) {
    return std::ranges::any_of(scan.entries,
                               [](const ScannedEntry& e) { return e.type != EntryType::directory; });
}

/// The first scan that can be relied on: complete, and equal to the one before unless a unit says that it is
/// complete. A marker in the root itself proves nothing while the files beside it are written anew, so there
/// stillness is asked as well.
Result<Scan> settled_scan(const SnapshotRequest& r, const ScanRules& rules,
                          const std::function<bool(Millis)>& wait) {
    std::optional<Scan> before;
    for (int i = 0; i < std::max(r.scans_max, 2); ++i) {
        auto scan = scan_folder(r.root, rules);
        if (!scan) return scan;
        if (!scan->complete && !scan->moved && i > 0)
            return fail(ErrorKind::not_found,
                        "nothing complete in " + r.root.string() + ": " +
                            (scan->left_out.empty() ? std::string{} : scan->left_out.back()));
        const bool marked = !scan->units.empty() && !scan->units.front().empty();
        if (scan->complete && !scan->moved && (marked || (before && unchanged(*before, *scan)))) {
            if (!has_content(*scan) && !r.allow_empty)
                return fail(ErrorKind::not_found, "nothing to take in " + r.root.string());
            return scan;
        }
        before = *std::move(scan);
        if (!wait(r.still_for)) return fail(ErrorKind::conflict, "told to stop");
    }
    return fail(ErrorKind::conflict, r.root.string() + " never was still; try again");
}

}  // namespace

Result<Snapshot> take_snapshot(const SnapshotRequest& request) {
    if (auto ok = check_request(request); !ok) return fail(std::move(ok).error());
    Disk& disk = request.disk != nullptr ? *request.disk : Disk::real();
    const ScanRules rules{.only = request.only,
                          .marker = request.spec.marker,
                          .incomplete = request.spec.incomplete,
                          .unit = request.spec.unit,
                          .exclude = request.spec.exclude,
                          .follow_links = request.follow_links};
    const auto sleep = [](Millis time) {
        std::this_thread::sleep_for(time);
        return true;
    };
    auto scan =
        settled_scan(request, rules, request.wait ? request.wait : std::function<bool(Millis)>{sleep});
    if (!scan) return fail(std::move(scan).error());
    if (auto done = disk.make_directory(request.spool); !done) {
        // `not_found` would tell the caller that there is nothing to take yet.
        if (done.error().kind == ErrorKind::not_found) done.error().kind = ErrorKind::io;
        return fail(std::move(done).error());
    }
    return Taking{request, disk}.run(*scan, rules);
}

Result<void> send_packs(Snapshot& snapshot, PackSink& sink) {
    while (!snapshot.packs.empty()) {
        if (auto sent = sink.put(snapshot.packs.front()); !sent) return sent;
        std::error_code ignored;
        const fs::path file = snapshot.packs.front().file;
        fs::remove(file, ignored);
        snapshot.packs.erase(snapshot.packs.begin());
        if (snapshot.packs.empty()) fs::remove(file.parent_path(), ignored);
    }
    return {};
}

void discard(Snapshot& snapshot) {
    std::error_code ignored;
    for (const SpooledPack& pack : snapshot.packs) fs::remove(pack.file, ignored);
    if (!snapshot.packs.empty()) fs::remove(snapshot.packs.front().file.parent_path(), ignored);
    snapshot.packs.clear();
}

Result<void> clear_spool(const fs::path& spool) {
    std::error_code error;
    std::vector<fs::path> found;
    for (fs::directory_iterator it{spool, error}; !error && it != fs::directory_iterator{};
         it.increment(error))
        found.push_back(it->path());
    if (error && error != std::errc::no_such_file_or_directory)
        return fail(disk_error(error.value(), "cannot read folder", spool));
    for (const fs::path& path : found) {
        if (path.extension() != ".pack" && path.filename() != kWriting) continue;
        fs::remove(path, error);
        if (error) return fail(disk_error(error.value(), "cannot remove", path));
    }
    return {};
}

}  // namespace gf::checkpoints
