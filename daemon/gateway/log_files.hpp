// The logs of the jobs on the daemon's disk: data_dir/logs/<job>/<attempt>.log, raw bytes as the job wrote them.
//
// Offsets are those of the job's output. Bytes that were dropped (by a quota) count in them and are not in the file: there a
// mark line stands in their place, and a record in <attempt>.gaps says where, how many, and how long the mark is. So the
// length of the file and the records together say, after any restart, what is on disk: nothing else is remembered.
//
// Order on disk: bytes before a gap are synced, then its record, then its mark; a record without its mark is completed when
// the log is opened again. All calls block (they sync) and may come from several threads.
#pragma once
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoints/disk.hpp"
#include "model/result.hpp"
#include "model/strong.hpp"

namespace gf::gateway {

class LogFiles {
 public:
    /// `job_bytes_max` bounds the bytes on disk of one job over all its attempts; what comes after is dropped with a mark.
    LogFiles(std::string data_dir, std::int64_t job_bytes_max) : data_dir_(std::move(data_dir)), job_bytes_max_(job_bytes_max) {}

    /// Output bytes from `offset` on. Answers the offset up to which everything is on disk (or dropped and marked): more
    /// than offset + size when they were there already, less than `offset` when something before them is missing (nothing
    /// is written then). Errors: `io`, `full`.
    Result<std::int64_t> append(const JobId& job, const AttemptId& attempt, std::int64_t offset, std::string_view bytes);
    /// `count` bytes from `offset` on were dropped at the machine. Answers as `append`.
    Result<std::int64_t> skip(const JobId& job, const AttemptId& attempt, std::int64_t offset, std::int64_t count);

    static constexpr std::size_t kOpenMax = 512;  // logs that are kept open
    /// The line that stands for `count` dropped bytes; always of the same length, so that it can grow in place.
    [[nodiscard]] static std::string mark(std::int64_t count);

 private:
    struct Log;
    struct JobBytes;
    std::shared_ptr<Log> find(const JobId& job, const AttemptId& attempt);
    Result<void> load(Log& log) const;
    Result<void> drop(Log& log, std::int64_t count) const;
    Result<std::int64_t> sync(Log& log, std::int64_t end) const;

    std::string data_dir_;
    std::int64_t job_bytes_max_;
    std::mutex mutex_;  // guards all below
    std::map<AttemptId, std::shared_ptr<Log>> open_;
    std::list<AttemptId> recent_;  // newest first
    std::map<JobId, std::weak_ptr<JobBytes>> job_bytes_;
};

}  // namespace gf::gateway
