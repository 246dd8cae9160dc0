#include "support.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

namespace gf::checkpoints::test {

namespace fs = std::filesystem;

TempFolder::TempFolder() {
    std::string name = (fs::temp_directory_path() / "gf-checkpoints-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = fs::canonical(name);
}
TempFolder::~TempFolder() {
    static_cast<void>(remove_tree(path_));
}

void set_time(const fs::path& path, std::int64_t ns) {
    timespec t{};
    t.tv_sec = static_cast<time_t>(ns / 1'000'000'000);
    t.tv_nsec = static_cast<long>(ns % 1'000'000'000);
    const timespec times[2] = {t, t};
    REQUIRE(::utimensat(AT_FDCWD, path.c_str(), times, AT_SYMLINK_NOFOLLOW) == 0);
}

void put_file(const fs::path& path, std::string_view bytes, std::int64_t seconds) {
    fs::create_directories(path.parent_path());
    {
        std::ofstream out{path, std::ios::binary | std::ios::trunc};
        out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
        REQUIRE(out.good());
    }
    set_time(path, (1'577'836'800 + seconds) * 1'000'000'000);
}

std::string get_file(const fs::path& path) {
    std::ifstream in{path, std::ios::binary};
    REQUIRE(in.good());
    std::string out(fs::file_size(path), '\0');
    in.read(out.data(), static_cast<std::streamsize>(out.size()));
    REQUIRE(in.gcount() == static_cast<std::streamsize>(out.size()));
    return out;
}

std::string random_bytes(Entropy& entropy, std::size_t size) {
    std::string out(size, '\0');
    for (std::size_t i = 0; i < size; i += 8) {
        const std::uint64_t bits = entropy.next();
        std::memcpy(out.data() + i, &bits, std::min<std::size_t>(8, size - i));
    }
    return out;
}

namespace {

std::string odd_name(Entropy& e, int serial) {
    static const std::vector<std::string> kNames = {
        "plain.bin",
        "with space",
        " lead",
        "trail ",
        "-rf",
        "new\nline",
        "tab\tquote\"back\\slash",
        "Обучение🎤",
        "bad\xFF\xC3utf8",
        "..three...",
        "%2e%2e",
        "~",
        "*?[x]",
        "CON",
        "\x01\x7f",
        std::string(240, 'n'),
        "\xED\xA0\x80",
        "#a;rm -rf $HOME`id`",
    };
    return kNames[e.below(kNames.size())] + std::to_string(serial);
}

std::string random_content(Entropy& e) {
    constexpr auto kChunk = static_cast<std::size_t>(kChunkBytes);
    static constexpr std::size_t kSizes[] = {
        0, 1, 100, 4096, 70'000, kChunk - 1, kChunk, kChunk + 1, 2 * kChunk + 12'345};
    const std::size_t size = kSizes[e.below(std::size(kSizes))];
    switch (e.below(4)) {
        case 0:
            return std::string(size, '\0');
        case 1:
            return std::string(size, static_cast<char>('a' + e.below(4)));
        case 2: {
            std::string out = random_bytes(e, size);
            for (std::size_t i = 0; i < out.size(); i += 2) out[i] = '\0';  // half of it compresses
            return out;
        }
        default:
            return random_bytes(e, size);
    }
}

void make_folder_content(const fs::path& folder, Entropy& e, int depth, int& serial) {
    const auto count = 1 + e.below(5);
    for (std::uint64_t i = 0; i < count; ++i) {
        const fs::path path = folder / odd_name(e, serial++);
        const auto kind = e.below(10);
        if (kind < 2 && depth < 4) {
            fs::create_directory(path);
            if (e.below(4) != 0) make_folder_content(path, e, depth + 1, serial);
            REQUIRE(::chmod(path.c_str(), static_cast<mode_t>(0700U | e.below(0100))) == 0);
            set_time(path, static_cast<std::int64_t>(e.below(1'700'000'000'000'000'000ULL)));
        } else if (kind == 2) {
            static const char* kTargets[] = {"nowhere", "/etc/passwd", "../../..", "bad\xFFtarget"};
            fs::create_symlink(kTargets[e.below(4)], path);
            set_time(path, static_cast<std::int64_t>(e.below(1'700'000'000)) * 1'000'000'000);
        } else {
            put_file(path, random_content(e));
            REQUIRE(::chmod(path.c_str(), static_cast<mode_t>(0400U | e.below(0400))) == 0);
            set_time(path, static_cast<std::int64_t>(e.below(1'700'000'000'000'000'000ULL)));
        }
    }
}

}  // namespace

void make_random_tree(const fs::path& root, Entropy& entropy) {
    int serial = 0;
    fs::create_directories(root);
    make_folder_content(root, entropy, 0, serial);
    put_file(root / "always one", "x");
    set_time(root, 1'600'000'000'000'000'000 + static_cast<std::int64_t>(entropy.below(1'000'000'000)));
}

std::string tree_text(const fs::path& root) {
    std::vector<std::string> lines;
    const auto line = [&](const fs::path& path) {
        struct stat st{};
        REQUIRE(::lstat(path.c_str(), &st) == 0);
        std::string text = path.lexically_relative(root).string() + " | " +
                           std::to_string(st.st_mode & 07777U) + " " + std::to_string(st.st_mtim.tv_sec) +
                           "." + std::to_string(st.st_mtim.tv_nsec) + " ";
        if (S_ISREG(st.st_mode))
            text += "file " + std::to_string(st.st_size) + " " + sha256(get_file(path)).hex();
        else if (S_ISLNK(st.st_mode))
            text += "link " + fs::read_symlink(path).string();
        else if (S_ISDIR(st.st_mode))
            text += "folder";
        else
            text += "other";
        lines.push_back(text);
    };
    line(root);
    for (const auto& entry : fs::recursive_directory_iterator{root}) line(entry.path());
    std::ranges::sort(lines);
    std::string out;
    for (const std::string& l : lines) out += l + "\n";
    return out;
}

Result<void> MemoryPacks::put(const SpooledPack& pack) {
    if (put_limit-- <= 0) return fail(ErrorKind::unavailable, "the link is down");
    std::string bytes = get_file(pack.file);
    REQUIRE(static_cast<std::int64_t>(bytes.size()) == pack.size);
    REQUIRE(sha256(bytes) == pack.id);
    packs[pack.id] = std::move(bytes);
    return {};
}

Result<void> MemoryPacks::read(const PackEntry& pack, std::int64_t offset, std::int64_t length,
                               std::string& out) {
    ++reads;
    REQUIRE(length <= (16LL << 20));
    const auto at = packs.find(pack.id);
    if (at == packs.end()) return fail(ErrorKind::not_found, "no such pack");
    out = offset > static_cast<std::int64_t>(at->second.size())
              ? std::string{}
              : at->second.substr(static_cast<std::size_t>(offset), static_cast<std::size_t>(length));
    return {};
}

SnapshotRequest request_for(const fs::path& root, const fs::path& spool) {
    SnapshotRequest r;
    r.root = root;
    r.spool = spool;
    r.job = kJob.get();
    r.task = kTask.get();
    r.attempt = 1;
    r.step = 7;
    r.now = instant_of(1'700'000'000'123);
    r.wait = [](Millis) { return true; };
    return r;
}

Snapshot take_and_send(const SnapshotRequest& request, PackSink& sink) {
    auto snapshot = take_snapshot(request);
    if (!snapshot) FAIL(snapshot.error().message);
    auto sent = send_packs(*snapshot, sink);
    if (!sent) FAIL(sent.error().message);
    return *std::move(snapshot);
}

Result<void> StoreSink::put(const SpooledPack& pack) {
    auto writer = store_.begin_pack(kJob, attempt_, pack.id);
    if (!writer) return fail(std::move(writer).error());
    const std::string bytes = get_file(pack.file);
    // In uneven pieces, as they come from a socket.
    for (std::size_t at = 0; at < bytes.size(); at += 100'003)
        if (auto done = (*writer)->append(std::string_view{bytes}.substr(at, 100'003)); !done) return done;
    auto done = (*writer)->commit();
    if (!done) return fail(std::move(done).error());
    return {};
}

bool FaultDisk::hit(const char* what, const fs::path& path) {
    log.push_back(std::string{what} + " " + path.filename().string());
    return ++operations == fail_at;
}

#define GF_FAULT(what, path)                                                     \
    if (hit(what, path)) {                                                       \
        if (die) ::_exit(99);                                                    \
        return fail(disk_error(error, std::string{"injected "} + (what), path)); \
    }

Result<File> FaultDisk::create(const fs::path& path) {
    GF_FAULT("create", path)
    return Disk::create(path);
}
Result<void> FaultDisk::write(File& file, std::string_view bytes, const fs::path& path) {
    if (operations + 1 == fail_at && short_write)
        static_cast<void>(Disk::write(file, bytes.substr(0, bytes.size() / 2), path));
    GF_FAULT("write", path)
    return Disk::write(file, bytes, path);
}
Result<void> FaultDisk::sync(File& file, const fs::path& path) {
    GF_FAULT("sync", path)
    return Disk::sync(file, path);
}
Result<void> FaultDisk::sync_directory(const fs::path& path) {
    GF_FAULT("sync_directory", path)
    return Disk::sync_directory(path);
}
Result<void> FaultDisk::rename(const fs::path& from, const fs::path& to) {
    GF_FAULT("rename", to)
    return Disk::rename(from, to);
}
Result<void> FaultDisk::exchange(const fs::path& a, const fs::path& b) {
    GF_FAULT("exchange", b)
    if (no_exchange) return fail(ErrorKind::not_yet, "not here");
    return Disk::exchange(a, b);
}
Result<void> FaultDisk::remove(const fs::path& path) {
    GF_FAULT("remove", path)
    return Disk::remove(path);
}
Result<void> FaultDisk::make_directory(const fs::path& path) {
    GF_FAULT("make_directory", path)
    return Disk::make_directory(path);
}

int in_child(const std::function<int()>& body) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) ::_exit(body());
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

}  // namespace gf::checkpoints::test
