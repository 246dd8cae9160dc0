// The manifest of one generation of a checkpoint, or of one output: every path with its hash, and where each
// chunk lies. Its name is the SHA-256 of its encoded bytes. The format is written down in
// docs/checkpoint-format.md; encode and decode are the only two functions that know the JSON. Pure: no IO, no
// clock.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoints/digest.hpp"
#include "model/result.hpp"

namespace gf::checkpoints {

inline constexpr int kManifestFormat = 1;
inline constexpr std::int64_t kChunkBytes = 4LL << 20;  // every chunk of a file but the last has this size
inline constexpr std::size_t kManifestBytesMax = 64U << 20;  // about 1 TB of checkpoint
inline constexpr std::size_t kEntriesMax = 1'000'000;        // files + directories + symlinks
inline constexpr std::size_t kPathBytesMax = 4096;           // and 255 per component, as Linux has it
inline constexpr std::int64_t kFileBytesMax = 1LL << 50;

enum class ManifestKind : std::uint8_t { checkpoint, output };

/// A piece of a file, named by the SHA-256 of its plain bytes. 1..kChunkBytes bytes.
struct ChunkRef {
    Digest sha256;
    std::int64_t size{0};
    friend bool operator==(const ChunkRef&, const ChunkRef&) = default;
};
/// Paths are raw bytes, relative to the checkpoint's folder, '/' between components, never "." or ".." or
/// empty.
struct FileEntry {
    std::string path;
    std::uint32_t mode{0644};  // permission bits only, 0..0777
    std::int64_t mtime_ns{0};  // since 1970, may be negative
    std::int64_t size{0};
    Digest sha256;                 // of the whole file
    std::vector<ChunkRef> chunks;  // in order; empty for an empty file
    friend bool operator==(const FileEntry&, const FileEntry&) = default;
};
/// Every directory that a file, link or directory lies in is listed, the root (path "") included, so that
/// modes survive.
struct DirectoryEntry {
    std::string path;
    std::uint32_t mode{0755};
    std::int64_t mtime_ns{0};
    friend bool operator==(const DirectoryEntry&, const DirectoryEntry&) = default;
};
struct SymlinkEntry {
    std::string path;
    std::string target;  // raw bytes as readlink gives them; never followed by us
    std::int64_t mtime_ns{0};
    friend bool operator==(const SymlinkEntry&, const SymlinkEntry&) = default;
};
/// Where a chunk lies in a pack: `stored_size` bytes from `offset`, a zstd frame or the plain bytes.
struct PackedChunk {
    Digest sha256;
    std::int64_t offset{0};
    std::int64_t stored_size{0};
    std::int64_t size{0};
    bool zstd{false};
    friend bool operator==(const PackedChunk&, const PackedChunk&) = default;
};
/// A pack and those of its chunks that this manifest uses (a pack made for an earlier generation may hold
/// more).
struct PackEntry {
    Digest id;                        // SHA-256 of the pack's bytes
    std::int64_t size{0};             // of the pack, bytes
    int attempt{0};                   // lies under <job>/a<attempt>/
    std::vector<PackedChunk> chunks;  // by offset
    friend bool operator==(const PackEntry&, const PackEntry&) = default;
};

struct Manifest {
    ManifestKind kind{ManifestKind::checkpoint};
    std::string job;                // "job_…"
    std::string task;               // "tsk_…"
    int attempt{0};                 // 1.. ; the attempt that made it
    std::int64_t step{0};           // of the job's own progress, 0 = not known
    std::int64_t created_at_ms{0};  // unix milliseconds by the machine's clock; for people only
    std::vector<FileEntry> files;   // sorted by path, as all three
    std::vector<DirectoryEntry> directories;
    std::vector<SymlinkEntry> symlinks;
    std::vector<PackEntry> packs;  // sorted by (attempt, id)
    friend bool operator==(const Manifest&, const Manifest&) = default;
};

/// Sum of the file sizes, uncompressed bytes.
[[nodiscard]] std::int64_t total_bytes(const Manifest& m);

/// Errors: `invalid`, the message names the entry. Checks what decode_manifest promises, except the text
/// form.
Result<void> validate_manifest(const Manifest& m);

/// The one text form: UTF-8 JSON, keys sorted, no white space. Sorts nothing: `m` must pass
/// validate_manifest, which is checked (errors as there).
Result<std::string> encode_manifest(const Manifest& m);

/// Reads foreign bytes. Memory stays within a small multiple of the input. Refused (`invalid`, what and
/// where): more than kManifestBytesMax, another format version, any byte that encode_manifest would not have
/// written (so unknown or repeated keys, white space, unsorted entries), unsafe or clashing paths, a path
/// below a file or a link, sizes that do not add up, a chunk that lies in no listed pack or in two,
/// overlapping chunks, packs of attempts after the manifest's own.
Result<Manifest> decode_manifest(std::string_view bytes);

/// The name of a manifest.
[[nodiscard]] inline Digest manifest_digest(std::string_view encoded) {
    return sha256(encoded);
}

}  // namespace gf::checkpoints
