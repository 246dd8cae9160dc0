// One look at a folder: what is in it and which of it belongs to complete checkpoints. The quiet rule
// compares two looks.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "checkpoints/disk.hpp"
#include "model/job_spec.hpp"

namespace gf::checkpoints {

/// Longest relative path that is taken. A restore builds absolute paths below a folder with a longer name than the
/// first one had, and all of it must stay below PATH_MAX.
inline constexpr std::size_t kPathTakenMax = 3500;

enum class EntryType : std::uint8_t { file, directory, symlink };

struct ScannedEntry {
    std::string path;  // relative; "" = the root
    EntryType type{EntryType::file};
    bool partial{false};    // a folder of which not everything was taken: its times say nothing
    std::uint32_t mode{0};  // permission bits
    std::uint64_t inode{0};
    std::int64_t size{0};  // of files
    std::int64_t mtime_ns{0};
    std::int64_t ctime_ns{0};
    std::string target;  // of symlinks
    std::string source;  // where a followed link led, relative to the root; empty = where `path` says
    friend bool operator==(const ScannedEntry&, const ScannedEntry&) = default;
};

struct Scan {
    std::vector<ScannedEntry> entries;  // sorted by path
    std::vector<std::string> units;     // folders that hold the completion marker; "" = the root
    std::vector<std::string> left_out;  // folders and sets that are not complete
    int special_files{0};
    std::vector<std::string> dead_links;  // with follow_links: links that were not followed
    bool moved{false};    // something vanished while we looked
    bool complete{true};  // false = by marker or `incomplete`, nothing here is whole yet
};

struct ScanRules {
    std::vector<std::string> only;  // relative paths; empty = all
    std::string marker;
    std::string incomplete;
    std::vector<std::string> unit;
    std::vector<std::string> exclude;
    /// Takes what a link names in the link's place, if that lies below the root and is no folder around the link.
    /// Others stay links and are listed as dead_links; as a path of `only` they are an error.
    bool follow_links{false};
};

/// Errors: `not_found` (no such folder, or a path of `only` is missing), `invalid` (deeper than 128 folders,
/// more than kEntriesMax entries, a path over kPathTakenMax, unsafe `only`), `io` (a folder that cannot be read).
/// Never follows a link that leads out of `root`, and none at all without follow_links.
///
/// marker: a folder that holds a file of this name is a unit; folders beside it without the file are left
/// out, as are folders beside no unit at all as long as there is no unit anywhere. incomplete: a folder that
/// holds this name is left out. unit: names with {n} (decimal digits): files of a folder that match with one
/// n belong together, sets with a member missing are left out; "name/" patterns name unit folders, which
/// limits `marker` to them. exclude: "name/" folders, "*.tmp" at any depth, "a/b" from the root.
Result<Scan> scan_folder(const std::filesystem::path& root, const ScanRules& rules);

/// True if nothing that `before` took has changed in `after`. New folders beside complete units do not count
/// as change: the trainer may write the next checkpoint while we read the last one.
[[nodiscard]] bool unchanged(const Scan& before, const Scan& after);

/// Opens a file below an open root without following any link on the way. Errors as disk_error.
Result<File> open_below(const File& root, const std::string& path);

}  // namespace gf::checkpoints
