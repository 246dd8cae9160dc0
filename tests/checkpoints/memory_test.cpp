// The memory of a snapshot and of a restore must not grow with the files. Measured in a process of its own by
// the kernel's mark of the most it ever used.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "checkpoints/restore.hpp"
#include "support.hpp"

using namespace gf;
using namespace gf::checkpoints;
using namespace gf::checkpoints::test;
namespace fs = std::filesystem;

namespace {

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
#else
constexpr bool kSanitized = false;
#endif

long peak_kib() {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

/// 300 MB: random bytes, a hole, bytes that compress, a hole at the end.
void make_large(const fs::path& path) {
    fs::create_directories(path.parent_path());
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    REQUIRE(fd >= 0);
    Entropy entropy{77};
    const auto write = [&](const std::string& block, off_t at) {
        REQUIRE(::pwrite(fd, block.data(), block.size(), at) == static_cast<ssize_t>(block.size()));
    };
    constexpr off_t kMega = 1'000'000;
    for (off_t at = 0; at < 100 * kMega; at += kMega) write(random_bytes(entropy, kMega), at);
    for (off_t at = 200 * kMega; at < 220 * kMega; at += kMega)
        write(std::string(kMega, static_cast<char>('a' + at / kMega % 26)), at);
    REQUIRE(::ftruncate(fd, 300 * kMega) == 0);
    ::close(fd);
}

/// The work of the child: sends by the pieces that the store takes, since a pack in memory would be this
/// test's own 64 MiB.
bool take_large(const fs::path& work) {
    auto store = FileStore::open(work / "store");
    auto snapshot = take_snapshot(request_for(work / "tree", work / "spool"));
    if (!store || !snapshot) return false;
    class Pieces final : public PackSink {
     public:
        explicit Pieces(CheckpointStore& s) : store_(s) {}
        Result<void> put(const SpooledPack& pack) override {
            auto writer = store_.begin_pack(kJob, 1, pack.id);
            if (!writer) return fail(std::move(writer).error());
            const File file{::open(pack.file.c_str(), O_RDONLY | O_CLOEXEC)};
            std::string block(65'536, '\0');
            for (ssize_t n = 0; (n = ::read(file.fd(), block.data(), block.size())) > 0;)
                if (auto done =
                        (*writer)->append(std::string_view{block}.substr(0, static_cast<std::size_t>(n)));
                    !done)
                    return done;
            auto done = (*writer)->commit();
            if (!done) return fail(std::move(done).error());
            return {};
        }

     private:
        CheckpointStore& store_;
    } sink{**store};
    return send_packs(*snapshot, sink) && (*store)->put_manifest(kJob, kTask, 1, snapshot->encoded);
}

bool restore_large(const fs::path& work) {
    auto store = FileStore::open(work / "store");
    if (!store) return false;
    const auto manifests = (*store)->list_manifests(kJob);
    if (!manifests || manifests->size() != 1) return false;
    const auto manifest = check_generation(**store, kJob, manifests->front());
    StoreSource source{**store, kJob};
    return manifest && restore(*manifest, source, work / "back");
}

}  // namespace

// Runs only in the child that the test below starts: a fresh process, so that its peak is its own.
TEST_CASE("memory: the measured process" * doctest::skip()) {
    const char* work = std::getenv("GF_MEMORY_WORK");
    const char* what = std::getenv("GF_MEMORY_WHAT");
    if (work == nullptr || what == nullptr) return;
    REQUIRE((std::string_view{what} == "snapshot" ? take_large(work) : restore_large(work)));
    put_file(fs::path{work} / "peak", std::to_string(peak_kib()));
}

TEST_CASE("a 300 MB file is taken and restored in less than 64 MB of memory") {
    const TempFolder work;
    make_large(work / "tree/weights.bin");
    for (const char* what : {"snapshot", "restore"}) {
        const int code = in_child([&] {
            ::setenv("GF_MEMORY_WORK", work.path().c_str(), 1);
            ::setenv("GF_MEMORY_WHAT", what, 1);
            ::execl("/proc/self/exe", "test_checkpoints", "--no-skip", "--minimal",
                    "--test-case=memory: the measured process", nullptr);
            return 9;
        });
        REQUIRE(code == 0);
        const long peak = std::stol(get_file(work / "peak"));
        fs::remove(work / "peak");
        std::printf("%s of 300 MB: the whole process peaked at %ld KiB\n", what, peak);
        if (!kSanitized) CHECK(peak * 1024 < 64'000'000);
    }
    CHECK(sha256(get_file(work / "back/weights.bin")) == sha256(get_file(work / "tree/weights.bin")));
    auto store = FileStore::open(work / "store");
    std::int64_t stored = 0;
    for (const StoredPack& p : *(*store)->list_packs(kJob)) stored += p.size;
    CHECK(stored < 110'000'000);
}
