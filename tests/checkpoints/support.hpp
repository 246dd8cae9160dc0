// What the checkpoint tests share: private folders, trees of files made from a seed, packs in memory, and
// disks that fail.
#pragma once
#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoints/file_store.hpp"
#include "checkpoints/snapshot.hpp"
#include "model/id.hpp"

namespace gf::checkpoints::test {

inline const JobId kJob{"job_01hzzzzzzzzzzzzzzzzzzzzzzz"};
inline const TaskId kTask{"tsk_01hzzzzzzzzzzzzzzzzzzzzzzz"};

/// A folder that is removed, whatever its modes became.
class TempFolder {
 public:
    TempFolder();
    ~TempFolder();
    TempFolder(const TempFolder&) = delete;
    TempFolder& operator=(const TempFolder&) = delete;
    [[nodiscard]] const std::filesystem::path& path() const { return path_; }
    [[nodiscard]] std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

 private:
    std::filesystem::path path_;
};

/// Writes a file (folders are made), with the time `seconds` after 2020 so that "older than two seconds"
/// holds.
void put_file(const std::filesystem::path& path, std::string_view bytes, std::int64_t seconds = 0);
[[nodiscard]] std::string get_file(const std::filesystem::path& path);
[[nodiscard]] std::string random_bytes(Entropy& entropy, std::size_t size);
void set_time(const std::filesystem::path& path, std::int64_t ns);

/// Makes a tree of odd names, sizes around the chunk size, links, holes, empty folders, modes and times.
void make_random_tree(const std::filesystem::path& root, Entropy& entropy);
/// One line per entry, sorted: type, mode, time, size, hash or target, path. Equal texts = equal trees.
[[nodiscard]] std::string tree_text(const std::filesystem::path& root);

/// Both ends of a transport, in memory. `put_limit` counts down and then refuses; reads can be tampered with.
class MemoryPacks final : public PackSink, public PackSource {
 public:
    Result<void> put(const SpooledPack& pack) override;
    Result<void> read(const PackEntry& pack, std::int64_t offset, std::int64_t length,
                      std::string& out) override;
    std::map<Digest, std::string> packs;
    int put_limit{1'000'000};
    int reads{0};
};

/// A request with a wait that does not wait.
[[nodiscard]] SnapshotRequest request_for(const std::filesystem::path& root,
                                          const std::filesystem::path& spool);
/// Takes, sends, and checks that both went well.
Snapshot take_and_send(const SnapshotRequest& request, PackSink& sink);

/// Sends a file of the spool into a store.
class StoreSink final : public PackSink {
 public:
    StoreSink(CheckpointStore& store, int attempt) : store_(store), attempt_(attempt) {}
    Result<void> put(const SpooledPack& pack) override;

 private:
    CheckpointStore& store_;
    int attempt_;
};

/// Counts operations. At operation `fail_at` (from 1; 0 = never) it returns `error`, or, if `die` is set,
/// ends the process there; `short_write` lets half of the bytes of a failing write through first.
class FaultDisk final : public Disk {
 public:
    int fail_at{0};
    int error{5};
    bool die{false};
    bool no_exchange{false};
    bool short_write{true};
    int operations{0};
    std::vector<std::string> log;

    Result<File> create(const std::filesystem::path& path) override;
    Result<void> write(File& file, std::string_view bytes, const std::filesystem::path& path) override;
    Result<void> sync(File& file, const std::filesystem::path& path) override;
    Result<void> sync_directory(const std::filesystem::path& path) override;
    Result<void> rename(const std::filesystem::path& from, const std::filesystem::path& to) override;
    Result<void> exchange(const std::filesystem::path& a, const std::filesystem::path& b) override;
    Result<void> remove(const std::filesystem::path& path) override;
    Result<void> make_directory(const std::filesystem::path& path) override;

 private:
    bool hit(const char* what, const std::filesystem::path& path);
};

/// Runs `body` in a child process and returns its wait status: exit code, or 256 + signal.
int in_child(const std::function<int()>& body);

}  // namespace gf::checkpoints::test
