// The job's output on the machine's disk: a stream with byte offsets, in segment files named by their first offset. The
// keeper writes it, the worker reads and ships it; they share nothing but the folder, so either may die and come back.
//
// Quota: the first `head_max` bytes are kept until they are shipped; of what comes after them only the newest `tail_max`
// bytes, the segment being written included. Bytes that are gone, by quota or because the disk was full, are holes: offsets go on as if they had been written.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "agent/descriptor.hpp"

namespace gf::agent {

struct SpoolLimits {
    std::int64_t head_max{0};
    std::int64_t tail_max{0};
    std::int64_t segment_max{4 << 20};
};
/// Splits a quota: the tail gets a quarter, at most 64 MiB, so that live following goes on for long.
[[nodiscard]] SpoolLimits spool_limits(std::int64_t log_bytes_max);

class SpoolWriter {
 public:
    /// `folder` exists and is empty.
    SpoolWriter(std::string folder, SpoolLimits limits) : folder_(std::move(folder)), limits_(limits) {}
    /// Never fails: bytes that the disk does not take become a hole.
    void append(std::string_view bytes);
    void sync();
    /// All bytes that were appended, holes included.
    [[nodiscard]] std::int64_t size() const { return size_; }

 private:
    void open_segment();
    void close_segment();
    void drop_old_tail();

    std::string folder_;
    SpoolLimits limits_;
    std::int64_t size_{0};
    Descriptor segment_;
    std::int64_t segment_start_{0};
    std::int64_t segment_size_{0};
    std::map<std::int64_t, std::int64_t> tail_;  // closed segments beyond the head: start -> size
    std::int64_t tail_bytes_{0};
};

struct SpoolPiece {
    std::int64_t offset{0};  // greater than asked for = a hole before it
    std::string bytes;
};

class SpoolReader {
 public:
    explicit SpoolReader(std::string folder) : folder_(std::move(folder)) {}
    /// The first bytes at or after `from`, at most `most`; nothing when there are none (yet).
    [[nodiscard]] std::optional<SpoolPiece> read(std::int64_t from, std::size_t most) const;
    /// The offset after the last byte on disk.
    [[nodiscard]] std::int64_t end() const;
    /// Removes whole segments below `offset`, but never the newest two: `last_bytes` and `end` need them.
    void discard_before(std::int64_t offset) const;
    /// The last bytes of the output that are still here, at most `most`.
    [[nodiscard]] std::string last_bytes(std::size_t most) const;

 private:
    [[nodiscard]] std::map<std::int64_t, std::int64_t> segments() const;
    std::string folder_;
};

}  // namespace gf::agent
