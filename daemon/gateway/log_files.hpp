// The logs of the jobs on the daemon's disk: data_dir/logs/<job>/<attempt>.log, raw bytes as the job wrote them.
//
// Offsets are those of the job's output. Bytes that were dropped (by a quota) count in them and are not in the file: there a
// mark line stands in their place, and a record in <attempt>.gaps says where, how many, and whether they were lost with the
// machine. So the
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
    /// `job_bytes_max` bounds the bytes on disk of one job over all its attempts; what comes after is dropped with a mark. But
    /// each attempt may have its first 1/64 of that in any case (16 MiB of 1 GiB), up to twice the bound in all: a job whose
    /// first attempt took everything must not die without a word in its last.
    LogFiles(std::string data_dir, std::int64_t job_bytes_max) : data_dir_(std::move(data_dir)), job_bytes_max_(job_bytes_max) {}

    /// Output bytes from `offset` on. Answers the offset up to which everything is on disk (or dropped and marked): more
    /// than offset + size when they were there already, less than `offset` when something before them is missing (nothing
    /// is written then). Errors: `io`, `full`.
    Result<std::int64_t> append(const JobId& job, const AttemptId& attempt, std::int64_t offset, std::string_view bytes);
    /// `count` bytes from `offset` on were dropped at the machine. Answers as `append`.
    Result<std::int64_t> skip(const JobId& job, const AttemptId& attempt, std::int64_t offset, std::int64_t count);

    /// An attempt ended with its machine; its output had `bytes` bytes. What is not on disk of them is marked as lost. True =
    /// something was. Errors as `append`.
    Result<bool> lost(const JobId& job, const AttemptId& attempt, std::int64_t bytes);
    /// What the next attempt of the job should send at most, so that nothing of it is dropped here.
    [[nodiscard]] std::int64_t room(const JobId& job);

    static constexpr std::size_t kOpenMax = 512;  // logs that are kept open
    enum class Why : std::uint8_t { dropped, machine_lost };
    /// The line that stands for `count` dropped bytes; always of the same length, so that it can grow in place.
    [[nodiscard]] static std::string mark(std::int64_t count, Why why = Why::dropped);

 private:
    struct Log;
    struct JobBytes;
    std::shared_ptr<Log> find(const JobId& job, const AttemptId& attempt);
    Result<void> load(Log& log) const;
    Result<void> drop(Log& log, std::int64_t count, Why why) const;
    std::shared_ptr<JobBytes> bytes_of(const JobId& job);
    [[nodiscard]] std::int64_t reserve() const { return job_bytes_max_ / 64; }
    Result<std::int64_t> sync(Log& log, std::int64_t end) const;

    std::string data_dir_;
    std::int64_t job_bytes_max_;
    std::mutex mutex_;  // guards all below
    std::map<AttemptId, std::shared_ptr<Log>> open_;
    std::list<AttemptId> recent_;  // newest first
    std::map<JobId, std::weak_ptr<JobBytes>> job_bytes_;
};

}  // namespace gf::gateway
